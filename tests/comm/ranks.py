#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Starts a program as MPI ranks, and counts as skipped where that cannot be.

usage: ranks.py LAUNCHER PROGRAM RANKS [ARGUMENT ...]   LAUNCHER or PROGRAM '': not there
"""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import usage

SKIPPED, SECONDS = 77, 300


def main(launcher, program, ranks, *arguments):
    if not program:
        print("skipped: built without MPI (-Dmpi=disabled, or libmpich-dev is not installed)")
        return SKIPPED
    if not launcher:
        print("skipped: there is no mpiexec.mpich (package mpich)")
        return SKIPPED
    command = [launcher, "-n", ranks, program, *arguments]
    try:
        status = subprocess.run(command, timeout=SECONDS, check=False).returncode
    except subprocess.TimeoutExpired:
        print(f"{' '.join(command)}: has not ended within {SECONDS} seconds")
        return 1
    print(f"{ranks} ranks: exit status {status}")
    return 0 if status == 0 else 1


if __name__ == "__main__":
    sys.exit(main(*usage.check(__doc__, 3, options=None)))
