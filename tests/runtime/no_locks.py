#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that allocation, free, scopes and look-up on the ring execute no locked instruction: neither their
own code nor what they call, but for what is rare.

usage: no_locks.py OBJDUMP FILE   FILE is an object or archive of no_locks.cc
"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import usage

# Called once in a while, and why.
RARE = {
    "enter_slowly": "another thread drives, or did before",
    "settle_all_dropped": "another thread has dropped handles",
    "take_when_there_is_room": "the heap has no room",
    "take_returned": "records of buffers that were no heap's come back",
    "make_record": "there are more buffers than ever before",
    "make_chunk": "the same",
    "allocate_alone": "the buffer is no heap's",
    "retire_alone": "the same",
    "clear_marked": "a failed task has marked the buffer",
    "region_at_slowly": "the region is new, has steps, or is not where the map looks first",
}
LOCKED = re.compile(r"\block\b|\bxchg\w*\s.*\(")


def functions(objdump, file):
    """Instructions and callees of each function, by its name."""
    text = subprocess.run([objdump, "-drC", "--no-show-raw-insn", file], check=True, capture_output=True,
                          text=True).stdout
    found, body = {}, None
    for line in text.splitlines():
        if head := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            body = found.setdefault(head[1], ([], set()))
        elif body is None:
            continue
        elif call := re.match(r"\s*[0-9a-f]+: R_X86_64_(?:PLT32|PC32|GOTPCREL\w*)\s+(.*?)(?:[-+]0x[0-9a-f]+)?$", line):
            body[1].add(call[1])
        elif "\t" in line:
            body[0].append(line.split("\t", 1)[1])
    return found


def locked(found, root):
    """Locked instructions of a function and all that it calls, each with its function."""
    todo, seen, places = [root], set(), []
    while todo:
        name = todo.pop()
        if name in seen or name not in found or any(rare in name for rare in RARE):
            continue
        seen.add(name)
        instructions, callees = found[name]
        places += [f"{name}: {each}" for each in instructions if LOCKED.search(each)]
        todo += callees
    return places


def main(objdump, file):
    if not objdump:
        print("skipped: there is no objdump")
        return 77
    found = functions(objdump, file)
    probes = {name: locked(found, name) for name in found if name.startswith("probe::") and "[clone" not in name}
    if not probes:
        print("skipped: no x86-64 code in", file)
        return 77
    control = [places for name, places in probes.items() if name.startswith("probe::locked")]
    if len(control) != 1 or len(control[0]) != 2:
        print("the check finds no locked instruction where there are two:", control)
        return 1
    places = {name: where for name, where in probes.items() if where and not name.startswith("probe::locked")}
    for name, where in places.items():
        print(name, "executes", *where, sep="\n  ")
    print(f"{len(probes) - 1} calls, {len(places)} of them with locked instructions")
    return 1 if places else 0


if __name__ == "__main__":
    sys.exit(main(*usage.check(__doc__, 2, 2)))
