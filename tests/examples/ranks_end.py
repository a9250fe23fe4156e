# SPDX-License-Identifier: BSD-3-Clause
"""Ranks that end before their time. One that is killed at a random instant ends the job, within two seconds in the long
form, half of the times under a launcher that would not, and the run goes on from its last checkpoint on another number of ranks, to the
hash of the uninterrupted run. Ctrl-C at one rank makes all save the same step. One that is stopped is named by what the
others say that they wait for; asked to end meanwhile, they do, and leave the last checkpoint as it was. A rank of another
host, as its name says, is found dead, and silent, by heartbeats.

    ranks_end.py build/examples/gpt2 mpiexec.mpich               10 kills, 4 times Ctrl-C: the suite
    ranks_end.py build/examples/gpt2 mpiexec.mpich --kills 100   100 kills, 20 times Ctrl-C
"""
import atexit
import os
import pathlib
import random
import re
import shlex
import signal
import subprocess
import sys
import time

from runs import Runs, digest
import usage

SIZES = ['--preset', 'tiny', '--width', 64, '--heads', 2, '--layers', 1, '--seq', 64, '--batch', 4, '--eval-every', 0,
         '--groups', 'batch=4,head=2', '--workers', 1, '--hash']
SHARED = [(2, 'fsdp'), (3, 'zero1'), (4, 'fsdp'), (2, 'tensor'), (3, 'ddp')]
GUARD = 240  # seconds; what a launcher and a busy machine take is printed


def need(condition, what):
    if not condition:
        sys.exit(f'BAD {what}')


def newest(out):
    return max((int(path.name[5:]) for path in pathlib.Path(out).glob('step-*') if path.name[5:].isdigit()), default=-1)


