#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Counts results in Meson's test logs and prints `N passed, N failed, N skipped`; of a failed test the
end of what it wrote.

usage: count.py BROKEN LOG...   BROKEN: stages that failed before their tests could run
"""
import json
import sys

import usage

PASSED, SKIPPED = {"OK", "EXPECTEDFAIL"}, {"SKIP"}
SHOWN = 30  # lines of a failed test


def main(broken, logs):
    passed, failed, skipped = 0, int(broken), 0
    for log in logs:
        with open(log, encoding="utf-8") as lines:
            for test in map(json.loads, lines):
                if test["result"] in PASSED:
                    passed += 1
                elif test["result"] in SKIPPED:
                    skipped += 1
                else:
                    failed += 1
                    print(f"{test['result']}: {test['name']} ({log})")
                    wrote = test.get("stdout", "") + test.get("stderr", "")
                    for line in wrote.rstrip().splitlines()[-SHOWN:]:
                        print(f"  {line}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    broken, *logs = usage.check(__doc__, 1)
    sys.exit(main(broken, logs))
