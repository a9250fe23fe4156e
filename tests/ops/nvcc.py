#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compiles a CUDA source of the tests; skipped where there is no nvcc. No GPU is needed.

usage: nvcc.py ROOT SOURCE
"""
import os
import shutil
import subprocess
import sys
import tempfile

FLAGS = ["-std=c++20", "--expt-relaxed-constexpr", "-arch=sm_80", "-Werror", "all-warnings",
         "-diag-suppress", "128"]  # a loop whose first step returns


def main(root, source):
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        print("skipped: there is no nvcc")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([nvcc, *FLAGS, "-I", root, "-c", source, "-o",
                               os.path.join(folder, "out.o")], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