class Job:
    """Ranks that train in a folder, continuing what is there."""

    def __init__(self, runs, launcher, ranks, parallel, out, steps, wrapper=(), save_every=1):
        command = [launcher, '-n', ranks, *wrapper, runs.program, 'train', '--data', runs.data, '--out', out, '--steps', steps,
                   '--parallel', parallel, '--save-every', save_every, *SIZES]
        command += ['--resume'] if newest(out) >= 0 else []
        self.log = runs.folder / 'log'
        with self.log.open('w') as log:
            self.process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=subprocess.STDOUT,
                                            env=runs.environment, start_new_session=True)
        self.ranks = ranks
        self.found = []
        atexit.register(self.clear)

    def clear(self):
        """Leaves nothing behind, where a check has failed."""
        if self.process.poll() is None:
            for pid in self.alive(self.found):
                os.kill(pid, signal.SIGKILL)
            self.end()

    def text(self):
        return self.log.read_text()

    def pids(self, seconds=GUARD):
        """Of the ranks, which the first lines say."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if found := re.search(r'processes ([\d, ]+)\n', self.text()):
                self.found = [int(pid) for pid in found[1].split(',')]
                return self.found
            need(self.process.poll() is None, f'the job ended by itself, exit {self.process.returncode}: {self.text()}')
            time.sleep(0.001)
        sys.exit(f'BAD no ranks were named: {self.text()}')

    def alive(self, pids):
        """Those that have not ended; the launcher is not asked, which may not look."""
        def lives(pid):
            try:
                return pathlib.Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()[0] not in 'ZX'
            except OSError:
                return False
        return [pid for pid in pids if lives(pid)]

    def see_end(self, pids, why):
        """Waits until none of them lives, some of which a launcher that has ended may have killed just now; the seconds."""
        began = time.monotonic()
        while self.alive(pids) and time.monotonic() - began < GUARD:
            time.sleep(0.005)
        need(not self.alive(pids), f'ranks live {GUARD} s after {why}: {self.text()}')
        return time.monotonic() - began

    def wait(self, seconds=300):
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.end()
            sys.exit(f'BAD the job has not ended in {seconds} s: {self.text()}')
        return self.text()

    def hear(self, words, began):
        """Waits until the launcher has passed on words of a rank, or has ended, having killed that rank itself."""
        while words not in self.text() and self.process.poll() is None and time.monotonic() - began < GUARD:
            time.sleep(0.005)

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def check_hosts(runs, launcher, step_time):
    """Rank 1 runs under another host name, and no death is seen by the launcher."""
    apart = ['unshare', '--uts', 'sh', '-c', 'hostname "$0" && exec "$@"', 'the-other-host']
    if subprocess.run([*apart, 'true'], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        print('not tried: ranks of two hosts, for which a process must be allowed to take another host name')
        return
    wrapper = ['sh', '-c', f'if [ "$PMI_RANK" = 1 ]; then set -- {shlex.join(apart)} "$@"; fi; "$@" || sleep 30', 'sh']
    for victim in (0, 1):
        # Where MPI itself aborts a survivor, the launcher may kill it before it has said why: again, then.
        for left in range(7, -1, -1):
            if check_death_elsewhere(runs, launcher, wrapper, victim, step_time, must_say=left == 0):
                break


def check_death_elsewhere(runs, launcher, wrapper, victim, step_time, must_say):
    """Kills one of two ranks of two hosts; whether the other one has said so, which it must if `must_say`."""
    job = Job(runs, launcher, 2, 'fsdp', runs.new_folder(), 1_000_000, wrapper, save_every=0)
    pids = job.pids()
    time.sleep(10 * step_time)
    for before in (3, 10, 30) if victim == 1 else ():
        time.sleep(before)  # of a rank that has never answered nothing is said
        os.kill(pids[victim], signal.SIGSTOP)
        until = time.monotonic() + 25  # it is taken for gone after 30 s
        while 'is silent for' not in job.text() and time.monotonic() < until:
            time.sleep(0.05)
        os.kill(pids[victim], signal.SIGCONT)
        if 'is silent for' in job.text():
            break
    if victim == 1:
        need("on 'the-other-host') is silent for" in job.text(), f'of a stopped rank elsewhere: {job.text()}')
        need('died' not in job.text(), f'a stopped rank counts as dead: {job.text()}')
        time.sleep(0.5)
    os.kill(pids[victim], signal.SIGKILL)
    began = time.monotonic()
    took = job.see_end(pids, 'the death of one elsewhere')
    job.hear('has died', began)
    said = 'has died' in job.text()
    need(said or not must_say, f'nothing is said of a dead rank elsewhere: {job.text()}')
    print(f'rank {victim}, of another host, killed: ended in {took:.2f} s{"" if said else ", the launcher was faster"}',
          flush=True)
    job.end()
    return said


def check_stalled(runs, launcher, signals, seconds):
    """Signals to one of two ranks, the other one of which is stopped: the step does not end, but the job does."""
    out = runs.new_folder()
    Job(runs, launcher, 2, 'ddp', out, 3).wait()
    kept = digest(out)
    job = Job(runs, launcher, 2, 'ddp', out, 1_000_000, save_every=0)
    pids = job.pids()
    time.sleep(1)
    os.kill(pids[1], signal.SIGSTOP)
    time.sleep(0.5)
    for number in range(signals):
        time.sleep(1.2 * number)  # what comes within a second of the first is taken for the same wish
        os.kill(pids[0], signal.SIGTERM)
        os.kill(pids[0], signal.SIGTERM)
    began = time.monotonic()
    text = job.wait(GUARD)
    took = time.monotonic() - began
    said = [line for line in text.splitlines() if line.startswith('gpt2: ') and ' takes ' not in line]
    words = 'a second time' if signals > 1 else 'asked to end 10 s ago'
    need(len(said) == 1 and words in said[0] and re.search(r' (from|to) rank 1, ', said[0]) and out in said[0],
         f'said of a step that cannot end: {text}')
    need(job.process.returncode not in (0, None), f'exit {job.process.returncode}: {text}')
    job.see_end(pids, 'the end of their launcher')
    need(seconds - 1 < took, f'{took:.1f} s from the last of {signals} signals to the end: {text}')
    need(digest(out) == kept, f'the checkpoint is another: {text}')
    print(f'SIGTERM to a rank whose step cannot end, {signals} times: ended in {took:.2f} s: {said[0]}', flush=True)


def main():
    runs, plain = Runs.of_call(__doc__, 2, 2, valued=['--kills'])
    runs.need_mpi(plain)
    kills = usage.number(__doc__, '--kills', 10)
    interrupts = 20 if kills >= 100 else 4
    random.seed(20261123)
    # The launcher sees no rank die: that is another process's child. On a busy machine the others need time to.
    careless = ['sh', '-c', '"$@" || sleep 30', 'sh']

    steps = 5 * kills
    whole = runs.new_folder()
    begin = time.monotonic()
    expected = Job(runs, plain, 2, 'fsdp', whole, steps).wait().strip().splitlines()[-1]
    need(re.fullmatch(r'[0-9a-f]{16}', expected), f'no hash: {expected}')
    step_time = (time.monotonic() - begin) / steps
    print(f'{steps} steps of {step_time:.3f} s: hash {expected}', flush=True)

    broken = runs.new_folder()
    slowest, lost = 0.0, 0
    for kill in range(kills):
        ranks, parallel = SHARED[kill % len(SHARED)]
        job = Job(runs, plain, ranks, parallel, broken, steps, careless if kill % 2 else ())
        pids = job.pids()
        time.sleep(random.uniform(0, 6) * step_time)
        before = newest(broken)
        if job.process.poll() is not None:  # too late: it has come to its end
            need(job.text().strip().splitlines()[-1] == expected, f'hash {job.text()}')
            break
        victim = random.choice(pids)
        os.kill(victim, signal.SIGKILL)
        began = time.monotonic()
        took = job.see_end(pids, f'the death of rank {pids.index(victim)}')
        slowest = max(slowest, took)
        need(took <= 2 or kills < 100, f'{took:.2f} s from the death of rank {pids.index(victim)}: {job.text()}')
        job.hear('has died', began)
        job.end()
        need(newest(broken) >= before, f'step {before} was saved, and {newest(broken)} is the newest after a kill')
        said = [line for line in job.text().splitlines() if line.startswith('gpt2: ') and ' takes ' not in line]
        need(all('has died' in line for line in said) and (said or kill % 2 == 0), f'said {said} of {job.text()}')
        lost += not said
        print(f'kill {kill + 1:3} of rank {pids.index(victim)} of {ranks} ({parallel}): ended in {took:.2f} s, step '
              f'{newest(broken)} is saved; {said[0] if said else "the launcher was faster"}', flush=True)
    found = Job(runs, plain, 3, 'fsdp', broken, steps).wait().strip().splitlines()[-1]
    need(found == expected, f'hash {found} after {kills} kills, {expected} without')

    for interrupt in range(interrupts):
        ranks, parallel = SHARED[interrupt % len(SHARED)]
        out = runs.new_folder()
        job = Job(runs, plain, ranks, parallel, out, 1_000_000, save_every=0)
        pids = job.pids()
        time.sleep(random.uniform(0, 10) * step_time)
        os.kill(random.choice(pids), signal.SIGINT)
        text = job.wait()
        need(job.process.returncode == 0, f'exit {job.process.returncode} after Ctrl-C: {text}')
        saved = re.search(r'interrupted: saved at step (\d+)', text)
        need(saved and int(saved[1]) == newest(out), f'step {newest(out)} is saved: {text}')
        print(f'Ctrl-C at one of {ranks} ranks ({parallel}): all saved step {newest(out)}', flush=True)

    job = Job(runs, plain, 2, 'ddp', runs.new_folder(), 1_000_000, save_every=0)
    pids = job.pids()
    time.sleep(20 * step_time)
    os.kill(pids[1], signal.SIGSTOP)
    until = time.monotonic() + GUARD
    waits = re.compile(r'gpt2: rank 0: step .* (from|to) rank 1,.*')  # a receive, or a send that it does not take
    while not waits.search(job.text()) and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(pids[1], signal.SIGCONT)
    need(waits.search(job.text()), f'nothing is said of a stopped rank: {job.text()}')
    need('died' not in job.text(), f'a stopped rank counts as dead: {job.text()}')
    print(waits.search(job.text())[0])
    os.kill(pids[0], signal.SIGINT)
    need('interrupted' in job.wait(), f'a rank that goes on: {job.text()}')
    check_stalled(runs, plain, 1, 10)
    check_stalled(runs, plain, 2, 0)
    check_hosts(runs, plain, step_time)
    print(f'{kills} kills, the slowest end {slowest:.2f} s, {lost} of them said by the launcher alone: hash {found}')


main()
