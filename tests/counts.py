#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Counts what the house rules want to be none: operands named by number, templates over one type,
names that stand for something that has another name already, functions that a device gets wrong, and comments that
begin with a question word.

usage: counts.py [--list] [ROOT]   of this repository by itself; --list prints each place
Ends with 1 where there is one.
"""
import pathlib
import re
import sys

import usage

CALL = r"(?:buffers\.at|buffer)\s*<[^()]*?>\s*\(\s*(?:call\s*,\s*)?\d+"
# Members that take an operand: of a tile's range, a gradient's builder, a view of pointers.
MEMBER = (r"\b(?:range|all|b)\.(?:template\s+)?(?:first|last|carried|offset|box|elements|wants|grad|operand|target|"
          r"shape|dtype|name|rank|keep|pass)(?:<[^()]*>)?\(\s*\d+|\btable\(\)\.shape\(\s*\d+")
OPS, ALL, RING = ("nntile/ops", "kernels"), ("nntile", "kernels"), ("nntile/runtime/ring",)
GROUPS = {
    "operands by number": {
        "pointer of a buffer": (CALL, OPS),
        "operand of a range, builder or table": (MEMBER, OPS),
        "bit of an operand": (r"\b1u\s*<<\s*\d+", OPS),
        "operand of a phase": (r"\{\s*\d+\s*,\s*(?:Access::)?(?:read|write|update|accumulate)\s*\}", OPS),
        "operand by comparison": (r"\boperand\s*==\s*\d+", OPS),
    },
    "templates over one type": {  # an extent beside the type varies: span<Byte, count>
        "parameter constrained by same_as": (r"(?<=[<,])\s*std::same_as<[^<>]*>\s+\w+(?!\w*,\s*std::size_t)", ALL),
        "deferred name": (r"\blater_t<", ALL),
    },
    "synonyms": {
        "{X, Access} beside Use": (r"\bstruct (?:Tile|Phase|Planned|Program|Buffer|Binding|Watched)Use\b", ALL),
        "attributes for arguments": (r"\b(?:call|call_|task|body|step|last|node)\.attributes\b(?!\.)", ("nntile/runtime", "nntile/ops", "kernels")),
        "Later for a deferred name": (r"\bLater\b", ALL),
        "hurry, hands_on, looks, rest": (r"\bhurry\b|\bhands_on_?\b|\bint looks\b|\bsize_t rest\b", ("nntile/graph",)),
        "lap for epoch": (r"\blaps?_?\b", RING),
    },
    "host's functions on a device": {  # nvcc 13.0 makes the number of bits of them, without a word
        "trailing zeros": (r"\bcount[lr]_one\b|\bcountr_zero\b", ("kernels/cuda",)),
    },
}
QUESTION = r"(?:what|where|when|how|why|who|which|whose)\b"
COMMENTS = {  # of whole lines that begin a sentence, and behind code
    "line that begins with What, Where, How": (rf"(?m)^ *//[/!]?<? ?(?=[A-Z])(?i:{QUESTION})", ALL),
    "trailing comment that begins so": (rf"(?m)^(?! *//)[^\n]*?\S[^\n]*?//[/!]?<? ?(?i:{QUESTION})", ALL),
}
SOURCES = {".hh", ".cc", ".in", ".cu"}


def code(text):
    """A file's text with comments blanked, so that lines keep their numbers."""
    return re.sub(r"//[^\n]*", "", text)


def main(listed, root):
    root = pathlib.Path(root)
    files = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for top in ("nntile", "kernels")
             for path in sorted((root / top).rglob("*")) if path.suffix in SOURCES}
    codes = {name: code(text) for name, text in files.items()}
    beyond = False
    for group, patterns, texts in [(*group, codes) for group in GROUPS.items()] + [("openings", COMMENTS, files)]:
        total = 0
        for what, (pattern, folders) in patterns.items():
            places = [f"{name}:{text.count(chr(10), 0, found.start()) + 1}: {found[0].strip()}"
                      for name, text in texts.items() if name.startswith(folders)
                      for found in re.finditer(pattern, text)]
            total += len(places)
            beyond |= bool(places)
            print(f"{len(places):6} {what}")
            if listed:
                print("".join(f"         {place}\n" for place in places), end="")
        print(f"{total:6} {group}\n")
    return beyond


if __name__ == "__main__":
    sys.exit(main("--list" in sys.argv, *usage.root(__doc__, options=["--list"])))
