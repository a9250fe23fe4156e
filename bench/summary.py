#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints what the benches' columns mean, which bars of bars.json hold, and how busy the machine was.

usage: summary.py legend                      what cases, runtimes and metrics are called
       summary.py now                         a snapshot of the machine's clocks, for `busy`
       summary.py busy SNAPSHOT OWN_SECONDS   what other work took of the cores since then
       summary.py bars RECORDS.json...        bars that hold and fall short; exit status 0 either way
"""
import fnmatch
import json
import os
import pathlib
import sys
import time

LEGEND = """\
median, 5 %, 95 %   of the runs of one case; rivals run in turn with ours, so that ratios hold on a busy machine
runtime             ring, serial, starpu: ours, with all cores; _1 one worker; _v3 kernels held to AVX2; kernel: no
                    runtime; ring_replay: a recorded program; onednn, openblas, blis, eigen, torch, tbb,
                    libgomp, starpu_c: rivals
times_X             our speed over that of X: above 1 we are faster
share_of_X          our rate over that of X, measured in the same run (triad: a[i] = b[i] + s c[i])
fraction_of_fma_peak  flops of the step over the peak of a loop of FMAs on the same cores in the same run
scaling_share       speed of two workers over that of one, as a share of what the FMA peak gains
tiling_tax          time with tiles over time with whole tensors
times_overlap       time of a step while the next batch is copied in, over that of a step alone
metg50_us           smallest duration of a task, kernel and runtime, at which all workers together do half of what they
                    do without a runtime; runtimes that end in _rerun: rivals with a graph built before; tbb: a flow
                    graph, tbb_group: tasks that count their predecessors; times_tbb: over the better of both
ns_per_task, cpu_ns_per_task   time from the first submission to the last end; all threads' CPU time
submit_*            one call of submit, with operands drawn from 4,096 handles: quantiles of calls that did not wait for
                    room, and cycles of calls in a row, or (cold) with caches that held other data; blocked_share: calls
                    that waited
submission_*, execution_*   of tasks behind one that is held back: until all are submitted; from its release to the end
cycles              nanoseconds times the core's clock, which a loop of dependent additions finds
overlap             1 less the time in which a rank had a message open and no task ready, over the time of the bytes that
                    it receives at the rate of a ping-pong of 1 MiB messages: 1 hides all of its transfers
simulated_*         a simulated step over the measured one, of the kernels and messages of that minute; simulated_ratio:
                    simulated two ranks over one, over the same as measured
exponent            how planning grows with the number of tasks: 1 is linear"""


KEYS = {"bench", "case", "runtime", "metric", "value", "unit", "low", "high", "runs"}  # of a record


def records_of(path):
    """The machine and the records of a file that a bench has written; ValueError where it is none, or not whole."""
    content = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    if not isinstance(content, list) or not content or not all(isinstance(each, dict) for each in content):
        raise ValueError("no list of a machine and records")
    for record in content[1:]:
        if lacking := KEYS - record.keys():
            raise ValueError(f"a record without {', '.join(sorted(lacking))}")
    return content


def clocks():
    """Seconds since boot that all cores together were busy, and that the hypervisor took."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _, _, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    tick = os.sysconf("SC_CLK_TCK")
    return time.monotonic(), (user + nice + system + irq + softirq) / tick, steal / tick


def busy(snapshot, own):
    began, busy_then, steal_then = map(float, snapshot.split(","))
    now, busy_now, steal_now = clocks()
    total = (now - began) * os.cpu_count()
    others = max(0.0, busy_now - busy_then - own)
    print(f"machine: {now - began:.0f} s on {os.cpu_count()} cores; these benches used {100 * own / total:.0f} % of them, "
          f"other processes {100 * others / total:.0f} %, the hypervisor took {100 * (steal_now - steal_then) / total:.0f} %")
    if others + steal_now - steal_then > 0.05 * total:
        print("         a busy machine: trust ratios within one run, not figures of different runs")


def is_zen_4_or_5(machine):
    """By family and model, since virtual machines do not name it; also where records do not say."""
    family, model = machine.get("cpu_family", 26), machine.get("cpu_model", 0)
    return family == 26 or family == 25 and (0x10 <= model <= 0x1f or 0x60 <= model <= 0xaf)


def matches(bar, record):
    return all(fnmatch.fnmatchcase(record[key], bar.get(key, "*")) for key in ("bench", "case", "runtime", "metric")) \
        and not fnmatch.fnmatchcase(record["runtime"], bar.get("not", "no runtime"))


def judge(bar, record):
    """Text of a bar beside its figure, and whether it holds."""
    least = "at_least" in bar
    limit = bar["at_least" if least else "at_most"]
    holds = record["value"] >= limit if least else record["value"] <= limit
    name = " ".join(filter(None, (record["bench"], record["case"], record["runtime"], record["metric"])))
    return (f"{name}: {record['value']:.4g} ({record['low']:.4g} to {record['high']:.4g}), "
            f"bar {'at least' if least else 'at most'} {limit:g}"), holds


def bars(paths):
    runs = []
    for path in paths:
        try:
            runs.append(records_of(path))
        except (OSError, ValueError) as error:
            print(f"no bars of {path}: {error}")
    wanted = json.loads((pathlib.Path(__file__).parent / "bars.json").read_text(encoding="utf-8"))
    judged = [judge(bar, record) for bar in wanted for machine, *records in runs
              if bar.get("on") != "zen" or is_zen_4_or_5(machine) for record in records if matches(bar, record)]
    short = [text for text, holds in judged if not holds]
    print(f"bars: {len(judged) - len(short)} of {len(judged)} hold" + (", and fall short:" if short else ""))
    for text in short:
        print(f"  {text}")


def main():
    if sys.argv[1:] == ["legend"]:
        print(LEGEND)
    elif sys.argv[1:] == ["now"]:
        print(",".join(map(str, clocks())))
    elif sys.argv[1:2] == ["busy"] and len(sys.argv) == 4:
        busy(sys.argv[2], float(sys.argv[3]))
    elif sys.argv[1:2] == ["bars"] and len(sys.argv) > 2:
        bars(sys.argv[2:])
    else:
        asked = sys.argv[1:] in (["--help"], ["-h"])
        print(__doc__.strip(), file=sys.stdout if asked else sys.stderr)
        sys.exit(0 if asked else 2)


if __name__ == "__main__":
    main()
