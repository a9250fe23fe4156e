#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs a compiler, by ccache where that is there, and keeps what it writes in a file, too: what kernels
need of registers.

usage: compile.py FILE COMMAND...
"""
import shutil
import subprocess
import sys

file, *command = sys.argv[1:]
ccache = [shutil.which("ccache")] if shutil.which("ccache") else []
result = subprocess.run(ccache + command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
with open(file, "w", encoding="utf-8") as report:
    report.write(result.stdout)
if result.returncode != 0 or "warning" in result.stdout:
    sys.stderr.write(result.stdout)
sys.exit(result.returncode)
