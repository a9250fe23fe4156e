#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Uses the library as its users do, outside of its own build; the programs are
those of tests/consumer and one of the examples.

usage: install.py pkgconfig ROOT BUILD PROGRAM   installs BUILD, compiles with plain g++
       install.py subproject ROOT BUILD PROGRAM  builds a Meson project that contains this one
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile


def call(*command, **options):
    print("$", *command, flush=True)
    subprocess.run(command, check=True, **options)


def pkgconfig(root, build, program, scratch):
    """Installs into a folder and compiles with what the .pc file says, and nothing else."""
    call("meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", scratch)
    moved = scratch / "elsewhere"  # the installation can be moved as a whole
    (scratch / "usr").rename(moved)
    environment = dict(os.environ)
    folder = next(moved.rglob("nntile.pc")).parent
    environment["PKG_CONFIG_PATH"] = ":".join(
        filter(None, [str(folder), os.environ.get("PKG_CONFIG_PATH")]))
    environment["LD_LIBRARY_PATH"] = str(next(moved.rglob("libnntile_kernels.*")).parent)
    environment["STARPU_HOME"] = str(scratch)
    sources = [("nntile", root / "tests/consumer/headers.cc"), ("nntile", program)]
    if (folder / "nntile-starpu.pc").exists():
        sources.append(("nntile-starpu", root / "tests/consumer/starpu.cc"))
    for package, source in sources:
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", package], env=environment,
                               check=True, capture_output=True, text=True).stdout.split()
        output = scratch / pathlib.Path(source).stem
        call(*os.environ.get("CXX", "g++").split(), "-std=c++20", "-O1", str(source), *flags,
             "-o", str(output))
        call(str(output), env=environment, cwd=scratch)
    foreign = [path for path in moved.rglob("*") if path.suffix in {".cc", ".py", ".md"}]
    if foreign:
        raise SystemExit(f"installed, but no use to a user: {foreign}")


def subproject(root, build, program, scratch):
    """One instruction set will do: that all are built is known from the main build."""
    project = scratch / "project"
    shutil.copytree(root / "tests/consumer", project)
    shutil.copy(program, project / "program.cc")
    (project / "subprojects").mkdir()
    (project / "subprojects/nntile").symlink_to(root)
    call("meson", "setup", "build", "-Dnntile:isa=v2", "-Dnntile:blas=none",
         "-Dnntile:starpu=disabled", "--wrap-mode=nodownload", cwd=project)
    call("ninja", "-C", "build", "--quiet", cwd=project)
    call("meson", "test", "-C", "build", "--no-rebuild", "headers", "program", cwd=project)


def main(mode, root, build, program):
    with tempfile.TemporaryDirectory(prefix="install-", dir=build) as scratch:
        {"pkgconfig": pkgconfig, "subproject": subproject}[mode](
            pathlib.Path(root), build, program, pathlib.Path(scratch))


if __name__ == "__main__":
    main(*sys.argv[1:])
