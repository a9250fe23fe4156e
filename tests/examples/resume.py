# SPDX-License-Identifier: BSD-3-Clause
"""Runs that are gone on with otherwise than they began, or of which something is lost: what is said, and what stays.

    resume.py build/examples/gpt2
"""
import pathlib
import shutil
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


def other_numbers(runs):
    """A run that is resumed with other numbers than it began with says so; its batch is its own where none is given."""
    whole = runs.train(*TINY[:-4], '--batch', 4, '--steps', 4)
    out = runs.new_folder()
    runs.train(*TINY[:-4], '--batch', 4, '--steps', 2, out=out)
    done = runs.call('train', '--data', runs.data, *TINY[:-4], '--eval-every', 0, '--out', out, '--resume', '--steps', 4, '--hash')
    need(done.stdout.splitlines()[-1] == whole, 'a resumed run has its own batch')
    need("at step 2; from here on --steps 4 (2 before)\n" in done.stdout, f'it says that there are more steps: {done.stdout}')
    words = ['--batch', 2, '--lr', 1e-3, '--warmup', 7, '--clip', 1, '--beta1', 0.8, '--weight-decay', 0.2]
    done = runs.call('train', '--data', runs.data, *TINY[:-4], '--eval-every', 0, '--out', out, '--resume', '--steps', 5, *words)
    said = next(line for line in done.stdout.splitlines() if line.startswith('resumed '))
    need(all(f'--{text} before)' in said for text in ('lr 0.001 (0.003', 'warmup 7 (50', 'clip 1 (0', 'beta1 0.8 (0.9',
                                                     'weight-decay 0.2 (0.1', 'batch 2 (4', 'steps 5 (4')), f'it says what changes: {said}')
    done = runs.call('train', '--data', runs.data, *TINY[:-4], '--eval-every', 0, '--out', out, '--resume', '--steps', 5, *words)
    need('from here on' not in done.stdout, 'and says nothing where nothing does')


def timed_again(runs):
    """--minutes for a run whose steps are done, and for one whose steps are known."""
    out = pathlib.Path(runs.new_folder())
    runs.train(*TINY, '--steps', 40, '--save-every', 30, out=out)
    words = ['train', '--data', runs.data, *TINY, '--out', out, '--resume', '--minutes', 1]
    done = runs.call(*words)
    need(done.returncode == 0 and 'nothing to train: step 40 of 40' in done.stdout and '--steps, above 40' in done.stdout,
         f'a run that is done says how to train more: {done.stdout}')
    shutil.rmtree(max(out.glob('step-*')))
    done = runs.call(*words)
    need(done.returncode == 0 and 'it keeps to its 40 steps, and --minutes is not timed anew' in done.stdout,
         f'a run whose steps are known keeps to them, and says so: {done.stdout}')


def main():
    runs, = Runs.of_call(__doc__)
    without_optimizer(runs)
    other_numbers(runs)
    timed_again(runs)


main()
