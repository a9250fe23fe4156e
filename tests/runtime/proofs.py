#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Looks up the tests and checks of the battery that PROOFS.md names.

usage: proofs.py [ROOT]
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import usage

root = pathlib.Path(usage.root(__doc__)[0])
# Adjacent literals are one name.
code = "".join(re.sub(r'"\s*\n\s*"', "", file.read_text())
               for folder in ("tests", "nntile/testing/conformance")
               for file in sorted((root / folder).rglob("*"))
               if file.suffix in (".cc", ".hh"))
text = (root / "tests/runtime/PROOFS.md").read_text()
names = re.findall(r'"([^"\n]+(?:\n[^"\n]+)?)"', text)
missing = [name for name in dict.fromkeys(name.replace("\n", " ") for name in names) if f'"{name}"' not in code]
for name in missing:
    print(f'PROOFS.md: no test or check is called "{name}"')
print(f"{len(names)} names, {len(missing)} missing")
sys.exit(bool(missing) or not names)
