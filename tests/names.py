#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Looks up what documents name: every path in backquotes in a *.md file of the tree exists, every C++
type there is declared, and every other name in a README.md occurs in a source file.

usage: names.py [ROOT]   of this repository by itself

A path begins at its document's folder, at one above it, or at nntile/; `<op>` and `*` stand for any name;
a file name alone may also be below the document's folder. DECISIONS.md may speak of what is gone, but of
no file or type.
"""
import pathlib
import re
import sys

import usage

TOPS = ("nntile", "kernels", "tests", "bench", "examples", "subprojects")
CODE = {".hh", ".cc", ".in", ".h", ".cu"}
TEXTS = CODE | {".md", ".py", ".sh", ".build", ".txt", ".json", ""}
STARTS = tuple(f"{top}/" for top in TOPS) + tuple(f"./{top}/" for top in TOPS)
QUOTED = re.compile(r"`([^`]+)`")
BLOCK = re.compile(r"^```[\s\S]*?^```|^ {4}.*$", re.M)
FILE = re.compile(r"[\w*<>-]+(?:\.[\w*]+)*\.(?:hh|cc|py|md|sh|in|build|cu)")
PATH = re.compile(r"(?:\.\./)*(?:[\w*<>.-]+/)+(?:[\w*<>.-]+)?|" + FILE.pattern)
WORD = re.compile(r"(?<![\w-])[A-Za-z_]\w*")
TYPE = re.compile(r"[A-Z]\w*[a-z]\w*")
DECLARED = re.compile(r"\b(?:class|struct|union|enum class|enum|concept|using|typename)\s+([A-Z]\w*)")
LINK = re.compile(r"\]\(([^)#]+)\)")
# What a build or a run makes.
MADE = re.compile(r"build/|.*\.(?:json|svg|tmp)$")


def files(root):
    """Text files of the project, without what is built or cloned."""
    for place in [root] + [root / top for top in TOPS]:
        deep = place != root and place.name != "subprojects"
        for file in sorted(place.rglob("*") if deep else place.iterdir()):
            if file.is_file() and file.suffix in TEXTS and "__pycache__" not in file.parts:
                yield file


def found(path, document, root):
    """Whether a path of a document names something, `<op>` being any name."""
    pattern = re.sub(r"<\w+>", "*", path).removeprefix("./").rstrip("/")
    above = [place for place in document.parents if place == root or root in place.parents]
    places = above + [root / "nntile"]
    if any(any(place.glob(pattern)) for place in places if not pattern.startswith("../")):
        return True
    if pattern.startswith("../"):
        return any(document.parent.parent.glob(pattern[3:]))
    return "/" not in pattern and any(document.parent.rglob(pattern))


def complaints(document, root, types, words):
    """What a document names that does not exist, and how many names it has."""
    text = document.read_text(encoding="utf-8")
    prose = BLOCK.sub("", text)
    quoted = [" ".join(part.split()) for part in QUOTED.findall(prose)]
    blocks = [line.strip() for block in BLOCK.findall(text) for line in block.splitlines()]
    paths = [part for line in quoted for part in line.split() if PATH.fullmatch(part)]
    paths += [part for line in blocks for part in line.split() if part.startswith(STARTS)]
    paths += [part for part in LINK.findall(prose) if "://" not in part]
    for path in dict.fromkeys(re.sub(r"^<(.*/.*)>$", r"\1", path) for path in paths):
        if not MADE.match(path) and not found(path, document, root):
            yield f"there is no file or folder `{path}`"
    for line in dict.fromkeys(quoted):
        code = " ".join(part for part in line.split() if not PATH.fullmatch(part))
        for word in dict.fromkeys(WORD.findall("" if MADE.match(line) else code)):
            if TYPE.fullmatch(word) and word not in types:
                yield f"nothing declares the type {word} of `{line}`"
            elif document.name != "DECISIONS.md" and word not in words:
                yield f"no source file has {word} of `{line}`"


def main(root):
    root, documents, types, words = pathlib.Path(root).resolve(), [], set(), set()
    for file in files(root):
        if file.suffix == ".md":
            documents.append(file)
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        words.update(re.findall(r"\w+", text), [file.stem, file.name])
        if file.suffix in CODE:
            types.update(DECLARED.findall(text))
    errors = [f"{document.relative_to(root).as_posix()}: {error}" for document in documents
              for error in complaints(document, root, types, words)]
    print("\n".join(errors) or f"what {len(documents)} documents name exists")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(*usage.root(__doc__)))
