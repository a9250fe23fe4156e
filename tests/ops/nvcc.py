#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compiles CUDA sources; skipped where there is no nvcc. No GPU is needed.

usage: nvcc.py ROOT SOURCE                a test's
       nvcc.py --kernels ROOT SOURCE...   kernels of the library: none may spill; prints what each
                                          needs of registers and shared memory
"""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

FLAGS = ["-std=c++20", "--expt-relaxed-constexpr", "-Werror", "all-warnings",
         # a loop whose first step returns; a pragma of g++ and clang
         "-diag-suppress", "128,1675"]
# No contraction: the bits of a*b+c are the source's.
KERNEL_FLAGS = ["-arch=sm_90", "-O3", "-fmad=false", "-Xptxas", "-v"]


def compile_one(nvcc, root, source, flags):
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([nvcc, *FLAGS, *flags, "-I", root, "-c", source, "-o",
                               os.path.join(folder, "out.o")], check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def compile_kernels(nvcc, root, sources):
    version = subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True)
    print(re.search("release .*", version.stdout)[0])
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda source: compile_one(nvcc, root, source, KERNEL_FLAGS), sources)
    failed = False
    for source, result in zip(sources, results):
        name = os.path.basename(source)
        if result.returncode != 0:
            print(f"{name}: does not compile\n{result.stdout}")
            failed = True
            continue
        spills = [int(n) for n in re.findall(r"(\d+) bytes spill stores", result.stdout)]
        registers = [int(n) for n in re.findall(r"Used (\d+) registers", result.stdout)]
        print(f"{name:20} {len(registers):3} kernels, {min(registers)} to {max(registers)} registers, "
              f"{max(spills)} bytes spilt")
        failed = failed or max(spills) > 0
    return 1 if failed else 0


def main(arguments):
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        print("skipped: there is no nvcc")
        return 77
    if arguments[0] == "--kernels":
        return compile_kernels(nvcc, arguments[1], arguments[2:])
    result = compile_one(nvcc, *arguments, ["-arch=sm_80"])
    print(result.stdout)
    return result.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
