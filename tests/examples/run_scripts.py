# SPDX-License-Identifier: BSD-3-Clause
"""bench/run and tests/run, with programs that only say how they were called in place of meson, ninja and the benches:
paths are the caller's, a bench that is not there is refused before others run, warnings are not forgotten,
and tests that ended early have failed.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import usage
from quickstart import program
from runs import need

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SAY = 'echo "$(basename "$0")|$*"'
TARGETS = 'echo "bench/bench_gpt2: C"; echo "bench/bench_gemm: C"'
# Compiles what it has no log of.
WARNING = 'test -f build/.ninja_log || { touch build/.ninja_log; echo "a.cc:1:1: warning: of a name"; }'

# Has run one of its tests, and ends so.
ENDS = """test "$1" = test || exit 0
mkdir -p build/meson-logs
echo '{"name": "core/box", "result": "OK"}' >build/meson-logs/release.json
exit """


def shell(path, text):
    program(path, f'#!/bin/sh\n{text}\n')


def main():
    usage.check(__doc__, 0, 0)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        root, elsewhere = folder / 'a clone', folder / 'elsewhere'
        elsewhere.mkdir()
        for name in 'bench/run', 'bench/summary.py', 'bench/bars.json', 'bench/gpt2.cc', 'bench/gemm.cc', 'tests/run', \
                'tests/count.py', 'tests/usage.py':
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / name, root / name)
        shell(root / 'bin/meson', '')
        for bench in 'gpt2', 'gemm':
            shell(root / 'build/bench' / f'bench_{bench}', SAY)
        (root / 'build/build.ninja').touch()
        environment = {**os.environ, 'PATH': f'{root}/bin:{os.environ["PATH"]}'}

        def call(script, *words, ninja):
            shell(root / 'bin/ninja', ninja)
            return subprocess.run([root / script, *words], cwd=elsewhere, env=environment, capture_output=True, text=True)

        done = call('bench/run', '--out', 'mine', '--torch', 'an environment/python', '--llmc', '/b/train', 'gpt2', ninja=TARGETS)
        said = [line for line in done.stdout.splitlines() if line.startswith('bench_gpt2|')]
        need(said == [f'bench_gpt2|--json {elsewhere}/mine/gpt2.json --torch {elsewhere}/an environment/python --llmc /b/train'],
             f'paths are the caller\'s: {said}{done.stderr}')
        done = call('bench/run', '--torch', 'python3', 'gpt2', ninja=TARGETS)
        need('--json build/bench/results/gpt2.json --torch python3\n' in done.stdout, f'a name alone is one of the PATH: {done.stdout}')
        need(done.returncode == 0, f'a run ends well: {done.returncode} {done.stderr}')
        (root / 'bench/plot.py').write_text('raise SystemExit(1)\n')
        done = call('bench/run', 'gpt2', ninja=TARGETS)
        need(done.returncode == 1, f'and not where a picture is not drawn: {done.returncode} {done.stderr}')
        done = call('bench/run', 'gemm', 'gem', ninja=TARGETS)
        need(done.returncode == 2 and "no bench 'gem'" in done.stderr and 'bench_gemm' not in done.stdout,
             f'no bench runs before one that is not there is refused: {done.returncode} {done.stdout[-200:]}')
        for word in '--out', '--torch':
            need(call('bench/run', word, '', ninja='').returncode == 2, f'{word} of nothing is refused')
        for again in 'once', 'again':
            done = call('tests/run', 'build', ninja=WARNING)
            need('== build failed' in done.stdout, f'a warning fails the build {again}: {done.stdout}')
        done = call('tests/run', 'build', ninja='')
        need('== build failed' not in done.stdout, f'and no other one: {done.stdout}')
        for status, counted in ('0', '1 passed, 0 failed'), ('137', '1 passed, 1 failed'):
            shell(root / 'bin/meson', ENDS + status)
            done = call('tests/run', 'release', ninja='')
            need(done.stdout.splitlines()[-1] == f'{counted}, 0 skipped', f'tests that end with {status}: {done.stdout}')


main()
