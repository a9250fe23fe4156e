#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Uses the library as its users do, outside of its own build; the programs are
those of tests/consumer and one of the examples.

usage: install.py pkgconfig ROOT BUILD PROGRAM BLAS   installs BUILD, compiles with plain g++
       install.py cmake ROOT BUILD PROGRAM BLAS       installs BUILD, builds a CMake project on it
       install.py subproject ROOT BUILD PROGRAM BLAS  builds a Meson project that contains this one
BLAS is what stands behind fast numerics, as option `blas` names it.
"""
import concurrent.futures
import fcntl
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

import usage


def call(*command, **options):
    print("$", *command, flush=True)
    subprocess.run(command, check=True, **options)


def install(build, scratch):
    """Installs into a folder that is then moved, as a whole: to a path with a space."""
    with open(build / "install.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # all of them write one log
        call("meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", scratch)
    moved = scratch / "else where"
    (scratch / "usr").rename(moved)
    return moved


def check_needs(program):
    """No program needs the library behind fast numerics, or what that brings along."""
    entries = subprocess.run(["readelf", "-d", program], check=True, capture_output=True,
                             text=True).stdout.splitlines()
    needed = [line.split("[")[1].rstrip("]") for line in entries if "(NEEDED)" in line]
    print(pathlib.Path(program).name, "needs", *needed, flush=True)
    foreign = [name for name in needed if any(part in name for part in ("dnnl", "blas", "blis", "omp"))]
    if foreign:
        raise SystemExit(f"{program} needs {foreign}, though its numerics may be exact")


def fast_is(blas):
    """What fast.cc is to find."""
    return {"none": "exact", "eigen": "built-in"}.get(blas, "loaded")


def first_program(root, scratch):
    """README's program, as a file, and what README says that it prints."""
    text = (root / "README.md").read_text(encoding="utf-8")
    program, prints = (text.split(f"```{language}\n", 1)[1].split("```", 1)[0] for language in ("cpp", "text"))
    source = scratch / "readme.cc"
    source.write_text(program, encoding="utf-8")
    return source, prints


def flags_of(package, environment):
    """The words of pkg-config, as a shell has them."""
    return shlex.split(subprocess.run(["pkg-config", "--cflags", "--libs", package], env=environment, check=True,
                                      capture_output=True, text=True).stdout)


def pkgconfig(root, build, program, blas, scratch):
    """Installs into a folder and compiles with what the .pc file says, and nothing else."""
    moved = install(build, scratch)
    environment = dict(os.environ)
    folder = next(moved.rglob("nntile.pc")).parent
    environment["PKG_CONFIG_PATH"] = ":".join(
        filter(None, [str(folder), os.environ.get("PKG_CONFIG_PATH")]))
    environment["LD_LIBRARY_PATH"] = str(next(moved.rglob("libnntile_kernels.*")).parent)
    environment["STARPU_HOME"] = str(scratch)
    fast = root / "tests/consumer/fast.cc"
    first, prints = first_program(root, scratch)
    # The one that takes longest first.
    sources = [("nntile", first), ("nntile", root / "tests/consumer/headers.cc"), ("nntile", program),
               ("nntile", fast)]
    if (folder / "nntile-starpu.pc").exists():
        sources.append(("nntile-starpu", root / "tests/consumer/starpu.cc"))
    if (folder / "nntile-mpi.pc").exists():
        sources.append(("nntile-mpi", root / "tests/consumer/mpi.cc"))

    def compiled(package, source):
        flags = flags_of(package, environment)
        output = scratch / pathlib.Path(source).stem
        # Some warnings need the optimizer, and are on by default.
        strict = ["-O2", "-Wall", "-Wextra", "-Werror"] if source == first else ["-O1"]
        call(*os.environ.get("CXX", "g++").split(), "-std=c++20", *strict, str(source), *flags,
             "-o", str(output))
        return output

    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        outputs = list(pool.map(compiled, *zip(*sources)))
    for (package, source), output in zip(sources, outputs):
        if package == "nntile":  # StarPU's own libraries need what they need
            check_needs(output)
        arguments = [fast_is(blas)] if source == fast else []
        if source == first:
            printed = subprocess.run([output], env=environment, cwd=scratch, check=True, capture_output=True,
                                     text=True).stdout
            if printed != prints:
                raise SystemExit(f"README's program printed\n{printed}README says\n{prints}")
            continue
        call(str(output), *arguments, env=environment, cwd=scratch)
    plain_c(root, scratch, environment)
    foreign = [path for path in moved.rglob("*") if path.suffix in {".cc", ".py", ".md"} and path.name != "LAW.md"]
    if foreign:
        raise SystemExit(f"installed, but no use to a user: {foreign}")


