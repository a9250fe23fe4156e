#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks every README.md: one in each folder of the map, at most 30 lines (the root's and
nntile's may be longer), and each C++ block of one of them cut from a file in examples/.

usage: readme.py ROOT
"""
import pathlib
import re
import sys

LINES = 30
LONGER = {"README.md", "nntile/README.md"}
TOPS = ("nntile", "kernels", "tests", "bench", "examples", "subprojects")
BLOCK = re.compile(r"```(?:cpp|c\+\+)\n(.*?)```", re.S)


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


def main(root):
    root, errors, blocks = pathlib.Path(root), [], 0
    examples = [squeezed(file.read_text(encoding="utf-8"))
                for file in sorted((root / "examples").rglob("*.cc"))]
    for folder in folders(root):
        path = folder / "README.md"
        name = path.relative_to(root).as_posix()
        if not path.is_file():
            errors.append(f"{name} is missing")
            continue
        text = path.read_text(encoding="utf-8")
        if name not in LONGER and len(text.splitlines()) > LINES:
            errors.append(f"{name} has {len(text.splitlines())} lines, more than {LINES}")
        for block in BLOCK.findall(text):
            blocks += 1
            if not any(squeezed(block) in example for example in examples):
                errors.append(f"{name}: this is in no file of examples/:\n{block}")
    print("\n".join(errors) or f"{blocks} blocks are as in examples/")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
