#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A compiled graph on Serial adds nothing to its kernels: its instructions, counted by callgrind,
are those of a hand-written loop over the same calls but for a few; also where each step reads
other buffers than the last one.

usage: serial_cost.py PROGRAM    (see serial_cost.cc)
"""
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import usage

SKIPPED = 77  # Meson's
# "Nothing" is at most this many: bindings are looked up, outcomes looked at.
INSTRUCTIONS_PER_TASK = 50
SHARE = 0.001


def count(program, what, function):
    """The instructions of one training step, and what the program prints about it."""
    run = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no",
         f"--toggle-collect=counted_{function}", program, what], capture_output=True, text=True)
    if run.returncode == SKIPPED:
        print(run.stdout)
        sys.exit(SKIPPED)
    collected = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode != 0 or not collected:
        sys.exit(f"{run.stdout}{run.stderr}\n{what}: callgrind ended with {run.returncode}")
    return int(collected.group(1)), run.stdout.strip()


def main():
    program, = usage.check(__doc__, 1, 1)
    if not shutil.which("valgrind"):
        print("skipped: no valgrind to count instructions with; Debian's package is valgrind")
        sys.exit(SKIPPED)
    loop, loop_says = count(program, "loop", "loop")
    print(loop_says)
    tasks = int(loop_says.split()[0])
    if loop < 1000 * tasks:
        sys.exit("that is not a step of tiles of 64")
    for what in "graph", "alternating":
        graph, graph_says = count(program, what, "graph")
        if graph_says != loop_says:
            sys.exit(f"the loop computes something else than {what}: {graph_says}")
        print(f"loop {loop} instructions, compiled graph ({what}) {graph}: "
              f"{(graph - loop) / tasks:.1f} more a task, {100 * (graph / loop - 1):.3f} % more")
        if graph - loop > INSTRUCTIONS_PER_TASK * tasks or graph > (1 + SHARE) * loop:
            sys.exit(f"the bar is {INSTRUCTIONS_PER_TASK} a task, and {100 * SHARE} %")


main()
