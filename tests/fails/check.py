#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compiles one file as it is, which must work, and once for each mistake in it, which must not.

The first lines of the file are `// error: <regex>`, one for each mistake; the n-th is compiled with
-DNNTILE_FAIL=n. The regex must match the first error that the compiler reports, and the whole
message must have at most 15 lines, not counting quoted source. `// warning: <regex>` is a mistake
that compiles with that warning; `// note: <regex>` below either must match some later line.

usage: check.py ROOT FILE COMPILER...
"""
import re
import subprocess
import sys

LINES = 15


def mistakes(file):
    found = []
    with open(file, encoding="utf-8") as source:
        for line in source:
            if not (match := re.match(r"// (error|warning|note): (.+)", line)):
                return found
            if match[1] == "note":
                found[-1] += (match[2],)
            else:
                found.append(match.groups())
    return found


def complaint(command, number, kind, regex, *notes):
    """What is wrong with the message of one mistake; None if nothing is."""
    failing = subprocess.run(command + [f"-DNNTILE_FAIL={number}"], capture_output=True, text=True)
    message = failing.stderr.strip()
    print(message)
    if (failing.returncode != 0) != (kind == "error"):
        return "compiles" if kind == "error" else "does not compile"
    first = next((line for line in message.splitlines() if f"{kind}: " in line), "")
    if not re.search(regex, first):
        return f"wanted /{regex}/, but the first {kind} is: {first}"
    for note in notes:
        if not re.search(note, message):
            return f"wanted /{note}/ in the message"
    if (count := len(message.splitlines())) > LINES:
        return f"{count} lines of message, where {LINES} are allowed"
    return None


def main(root, file, compiler):
    plainly = (["-fno-caret-diagnostics", "-fno-color-diagnostics"]
               if any("clang" in word for word in compiler)
               else ["-fno-diagnostics-show-caret", "-fdiagnostics-color=never"])
    command = compiler + ["-std=c++20", "-fsyntax-only", *plainly, "-I", root, file]
    if not (found := mistakes(file)):
        print(f"{file}: the first line is not `// error: <regex>`")
        return 1
    plain = subprocess.run(command, capture_output=True, text=True)
    if plain.returncode != 0 or "warning: " in plain.stderr:
        print(f"{file} must compile without NNTILE_FAIL, and without a warning:\n{plain.stderr}")
        return 1
    wrong = 0
    for number, mistake in enumerate(found, 1):
        if text := complaint(command, number, *mistake):
            print(f"{file}: mistake {number}: {text}")
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
