# SPDX-License-Identifier: BSD-3-Clause
"""One training run, killed by SIGKILL again and again, each time within two step times of its start, and resumed: it
never goes back behind a checkpoint, and its last checkpoint is the uninterrupted run's, byte for byte.

    kill.py build/examples/gpt2                20 kills: the suite
    kill.py build/examples/gpt2 --kills 200    200

Instants are spread evenly over the two step times, and every fourth kill waits for a save to begin and falls into it.
A start is shorter than a step here, so the later half of the instants lets a step be saved. Where the machine has become
so slow that the latest instants save nothing, the step time has grown, and the instants follow; as they do back.
"""
import pathlib
import statistics
import subprocess
import sys
import time

from runs import Runs
import usage

# A step takes several times as long as a start, also the first one: many tokens, and text for one batch of validation.
SIZES = ['--preset', 'tiny', '--width', 192, '--heads', 3, '--layers', 1, '--seq', 128, '--batch', 32, '--save-every', 1,
         '--eval-every', 0, '--hash']
TEXT_BYTES = 4000


def need(condition, what):
    if not condition:
        sys.exit(f'BAD {what}')


def spread(index):
    """Van der Corput's sequence 1/2, 1/4, 3/4, 1/8, ...: the first n cover (0, 1) evenly, whatever n is."""
    result, share = 0.0, 0.5
    index += 1
    while index:
        result += share * (index & 1)
        index >>= 1
        share /= 2
    return result


def newest(out, suffix=''):
    """The step of the newest committed checkpoint (of the newest unfinished one), -1 where there is none."""
    names = (path.name.removesuffix(suffix) for path in out.glob('step-*' + suffix))
    return max((int(name[5:]) for name in names if name[5:].isdigit()), default=-1)


class Run:
    """One process that trains in a folder, continuing what is there."""

    def __init__(self, runs, out, steps):
        self.out = out
        self.log = runs.folder / 'log'
        command = [runs.program, 'train', '--data', runs.folder / 'short.txt', '--out', out, '--steps', steps, *SIZES]
        command += ['--resume'] if newest(out) >= 0 else []
        with self.log.open('w') as log:
            self.begin = time.monotonic()
            self.process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=subprocess.STDOUT,
                                            env=runs.environment)

    def wait_until(self, instant, condition=lambda: False):
        """Waits until `instant` seconds after the start, or until the condition holds, or the process has ended."""
        while time.monotonic() - self.begin < instant and not condition() and self.process.poll() is None:
            time.sleep(0.0005)
        return time.monotonic() - self.begin

    def kill(self):
        self.process.kill()
        self.process.wait()
        need(self.process.returncode == -9, f'the run ended by itself, exit {self.process.returncode}: {self.text()}')

    def text(self):
        return self.log.read_text().strip()

    def place(self):
        """Where the run is. What an earlier save left is removed before the line `machine` comes."""
        if 'machine' not in self.text():
            return 'before the first step'
        return 'in a save' if newest(self.out, '.tmp') > newest(self.out) else 'in a step'

    def is_saving(self):
        return self.place() == 'in a save'

    def finish(self):
        """Waits for the end and returns the hash."""
        self.process.wait()
        need(self.process.returncode == 0, f'exit {self.process.returncode}: {self.text()}')
        return self.text().splitlines()[-1]


def uninterrupted(runs, out, steps):
    """Runs to the end; returns the hash and the seconds of a start, of a step and of a save."""
    run = Run(runs, out, steps)
    commits, saves = [], []
    for step in range(1, steps):
        began = run.wait_until(600, lambda: run.is_saving() or newest(out) >= step)
        commits.append(run.wait_until(600, lambda: newest(out) >= step))
        saves.append(commits[-1] - began)
    times = [after - before for before, after in zip(commits, commits[1:])]
    step_time = statistics.median(times)
    return run.finish(), commits[0] - step_time, step_time, statistics.median(saves)


def content(checkpoint):
    return {path.name: path.read_bytes() for path in checkpoint.iterdir()}


def main():
    runs, = Runs.of_call(__doc__, valued=['--kills'])
    kills = usage.number(__doc__, '--kills', 20)
    steps = kills  # a kill saves less than a step on average, so that the last one finds a run to kill
    (runs.folder / 'short.txt').write_bytes(runs.data.read_bytes()[:TEXT_BYTES])
    whole, broken = runs.folder / 'whole', runs.folder / 'broken'

    expected, start, step_time, save = uninterrupted(runs, whole, steps)
    print(f'{steps} steps: hash {expected}, start {start:.3f} s, step {step_time:.3f} s, its save {save:.3f} s', flush=True)
    seen = {'before the first step': 0, 'in a step': 0, 'in a save': 0}
    quiet = step_time
    advanced = 0
    killed = 0
    while killed < kills or (killed < 3 * kills and min(advanced, *seen.values()) == 0):
        before = newest(broken)
        run = Run(runs, broken, steps)
        aimed = killed % 4 == 3
        instant = 2 * step_time * (1 if aimed else spread(killed - killed // 4))
        at = run.wait_until(instant, lambda: aimed and run.is_saving())
        if aimed:
            at = run.wait_until(min(at + save * spread(killed // 4), instant))
        run.kill()
        killed += 1
        after = newest(broken)
        need(after >= before, f'step {before} was saved, and step {after} is the newest after a kill')
        place = run.place()
        seen[place] += 1
        advanced += after > before
        if at > 1.7 * step_time and after == before:
            step_time *= 1.2
        elif after > max(before, 0) + 1:
            step_time = max(step_time / 1.2, quiet)
        print(f'kill {killed:3} after {at:.3f} s, {place}: step {after} is saved', flush=True)
    need(advanced > 0, 'no step was ever saved between two kills')
    need(min(seen.values()) > 0, f'kills fell at one kind of instant only: {seen}')

    found = Run(runs, broken, steps).finish()
    need(found == expected, f'hash {found} after {killed} kills, {expected} without')
    last = f'step-{steps:010}'
    need(content(broken / last) == content(whole / last), 'the last checkpoints differ')
    left = sorted(path.name for path in broken.iterdir())
    need(left == sorted(path.name for path in whole.iterdir()), f'the folder holds {left}')
    print(f'{killed} kills ({", ".join(f"{count} {place}" for place, count in seen.items())}), {advanced} of which saw '
          f'a new checkpoint: hash {found}')


main()
