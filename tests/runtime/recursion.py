#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""fib(30) by recursive tasks, and ten thousand levels of tasks that wait in no body: right, and in
less than 256 MiB, on 1, 2 and 8 workers. Prints the peak of memory of each.

usage: recursion.py EXAMPLE PROGRAM   (09_recursion, and recursion.cc)
"""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import usage

FIB = 30
DEPTH = 10_000
LIMIT_KIB = 256 * 1024
example, program = usage.check(__doc__, 2, 2)


def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


failed = False
for command, number, expected in ((example, FIB, f"fib({FIB}) = {fibonacci(FIB)}"),
                                  (program, DEPTH, str(DEPTH))):
    for workers in (1, 2, 8):
        child = subprocess.Popen([command, str(number), str(workers)], stdout=subprocess.PIPE)
        text = child.stdout.read().decode()
        _, status, usage = os.wait4(child.pid, 0)
        good = status == 0 and text.strip() == expected
        small = usage.ru_maxrss < LIMIT_KIB
        print(f"{os.path.basename(command)} {number}, {workers} workers: {text.strip()} in "
              f"{usage.ru_maxrss} KiB, {usage.ru_utime + usage.ru_stime:.2f} s of CPU"
              + ("" if good else f": WRONG, expected {expected}, status {status}")
              + ("" if small else f": more than {LIMIT_KIB} KiB"))
        failed = failed or not (good and small)
sys.exit(failed)
