#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks every README.md: one in each folder of the map, at most 30 lines (the root's, nntile's and the
ops', which shows their table, may be longer), each C++ block of one of them cut from a file in
examples/, and a text block right after it what that example prints.

usage: readme.py [ROOT [FOLDER]]   of this repository by itself; FOLDER: where the examples are built
"""
import pathlib
import re
import subprocess
import sys

import usage

LINES = 30
LONGER = {"README.md", "nntile/README.md", "nntile/ops/README.md"}
TOPS = ("nntile", "kernels", "tests", "bench", "examples", "subprojects")
BLOCK = re.compile(r"```(?:cpp|c\+\+)\n(.*?)```(?:\s*(?:[^`\n]*\n\s*)?```text\n(.*?)```)?", re.S)


def squeezed(text):
    """Lines without indentation and empty lines, so that a block may be cut out and dedented."""
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def folders(root):
    """Folders that hold files of the project; `subprojects` alone, not what is cloned below it."""
    yield root
    for top in TOPS:
        yield root / top
        if top == "subprojects":
            continue
        for folder in sorted((root / top).rglob("*")):
            if folder.is_dir() and folder.name != "__pycache__" and any(
                    entry.is_file() for entry in folder.iterdir()):
                yield folder


def complaint(block, output, examples, folder):
    """What is wrong with a block of code and the output below it, or None."""
    names = [name for name, text in examples.items() if squeezed(block) in text]
    if not names:
        return f"this is in no file of examples/:\n{block}"
    if output and folder:
        printed = subprocess.run([folder / names[0]], capture_output=True, text=True).stdout
        if squeezed(printed) != squeezed(output):
            return f"examples/{names[0]} prints:\n{printed}"
    return None


def main(root, folder=None):
    root, folder, errors, blocks = pathlib.Path(root), folder and pathlib.Path(folder), [], 0
    examples = {file.stem: squeezed(file.read_text(encoding="utf-8"))
                for file in sorted((root / "examples").rglob("*.cc"))}
    for place in folders(root):
        path = place / "README.md"
        name = path.relative_to(root).as_posix()
        if not path.is_file():
            errors.append(f"{name} is missing")
            continue
        text = path.read_text(encoding="utf-8")
        if name not in LONGER and len(text.splitlines()) > LINES:
            errors.append(f"{name} has {len(text.splitlines())} lines, more than {LINES}")
        for block, output in BLOCK.findall(text):
            blocks += 1
            if why := complaint(block, output, examples, folder):
                errors.append(f"{name}: {why}")
    print("\n".join(errors) or f"{blocks} blocks are as in examples/")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(*usage.root(__doc__, 2)))
