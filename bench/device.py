#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""On a machine with a CUDA device: first whether it is right, then how fast; ten minutes in all.

Runs stages in turn, correctness before speed, and appends each one's record to --out before the next begins, so
that what was measured stays when the machine is taken away. After a wrong stage no speed is measured. A stage whose
program the machine lacks, or that the time does not reach, is recorded as skipped with the reason. Without a device
it says so and ends well.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = SOURCE / "tests/golden/gpt2_tiny.txt"
KEPT = SOURCE / "bench/results/h200/records.jsonl"
TEXT = SOURCE / "tests/examples/runs.py"  # makes the text that these hashes are of
NO_SAVES = ["--eval-every", "0", "--save-every", "0"]
SUITE = ["--preset", "tiny", "--batch", "2", "--steps", "4", *NO_SAVES, "--hash"]  # of tests/golden/gpt2_tiny.txt
# Of racecheck, which takes a thousand times as long.
SMALLEST = ["--preset", "tiny", "--layers", "1", "--width", "64", "--heads", "2", "--seq", "32", "--batch", "1", "--steps",
            "1", *NO_SAVES]
SMALL = ["--preset", "tiny", "--layers", "1", "--seq", "64", "--batch", "2", "--steps", "2", *NO_SAVES]
# Places that all must give the golden hash; that of bf16 is another one.
PLACES = {"host": ["--place", "host"], "device": [], "device_serial": ["--runtime", "serial"],
          "device_cut": ["--tile", "128"], "device_states_on_host": ["--offload", "optimizer"],
          "device_5_mb": ["--offload", "parameters", "--device-memory", "5MB"], "device_tf32": ["--dtype", "fp32_fast_tf32"],
          "device_bf16": ["--dtype", "bf16"]}
FAST = ["--preset", "124m", "--seq", "1024", "--batch", "16", "--steps", "30", "--numerics", "fast"]
SPEED = {"tiny": ["--preset", "tiny", "--steps", "50"],
         "small": ["--preset", "small", "--steps", "50"],
         "124m_exact": ["--preset", "124m", "--seq", "1024", "--batch", "4", "--steps", "6"],
         "124m_fast": FAST,
         "124m_tf32_fast": [*FAST, "--dtype", "fp32_fast_tf32"],
         "124m_bf16_fast": [*FAST, "--dtype", "bf16"]}


class Skipped(Exception):
    """The reason that a stage cannot be run."""


class Run:
    """The programs of a build folder, the time that is left, and the records."""

    def __init__(self, build, out, minutes, dry, place, scratch):
        self.build, self.out, self.dry, self.place = build, out, dry, place
        self.missing, self.wrong, self.skipped = [], [], []
        self.end = time.monotonic() + 60 * minutes
        self.folder = pathlib.Path(scratch, "run")
        self.text = self.folder.with_suffix(".txt")  # of golden hashes, a machine may lack any other
        if not dry:
            self.text.write_text(runpy.run_path(str(self.need(TEXT)))["text"]())

    def need(self, path):
        if not path.exists():
            self.missing.append(str(path))
        return path

    def program(self, name):
        return self.need(self.build / name)

    def call(self, *command, watch=None):
        """(exit status, text) of a command; watch() is called meanwhile. Ends it and is Skipped when the time is over."""
        command = [str(part) for part in command]
        if self.dry:
            print("  " + " ".join(command))
            return 0, ""
        with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            while True:
                try:
                    text, _ = process.communicate(timeout=max(0.1, min(2, self.end - time.monotonic())))
                    return process.returncode, text.strip()
                except subprocess.TimeoutExpired:
                    if watch:
                        watch()
                    if time.monotonic() > self.end:
                        process.kill()
                        process.communicate()
                        raise Skipped("the time was over")

    def train(self, *arguments, before=(), watch=None):
        if not self.dry:
            shutil.rmtree(self.folder, ignore_errors=True)
        status, text = self.call(*before, self.program("examples/gpt2"), "train", "--data", self.text, "--out",
                                 self.folder, "--place", self.place, *arguments, watch=watch)
        if not self.dry:
            shutil.rmtree(self.folder, ignore_errors=True)
        return status, text.replace(f"{self.folder.parent}/", "")

    def record(self, stage, right, seconds, values):
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        line = json.dumps({"date": date, "stage": stage, "right": right, "seconds": round(seconds, 2), **values})
        print(line, flush=True)
        if self.out:
            with open(self.out, "a", encoding="utf-8") as file:
                file.write(line + "\n")
        if right is False:
            self.wrong.append(stage)
        if right is None:
            self.skipped.append(stage)


def machine(run):
    """The device, its driver, and its clocks."""
    status, text = run.call("nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm",
                            "--format=csv,noheader")
    return status == 0, {"device": text}


