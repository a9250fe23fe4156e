# SPDX-License-Identifier: BSD-3-Clause
"""A solver that is distributed by MPI calls of its own trains a surrogate: the same lines from 1, 2 and 3 ranks, an
error that falls, and a communicator that is as it was.

    stencil.py build/examples/11_stencil mpiexec.mpich
"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import usage

SKIPPED = 77


def start(program, *launcher):
    return subprocess.run([*launcher, program], capture_output=True, text=True, timeout=300, check=False)


def main(program, launcher):
    alone = start(program)
    if alone.returncode != 0:
        sys.exit(f'without a launcher: exit {alone.returncode}: {alone.stderr}')
    print(alone.stdout, end='')
    errors = [float(error) for error in re.findall(r'step +[0-9]+: error ([0-9.e-]+)', alone.stdout)]
    if len(errors) < 4 or not errors[-1] < 0.2 * errors[0]:
        sys.exit(f'the errors do not fall: {errors}')
    off = float(re.search(r'off by ([0-9.]+) of the change', alone.stdout)[1])
    if not off < 0.5 or 'are as they were' not in alone.stdout:
        sys.exit('the surrogate is no surrogate, or the communicator is not as it was')
    if not launcher:
        print('skipped: there is no mpiexec.mpich (package mpich)')
        sys.exit(SKIPPED)
    for ranks in (2, 3):
        done = start(program, launcher, '-n', str(ranks))
        if done.returncode != 0 or done.stdout != alone.stdout:
            sys.exit(f'{ranks} ranks: exit {done.returncode}: {done.stdout}{done.stderr}')


main(*usage.check(__doc__, 2, 2))
