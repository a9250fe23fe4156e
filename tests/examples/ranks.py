# SPDX-License-Identifier: BSD-3-Clause
"""Equal bits over ranks, end to end: the golden hash of a training run with canonical groups comes out of 1 to 4
processes of MPI, however they share the model, on every runtime, for two tilings, with clipping, and when resumed by
another number of ranks on another mesh; so does that of a run whose steps add up the gradients of micro-batches; so do
ranks whose machines are not alike. And what is wrong with a start, or a step, is one line of one rank, and all are out
within seconds.

    ranks.py build/examples/gpt2 mpiexec.mpich            one run of each way to share: the suite
    ranks.py build/examples/gpt2 mpiexec.mpich --full     20 steps; all of ranks x sharing x runtimes x tilings

A shared object behind these, of fail_send.c, fails a send of one rank.
"""
import itertools
import os
import pathlib
import signal
import subprocess
import sys

from runs import GOLDEN, Runs, digest

OUT = 120  # seconds, in which all ranks have ended where one of them fails, on a busy machine

GROUPS = 'batch=4,head=4,hidden=4,vocab=4,seq=2'
# Ranks, --parallel, --mesh.
SHARED = [(1, 'ddp', ''), (2, 'ddp', ''), (3, 'ddp', ''), (4, 'ddp', ''), (2, 'zero1', ''), (3, 'zero1', ''),
          (4, 'zero1', ''), (2, 'fsdp', ''), (3, 'fsdp', ''), (4, 'fsdp', ''), (2, 'tensor', ''), (4, 'tensor', ''),
          (2, 'sequence', ''), (2, 'pipeline', ''), (4, 'tensor+ddp', 'tensor=2,data=2'),
          (4, 'fsdp+sequence', 'seq=2,data=2'), (4, 'pipeline+zero1', 'pipe=2,data=2')]
SHORT = [(1, 'ddp', ''), (2, 'ddp', ''), (3, 'zero1', ''), (4, 'fsdp', ''), (2, 'tensor', ''), (2, 'sequence', ''),
         (2, 'pipeline', ''), (4, 'tensor+zero1', 'tensor=2,data=2')]
TILINGS = ['128', 'embed=64+192,hidden=64+192,batch=1,head=1,vocab=64']


