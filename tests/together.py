#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes one source that includes test files, each in a namespace of its own, behind all that they
include: headers are then parsed, and inline functions compiled, once for all of them.

usage: together.py ROOT OUTPUT FILE...   ROOT: what files are named from
"""
import pathlib
import re
import sys

import usage

CONDITION = re.compile(r"# *(if|ifdef|ifndef|elif|else|endif)\b")


def preamble(text):
    """The lines up to the last #include: directives alone, since the rest is the file's own."""
    lines = text.splitlines()
    last = max((i for i, line in enumerate(lines) if line.startswith("#include")), default=-1)
    kept = [line for line in lines[:last + 1] if line.startswith("#include") or CONDITION.match(line)]
    words = [match[1] for match in map(CONDITION.match, kept) if match]
    return kept + ["#endif"] * (sum(word.startswith("if") for word in words) - words.count("endif"))


def main(root, output, *names):
    files = [pathlib.Path(name).resolve() for name in names]
    lines = [line for file in files for line in preamble(file.read_text(encoding="utf-8"))]
    for file in files:
        lines += [f"namespace {file.stem}_file {{", f'#include "{file.relative_to(root)}"', "}"]
    pathlib.Path(output).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*usage.check(__doc__, 3))
