# SPDX-License-Identifier: BSD-3-Clause
"""Runs that are gone on with otherwise than they began, or of which something is lost: what is said, and what stays.

    resume.py build/examples/gpt2
"""
import pathlib
import shutil

from runs import TINY, Runs, forge, need


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


def its_own(runs):
    """A run that is resumed without a word on its model and numbers goes on with its own, to its end."""
    numbers = ['--seed', 7, '--lr', 1e-3, '--warmup', 2, '--clip', 0.5, '--beta1', 0.8, '--beta2', 0.9, '--weight-decay', 0.05]
    out = pathlib.Path(runs.new_folder())
    whole = runs.train(*TINY, *numbers, '--steps', 6, '--save-every', 3, out=out)
    copy = pathlib.Path(runs.new_folder())
    shutil.copytree(out / 'step-0000000003', copy / 'step-0000000003')
    shutil.rmtree(out / 'step-0000000006')
    words = ['train', '--data', runs.data, '--eval-every', 0, '--resume']
    done = runs.call(*words, '--out', out, '--hash')
    need(done.returncode == 0 and done.stdout.splitlines()[-1] == whole and "at step 3\n" in done.stdout,
         f'a resumed run has its own model, seed, steps and numbers: {done.stdout} {done.stderr}')
    info = runs.call('info', '--run', out).stdout
    said = 'run        step 6 of 6, batch 2, seed 7, beta1 0.8, beta2 0.9, clip 0.5, lr 0.001, warmup 2, weight-decay 0.05\n'
    need(said in info, f'info says with which: {info}')
    for given, said in ((['--width', 128], "'n_embd' is 64 there but 128 here; a resumed run has its own"),
                        (['--preset', 'small'], "'n_embd' is 64 there but 384 here"), (['--seed', 1], 'began with 7')):
        done = runs.call(*words, '--out', out, *given)
        need(done.returncode == 2 and said in done.stderr, f'{given} is refused: {done.stderr.strip()}')
    done = runs.call(*words, '--out', copy, '--seed', 7, *TINY[:-4], '--lr', 1e-2)
    need(done.returncode == 0 and 'at step 3; from here on --lr 0.01 (0.001 before)\n' in done.stdout,
         f'what is given holds: {done.stdout} {done.stderr}')


def micro_batches(runs):
    """--accumulate is of the run's batch, not of the preset's; so are groups of ranks that are given neither."""
    out = runs.new_folder()
    runs.train(*TINY[:-4], '--batch', 9, '--accumulate', 3, '--steps', 1, out=out)
    words = ['train', '--data', runs.data, '--eval-every', 0, '--resume', '--out', out]
    done = runs.call(*words, '--accumulate', 3, '--steps', 2)
    need(done.returncode == 0 and 'saved at step 2;' in done.stdout, f'a run of 9 is resumed in 3 micro-batches: {done.stderr.strip()}')
    done = runs.call(*words, '--batch', 8, '--accumulate', 3, '--steps', 3)
    need(done.returncode == 2 and '3 micro-batches of the 8 sequences' in done.stderr, f'a batch that is given is looked at: {done.stderr.strip()}')
    done = runs.call(*words, '--batch', 8, '--steps', 3)
    need(done.returncode == 2 and '3 micro-batches of the 8 sequences' in done.stderr and 'give --batch a multiple of 3' in done.stderr,
         f'what would do is a batch that fits, for the micro-batches stay: {done.stderr.strip()}')


def other_text(runs):
    """A text is called by its whole name."""
    out = runs.new_folder()
    runs.train(*TINY, '--steps', 1, out=out)
    named = pathlib.Path(runs.new_folder()) / 'verse 3:16.txt'
    named.parent.mkdir(exist_ok=True)
    named.write_text(pathlib.Path(runs.data).read_text() + ' ')
    done = runs.call('train', *TINY, '--data', named, '--out', out, '--resume', '--steps', 2)
    need(done.returncode == 2 and f"another text than '{named}'" in done.stderr, f'a name with a colon: {done.stderr.strip()}')


def numbers_of_a_file(runs):
    """Numbers that no option could have had are no numbers of a checkpoint, either."""
    out = pathlib.Path(runs.new_folder())
    runs.train(*TINY, '--steps', 2, out=out)
    checkpoint = next(out.glob('step-*'))
    original = (checkpoint / 'manifest.json').read_text()
    for old, new, said in (('"beta1": 0.9', '"beta1": 5.0', '--beta1: 5 does not work'), ('"lr": 0.003', '"lr": -1.0', '--lr: -1 does not work'),
                           ('"warmup": 50.0', '"warmup": 1e300', 'warmup is 1e+300'), ('"warmup": 50.0', '"warmup": -1.0', 'warmup is -1'),
                           ('"steps": 2', '"steps": -2', "'steps' is -2"),
                           ('"n_embd": 64', '"n_embd": 66000', "'n_embd' is 66000 there but 256 here")):
        forge(checkpoint, old, new)
        done = runs.call('train', '--data', runs.data, '--out', out, '--resume')
        need(done.returncode == 2 and said in done.stderr and str(checkpoint) in done.stderr, f'{new} is refused: {done.stderr.strip()}')
        (checkpoint / 'manifest.json').write_text(original)


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


def nothing_to_trace(runs):
    """A run that is resumed behind its last step leaves the trace and the profile of that one alone."""
    out = pathlib.Path(runs.new_folder())
    path = out / 'last.json'
    words = ['train', '--data', runs.data, '--out', out, '--profile']
    done = runs.call(*words, *TINY, '--steps', 2, '--save-every', 1)
    first = (out / 'trace.json').read_text()
    again = runs.call(*words, '--resume', '--trace', path)
    need(done.returncode == 0 and again.returncode == 0 and 'no step was run' in again.stdout and 'the last step is in' not in again.stdout
         and (out / 'trace.json').read_text() == first and not path.exists(), f'no step, no trace: {again.stdout} {again.stderr.strip()}')


def longest_warmup(runs):
    """A run with the longest warm-up that may be given is resumed with it."""
    out = runs.new_folder()
    warmup = ['--warmup', 15 * '9']
    whole = runs.train(*TINY, *warmup, '--steps', 2)
    runs.train(*TINY, *warmup, '--steps', 1, out=out)
    done = runs.call('train', '--data', runs.data, *TINY, '--out', out, '--resume', '--steps', 2, '--hash')
    need(done.returncode == 0 and done.stdout.splitlines()[-1] == whole, f'a long warm-up: {done.stderr.strip()}')


def main():
    runs, = Runs.of_call(__doc__)
    without_optimizer(runs)
    other_numbers(runs)
    its_own(runs)
    micro_batches(runs)
    other_text(runs)
    numbers_of_a_file(runs)
    timed_again(runs)
    nothing_to_trace(runs)
    longest_warmup(runs)


main()
