#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compiles one file as it is, which must work, and once for each mistake in it, which must not.

The first lines of the file are `// error: <regex>`, one for each mistake; the n-th is compiled with
-DNNTILE_FAIL=n. The regex must match the first error that the compiler reports, and the whole
message must have at most 15 lines, not counting quoted source. `// warning: <regex>` is a mistake
that compiles with that warning; `// note: <regex>` below either must match some later line.
What the file includes above all else is compiled once, beforehand.

usage: check.py ROOT FILE COMPILER...
"""
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import usage

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


def includes(file):
    """The file's #include lines above all else that is no comment."""
    found = []
    for line in pathlib.Path(file).read_text(encoding="utf-8").splitlines():
        if line.startswith("#include"):
            found.append(line)
        elif line and not line.startswith("//"):
            break
    return found


def precompile(command, file, folder):
    """Compiles what a file includes in advance, where there is some; the options that use it."""
    header = pathlib.Path(folder) / "includes.hh"
    header.write_text("\n".join(found := includes(file)) + "\n", encoding="utf-8")
    if not found:
        return []
    clang = any("clang" in word for word in command)
    output = header.with_suffix(".hh.pch" if clang else ".hh.gch")
    subprocess.run(command + ["-x", "c++-header", header, "-o", output], check=True)
    return ["-include-pch", output] if clang else ["-Winvalid-pch", "-include", header]


def main(root, file, compiler):
    plainly = (["-fno-caret-diagnostics", "-fno-color-diagnostics"]
               if any("clang" in word for word in compiler)
               else ["-fno-diagnostics-show-caret", "-fdiagnostics-color=never"])
    command = compiler + ["-std=c++20", *plainly, "-I", root]
    if not (found := mistakes(file)):
        print(f"{file}: the first line is not `// error: <regex>`")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        command += precompile(command, file, folder)
        return check(command + ["-fsyntax-only", file], file, found)


def check(command, file, found):
    """Whether a file is wrong, as it is or by a message; says so."""
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
    root, file, *compiler = usage.check(__doc__, 3, options=None)
    sys.exit(main(root, file, compiler))
