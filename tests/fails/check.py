#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compiles one file twice: as it is, which must work, and with -DNNTILE_FAIL, which must not.

The first line of the file is `// error: <regex>`; the regex must match what the compiler says,
in at most 15 lines, not counting quoted source.

usage: check.py ROOT FILE COMPILER...
"""
import re
import subprocess
import sys

LINES = 15


def main(root, file, compiler):
    with open(file, encoding="utf-8") as source:
        first = source.readline()
    if not (found := re.match(r"// error: (.+)", first)):
        print(f"{file}: the first line is not `// error: <regex>`")
        return 1
    command = compiler + ["-std=c++20", "-fsyntax-only", "-fno-diagnostics-show-caret",
                          "-fdiagnostics-color=never", "-I", root, file]
    plain = subprocess.run(command, capture_output=True, text=True)
    if plain.returncode != 0:
        print(f"{file} must compile without NNTILE_FAIL:\n{plain.stderr}")
        return 1
    failing = subprocess.run(command + ["-DNNTILE_FAIL"], capture_output=True, text=True)
    message = failing.stderr.strip()
    if failing.returncode == 0:
        print(f"{file} must not compile with NNTILE_FAIL")
        return 1
    count = len(message.splitlines())
    if not re.search(found[1], message) or count > LINES:
        print(f"wanted /{found[1]}/ in at most {LINES} lines, got {count}:\n{message}")
        return 1
    print(message)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
