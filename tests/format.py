#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares every C++ file of the tree with what the pinned clang-format makes of it by .clang-format.

usage: format.py [--fix] FOLDER [ROOT]
FOLDER: keeps a virtual environment with clang-format from PyPI; made where it is missing. --fix rewrites
the files. Exit status 77, with the reason: it cannot be made.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

import usage

VERSION = "23.1.5"
TOPS = ("nntile", "kernels", "tests", "bench", "examples")
SKIPPED = 77


def tool(folder):
    """The pinned clang-format, or what keeps it from being there."""
    place = pathlib.Path(folder) / f"clang-format-{VERSION}"
    binary = "lib/python3*/site-packages/clang_format/data/bin/clang-format"  # bin/ has a script that starts it
    if not any(place.glob(binary)):
        for command in ([sys.executable, "-m", "venv", place],
                        [place / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                         "--retries=0", "--timeout=15", f"clang-format=={VERSION}"]):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                lines = (done.stderr or done.stdout).strip().splitlines()
                return None, lines[-1] if lines else f"status {done.returncode}"
    program = next(place.glob(binary), "clang-format")
    found = subprocess.run([program, "--version"], capture_output=True, text=True)
    if VERSION not in found.stdout:
        return None, (found.stderr or found.stdout).strip()
    return program, None


def main(fix, folder, root):
    program, reason = tool(folder)
    if program is None:
        print(f"skipped: no clang-format {VERSION}: {reason}")
        return SKIPPED
    root = pathlib.Path(root)
    files = sorted(file for top in TOPS for ending in ("*.hh", "*.cc", "*.cu") for file in (root / top).rglob(ending))

    def wrong(file):
        """Whether the formatter would change a file; --fix has it do so."""
        before = file.read_bytes()
        after = subprocess.run([program, f"--style=file:{root / '.clang-format'}", file], capture_output=True,
                               check=True).stdout
        if fix and before != after:
            file.write_bytes(after)
        return before != after

    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        names = [file.relative_to(root).as_posix() for file, bad in zip(files, pool.map(wrong, files)) if bad]
    print("\n".join(names + [f"{len(names)} of {len(files)} files {'were' if fix else 'are'} formatted otherwise"]))
    return 1 if names and not fix else 0


if __name__ == "__main__":
    arguments = usage.check(__doc__, 1, 2, ["--fix"])
    sys.exit(main("--fix" in sys.argv, arguments[0], *(arguments[1:] or [pathlib.Path(__file__).parent.parent])))
