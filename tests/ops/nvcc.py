#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compiles CUDA sources; skipped where there is no nvcc. No GPU is needed.

usage: nvcc.py ROOT SOURCE                a test's
       nvcc.py --kernels NVCC TARGET REPORT...
                                          kernels of the library, by what nvcc said of them: none may
                                          warn or spill, nor take more registers than the table of
                                          this version says; prints what each file needs of them
       nvcc.py --table BUILD              registers, shared memory and occupancy of each kernel on each
                                          target; BUILD is a folder with test_ops, whose emulator says how
                                          kernels are launched. Takes some 20 minutes on two cores.
                                          Its output is kept as nvcc_VERSION.txt beside this file.
"""
import concurrent.futures
import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import usage

FLAGS = ["-std=c++20", "--expt-relaxed-constexpr", "-Werror", "all-warnings",
         # a loop whose first step returns, one over none; a pragma of g++ and clang
         "-diag-suppress", "128,186,1675"]
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
    return re.search(r"release .*, V([\d.]+)", version.stdout)[1]


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


def launches_in(file):
    """What the emulator noted: {kernel: (threads of a block, most bytes of shared memory)}."""
    shapes = {}
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            name, threads, shared = line.split()
            name = demangled(name, "-t").strip()
            shapes[name] = (int(threads), max(int(shared), shapes.get(name, (0, 0))[1]))
    return shapes


def emulated_launches(build):
    """How the emulator of a build launches kernels, as of launches_in."""
    program = f"{build}/tests/test_ops"
    if not os.path.exists(program):
        sys.exit(f"nvcc.py: {build} has no tests/test_ops; ninja -C {build} tests/test_ops makes it")
    with tempfile.TemporaryDirectory() as folder:
        noted = os.path.join(folder, "launches")
        print("1 of 2: the emulator launches each kernel", file=sys.stderr)
        run = subprocess.run([program, "[simt],[simt_edges],[simt_attention]"], check=False, text=True,
                             stdout=subprocess.PIPE, env={**os.environ, "NNTILE_SIMT_LAUNCHES": noted})
        if run.returncode != 0:
            sys.exit(f"nvcc.py: {program} ended with {run.returncode}\n{run.stdout[-2000:]}")
        return launches_in(noted)


def print_table(nvcc, build):
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sources = sorted(glob.glob(f"{root}/kernels/cuda/*.cu") + glob.glob(f"{build}/kernels/cuda/*.cu"))
    shapes = emulated_launches(build)
    print(f"2 of 2: nvcc compiles {len(sources)} files for {', '.join(TARGETS)}", file=sys.stderr)
    needs = {}  # {kernel: {target: registers}}
    failed = False
    for target in TARGETS:
        for source, result in zip(sources, compile_all(nvcc, root, sources, target)):
            if result.returncode != 0:
                print(f"{target}: {os.path.basename(source)} does not compile\n{result.stdout}")
                failed = True
                continue
            for name, (registers, spilt) in resources(result.stdout).items():
                needs.setdefault(name, {})[target] = registers
                if spilt > 0:
                    print(f"{target}: {name}: {spilt} bytes spilt")
                    failed = True
    width = max(map(len, needs), default=0)
    print(f"# tests/ops/nvcc.py --table build; nvcc {version_of(nvcc)}"
          f"{'; some kernel fails' if failed else '; no kernel spills, nothing warns'}\n"
          "# threads and bytes of shared memory a block, and for each target: registers a thread, blocks that a\n"
          "# multiprocessor has at once, and the share of its threads that they are\n"
          f"{'kernel':{width}} threads shared" + "".join(f" {target:>7} blocks share" for target in TARGETS))
    for name, registers in sorted(needs.items()):
        threads, shared = shapes.get(name, (0, 0))
        line = f"{name:{width}} {threads or '?':>7} {shared:6}"
        for target, shared_kib in TARGETS.items():
            taken = registers.get(target)
            blocks = blocks_at_once(taken, threads, shared, shared_kib) if taken and threads else 0
            line += f" {taken or '?':>7} {blocks or '?':>6} {100 * blocks * threads // THREADS:4}%"
        print(line)
    return 1 if failed else 0


def kept_table(version, target):
    """Registers of each kernel by the table that was kept of this version; None without one."""
    file = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"nvcc_{version}.txt")
    if not os.path.exists(file):
        return None
    with open(file, encoding="utf-8") as table:
        rows = [line.split() for line in table if not line.startswith("#")]
    columns = rows[0][3:]
    if target not in columns:
        return None
    back = columns.index(target) - len(columns)
    return {" ".join(row[:1 - len(rows[0])]): int(row[back]) for row in rows[1:]}


def check_kernels(nvcc, target, reports):
    version = version_of(nvcc)
    kept = kept_table(version, target)
    if kept is None:
        print(f"there is no table of nvcc {version} for {target}: registers are compared with none")
    failed = False
    for report in reports:
        with open(report, encoding="utf-8") as file:
            text = file.read()
        kernels = resources(text)
        if not kernels:
            sys.exit(f"{report}: names no kernel")
        registers = [needed for needed, _ in kernels.values()]
        spills = max(spilt for _, spilt in kernels.values())
        print(f"{os.path.basename(report):20} {target}: {len(registers):3} kernels, {min(registers)} to "
              f"{max(registers)} registers, {spills} bytes spilt")
        if "warning" in text:
            print(text)
        failed = failed or spills > 0 or "warning" in text
        for name, (needed, _) in kernels.items() if kept is not None else ():
            if needed > kept.get(name, 0):
                print(f"{name}: {needed} registers, and {kept.get(name, 'none')} in nvcc_{version}.txt: spare "
                      "some, or renew it by --table")
                failed = True
    return 1 if failed else 0


def main(arguments):
    usage.check(__doc__, 1, options=["--kernels", "--table"])
    if arguments[0] == "--kernels":
        if not arguments[3:]:
            print("skipped: nntile_cuda is not built: there is no nvcc, or no CUDA to link with")
            return 77
        return check_kernels(arguments[1], arguments[2], arguments[3:])
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        print("skipped: there is no nvcc")
        return 77
    if arguments[0] == "--table":
        if len(arguments) != 2:
            usage.end(__doc__, "--table takes a build's folder")
        return print_table(nvcc, arguments[1])
    usage.check(__doc__, 2, 2)
    result = compile_one(nvcc, *arguments, ["-arch=sm_80"])
    print(result.stdout)
    return result.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
