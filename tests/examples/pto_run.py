# SPDX-License-Identifier: BSD-3-Clause
"""Runs orchestration functions from shared objects as a user of examples/pto does.

usage: pto_run.py PTO_RUN MATMUL SIMPLE OTHER   OTHER: a shared object that has no program
"""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import usage

ADVICE = 'see pto_run --help'


def main(pto_run, matmul, simple, other):
    # words, exit status, text on stdout, text on stderr
    cases = [
        (['--help'], 0, 'usage: pto_run', ''),
        (['--workers', '1', matmul], 0, 'matmul on 1 workers: largest difference 0.0e+00', ''),
        (['--workers', '2', simple, matmul], 0, 'matmul on 2 workers: largest difference 0.0e+00', ''),
        (['--workers', '8', '--times', '3', simple], 0, '\n'.join(['simple on 8 workers: largest difference 0.0e+00'] * 3),
         ''),
        ([], 2, '', ADVICE),
        (['--workers'], 2, '', ADVICE),
        (['--workers', '0', matmul], 2, '', "no such number: '0'"),
        (['--workers', 'two', matmul], 2, '', "no such number: 'two'"),
        (['--workers', '1025', matmul], 2, '', "no such number: '1025'"),
        (['--times', '-1', matmul], 2, '', "no such number: '-1'"),
        (['--fast', matmul], 2, '', "no option is '--fast'"),
        (['./none.so'], 1, '', './none.so'),
        ([other], 1, '', 'exports no `program`'),
        ([other, simple], 1, 'simple on', 'exports no `program`'),
    ]
    wrong = 0
    for words, status, out, err in cases:
        done = subprocess.run([pto_run, *words], capture_output=True, text=True)
        good = done.returncode == status and out in done.stdout and err in done.stderr and bool(err) == bool(done.stderr)
        wrong += not good
        print(f'{"ok " if good else "BAD"} {words}: exit {done.returncode}: {(done.stderr or done.stdout).strip()[-200:]}')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main(*usage.check(__doc__, 4, 4)))