def tests(run):
    """The suite's tests of devices."""
    status, text = run.call(run.program("tests/cuda/test_cuda"))
    return status == 0, {"text": text[-400:]}


def golden(name):
    def stage(run):
        hashes = run.need(GOLDEN).read_text().splitlines()
        wanted = dict(line.split() for line in hashes if line[:1] != "#")["bf16" if "bf16" in PLACES[name] else "suite"]
        status, text = run.train(*SUITE, *PLACES[name])
        got = text.splitlines()[-1] if text else ""
        return status == 0 and got == wanted, {"hash": got, "golden": wanted}
    stage.__doc__ = f"The golden hash of a training step, {name.replace('_', ' ')}."
    return stage


def sanitizer(tool, step):
    def stage(run):
        program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        if not run.dry and not pathlib.Path(program).exists():
            raise Skipped("there is no compute-sanitizer here")
        status, text = run.train(*step, before=[program, "--tool", tool, "--error-exitcode", "9"])
        return status == 0, {"text": text[-400:] if status else ""}
    stage.__doc__ = f"compute-sanitizer, {tool}, over a training step."
    return stage


def leak(run):
    """10,000 steps of tiny, at a quarter of its width: neither memory grows in the later two thirds."""
    used = []

    def look():
        done = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], text=True,
                              stdout=subprocess.PIPE, check=False)
        used.append(int((done.stdout.split() or ["0"])[0]))
    status, text = run.train("--preset", "tiny", "--width", "64", "--heads", "2", "--batch", "2", "--steps",
                             "10000", *NO_SAVES, watch=look)
    host = [float(size) * {"kB": 1e3, "MB": 1e6, "GB": 1e9}[unit]
            for size, unit in re.findall(r"memory ([0-9.]+) (kB|MB|GB)  left", text)]
    grows = False
    for sizes in (used, host):
        later = sizes[len(sizes) // 3:]
        grows |= len(later) > 1 and later[-1] > 1.02 * later[0]
    return status == 0 and not grows, {"device_mb": used[:1] + used[-1:], "host_bytes": host[:1] + host[-1:],
                                       "text": text[-200:]}


def bench(name, what):
    def stage(run):
        file = run.folder.with_suffix(".json")
        file.unlink(missing_ok=True)
        status, text = run.call(run.program("bench/bench_device_" + name), "--json", file)
        written = file.read_text() if file.exists() else ""  # none where it has crashed
        records = json.loads(written)[1:] if written else []
        medians = {f"{of['case']} {of['metric']}": round(of["value"], 3) for of in records}
        return status == 0, {"medians": medians, "text": text[-200:] if status else ""}
    stage.__doc__ = what
    return stage


def replay(run):
    """What a replayed step of GPT-2 124M takes over the time of its kernels, each measured without the other."""
    tokens = 4 * 1024
    status, text = run.train("--preset", "124m", "--seq", "1024", "--batch", "4", "--steps", "20", *NO_SAVES)
    rates = [float(rate) for rate in re.findall(r"([0-9.]+) tok/s", text)]
    if status == 0:
        status, text = run.train("--preset", "124m", "--seq", "1024", "--batch", "4", "--steps", "6", *NO_SAVES,
                                 "--profile")
    if status != 0 or run.dry:
        return status == 0, {"text": text[-200:]}
    kernels = sum(float(ms) for ms in re.findall(r"^\w+ +\d+ +([0-9.]+) +[0-9.]+%", text, re.M))
    step = 1e3 * tokens / rates[-1]
    return kernels > 0, {"step_ms": step, "kernels_ms": kernels, "step_over_kernels": step / kernels}


def speed(name):
    def stage(run):
        status, text = run.train(*SPEED[name], *NO_SAVES)
        rates = [float(rate) for rate in re.findall(r"([0-9.]+) tok/s", text)]
        return status == 0, {"tokens_a_second": rates[-1:], "text": text[-300:] if status else ""}
    stage.__doc__ = f"Tokens a second of gpt2 {' '.join(SPEED[name])}, without its first step."
    return stage


def profile(name):
    def stage(run):
        status, text = run.train(*SPEED[name], *NO_SAVES, "--profile")
        return status == 0, {"text": text[text.find("profile of"):][:3000]}
    stage.__doc__ = f"The time of each op of speed_{name}, by events, which take time themselves."
    return stage


def torch(*arguments):
    def stage(run):
        if not run.dry and subprocess.run([sys.executable, "-c", "import torch"], stderr=subprocess.DEVNULL,
                                          check=False).returncode != 0:
            raise Skipped("there is no PyTorch here")
        status, text = run.call(sys.executable, SOURCE / "bench/rivals/gpt2_torch_device.py", *arguments)
        rates = [float(rate) for rate in re.findall(r"([0-9.]+) tok/s", text)]
        return status == 0, {"tokens_a_second": rates[-1:], "text": text[-200:]}
    stage.__doc__ = f"PyTorch's tokens a second of GPT-2 124M: {' '.join(arguments)}."
    return stage


# In the order in which they run: what must be right, then speed, by what is asked first, each rival behind ours;
# last what takes minutes.
CORRECTNESS = {"machine": machine, **{"golden_" + name: golden(name) for name in PLACES}, "tests": tests}
SPEEDS = {"speed_" + name: speed(name) for name in reversed(SPEED)}
BENCHES = {"speed_124m_bf16_fast": SPEEDS.pop("speed_124m_bf16_fast"),
           "torch_bf16": torch("16", "1024", "bf16", "--compile"),
           "profile_124m_bf16_fast": profile("124m_bf16_fast"),
           "attention": bench("attention", "Attention and its derivative, fast beside exact."),
           "gemm": bench("gemm", "Exact products beside a loop of multiply-adds in the same run."),
           "ops": bench("ops", "What memory bounds, beside a copy in the same run."),
           "replay": replay, **SPEEDS,
           "torch_tf32": torch("16", "1024", "tf32"), "torch_fp32": torch("16", "1024", "fp32")}
LONG = {"memcheck": sanitizer("memcheck", SMALL), "leak": leak, "racecheck": sanitizer("racecheck", SMALLEST)}
STAGES = {**CORRECTNESS, **BENCHES, **LONG}


def table(names):
    """A line for each stage: its name, the seconds that it took last on the H200 of KEPT, and what it does."""
    took = {}
    for record in map(json.loads, KEPT.read_text().splitlines() if KEPT.exists() else []):
        if "step_us" not in record:  # of a replay that was measured in another way
            took[record["stage"]] = f"{record['seconds']:.1f}"
    rows = [("stage", "seconds", "what"), *((name, took.get(name, "?"), STAGES[name].__doc__) for name in names)]
    return "\n".join(f"{name:28} {seconds:>7}  {what}" for name, seconds, what in rows)


def run_stage(run, name):
    begin = time.monotonic()
    try:
        if begin > run.end:
            raise Skipped("the time was over")
        right, values = STAGES[name](run)
    except Skipped as reason:
        right, values = None, {"skipped": str(reason)}
    except (OSError, ValueError, LookupError) as error:  # a program that is not there, a text that is none
        right, values = False, {"error": str(error)}
    run.record(name, right, time.monotonic() - begin, values)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Stages in their order, and the seconds of each on an H200 (?: not measured):\n" + table(STAGES))
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"), metavar="FOLDER",
                        help="a build with -Dcuda=enabled, tests, examples and benches; build")
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE", help="records are added to it, a line each")
    parser.add_argument("--minutes", type=float, default=10, metavar="M", help="of all stages together; 10")
    parser.add_argument("--stage", action="append", choices=list(STAGES), metavar="NAME",
                        help="one of --list, instead of all; may be given again")
    parser.add_argument("--place", choices=("device", "emulated"), default="device",
                        help="emulated: tries stages on a device without hardware")
    parser.add_argument("--list", action="store_true", help="prints the stages in their order, what each does and takes")
    parser.add_argument("--dry-run", action="store_true", help="prints the commands, and which programs are not there")
    given = parser.parse_args()
    if given.out and (given.out.is_dir() or not os.access(given.out if given.out.exists() else given.out.parent, os.W_OK)):
        parser.error(f"--out: cannot write '{given.out}'")  # rather than behind the first stage
    names = given.stage or list(STAGES)
    if given.list:
        print(table(names))
        return 0
    with tempfile.TemporaryDirectory(prefix="nntile-device-") as scratch:
        run = Run(given.build.resolve(), given.out, given.minutes, given.dry_run, given.place, scratch)
        return dry_run(run, names) if given.dry_run else run_all(run, names, bool(given.stage))


def dry_run(run, names):
    for name in names:
        print(name)
        STAGES[name](run)
    for path in dict.fromkeys(run.missing):
        print(f"not there: {path}; build it with -Dcuda=enabled")
    return 1 if run.missing else 0


def run_all(run, names, chosen):
    if not run.program("examples/gpt2").exists():
        print(f"device.py: {run.missing[0]} is not there; build it with -Dcuda=enabled")
        return 2
    try:
        status, text = run.train(*SMALL)
    except Skipped:
        status, text = 0, ""  # each stage says so
    if status != 0 and "Cuda: " in text:
        print("no device: " + text.splitlines()[-1])
        return 0
    for name in names:
        if run.wrong and name in BENCHES and not chosen:
            print(f"no {name}: not all is right")
            continue
        run_stage(run, name)
    if run.skipped:
        print("skipped: " + ", ".join(run.skipped))
    print("wrong: " + ", ".join(run.wrong) if run.wrong else "all stages that ran are right")
    return 1 if run.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
