# SPDX-License-Identifier: BSD-3-Clause
"""Equal bits, end to end: one training run has one hash on every runtime, with any number of workers, for every
canonical tiling, on both vector instruction sets, twice in a row, and when resumed; and it is the golden one. Another
run, whose sums have canonical groups, has one of its own, and so has one in bf16; in fp32_fast_tf32 exact bits are fp32's.

    hashes.py build/examples/gpt2            a few steps of 2 or 4 sequences: the suite
    hashes.py build/examples/gpt2 --full     50 steps of the preset's batch
"""
import sys

from runs import GOLDEN, Runs


GROUPS = 'batch=4,head=4,hidden=4,vocab=4,seq=2'


def tilings():
    every = 'embed=64+192,hidden=64+192,seq=64,batch=1,head=1,vocab=64+192,position=64'
    return ['0', '128', every]


def share_of_arena(runs, place, share, *options):
    """Bytes that a place keeps, and a share of its arena, as info says them."""
    for line in runs.call('info', *options).stdout.splitlines():
        if line.startswith(place + ' ') and ' stored, ' in line:
            _, _, stored, _, arena = line[len(place):].split()[:5]
            return int(stored) + int(share * int(arena))
    sys.exit(f'info {options} names no {place}')


def main():
    full = '--full' in sys.argv
    runs, = Runs.of_call(__doc__, options=['--full'])
    size = ['--preset', 'tiny', '--steps', 50] if full else ['--preset', 'tiny', '--batch', 2, '--steps', 4]
    half = 25 if full else 2
    fma = [isa for isa in runs.isas() if isa in ('v3', 'v4')]
    golden = dict(line.split() for line in (GOLDEN / 'gpt2_tiny.txt').read_text().splitlines() if line[:1] != '#')
    expected = golden['full' if full else 'suite'] if fma else runs.train(*size, '--runtime', 'serial')
    wrong = 0

    def check(what, found):
        nonlocal wrong
        good = found == expected
        wrong += not good
        print(f'{"ok " if good else "BAD"} {found} {what}', flush=True)

    cases = [('serial', 1)] + [('ring', workers) for workers in (1, 2, 4, 8)]
    cases += [('starpu', workers) for workers in (1, 2, 4) if 'starpu' in runs.runtimes()]
    for runtime, workers in cases:
        for again in ('', ' again'):
            if again and not full and (runtime, workers) != ('ring', 4):
                continue
            check(f'{runtime} {workers}{again}', runs.train(*size, '--runtime', runtime, '--workers', workers))
    for tiling in tilings():
        check(f'tile {tiling}', runs.train(*size, '--tile', tiling, '--workers', 2))
    for isa in fma:
        check(f'isa {isa}', runs.train(*size, '--isa', isa, '--workers', 2))
    for name, options in (('device', []), ('its states on the host', ['--offload', 'optimizer']),
                          ('its parameters on the host', ['--offload', 'parameters']),
                          ('a device of 5 MB', ['--offload', 'parameters', '--device-memory', '5MB'])):
        for runtime in ('serial', 'ring'):
            check(f'{name}, {runtime}', runs.train(*size, '--runtime', runtime, '--place', 'emulated', *options))
    for devices in (1, 2, 4):
        shared = ['--place', 'emulated', '--devices', devices, '--offload', 'parameters']
        capacity = share_of_arena(runs, 'device 0', 0.4, *size[:size.index('--steps')], *shared)
        for runtime in ('serial', 'ring'):
            check(f'{devices} devices, {runtime}',
                  runs.train(*size, '--runtime', runtime, '--place', 'emulated', '--devices', devices))
            check(f'{devices} devices of {capacity} bytes, {runtime}',
                  runs.train(*size, '--runtime', runtime, *shared, '--device-memory', capacity))
    shape = size[:size.index('--steps')]
    for name, disk, share in (('', ['--disk-keeps', 'optimizer'], 0.4),
                              (' and a device', ['--disk-keeps', 'optimizer', '--place', 'emulated', '--offload',
                                                 'parameters'], 0.5)):
        disk += ['--disk', runs.folder]
        if '--place' in disk:
            disk += ['--device-memory', share_of_arena(runs, 'device 0', 0.4, *shape, *disk)]
        disk += ['--host-memory', share_of_arena(runs, 'host', share, *shape, *disk)]
        for runtime in ('serial', 'ring'):
            check(f'a disk{name}, a host of {disk[-1]} bytes, {runtime}', runs.train(*size, '--runtime', runtime, *disk))
    out = runs.new_folder()
    steps = size.index('--steps') + 1
    runs.train(*size[:steps], half, *size[steps + 1:], out=out)
    check('resumed', runs.train(*size, '--resume', '--tile', 64, out=out))
    if wrong:
        sys.exit(f'{wrong} hashes differ from {expected}')

    size = ['--preset', 'tiny', '--batch', 4, '--steps', 20 if full else 3, '--groups', GROUPS]
    plain = size[:-2]
    expected = golden['groups_full' if full else 'groups'] if fma else runs.train(*size, '--runtime', 'serial')
    for runtime, workers in [('serial', 1), ('ring', 1), ('ring', 2)] + [('starpu', 2)] * ('starpu' in runs.runtimes()):
        check(f'groups {runtime} {workers}', runs.train(*size, '--runtime', runtime, '--workers', workers))
    for tiling in tilings():
        check(f'groups tile {tiling}', runs.train(*size, '--tile', tiling, '--workers', 2))
    for isa in fma:
        check(f'groups isa {isa}', runs.train(*size, '--isa', isa, '--workers', 2))
    out = runs.new_folder()
    steps = size.index('--steps') + 1
    runs.train(*size[:steps], size[steps] // 2, *size[steps + 1:], out=out)
    check('groups resumed, which knows its groups', runs.train(*plain, '--resume', '--tile', 64, out=out))
    other = runs.call('train', '--data', runs.data, '--out', out, '--resume', *plain, '--groups', 'batch=2')
    if 'batch=2 but the run' not in other.stderr:
        sys.exit(f'other groups are not refused: {other.stderr}')

    size = ['--preset', 'tiny', '--batch', 4, '--runtime', 'serial', '--steps', 2]
    expected = runs.train(*size, '--accumulate', 2)
    out = runs.new_folder()
    runs.train(*size[:-1], 1, '--accumulate', 2, out=out)
    other = runs.call('train', '--data', runs.data, '--out', out, '--resume', *size, '--accumulate', 4)
    if '--accumulate: 4 but the run' not in other.stderr:
        sys.exit(f'other micro-batches are not refused: {other.stderr}')
    check('resumed, which knows its micro-batches', runs.train(*size, '--resume', out=out))
    if wrong:
        sys.exit(f'{wrong} hashes differ from {expected}')

    size = ['--preset', 'tiny', '--steps', 50] if full else ['--preset', 'tiny', '--batch', 2, '--steps', 4]
    expected = golden['full' if full else 'suite'] if fma else runs.train(*size, '--runtime', 'serial')
    check('fp32_fast_tf32', runs.train(*size, '--dtype', 'fp32_fast_tf32'))
    narrow = [*size, '--dtype', 'bf16']
    expected = golden['bf16_full' if full else 'bf16'] if fma else runs.train(*narrow, '--runtime', 'serial')
    for runtime, workers in [('serial', 1), ('ring', 1), ('ring', 4)] + [('starpu', 2)] * ('starpu' in runs.runtimes()):
        check(f'bf16 {runtime} {workers}', runs.train(*narrow, '--runtime', runtime, '--workers', workers))
    for tiling in tilings():
        check(f'bf16 tile {tiling}', runs.train(*narrow, '--tile', tiling, '--workers', 2))
    for isa in fma:
        check(f'bf16 isa {isa}', runs.train(*narrow, '--isa', isa, '--workers', 2))
    for options in ([], ['--devices', 2], ['--offload', 'parameters', '--device-memory', '5MB']):
        check(f'bf16 device {options}', runs.train(*narrow, '--place', 'emulated', *options))
    out = runs.new_folder()
    runs.train(*narrow[:-3], half, *narrow[-2:], out=out)
    check('bf16 resumed, which knows its dtype', runs.train(*size, '--resume', '--tile', 64, out=out))
    if wrong:
        sys.exit(f'{wrong} hashes differ from {expected}')


main()
