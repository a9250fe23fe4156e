#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that objects compiled for an instruction set define symbols of its namespace alone.

A weak symbol shared with other objects would be a crash on an older CPU: the linker may keep the
copy that was compiled for the newer one. Constants may be shared, code may not.

usage: symbols.py NM ISA ARCHIVE
"""
import re
import subprocess
import sys

import usage

# Defined by the compiler in any object that could unwind; the same bytes at every level.
COMPILER_OWN = re.compile(r"^DW\.ref\.__gxx_personality")
CONSTANT = re.compile(r"^_ZN6nntile14computation_ofI")


def main(nm, isa, archive):
    own = f"7kernels{len(isa)}{isa}"  # nntile::kernels::<isa>, mangled
    listing = subprocess.run([nm, "--defined-only", "--extern-only", "--print-file-name", archive],
                             check=True, capture_output=True, text=True).stdout.splitlines()
    foreign = []
    for line in listing:
        where, _, rest = line.rpartition(":")
        *_, kind, name = rest.split()
        if CONSTANT.match(name) and kind in "Vu":
            continue
        if own not in name and not COMPILER_OWN.match(name):
            foreign.append(f"{where.rpartition('/')[2]}: {name}")
    for line in foreign[:40]:
        print(line)
    print(f"{len(listing)} symbols, {len(foreign)} outside nntile::kernels::{isa}")
    return 1 if foreign or not listing else 0


if __name__ == "__main__":
    sys.exit(main(*usage.check(__doc__, 3, 3)))
