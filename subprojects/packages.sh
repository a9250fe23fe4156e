#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs what nntile is built and tested with, where it is missing: on Debian and its relatives,
# as root or through sudo. Does nothing when all is there. Whether a thing is there is found by
# looking for the thing itself, so that a user's own installation counts.
set -u

usage() { sed -n '3,5s/^# //p' "$0"; }
case ${1-} in
  '') ;;
  -h | --help) usage; exit ;;
  *) echo "packages.sh: it takes no words, such as '$1'" >&2; usage >&2; exit 2 ;;
esac

command_() { command -v "$1" >/dev/null 2>&1; }
module() { command_ pkg-config && pkg-config --exists "$1"; }
header() { command_ c++ && echo "#include <$1>" | c++ -E -x c++ - >/dev/null 2>&1; }
starpu() { module starpu-1.3 || module starpu-1.4; }
fuzzer() { [ -e "$(clang++-14 -print-resource-dir 2>/dev/null)/lib/linux/libclang_rt.fuzzer-$(uname -m).a" ]; }

# package: how to tell that it is there
required=(
  'g++: command_ c++'
  'meson: command_ meson'
  'ninja-build: command_ ninja'
  'pkg-config: command_ pkg-config'
  'python3: command_ python3'
  'catch2: module catch2'
  'libcli11-dev: module CLI11'
)
# package: how to tell: what happens without it
optional=(
  'ccache: command_ ccache: every build compiles everything'
  'clang-14: command_ clang++-14: nothing is checked under clang'
  'libclang-rt-14-dev: fuzzer: the readers are not fuzzed; the sanitizers are those of g++, which take longer'
  'nlohmann-json3-dev: module nlohmann_json: our JSON reader is compared with no other'
  'libstarpu-dev: starpu: the StarPU runtime is not built'
  'libmpich-dev: module mpich: nothing runs on MPI ranks'
  'mpich: command_ mpiexec.mpich: no test starts MPI ranks'
  'libdnnl-dev: header dnnl.h: Numerics::fast uses OpenBLAS, BLIS or Eigen'
  'libeigen3-dev: module eigen3: no Eigen behind Numerics::fast, and no test copies its matrices'
  'libtbb-dev: module tbb: bench/submit lacks oneTBB'
  'valgrind: command_ valgrind: no test counts instructions'
  'bible-kjv: command_ bible: without --data, training takes the licence texts of this machine'
)

# Prints the packages of a table that are not there.
missing_of() {
  local entry package probe
  for entry in "$@"; do
    IFS=: read -r package probe _ <<<"$entry"
    $probe || echo "$package"
  done
}

install() {
  DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends \
    -o DPkg::Lock::Timeout=300 "$@" </dev/null >"$log" 2>&1
}

mapfile -t must < <(missing_of "${required[@]}")
mapfile -t may < <(missing_of "${optional[@]}")
if [ $((${#must[@]} + ${#may[@]})) -eq 0 ]; then
  echo "packages: all there"
  exit 0
fi

as_root=
if [ "$(id -u)" -ne 0 ]; then as_root='sudo env DEBIAN_FRONTEND=noninteractive'; fi
if command_ apt-get && { [ -z "$as_root" ] || command_ sudo; }; then
  echo "packages: installing ${must[*]} ${may[*]}"
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  $as_root apt-get update -qq -o DPkg::Lock::Timeout=300 </dev/null >"$log" 2>&1 ||
    echo "packages: the lists of packages could not all be renewed; going on with those there are"
  # All at once is quickest; one by one tells which of them cannot be had.
  if ! install "${must[@]}" "${may[@]}"; then
    for package in "${must[@]}" "${may[@]}"; do
      install "$package" || { echo "packages: $package cannot be installed:"; tail -n 3 "$log"; }
    done
  fi
fi

for entry in "${optional[@]}"; do
  IFS=: read -r package probe loss <<<"$entry"
  $probe || echo "packages: no $package:$loss"
done
mapfile -t must < <(missing_of "${required[@]}")
if [ ${#must[@]} -gt 0 ]; then
  echo "packages: still missing, and needed: ${must[*]}"
  echo "packages: install them as root, for example: apt-get install ${must[*]}"
  exit 1
fi
