#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How scripts of the tests answer `--help` and calls that they do not take: with their own text. They import this.

usage: usage.py [ROOT]   calls all of them so, and those of the benches
"""
import pathlib
import subprocess
import sys


def check(text, least, most=None, options=(), valued=()):
    """Ends the script with its text: where it was asked for, or with status 2 where its call has fewer or more words than
    it takes, or an option that it lacks; gives its words, without options. Behind an option of `valued` stands a value.
    `options` of None: words of all kinds are for another program."""
    words = sys.argv[1:]
    if words in (["--help"], ["-h"]):
        print(text.strip())
        sys.exit()
    if options is not None:
        given = [word for word in words if word.startswith("--")]
        unknown = [word for word in given if word not in (*options, *valued)]
        if unknown:
            end(text, f"there is no option {unknown[0]}")
        words = [word for before, word in zip(["", *words], words) if word not in given and before not in valued]
    if len(words) < least or (most is not None and len(words) > most):
        takes = least if most == least else f"{least} or more" if most is None else f"{least} to {most}"
        end(text, f"{len(words)} arguments, and it takes {takes}")
    return words


def number(text, option, default):
    """The number behind an option, or what it is without one."""
    words = sys.argv[1:]
    if option not in words:
        return default
    given = words[words.index(option) + 1] if words[-1] != option else ""
    if not given.isdecimal() or int(given) == 0:
        end(text, f"{option} takes a number from 1 on, not '{given}'")
    return int(given)


def root(text, most=1, options=()):
    """The words of a call that may begin with the root of a tree, which is this repository's by itself."""
    words = check(text, 0, most, options) or [str(pathlib.Path(__file__).parent.parent)]
    if not (pathlib.Path(words[0]) / "nntile/README.md").is_file():
        end(text, f"{words[0]}: there is no nntile/README.md, so that it is no root of this repository")
    return words


def end(text, why):
    print(f"{pathlib.Path(sys.argv[0]).name}: {why}\n\n{text.strip()}", file=sys.stderr)
    sys.exit(2)


def main(folder):
    wrong = 0
    packages = pathlib.Path(folder, "subprojects/packages.sh")  # without words it would install them
    benches = pathlib.Path(folder, "bench").glob("*.py")
    for script in [*sorted(pathlib.Path(folder, "tests").rglob("*.py")), *sorted(benches), packages]:
        code = script.read_text(encoding="utf-8")
        if script.name in ("runs.py", "usage.py") or "__pycache__" in script.parts:
            continue
        if "import argparse" in code:
            first = f"usage: {script.name}"
        else:
            first = code.split("\n# ")[2] if script == packages else code[code.index('"""') + 3:].split("\n", 1)[0]
        for words, status in ((["--help"], 0), (["--no-such-option"], 2)):
            program = ["bash" if script == packages else sys.executable, script]
            done = subprocess.run([*program, *words], capture_output=True, text=True, timeout=60, check=False)
            said = done.stdout if status == 0 else done.stderr
            if done.returncode != status or first not in said or "Traceback" in done.stderr:
                print(f"{script} {words[0]}: exit {done.returncode}, not {status}, and says {said[:200]!r}")
                wrong += 1
    print(f"{wrong} answers are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*root(__doc__)))
