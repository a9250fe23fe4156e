# SPDX-License-Identifier: BSD-3-Clause
"""A trainer that runs out of file size, of memory, or of permissions, at each of many points: one line that says what and
what would help, an exit code, and the last checkpoint as it was. A damaged checkpoint is refused, and the one before it
leads to the same end.

    faults.py build/examples/gpt2
"""
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

from runs import TINY, Runs, digest

NOBODY = 65534


class Trainer:
    """A run of three steps, to be resumed for a fourth under some restriction."""

    def __init__(self, runs):
        self.runs = runs
        self.out = pathlib.Path(runs.new_folder())
        runs.train(*TINY, '--steps', 3, out=self.out)
        self.good = digest(self.out)
        self.refusals = 0
        self.shown = ''

    def resume(self, what, words, restrict):
        """Returns whether the step was saved; exits unless it was, or was refused as it should be."""
        done = self.runs.call('train', '--data', self.runs.data, *TINY, '--out', self.out, '--resume', '--steps', 4,
                              preexec_fn=restrict)
        if done.returncode == 0:
            print(f'ok  {what}: enough', flush=True)
            return True
        text = own_lines(done.stderr)
        if done.returncode < 0 or len(text.splitlines()) != 1 or not any(word in text for word in words):
            sys.exit(f'BAD {what}: exit {done.returncode}: {text}')
        if digest(self.out) != self.good:
            sys.exit(f'BAD {what}: the checkpoint has changed: {text}')
        if text != self.shown:
            print(f'ok  {what}: {text}', flush=True)
        self.shown = text
        self.refusals += 1
        return False


def own_lines(text):
    """What the trainer wrote; MPICH's transport, UCX, adds a line where its own mmap fails."""
    return '\n'.join(line for line in text.strip().splitlines() if not re.match(r'\[\S+:\d+ *:\d+:\d+\] mmap', line))


def limit(what, value):
    return lambda: resource.setrlimit(what, (value, value))


def file_sizes(trainer):
    """RLIMIT_FSIZE at each boundary of each file of a checkpoint, one byte less, and between."""
    sizes = sorted(path.stat().st_size for path in trainer.out.glob('step-*/*'))
    points = {0, 1, 8} | {size * part // 8 - (part == 8) for size in sizes for part in range(1, 9)}
    for value in sorted(points):
        if trainer.resume(f'files of at most {value} bytes', ['File too large; raise the limit'],
                          limit(resource.RLIMIT_FSIZE, value)):
            sys.exit('BAD a limit that is less than a file was enough')
    if trainer.refusals < 20:
        sys.exit(f'BAD {trainer.refusals} limits were tried')


def permissions(trainer):
    """A folder that the user may read and not write."""
    trainer.runs.folder.chmod(0o755)

    def restrict():
        if os.geteuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)

    try:
        trainer.runs.call('--help', preexec_fn=restrict)
    except OSError as error:
        print(f'skipped: another user cannot run the trainer: {error}')
        return
    for path in [trainer.out, *trainer.out.glob('step-*')]:
        path.chmod(0o555)
    if trainer.resume('a folder that is read-only', ["step-0000000000.tmp': Permission denied; give"], restrict):
        sys.exit('BAD a run was saved where nobody may write')
    for path in [trainer.out, *trainer.out.glob('step-*')]:
        path.chmod(0o755)


def freed_disk(runs):
    """A limit that no checkpoint fits under, raised while the run goes on: warnings until then, and a good end."""
    out = pathlib.Path(runs.new_folder())
    process = subprocess.Popen([runs.program, 'train', '--data', str(runs.data), '--out', str(out), *map(str, TINY), '--steps',
                                '400', '--save-every', '1'], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               env=runs.environment,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY)))
    first = process.stderr.readline()
    before = [path.name for path in out.glob('step-*') if not path.name.endswith('.tmp')]
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    rest = process.stderr.read().splitlines()
    lines = [first, *rest]
    if process.wait() != 0 or before or not (out / 'step-0000000400').is_dir() or not all(
            line.startswith('warning: step ') and 'File too large; raise' in line for line in lines):
        sys.exit(f'BAD a disk that is freed: exit {process.returncode}, {before}: {lines[-1]}')
    print(f'ok  a disk that is freed: {len(lines)} warnings: {first.strip()}', flush=True)