def plain_c(root, scratch, environment):
    """A program in C and a shared object, as the README of examples/pto says."""
    programs = root / "examples/pto"
    flags = flags_of("nntile-pto", environment)
    compiler = [*os.environ.get("CC", "cc").split(), "-std=c11", "-O1"]
    call(*compiler, programs / "simple.c", programs / "main.c", programs / "run_program.c", *flags, "-lm",
         "-o", scratch / "simple")
    call(scratch / "simple", env=environment)
    headers = [flag for flag in flags if flag.startswith("-I")]
    call(*compiler, "-fPIC", "-shared", programs / "matmul.c", *headers, "-lm", "-o", scratch / "libmatmul.so")
    call(*compiler, "-rdynamic", programs / "pto_run.c", programs / "run_program.c", *flags, "-ldl",
         "-o", scratch / "pto_run")
    call(scratch / "pto_run", "--workers", "2", scratch / "libmatmul.so", env=environment)


def cmake(root, build, program, blas, scratch):
    """Builds an installation with find_package."""
    if shutil.which("cmake") is None:
        print("skipped: there is no cmake")
        return 77
    moved = install(build, scratch)
    project = scratch / "project"
    shutil.copytree(root / "tests/consumer", project)
    shutil.copy(program, project / "program.cc")
    config = next(moved.rglob("nntileConfig.cmake")).parent
    call("cmake", "-S", project, "-B", project / "build", f"-Dnntile_DIR={config}",
         "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O1")
    call("cmake", "--build", project / "build", "--parallel", str(len(os.sched_getaffinity(0))))
    for name in ["headers", "program"]:
        call(project / "build" / name, env={
            **os.environ, "LD_LIBRARY_PATH": str(next(moved.rglob("libnntile_kernels.*")).parent)})
    again = scratch / "again"  # the next version, say: its library goes with its headers
    moved.rename(again)
    config = next(again.rglob("nntileConfig.cmake")).parent
    call("cmake", "-S", project, "-B", project / "build", f"-Dnntile_DIR={config}")
    if f"nntile_LIBRARY:FILEPATH={again}/" not in (project / "build/CMakeCache.txt").read_text(encoding="utf-8"):
        raise SystemExit("a build folder that goes on with another installation keeps the library of the first")
    return 0


def subproject(root, build, program, blas, scratch):
    """One instruction set will do: that all are built is known from the main build."""
    project = scratch / "project"
    shutil.copytree(root / "tests/consumer", project)
    shutil.copy(program, project / "program.cc")
    (project / "subprojects").mkdir()
    (project / "subprojects/nntile").symlink_to(root)
    call("meson", "setup", "build", "-Dnntile:isa=v2", f"-Dnntile:blas={blas}",
         "-Dnntile:starpu=disabled", "--wrap-mode=nodownload", cwd=project)
    call("ninja", "-C", "build", "--quiet", cwd=project)
    call("meson", "test", "-C", "build", "--no-rebuild", "headers", "program", cwd=project)
    check_needs(project / "build/program")
    call("build/fast", fast_is(blas), cwd=project)


def main(mode, root, build, program, blas):
    with tempfile.TemporaryDirectory(prefix="install-", dir=build) as scratch:
        return {"pkgconfig": pkgconfig, "cmake": cmake, "subproject": subproject}[mode](
            pathlib.Path(root), pathlib.Path(build), program, blas, pathlib.Path(scratch))


if __name__ == "__main__":
    sys.exit(main(*usage.check(__doc__, 5, 5)))
