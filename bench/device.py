#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""On a machine with a CUDA device: first whether it is right, then how fast; ten minutes in all.

Appends a record to the file of --out as each stage ends, so that what was measured stays when the
machine is taken away. Without a device it says so and ends well. Needs tests/cuda/test_cuda and
examples/gpt2 of a build folder.

usage: device.py [--build FOLDER] [--out FILE] [--minutes M]
"""
import argparse
import datetime
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

TINY = ["--preset", "tiny", "--layers", "2", "--seq", "64", "--batch", "4", "--steps", "3",
        "--eval-every", "0", "--save-every", "0", "--hash"]
# Places that all must give the hash of the host.
PLACES = {"device": [], "device, cut": ["--tile", "128"], "device, serial": ["--runtime", "serial"],
          "device, states on the host": ["--offload", "optimizer"],
          "device, little memory": ["--offload", "parameters", "--device-memory", "8MB"]}
SPEED = {"tiny": ["--preset", "tiny"], "small": ["--preset", "small"],
         "124m": ["--preset", "124m", "--batch", "4"],
         "124m, fast": ["--preset", "124m", "--batch", "4", "--numerics", "fast"]}


class Run:
    def __init__(self, build, out, minutes):
        self.build, self.out = build, out
        self.end = time.monotonic() + 60 * minutes
        self.failed = []

    def call(self, command):
        """(exit status, text, seconds) of a command; it is ended when the time is over."""
        start = time.monotonic()
        try:
            done = subprocess.run([str(part) for part in command], check=False, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=max(1, self.end - start))
            status, text = done.returncode, done.stdout
        except subprocess.TimeoutExpired:
            status, text = 124, "the time was over"
        return status, text, time.monotonic() - start

    def record(self, stage, right, seconds, **values):
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        line = {"date": date, "stage": stage, "right": right, "seconds": round(seconds, 2), **values}
        print(json.dumps(line), flush=True)
        if not right:
            self.failed.append(stage)
        if self.out:
            with open(self.out, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def train(self, arguments, folder):
        gpt2 = self.build / "examples/gpt2"
        status, text, seconds = self.call([gpt2, "train", "--out", folder, *arguments])
        shutil.rmtree(folder, ignore_errors=True)
        return status, text.strip(), seconds


def correctness(run, folder):
    status, text, seconds = run.call([run.build / "tests/cuda/test_cuda"])
    run.record("tests", status == 0, seconds, text=text.strip()[-400:])
    status, text, seconds = run.train(TINY, folder)
    wanted = text.splitlines()[-1] if status == 0 else ""
    run.record("host", status == 0, seconds, hash=wanted)
    for name, options in PLACES.items():
        status, text, seconds = run.train([*TINY, "--place", "device", *options], folder)
        got = text.splitlines()[-1] if text else ""
        run.record(name, status == 0 and got == wanted, seconds, hash=got)
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer:
        status, text, seconds = run.call([sanitizer, "--error-exitcode", "9",
                                          run.build / "examples/gpt2", "train", "--out", folder,
                                          *TINY, "--place", "device"])
        run.record("compute-sanitizer", status == 0, seconds, text=text.strip()[-400:])


def speed(run, folder):
    for name, options in SPEED.items():
        arguments = [*options, "--eval-every", "0", "--save-every", "0", "--place", "device",
                     "--steps", "20"]
        status, text, seconds = run.train(arguments, folder)
        rates = [float(rate) for rate in re.findall(r"([0-9.]+) tok/s", text)]
        run.record("speed of " + name, status == 0, seconds, tokens_a_second=rates[-1:],
                   text=text[-200:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=10)
    given = parser.parse_args()
    run = Run(given.build.resolve(), given.out, given.minutes)
    for needed in ("examples/gpt2", "tests/cuda/test_cuda"):
        if not (run.build / needed).exists():
            print(f"device.py: {run.build / needed} is not there; build it with -Dcuda=enabled")
            return 2
    folder = run.build / "device_run"
    status, text, _ = run.train([*TINY, "--place", "device"], folder)
    if status != 0 and "Cuda: " in text:
        print("no device: " + text.splitlines()[-1])
        return 0
    correctness(run, folder)
    if not run.failed:
        speed(run, folder)
    print("failed: " + ", ".join(run.failed) if run.failed else "all stages are right")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