def times_of_unsaved(runs):
    """A run that is not saved in the end says all the same where its time went; nothing of it is in a folder that is another run's."""
    out, trace = pathlib.Path(runs.new_folder()), runs.folder / 'unsaved.json'
    words = ['train', '--data', str(runs.data), *map(str, TINY), '--profile']
    done = runs.call(*words, '--out', out, '--steps', 3, '--trace', trace, preexec_fn=limit(resource.RLIMIT_FSIZE, 100_000))
    if (done.returncode != 2 or 'waiting and overhead' not in done.stdout or not trace.exists() or not (out / 'trace.json').exists()
            or not own_lines(done.stderr).startswith('gpt2: step 3 is not saved')):
        sys.exit(f'BAD a profile of a run that is not saved: exit {done.returncode}: {done.stdout[-300:]} {done.stderr}')
    out = pathlib.Path(runs.new_folder())
    words += ['--out', str(out), '--steps', '1000000', '--save-every', '0', '--eval-every', '1']
    first = subprocess.Popen([runs.program, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=runs.environment)
    next(line for line in first.stdout if line.startswith('step      5  validation loss'))
    out.rename(out.with_name('moved'))
    out.mkdir()
    first.send_signal(signal.SIGTERM)
    text = first.communicate()[0]
    if first.returncode != 2 or 'waiting and overhead' not in text or list(out.iterdir()):
        sys.exit(f'BAD a profile of a run whose folder was replaced: exit {first.returncode}: {list(out.iterdir())} {text[-300:]}')
    print('ok  times of runs that are not saved', flush=True)


def resumed_in_vain(runs):
    """A run that is resumed at its last step, more often than it has steps: each time it can be resumed again."""
    out = pathlib.Path(runs.new_folder())
    expected = runs.train(*TINY, '--steps', 1, out=out)
    for times in range(1, 7):
        found = runs.train(*TINY, '--steps', 1, '--resume', out=out)
        if found != expected:
            sys.exit(f'BAD resumed {times} times: hash {found} where {expected} was expected')
    print(f'ok  resumed {times} times at the last step', flush=True)


def timed(runs):
    """Runs of --minutes: those of --steps end no sooner, and one that is resumed is timed, too."""
    for words in (['--steps', 5], ['--resume']):
        out = pathlib.Path(runs.new_folder())
        if '--resume' in words:
            runs.train(*TINY, '--steps', 19, out=out)
        runs.train(*TINY, *words, '--minutes', 0.05, out=out)
        newest = max(out.glob('step-*')).name
        if newest <= 'step-0000000040':  # as many as there are at least
            sys.exit(f'BAD {words} for 0.05 minutes: {newest}')
    print('ok  runs that are timed', flush=True)


def replaced_folder(runs):
    """A run's folder that is removed and made anew by a second run: the first writes nothing into it."""
    out = pathlib.Path(runs.new_folder())
    words = ['train', '--data', str(runs.data), '--out', str(out), *map(str, TINY)]
    first = subprocess.Popen([runs.program, *words, '--steps', '1000000', '--save-every', '20'], stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True, env=runs.environment)
    while not list(out.glob('step-*[0-9]')):
        time.sleep(0.01)
    out.rename(out.with_name('away'))
    second = runs.call(*words, '--steps', 3)
    good = digest(out)
    line = next((line for line in first.stderr if 'was removed or replaced' in line), '')
    first.send_signal(signal.SIGTERM)
    rest = first.stderr.read().splitlines()
    if (second.returncode != 0 or line == '' or first.wait() != 2
            or 'was removed or replaced' not in rest[-1] or digest(out) != good):
        sys.exit(f'BAD a folder that was replaced: exit {second.returncode} {first.returncode}: {line} {rest}')
    print(f'ok  a folder that was replaced: {line.strip()}', flush=True)


def memory(trainer):
    """RLIMIT_AS from what starts the program at all, upwards, until the run succeeds."""
    step = 1 << 18
    size = step
    while trainer.runs.call('--help', preexec_fn=limit(resource.RLIMIT_AS, size)).returncode != 0:
        size += step
    before = trainer.refusals
    help_ = ['free some', 'ask for fewer workers', 'use larger tiles (--tile) or a smaller model', 'not enough memory for',
             'name a smaller one']
    while not trainer.resume(f'{size >> 10} KiB of addresses', help_, limit(resource.RLIMIT_AS, size)):
        size += step
    if trainer.refusals < before + 10:
        sys.exit('BAD what starts the program was almost enough for the run')


def damage(runs):
    """One bit of the newest checkpoint; then training from the one before."""
    expected = runs.train(*TINY, '--steps', 6)
    out = pathlib.Path(runs.new_folder())
    runs.train(*TINY, '--steps', 4, '--save-every', 1, out=out)
    older, newest = sorted(out.glob('step-*'))
    for path in newest.iterdir():
        content = path.read_bytes()
        path.write_bytes(content[:-9] + bytes([content[-9] ^ 16]) + content[-8:])
        good = digest(out)
        done = runs.call('train', '--data', runs.data, *TINY, '--out', out, '--resume', '--steps', 6)
        text = done.stderr.strip()
        if done.returncode <= 0 or len(text.splitlines()) != 1 or str(path) not in text or digest(out) != good:
            sys.exit(f'BAD a bit of {path.name}: exit {done.returncode}: {text}')
        print(f'ok  a bit of {path.name}: {text}', flush=True)
        path.write_bytes(content)
    shutil.rmtree(newest)
    found = runs.train(*TINY, '--steps', 6, '--resume', out=out)
    if found != expected:
        sys.exit(f'BAD from {older.name}: hash {found} where {expected} was expected')
    print(f'ok  from {older.name}: {found}')


def main():
    runs, = Runs.of_call(__doc__)
    trainer = Trainer(runs)
    file_sizes(trainer)
    permissions(trainer)
    freed_disk(runs)
    times_of_unsaved(runs)
    resumed_in_vain(runs)
    timed(runs)
    replaced_folder(runs)
    memory(trainer)
    damage(runs)
    print(f'{trainer.refusals} refusals left the checkpoint as it was')


main()