def main():
    full = '--full' in sys.argv
    runs, launcher, *fault = Runs.of_call(__doc__, 2, 3, ['--full'])
    runs.need_mpi(launcher)

    def start(ranks, *arguments, seconds=300):
        command = [launcher, '-n', ranks, runs.program, *arguments]
        with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              errors='replace', env=runs.environment, start_new_session=True) as process:
            try:
                out, error = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                sys.exit(f'BAD {" ".join(map(str, arguments))}: not ended in {seconds} s: {process.communicate()[1]}')
        return subprocess.CompletedProcess(command, process.returncode, out, error)

    def train(ranks, parallel, mesh, *arguments, out=None):
        share = ['--parallel', parallel] + (['--mesh', mesh] if mesh else [])
        done = start(ranks, 'train', '--data', runs.data, '--out', out or runs.new_folder(), '--hash', '--eval-every', 0,
                     *share, *arguments)
        if done.returncode != 0:
            sys.exit(f'{ranks} ranks {" ".join(map(str, [*share, *arguments]))}: exit {done.returncode}: {done.stderr}')
        return done.stdout.strip().splitlines()[-1]

    wrong = 0

    def check(what, found, expected):
        nonlocal wrong
        wrong += found != expected
        print(f'{"ok " if found == expected else "BAD"} {found} {what}', flush=True)

    steps = 20 if full else 3
    size = ['--preset', 'tiny', '--batch', 4, '--groups', GROUPS]
    fma = any(isa in ('v3', 'v4') for isa in runs.isas())
    golden = dict(line.split() for line in (GOLDEN / 'gpt2_tiny.txt').read_text().splitlines() if line[:1] != '#')
    expected = golden['groups_full' if full else 'groups'] if fma else runs.train(*size, '--steps', steps)
    runtimes = [('serial', 1), ('ring', 1), ('ring', 2)] + [('starpu', 1)] * ('starpu' in runs.runtimes())
    if full:
        cases = itertools.product(SHARED, runtimes, TILINGS)
    else:
        cases = zip(SHORT, itertools.cycle(runtimes), itertools.cycle(TILINGS))
    for (ranks, parallel, mesh), (runtime, workers), tiling in cases:
        check(f'{ranks} ranks {parallel} {mesh} {runtime} {workers} tile {tiling}',
              train(ranks, parallel, mesh, *size, '--steps', steps, '--tile', tiling, '--runtime', runtime, '--workers',
                    workers), expected)

    clipped = runs.train(*size, '--steps', steps, '--clip', 0.1)
    check('3 ranks fsdp, clipped', train(3, 'fsdp', '', *size, '--steps', steps, '--workers', 1, '--clip', 0.1), clipped)
    if clipped == expected:
        sys.exit('clipping changed nothing')
    # 4 sequences in each of 2 micro-batches, on any ranks and resumed on others: the bits of one process.
    micro = [*size[:3], 8, *size[4:], '--accumulate', 2]
    accumulated = golden['micro_full' if full else 'micro'] if fma else runs.train(*micro, '--steps', steps)
    for (ranks, parallel, mesh), tiling in zip(SHARED if full else [(4, 'tensor+zero1', 'tensor=2,data=2')],
                                               itertools.cycle(reversed(TILINGS))):
        check(f'{ranks} ranks {parallel} {mesh} tile {tiling}, micro-batches',
              train(ranks, parallel, mesh, *micro, '--steps', steps, '--tile', tiling, '--workers', 1), accumulated)
    if accumulated in (expected, runs.train(*micro[:-2], '--steps', steps)):
        sys.exit('micro-batches changed nothing')
    clipped = runs.train(*micro, '--steps', steps, '--clip', 0.1)
    out = runs.new_folder()
    train(4, 'fsdp', '', *micro, '--steps', steps // 3, '--workers', 1, '--clip', 0.1, out=out)
    train(2, 'tensor', '', '--steps', 2 * (steps // 3), '--workers', 1, '--resume', out=out)  # all else is the run's own
    check('micro-batches, clipped, 4 ranks fsdp, then 2 tensor, then 1',
          runs.train('--steps', steps, '--resume', out=out), clipped)

    # In bf16, whose casts run where they are read; resumed by others, which know the dtype.
    narrow = [*size, '--dtype', 'bf16']
    mixed = runs.train(*narrow, '--steps', steps)
    for (ranks, parallel, mesh), tiling in zip(SHARED if full else [(4, 'fsdp', ''), (2, 'pipeline', '')],
                                               itertools.cycle(reversed(TILINGS))):
        check(f'{ranks} ranks {parallel} {mesh} tile {tiling}, bf16',
              train(ranks, parallel, mesh, *narrow, '--steps', steps, '--tile', tiling, '--workers', 1), mixed)
    out = runs.new_folder()
    train(3, 'zero1', '', *narrow, '--steps', steps // 3, '--workers', 1, out=out)
    check('bf16, 3 ranks zero1, then 2 tensor',
          train(2, 'tensor', '', *size, '--steps', steps, '--workers', 1, '--resume', out=out), mixed)

    out = runs.new_folder()
    train(4, 'fsdp', '', *size, '--steps', steps // 3, '--workers', 1, out=out)
    train(2, 'tensor', '', *size, '--steps', 2 * (steps // 3), '--workers', 1, '--resume', out=out)
    check('4 ranks fsdp, then 2 tensor, then 1', runs.train(*size, '--steps', steps, '--resume', out=out), expected)

    # Machines that are not alike plan as rank 0's does: the tile of `auto` depends on the workers.
    for first, second in [(['--workers', 1], ['--workers', 2]), (['--workers', 2], ['--runtime', 'serial', '--workers', 1])]:
        same = ['train', '--data', runs.data, '--out', runs.new_folder(), '--hash', '--eval-every', 0, *size, '--steps', steps]
        done = start(1, *same, *first, ':', '-n', 1, runs.program, *same, *second, seconds=60)
        check(f'rank 0 {" ".join(map(str, first))}, rank 1 {" ".join(map(str, second))}',
              (done.stdout.strip().splitlines() or [done.stderr])[-1], expected)

    def refuse(done, words, what):
        nonlocal wrong
        lines = [line for line in done.stderr.splitlines() if line.startswith('gpt2: ')]
        # One line, and on a very busy machine the same from another rank before the first has ended it.
        alike = len({line.split('rank ', 1)[-1].split(': ', 1)[-1] for line in lines}) == 1
        good = done.returncode != 0 and alike and all(word in lines[0] for word in words)
        wrong += not good
        print(f'{"ok " if good else "BAD"} {what}: {done.stderr.strip().splitlines()[0]}', flush=True)

    def fail(ranks, *arguments):
        return start(ranks, *arguments, seconds=OUT)

    here = ['--data', runs.data, '--out', runs.new_folder(), *size, '--steps', 1]
    refuse(fail(2, 'train', *here, '--mesh', 'data=3'), ['mesh of 3 ranks', 'there are 2'], 'a mesh of another size')
    refuse(fail(2, 'train', *here, '--parallel', 'fdsp'), ["no preset 'fdsp'", 'fsdp'], 'an unknown preset')
    refuse(fail(2, 'train', *here, '--parallel', 'tensor+ddp'), ['--mesh'], 'a mesh that is not said')
    refuse(fail(2, 'train', *here, '--parallel', 'ddp+zero1'), ['ddp and zero1', "both over axis 'data'"], 'two presets over an axis')
    refuse(fail(2, 'train', *here, '--mesh', 'data=2,data=1'), ["axis 'data' comes twice in 'data=2,data=1'"], 'an axis of the mesh twice')
    refuse(fail(2, 'train', *here, '--frobnicate'), ['--frobnicate'], 'an unknown option')
    refuse(fail(2, 'train', *here, '--accumulate', 3), ['--accumulate: 3', '4 sequences'], 'micro-batches of no size')
    refuse(fail(1, 'train', *here, '--accumulate', 1, ':', '-n', '1', runs.program, 'train', *here, '--accumulate', 2),
           ['--accumulate'], 'other micro-batches on another rank')
    refuse(fail(1, 'train', *here, ':', '-n', '1', runs.program, 'train', *here, '--dtype', 'bf16'),
           ['rank 1 has --dtype bf16', 'rank 0 has --dtype fp32'], 'another dtype on a rank')
    refuse(fail(3, 'train', *here, '--batch', 2, '--groups', 'batch=2'), ['batch', '2', '3'], 'too few sequences')
    refuse(fail(2, 'generate', '--run', here[3]), ['one process'], 'text from two ranks')
    refuse(fail(1, 'train', *here, '--seed', 1, ':', '-n', '1', runs.program, 'train', *here, '--seed', 2),
           ['rank 1 has --seed 2', 'rank 0 has --seed 1'], 'other options on another rank')
    refuse(fail(1, 'train', *here, '--lr', '0.003', ':', '-n', 1, runs.program, 'train', *here, '--lr', '0.0030000003'),
           ['rank 1 has --lr 0.0030000003', 'rank 0 has --lr 0.003;'], 'a rate that differs in its eighth digit')
    refuse(fail(1, 'train', *here, ':', '-n', 1, runs.program, 'train', *here, '--data', __file__),
           ['rank 1 has --data of hash', 'rank 0 has'], 'another text on a rank')
    for words, said in [(['train', *here, '--frobnicate'], '--frobnicate'), (['info'], 'one process')]:
        refuse(fail(1, 'train', *here, ':', '-n', 1, runs.program, *words), ['rank 1', said], f'a rank that says {words[-1]}')
    refuse(fail(4, 'train', *here, '--parallel', 'ddp', '--mesh', 'data=2,tensor=2'),
           ["nothing is shared out over axis 'tensor'", 'data=2,tensor=2'], 'an axis of the mesh without a preset')
    refuse(fail(2, 'train', *here, '--parallel', 'ddp+tensor', '--mesh', 'data=2'),
           ["tensor is over axis 'tensor'", 'data=2 lacks'], 'a preset over an axis that the mesh lacks')
    alone = runs.call('train', *here, '--parallel', 'ddp', timeout=OUT,
                      launcher=['env', 'OMPI_COMM_WORLD_RANK=0', 'OMPI_COMM_WORLD_SIZE=2'])
    refuse(alone, ['Open MPI started 2 processes', 'mpiexec.mpich'], 'the launcher of another MPI')

    # A loss that is no number ends all ranks at one step, and the checkpoint before stays.
    out = runs.new_folder()
    train(2, 'fsdp', '', *size, '--steps', 1, '--workers', 1, out=out)
    kept = digest(out)
    resume = ['train', '--data', runs.data, '--out', out, '--resume', *size, '--parallel', 'fsdp', '--workers', 1]
    for last, text in [(9, 'the loss of step 3 is'), (2, 'the validation loss behind step 2 is')]:
        done = fail(2, *resume, '--steps', last, '--eval-every', 0, '--lr', 1e30, '--warmup', 0)
        said = done.stderr.strip().splitlines()
        check(f'no number: {said[:1]}', (done.returncode, len(said), said[:1] and said[0].startswith(text), digest(out)),
              (3, 1, True, kept))
    if fault:
        preload = ['env', f'LD_PRELOAD={fault[0]}', 'NNTILE_FAIL_SEND=20']
        arguments = [*resume, '--steps', 2]
        done = start(1, *arguments, ':', '-n', 1, *preload, runs.program, *arguments, seconds=OUT)
        refuse(done, ['rank 1: send of message', 'to rank 0', 'MPI error', out], 'a send that fails on one rank')
        check('the checkpoint after that', digest(out), kept)
    lost = next(pathlib.Path(out).glob('step-*/model-00002-of-*'))
    lost.unlink()
    refuse(fail(2, *resume, '--steps', 2), [lost.name], 'a checkpoint without the file of a rank')
    if wrong:
        sys.exit(f'{wrong} are wrong; the hash of one rank is {expected}')


main()
