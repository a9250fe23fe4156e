#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compiles CUDA sources; skipped where there is no nvcc. No GPU is needed.

usage: nvcc.py ROOT SOURCE                a test's
       nvcc.py --kernels TARGET REPORT... kernels of the library, by what nvcc said of them: none may
                                          warn or spill; prints what each needs of registers
       nvcc.py --table LAUNCHES ROOT SOURCE...
                                          the same for each target, with the occupancy of each kernel:
                                          LAUNCHES is what the emulator notes of its launches, by
                                          NNTILE_SIMT_LAUNCHES=LAUNCHES test_ops '[simt]'
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
KERNEL_FLAGS = ["-O3", "-fmad=false", "-Xptxas", "-v"]
# KiB of shared memory of a multiprocessor; CUDA C++ Programming Guide, compute capabilities.
TARGETS = {"sm_80": 164, "sm_90": 228, "sm_100": 228}
REGISTERS, THREADS, BLOCKS, WARP = 65536, 2048, 32, 32  # of a multiprocessor, of all three
REGISTER_UNIT, RESERVED = 256, 1024  # registers that a warp takes at once; bytes of a block for CUDA


def compile_one(nvcc, root, source, flags):
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([nvcc, *FLAGS, *flags, "-I", root, "-c", source, "-o",
                               os.path.join(folder, "out.o")], check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def version_of(nvcc):
    version = subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True)
    return re.search("release .*", version.stdout)[0]


def compile_all(nvcc, root, sources, target):
    flags = [*KERNEL_FLAGS, f"-arch={target}"]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda source: compile_one(nvcc, root, source, flags), sources))


def demangled(text, *flags):
    """Text with the names of kernels as in the source, the compiler's and c++filt's alike."""
    text = subprocess.run(["c++filt", *flags], input=text, check=True, capture_output=True,
                          text=True).stdout
    return text.replace("nntile::kernels::cuda::", "").replace("(anonymous namespace)::", "").replace(
        "nntile::", "").replace("sdpa::", "").replace("> >", ">>").replace("ops::", "")


def resources(text):
    """Of a compilation: {kernel: (registers, spilt bytes)}."""
    found = {}
    for part in demangled(text).split("Compiling entry function '")[1:]:
        name = re.match(r"void run_kernel<(.*?)>\(", part)[1].strip()
        found[name] = (int(re.search(r"Used (\d+) registers", part)[1]),
                       int(re.search(r"(\d+) bytes spill stores", part)[1]))
    return found


def blocks_at_once(registers, threads, shared, shared_kib):
    warps = threads // WARP
    of_warp = -(-registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
    return min(BLOCKS, THREADS // threads, REGISTERS // (of_warp * warps),
               shared_kib * 1024 // (shared + RESERVED))


def print_table(nvcc, launches, root, sources):
    shapes = {}
    with open(launches, encoding="utf-8") as file:
        for line in file:
            name, threads, shared = line.split()
            name = demangled(name, "-t").strip()
            shapes[name] = (int(threads), max(int(shared), shapes.get(name, (0, 0))[1]))
    print(f"# tests/ops/nvcc.py --table; nvcc {version_of(nvcc)}\n"
          "# registers a thread, threads and bytes of shared memory a block, blocks that a multiprocessor\n"
          "# has at once, and the share of its threads that they are; no kernel spills, nothing warns")
    failed = False
    for target, shared_kib in TARGETS.items():
        print(f"\n{target}\n{'kernel':72} registers threads shared blocks occupancy")
        for source, result in zip(sources, compile_all(nvcc, root, sources, target)):
            if result.returncode != 0:
                print(f"{os.path.basename(source)}: does not compile\n{result.stdout}")
                failed = True
                continue
            for name, (registers, spilt) in sorted(resources(result.stdout).items()):
                failed = failed or spilt > 0
                threads, shared = shapes.get(name, (0, 0))
                blocks = blocks_at_once(registers, threads, shared, shared_kib) if threads else 0
                print(f"{name:72} {registers:9} {threads or '?':>7} {shared:6} {blocks or '?':>6} "
                      f"{100 * blocks * threads // THREADS:8}%" + (f" {spilt} bytes spilt" if spilt else ""))
    return 1 if failed else 0


def check_kernels(target, reports):
    failed = False
    for report in reports:
        with open(report, encoding="utf-8") as file:
            text = file.read()
        spills = [int(n) for n in re.findall(r"(\d+) bytes spill stores", text)]
        registers = [int(n) for n in re.findall(r"Used (\d+) registers", text)]
        if not registers:
            sys.exit(f"{report}: names no kernel")
        print(f"{os.path.basename(report):20} {target}: {len(registers):3} kernels, {min(registers)} to "
              f"{max(registers)} registers, {max(spills)} bytes spilt")
        if "warning" in text:
            print(text)
        failed = failed or max(spills) > 0 or "warning" in text
    return 1 if failed else 0


def main(arguments):
    if arguments[0] == "--kernels":
        if not arguments[2:]:
            print("skipped: nntile_cuda is not built: there is no nvcc, or no CUDA to link with")
            return 77
        return check_kernels(arguments[1], arguments[2:])
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        print("skipped: there is no nvcc")
        return 77
    if arguments[0] == "--table":
        return print_table(nvcc, arguments[1], arguments[2], arguments[3:])
    result = compile_one(nvcc, *arguments, ["-arch=sm_80"])
    print(result.stdout)
    return result.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
