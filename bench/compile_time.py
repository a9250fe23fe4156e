#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What including the library costs, and the README's program: CPU seconds of the compiler, against bars.json.

usage: compile_time.py [--quick] [--json FILE] [--check FACTOR] [--compiler "g++"]
       compile_time.py --count [--before FOLDER] [--compiler "g++"]
--check fails when the cheapest run of a case takes more than FACTOR times its budget.
--count counts the compiler's instructions, by valgrind, in units of a file that includes <vector>,
<string> and <memory>: of nntile.hh, with graph/compile.hh, and with 60 op headers more, which it
makes from ops/gelutanh.hh; of an older checkout too, if one is given. Five minutes each.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUDGETS = {bar["case"]: bar["at_most"] for bar in json.loads((ROOT / "bench/bars.json").read_text(encoding="utf-8"))
           if bar["bench"] == "compile_time"}  # CPU seconds
CASES = {  # headers, or a program, and how they are compiled
    "core_and_concept": (["nntile/core/*.hh", "nntile/runtime/concept.hh"], "-O0"),
    "nntile": (["nntile/nntile.hh"], "-O0"),
    "readme_program_O0": (["examples/03_graph.cc"], "-O0"),
    "readme_program_O2": (["examples/03_graph.cc"], "-O2"),
}


def seconds(compiler, optimization, source):
    """User and system time of one compilation."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*compiler, "-std=c++20", optimization, "-I", str(ROOT), "-c", source, "-o",
                    os.devnull], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def more_ops(root, folder, count=60):
    """Writes op headers, of a forward and a backward op each; returns their names."""
    text = (root / "nntile/ops/gelutanh.hh").read_text(encoding="utf-8")
    for i in range(count):
        (folder / f"op_{i}.hh").write_text(
            text.replace("Gelutanh", f"Gelutanh{i}").replace("gelutanh", f"gelutanh{i}"), encoding="utf-8")
    return [f"op_{i}.hh" for i in range(count)]


def instructions(compiler, root, folder, includes):
    """Of the compiler proper, for a file that includes these."""
    source = folder / "counted.cc"
    source.write_text("".join(f"#include {name}\n" for name in includes), encoding="utf-8")
    command = subprocess.run([*compiler, "-###", "-std=c++20", "-O0", "-I", str(root), "-I", str(folder), "-c",
                              str(source), "-o", os.devnull], capture_output=True, text=True, check=True).stderr
    proper = next(shlex.split(line) for line in command.splitlines() if "cc1" in line)
    asm = proper.index("-o") if "-o" in proper else None
    if asm is not None:
        proper[asm + 1] = os.devnull
    run = subprocess.run(["valgrind", "--tool=callgrind",
                          f"--callgrind-out-file={os.devnull}", *proper], capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode != 0 or not found:
        sys.exit(f"{source.name} with {includes[:2]}: {run.stderr[-2000:]}")
    return int(found.group(1))


def count_instructions(compiler, before):
    if shutil.which("valgrind") is None:
        sys.exit("--count needs valgrind: apt-get install valgrind")
    roots = {"now": ROOT} | ({"before": pathlib.Path(before).resolve()} if before else {})
    for when, root in roots.items():
        with tempfile.TemporaryDirectory() as made:
            folder = pathlib.Path(made)
            umbrella, compile_hh = '"nntile/nntile.hh"', '"nntile/graph/compile.hh"'
            has_compile = (root / "nntile/graph/compile.hh").exists()
            cases = {"unit": ["<vector>", "<string>", "<memory>"], "nntile.hh": [umbrella],
                     "with graph/compile.hh": [umbrella, compile_hh] if has_compile else None,
                     "with 60 ops more": [umbrella, *(f'"{name}"' for name in more_ops(root, folder))]}
            unit = whole = None
            for case, includes in cases.items():
                if includes is None:
                    continue
                taken = instructions(compiler, root, folder, includes)
                unit = unit or taken
                whole = whole or (taken if case == "nntile.hh" else None)
                print(f"{when:7} {case:22} {taken / 1e9:7.3f} G instructions {taken / unit:6.2f} units"
                      + (f" {taken / whole:6.2f} of nntile.hh" if whole else ""), flush=True)


def cpu_name():
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
        return re.search(r"model name\s*: (.*)", text).group(1)
    except (OSError, AttributeError):
        return platform.machine()


def about(compiler):
    """The first record: what the figures were taken on."""
    version = subprocess.run([*compiler, "--version"], capture_output=True, text=True).stdout
    git = shutil.which("git")
    commit = git and subprocess.run([git, "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True,
                                    text=True).stdout.strip()
    return {"bench": "compile_time", "date": datetime.date.today().isoformat(),
            "cpu": cpu_name(), "cores": os.cpu_count(),
            "compiler": version.splitlines()[0], "flags": "-std=c++20", "commit": (commit or "unknown")[:12]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--check", type=float)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--before")
    options = parser.parse_args()
    compiler = options.compiler.split()
    if not compiler or shutil.which(compiler[0]) is None:
        parser.error(f"--compiler: '{options.compiler}' is no program that is there")
    if options.before and not (options.count and (pathlib.Path(options.before) / "nntile/nntile.hh").is_file()):
        parser.error(f"--before: '{options.before}' is no checkout with nntile/nntile.hh, or --count is missing")
    if options.count and (options.quick or options.json or options.check):
        parser.error("--count prints what it counts: leave --quick, --json and --check out")
    if options.json:  # now rather than after the measurements
        try:
            open(options.json, "a", encoding="utf-8").close()
        except OSError as error:
            parser.error(f"--json: cannot write '{options.json}': {error.strerror}")
    if options.count:
        return count_instructions(compiler, options.before)
    runs, records, over = 5 if options.quick else 21, [about(compiler)], []
    for case, (patterns, optimization) in CASES.items():
        budget = BUDGETS.get(case)
        count = runs if budget else (runs + 4) // 5  # programs take ten times as long
        headers = sorted(path.relative_to(ROOT).as_posix()
                         for pattern in patterns for path in ROOT.glob(pattern))
        if not headers:
            continue
        with tempfile.NamedTemporaryFile("w", suffix=".cc") as source:
            source.writelines(f'#include "{header}"\n' for header in headers)
            source.flush()
            times = sorted(seconds(compiler, optimization, source.name) for _ in range(count))
        low, high = times[round(0.05 * (count - 1))], times[round(0.95 * (count - 1))]
        middle = statistics.median(times)
        print(f"{case:18} {middle:.2f} s CPU ({low:.2f} to {high:.2f})" + (f", budget {budget:.2f}" if budget else ""))
        records.append({"bench": "compile_time", "case": case, "runtime": "", "metric": "cpu",
                        "value": middle, "unit": "s", "low": low, "high": high, "runs": count})
        if options.check and budget and times[0] > budget * options.check:
            over.append(case)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(records, indent=1) + "\n",
                                              encoding="utf-8")
    if over:
        print("over budget:", ", ".join(over))
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
