#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Parses files with a compiler, syntax only, with all warnings as errors; nothing is generated. By ccache,
where that is there: it keeps what was accepted.

usage: parse.py COMPILER ROOT headers FOLDER GLOB   each of these headers as if alone: see chains()
       parse.py COMPILER ROOT together FOLDER GLOB  all of these headers in one file; by g++ also as a user has it
                                                    who looks for undefined behaviour
       parse.py COMPILER ROOT c FOLDER GLOB         each of these headers alone, by the C compiler beside it
       parse.py COMPILER ROOT commands BUILD MATCH  sources of BUILD whose output's path matches MATCH; those
                                                    in C by the C compiler
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import usage

# What users' projects ask for; -Wuseless-cast is g++'s alone.
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wold-style-cast", "-Werror"]
C_WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wstrict-prototypes", "-Werror"]
PACKAGES = ["starpu-1.4", "starpu-1.3", "nlohmann_json", "mpich"]
# What includes headers, for a cache wants a file; from ROOT, so that clones share what is kept.
EMPTY = "tests/empty.cc"
# Headers that need a library which may not be there.
NEEDS = {"nntile/comm/mpi.hh": "mpich"}


def there(header):
    """Whether the library that a header needs is there."""
    package = NEEDS.get(header)
    return package is None or subprocess.run(["pkg-config", "--exists", package], check=False).returncode == 0


def package_flags():
    """Include paths of the optional dependencies that are there, as system paths."""
    flags = []
    for package in PACKAGES:
        found = subprocess.run(["pkg-config", "--cflags-only-I", package], capture_output=True,
                               text=True)
        flags += ["-isystem" + flag[2:] for flag in found.stdout.split()]
    return flags


def warnings(compiler):
    return WARNINGS if "clang" in compiler else [*WARNINGS, "-Wuseless-cast"]


def c_compiler(compiler):
    """clang++-14 -> clang-14, g++ -> gcc."""
    return compiler.replace("clang++", "clang") if "clang" in compiler else compiler.replace("g++", "gcc")


def c_header_commands(compiler, root, folder, pattern):
    for header in sorted(pathlib.Path(folder).glob(pattern)):
        name = header.relative_to(root).as_posix()
        yield name, [c_compiler(compiler), "-std=c11", "-fsyntax-only", *C_WARNINGS, "-I.", "-include", name,
                     "-x", "c", EMPTY], root


def included_first(header):
    """What a header includes above all that it declares or defines, whatever the macros."""
    names, depth = [], 0
    for line in header.read_text(encoding="utf-8").splitlines():
        if re.match(r"\s*(//|$)", line) or line == "#pragma once":
            continue
        if re.match(r"# *if", line):
            depth += 1
        elif re.match(r"# *endif", line):
            depth -= 1
        elif match := re.match(r'# *include ["<]([^">]+)[">]', line):
            names += [match[1]] * (depth == 0)
        elif not re.match(r"# *el", line):
            break
    return names


def chains(root, names):
    """The fewest lists of headers in which each header includes the one before it, whatever is between.

    One that includes all that was parsed before it sees nothing that it would not see alone: a file
    that includes a list's headers in their order checks each as if it were alone.
    """
    direct = {name: [other for other in included_first(pathlib.Path(root) / name) if other in names]
              for name in names}
    below = {}

    def everything_below(name):
        if name not in below:
            below[name] = set().union(*({other} | everything_below(other) for other in direct[name]))
        return below[name]

    # The most pairs of a header and the next one of its list: a maximum matching by augmenting paths.
    above = {name: [other for other in names if name in everything_below(other)] for name in names}
    before = {}

    def match(name, tried):
        for other in above[name]:
            if other not in tried:
                tried.add(other)
                if other not in before or match(before[other], tried):
                    before[other] = name
                    return True
        return False

    for name in names:
        match(name, set())
    for last in names:
        if last not in before.values():
            chain = [last]
            while chain[-1] in before:
                chain.append(before[chain[-1]])
            yield chain[::-1]


def header_commands(compiler, root, folder, pattern, together):
    base = [compiler, "-std=c++20", "-fsyntax-only", *warnings(compiler), "-I.", *package_flags()]
    names = [header.relative_to(root).as_posix() for header in sorted(pathlib.Path(folder).glob(pattern))]
    names = [name for name in names if there(name)]
    for group in [names] if together else chains(root, names):
        included = [word for name in group for word in ("-include", name)]
        yield " ".join(group), base + included + [EMPTY], root
        if together and "clang" not in compiler:  # by which g++ compares no address of a function with null
            yield "-fsanitize=undefined", [*base, "-w", "-fsanitize=undefined", *included, EMPTY], root


def build_commands(compiler, build, match):
    """The commands of a build, with its compiler replaced and its outputs left out."""
    with open(pathlib.Path(build) / "compile_commands.json", encoding="utf-8") as file:
        for entry in json.load(file):
            if not re.search(match, entry["output"]):
                continue
            words, kept = shlex.split(entry["command"]), []
            while not words[0].startswith("-"):
                words.pop(0)  # the compiler, behind ccache or not
            while words:
                word = words.pop(0)
                if word in ("-o", "-MF", "-MQ"):
                    words.pop(0)
                elif word not in ("-c", "-MD"):
                    kept.append(word)
            is_c = entry["file"].endswith(".c")
            first = [c_compiler(compiler)] if is_c else [compiler]
            first += ["-fsyntax-only", *(C_WARNINGS if is_c else warnings(compiler))]
            yield entry["file"], first + kept, entry["directory"]


def run(job):
    name, command, folder = job
    ccache = shutil.which("ccache")
    result = subprocess.run([ccache, *command] if ccache else command, cwd=folder, capture_output=True, text=True)
    return name, result.returncode, result.stderr


def main(compiler, root, mode, *arguments):
    make = {"headers": lambda *where: header_commands(compiler, root, *where, False),
            "together": lambda *where: header_commands(compiler, root, *where, True),
            "c": lambda *where: c_header_commands(compiler, root, *where),
            "commands": lambda build, match: build_commands(compiler, build, match)}[mode]
    jobs, failed = list(make(*arguments)), 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for name, status, message in pool.map(run, jobs):
            if status != 0:
                failed += 1
                print(f"== {name}\n{message}")
    print(f"{len(jobs)} files, {failed} not accepted")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*usage.check(__doc__, 5, 5)))
