# SPDX-License-Identifier: BSD-3-Clause
"""Runs that are gone on with otherwise than they began, or of which something is lost: what is said, and what stays.

    resume.py build/examples/gpt2
"""
import pathlib
import sys

from runs import TINY, Runs


def need(condition, what):
    print(f'{"ok " if condition else "BAD"} {what}', flush=True)
    if not condition:
        sys.exit(what)


def without_optimizer(runs):
    """A run whose optimizer's states are gone: it generates, is looked at, and cannot be resumed."""
    out = runs.new_folder()
    runs.train(*TINY, '--steps', 2, out=out)
    words = ['generate', '--run', out, '--tokens', 20]
    before = runs.call(*words).stdout
    lost = next(pathlib.Path(out).rglob('optimizer.safetensors'))
    lost.unlink()
    after = runs.call(*words)
    need(after.returncode == 0 and after.stdout == before, f'weights are enough for text: {after.stderr.strip()}')
    info = runs.call('info', '--run', out)
    need(info.returncode == 0 and 'of the weights all right' in info.stdout and 'needs them' in info.stdout,
         f'info says that the states are gone: {info.stdout} {info.stderr.strip()}')
    done = runs.call('train', *TINY, '--data', runs.data, '--out', out, '--resume', '--steps', 3)
    need(done.returncode == 2 and str(lost) in done.stderr, f'it is not resumed: {done.stderr.strip()}')


def main():
    runs, = Runs.of_call(__doc__)
    without_optimizer(runs)


main()
