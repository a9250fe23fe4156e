# SPDX-License-Identifier: BSD-3-Clause
"""Bad input, end to end: one line that says what would work, an exit code, and the last good checkpoint untouched.

    bad_input.py build/examples/gpt2
"""
import os
import pathlib
import resource
import shutil
import sys

from runs import TINY, Runs, digest, forge


class Cases:
    def __init__(self, runs):
        self.runs = runs
        self.wrong = 0

    def refused(self, what, pieces, *arguments, **options):
        """The call fails with one line on stderr that holds all pieces."""
        done = self.runs.call(*arguments, **options)
        text = done.stderr.strip()
        good = done.returncode == 2 and text and len(text.splitlines()) == 1 and all(piece in text for piece in pieces)
        self.wrong += not good
        print(f'{"ok " if good else "BAD"} {what}: exit {done.returncode}: {text or done.stdout.strip()[-200:]}')
        return done

    def refused_first(self, what, pieces, *arguments):
        """The same, before anything is printed."""
        printed = self.refused(what, pieces, *arguments).stdout
        self.wrong += printed != ''
        if printed:
            print(f'BAD {what}: printed before the refusal: {printed[:200]}')


HUGE = 10**15
# What is changed in a good manifest, and words of the refusal; the model has 1 layer of width 64, 2 heads, 32 positions.
FORGED = [
    ('"n_layer": 1', f'"n_layer": {HUGE}', ['n_layer', str(HUGE), "'h.1.ln_1.weight'"]),
    ('"n_positions": 32', f'"n_positions": {HUGE}', ['n_positions', str(HUGE), "'wpe.weight'"]),
    ('"n_embd": 64', f'"n_embd": {HUGE}', ['n_embd', str(HUGE), "'wte.weight'"]),
    ('"vocab_size": 256', f'"vocab_size": {HUGE}', ['vocab_size', str(HUGE), "'wte.weight'"]),
    ('"n_head": 2', f'"n_head": {HUGE}', ['n_head', str(HUGE), "'wte.weight'"]),
    ('"trained_seq": 32', f'"trained_seq": {HUGE}', ['trained_seq', str(HUGE), "'wpe.weight'"]),
    ('"n_layer": 1', '"n_layer": 1.0', ['n_layer']),
    ('"n_layer": 1', '"n_layer": 1, "dtype": "fp8"', ["no dtype 'fp8'", 'fp32, fp32_fast_tf32, bf16']),
    ('"n_layer": 1', '"n_layer": 1, "dtype": 16', ['dtype', '16']),
    ('"n_layer": 1', '"n_layer": -1', ['n_layer']),
    ('"layer_norm_epsilon": ', '"layer_norm_epsilon": -', ['layer_norm_epsilon']),
    ('"layer_norm_epsilon": ', '"layer_norm_epsilon": "small", "others": ', ['layer_norm_epsilon', '"small"']),
    ('"step": 3', '"step": 4', ['step 4', 'step-0000000004']),
    ('"run": {', '"run": [],"more": {', ["'run' is []"]),
    ('"files": [', '"files": [{"name":"model.safetensors","bytes":1,"checksum":"0000000000000000"},',
     ["'model.safetensors' comes twice"]),
]
# The same for the entries that only training reads.
FORGED_RUNS = [
    ('"train": [', '"train": [0.5,', ["'train' holds 4 numbers", '3 steps']),
    ('"train": [', '"train": [], "others": [', ["'train' holds 0 numbers"]),
    ('"valid_step": [', '"valid_step": [7, ', ['validations']),
    ('"steps": ', '"steps": "x", "others": ', ["'steps'"]),
    ('"data": ', '"others": ', ["'data' is missing"]),
    ('"steps": ', '"groups": "batch=x", "steps": ', ["'groups' is 'batch=x'", 'batch=4']),
    ('"batch": 2', '"batch": 0', ["'batch' is 0"]), ('"batch": 2', f'"batch": {HUGE}', ["'batch'", str(HUGE)]),
]


# Ways to share a model among 4 ranks that cannot be, and words of the refusal, which `info` gives without starting any.
SHARED = [
    (['--parallel', 'fdsp'], ["--parallel: no preset 'fdsp'", 'ddp, zero1, fsdp, tensor, sequence, pipeline', 'tensor+zero1']),
    (['--parallel', 'tensor+'], ["--parallel: no preset '' in 'tensor+'"]),
    (['--parallel', '+tensor'], ["--parallel: no preset '' in '+tensor'"]),
    (['--parallel', 'ddp+ddp'], ["--parallel: 'ddp+ddp' names ddp twice", 'leave one out']),
    (['--parallel', 'tensor+ddp'], ['--parallel: tensor+ddp', '--mesh tensor=2,data=2 for 4 ranks']),
    (['--parallel', 'zero1', '--mesh', 'tensor=4'], ["nothing is shared out over axis 'tensor' of tensor=4", 'data is of ddp']),
    (['--parallel', 'ddp+tensor', '--mesh', 'data=4'], ["tensor is over axis 'tensor'", 'data=4 lacks']),
    (['--mesh', 'data=3'], ['data=3 is a mesh of 3 ranks', 'there are 4', 'mpiexec -n 3', 'a mesh of 4']),
    (['--mesh', 'date=4'], ["axis 'date'", 'seq of sequence, pipe of pipeline']),
    (['--mesh', 'data'], ['--mesh', "'data'", 'data=2,tensor=2']),
    (['--mesh', 'data=0'], ['--mesh', 'data=0', 'data=2,tensor=2']),
    (['--mesh', 'data=2,data=2'], ["axis 'data' comes twice in 'data=2,data=2'"]),
    (['--parallel', 'pipeline'], ['a pipeline of 4 stages', 'the model has 1 blocks', "'pipe'"]),
    (['--parallel', 'ddp', '--groups', 'batch=2'], ['2 canonical groups for 4 ranks', 'at most 2']),
    (['--parallel', 'ddp'], ["2 indices along 'batch' for 4 ranks", 'at most 2']),
    (['--parallel', 'ddp+fsdp', '--batch', 4], ['ddp and fsdp', "both over axis 'data'", 'leave one out']),
]


# Tilings and groups that the planner cannot have, and words of the refusal, which begins with the option.
PLANNED = [
    (['--tile', '64,width=32'], ["--tile: the graph 'train' has no axis 'width'"]),
    (['--tile', '64,embed='], ["--tile: no sizes given for axis 'embed'"]),
    (['--tile', '64,embed=0'], ["--tile: size 0 for axis 'embed'"]),
    (['--tile', '64,embed=64,embed=32'], ["--tile: axis 'embed' comes twice", 'list it once']),
    (['--tile', '256,128'], ["--tile: a second size for all axes, '128', in '256,128'"]),
    (['--groups', '0'], ["--groups: invalid '0'", 'batch=4']),
    (['--groups', 'batch=2,2'], ["--groups: invalid '2' in 'batch=2,2'"]),
    (['--groups', 'foo=2'], ['--groups: ', "no axis 'foo'"]),
    (['--groups', '99'], ['--groups: ', '99 canonical groups', 'at most 2']),
    (['--ranks', 4, '--groups', '2'], ['--groups: ', 'at most 2 ranks, or --groups batch=4']),
    (['--ranks', 2, '--parallel', 'tensor', '--tile', '64,head=2'], ['cut it, --tile auto,head=1']),
]


# Numbers of a run that train nothing, and words of the refusal.
NUMBERS = [(option, value, [f'{option}: {value}', 'give 0', 'such as'])
           for option in ('--lr', '--weight-decay', '--clip') for value in ('nan', 'inf', '-1')]
NUMBERS += [(option, value, [f'{option}: {value}', 'below 1', '0.9']) for option in ('--beta1', '--beta2')
            for value in ('nan', '1', '-0.5')]
NUMBERS += [('--minutes', value, [f'--minutes: {value}', '--steps', '1000000']) for value in ('nan', 'inf')]
NUMBERS += [('--lr', '1e300', ['--lr: 1e+300', 'such as']), ('--lr', '3,5', ["--lr: '3,5' is no number", '3e-3']),
            ('--warmup', '-1', ['--warmup', 'less than 0']), ('--warmup', 'nan', ['--warmup', 'nan']), ('--seed', '-1', ['--seed', 'less than 0'])]
NUMBERS += [(option, '1' + 30 * '0', [option, 'digits']) for option in ('--steps', '--warmup', '--seed', '--save-every')]
NUMBERS += [(option, digits, [option, f'{digits} has more than {most} digits']) for option, digits, most in
            (('--warmup', '2' + 15 * '0', 15), ('--steps', '+' + 30 * '9', 18), ('--steps', '0x' + 16 * 'f', 15), ('--seed', '0x' + 20 * 'f', 15))]
NUMBERS += [(option, ' -5', [option, '-5 is less than 0']) for option in ('--steps', '--seed')]
NUMBERS += [(option, '010', [option, '010 begins with 0', 'leave that out']) for option in ('--steps', '--batch', '--workers')]
NUMBERS += [(option, value, [f"{option}: '{value}' is no whole number"]) for option, value in
            (('--batch', '5MB'), ('--width', '1e3'), ('--steps', '2.5'), ('--workers', 'two'), ('--steps', '1 000'), ('--seq', '0x'))]
NUMBERS += [(option, value, [f"{option}: '{value}' is no number", '3e-3']) for option, value in
            (('--lr', 'low'), ('--clip', '1 '), ('--minutes', '3m'), ('--beta1', '.9.'))]
NUMBERS += [(option, value, [f'{option}: {value} is outside {least} to {most}']) for option, value, least, most in
            (('--workers', '99999999999', 1, 1024), ('--accumulate', '0', 1, 65536), ('--accumulate', '99999999999', 1, 65536),
             ('--keep-received', '-1', 0, 2**32 - 1), ('--keep-received', str(2**32), 0, 2**32 - 1))]
NUMBERS += [('--device-memory', '0.5GB', ['--device-memory: 0.5GB is no whole number', '512MB'])]
DRAWN = [('--temperature', value, ['--temperature: ' + value, '0.8']) for value in ('nan', 'inf', '-1')]
DRAWN += [('--top-p', value, ['--top-p: ' + value, '1 (all)']) for value in ('nan', '0', '1.5')]
DRAWN += [('--top-k', value, [f'--top-k: {value} is outside 0 to 2147483647']) for value in ('-1', '2147483648')]
DRAWN += [('--temperature', 'warm', ["--temperature: 'warm' is no number", '3e-3']), ('--tokens', '-5', ['--tokens', 'less than 0']),
          ('--tokens', 'many', ['--tokens', 'many']), ('--tokens', '1' + 30 * '0', ['--tokens', 'digits']),
          ('--seed', '-1', ['--seed', 'less than 0'])]
# Options that take no empty text, as of a variable that was not set.
EMPTY = {'train': ('--data', '--out', '--trace', '--disk', '--tile', '--dtype', '--groups', '--parallel', '--mesh', '--steps', '--lr',
                   '--clip', '--batch', '--accumulate', '--keep-received'),
         'generate': ('--run', '--disk', '--tile', '--tokens', '--temperature', '--top-k'),
         'info': ('--run', '--dot', '--plan', '--draw', '--part', '--save-parts')}


def limited():
    """Neither time nor memory to build what a forged number asks for."""
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))


def forged_manifests(runs, cases, out):
    for training, table in ((False, FORGED), (True, FORGED), (True, FORGED_RUNS)):
        for old, new, pieces in table:
            copy = pathlib.Path(runs.new_folder())
            shutil.copytree(out, copy)
            forge(next(copy.glob('step-*')), old, new)
            if training:  # there the settings say what the model is
                words = ['train', *TINY, '--data', runs.data, '--out', copy, '--resume', '--steps', 4]
                pieces = [piece for piece in pieces if not piece.endswith(".weight'")]
            else:
                words = ['generate', '--run', copy]
            cases.refused(f'{words[0]} with {new}', pieces, *words, preexec_fn=limited)


def newcomers(runs, cases, out):
    """What one tries at first, or a script by mistake."""
    for words in ([], ['trian', '--steps', 3], ['--steps', 3]):
        cases.refused(f'no subcommand: {" ".join(map(str, words))}', ['give train, generate or info', *map(str, words[:1])],
                      *words)
    cases.refused('a text behind generate', ['hello', 'gpt2 generate --help'], 'generate', 'hello')
    for command, options in EMPTY.items():
        for option in options:
            cases.refused(f'{command} with {option} of nothing', [f'{option}: is empty', 'leave the option out'], command,
                          option, '')
    for option, value, pieces in DRAWN:
        cases.refused(f'generate with {option} {value}', pieces, 'generate', '--run', out, option, value)
    cases.refused('heads that are cut', ['--tile: head_dim=8 cuts heads of 32', 'leave head_dim out'], 'generate', '--run', out,
                  '--tile', '64,head_dim=8')
    cases.refused('more devices than the layers of a run', ['--devices: 8', '1 layers', 'train one with more --layers'], 'generate',
                  '--run', out, '--place', 'emulated', '--devices', 8)
    cases.refused('a run whose name has two lines', ["--run: 'a\\x0ab' is not there"], 'generate', '--run', 'a\nb')
    cases.refused('a file for a run', ["text.txt'", 'Not a directory'], 'generate', '--run', runs.data)
    for option in ('--dot', '--plan', '--draw'):
        cases.refused(f'{option} in no folder', [f"{option}: '/nowhere/x.dot'", 'No such file or directory'], 'info', option,
                      '/nowhere/x.dot')
        cases.refused_first(f'{option} below a file', [f"{option}: ", 'Not a directory'], 'info', option, runs.data / 'x.dot')
    cases.refused_first('parts in a folder that takes no files', ["--save-parts: '/proc/rank-0.json' can't be written"], 'info',
                        *TINY[:-2], '--ranks', 2, '--save-parts', '/proc')
    for first, second in (('--dot', '--plan'), ('--plan', '--draw')):
        cases.refused_first(f'{first} and {second} to one file', [f'{second}: ', f"x.dot' is {first}'s file, too"], 'info', first,
                            runs.folder / 'x.dot', second, runs.folder / '.' / '..' / runs.folder.name / 'x.dot')
    cases.refused('a drawing of another kind', ["--draw: 'x.png'", '.html', '.dot'], 'info', '--draw', 'x.png')
    cases.refused('a drawing of nothing', ['--draw-end: 10', '--draw-begin 100'], 'info', '--draw', runs.folder / 'x.dot',
                  '--draw-begin', 100, '--draw-end', 10)
    for option in ('--draw-begin', '--draw-end', '--draw-limit'):
        cases.refused(f'a negative {option}', [option, '-1 is less than 0'], 'info', '--draw', runs.folder / 'x.dot', option, -1)
    for option in ('--dot', '--plan', '--draw', '--save-parts', '--tile', '--preset'):
        cases.refused(f'{option} of a run', ['--run', 'excludes', option], 'info', '--run', out, option, runs.folder / 'x.dot')
    cases.refused('a part of a drawing, and no drawing', ['--draw-begin', '--draw'], 'info', '--draw-begin', 3)
    cases.refused('a runtime of a place', ["--runtime: 'ring-emulated'", 'serial'], 'info', '--runtime', 'ring-emulated')
    for words, pieces in ((['--workers', 0], ['--workers: 0 is outside 1 to 1024']),
                          (['--workers', 10**11], [f'--workers: {10**11} is outside 1 to 1024']),
                          (['--isa', 'v9'], ["--isa: 'v9'", 'best']), (['--parallel', 'fdsp'], ["no preset 'fdsp'", 'fsdp']),
                          (['--mesh', 'data=641,tensor=6700417'], ['a mesh of 4294967297 ranks', 'there are 1'])):
        cases.refused(f'a plan for {" ".join(map(str, words))}', pieces, 'info', *words)
    for words, pieces in PLANNED:
        cases.refused_first(f'a plan with {" ".join(map(str, words))}', pieces, 'info', *TINY[:-2], *words)
    for command in (['info'], ['generate', '--run', out, '--tokens', 10**9], ['--help']):
        cases.refused(f'{command[0]} into a full disk', ['standard output', 'No space left'], *command,
                      launcher=['sh', '-c', 'exec "$0" "$@" > /dev/full'])
    cases.refused('train into a full disk', ['standard output: an earlier write failed'], 'train', *TINY, '--data', runs.data,
                  '--out', runs.new_folder(), '--steps', 2, launcher=['sh', '-c', 'exec "$0" "$@" > /dev/full'])
    on_disk = ['train', *TINY, '--data', runs.data, '--steps', 4, '--disk', runs.folder, '--disk-keeps', 'parameters', '--out']
    apart = [pathlib.Path(runs.new_folder()) for _ in range(2)]
    runs.call(*on_disk, apart[0])
    cases.refused('train without standard streams', ['standard output'], *on_disk, apart[1],
                  launcher=['sh', '-c', 'exec "$0" "$@" <&- >&-'])
    same = digest(apart[0]) == digest(apart[1])
    cases.wrong += not same
    print(f'{"ok " if same else "BAD"} nothing is printed into files')
    first = runs.start('train', *TINY, '--data', runs.data, '--out', runs.folder / 'two', '--minutes', 1)
    try:
        first.stdout.readline()  # it has the folder
        cases.refused('two runs in one folder', ["two' is in use by another run"], 'train', *TINY, '--data', runs.data,
                      '--out', runs.folder / 'two', '--steps', 2)
    finally:
        first.kill()
        first.communicate()
    copy = pathlib.Path(runs.new_folder())
    shutil.copytree(out, copy)
    behind = runs.call('train', *TINY[:-2], '--data', runs.data, '--out', copy, '--resume', '--steps', 2)
    said = behind.returncode == 0 and 'nothing to train: step 3 of 2' in behind.stdout
    cases.wrong += not said
    print(f'{"ok " if said else "BAD"} fewer steps than there were: exit {behind.returncode}: {behind.stdout.strip()[-200:]}')


def folders(runs, cases, out):
    """Something else than a folder or a file, and files that end early."""
    path = runs.folder / 'plain'
    path.write_text('x')
    words = ['train', *TINY, '--data', runs.data, '--steps', 2, '--out']
    cases.refused('a file for a folder', ["plain': Not a directory"], *words, path)
    cases.refused('a folder below a file', ['Not a directory'], *words, path / 'run')
    cases.refused('a folder that cannot be made', ['/proc/run'], *words, '/proc/run')
    for name in ('model.safetensors', 'manifest.json'):
        for what, make in (('a pipe', os.mkfifo), ('a folder', os.mkdir), ('nothing', lambda at: None),
                           ('no byte', lambda at: at.write_bytes(b''))):
            copy = pathlib.Path(runs.new_folder())
            shutil.copytree(out, copy)
            file = next(copy.rglob(name))
            file.unlink()
            make(file)
            cases.refused(f'{what} for {name}', [str(copy)], 'generate', '--run', copy, preexec_fn=limited)


def main():
    runs, = Runs.of_call(__doc__)
    cases = Cases(runs)
    data = ['--data', runs.data]
    short = runs.folder / 'short.txt'
    short.write_text('In the beginning.')
    empty = runs.folder / 'empty.txt'
    empty.write_text('')

    def train(what, pieces, *arguments, **options):
        cases.refused(what, pieces, 'train', '--out', runs.new_folder(), '--steps', 2, *arguments, **options)

    train('a file that is not there', ['nowhere.txt'], *TINY, '--data', 'nowhere.txt')
    train('a folder for data', [str(runs.folder)], *TINY, '--data', runs.folder)
    huge = runs.folder / 'huge.txt'
    with huge.open('wb') as file:
        file.truncate(2**40)  # a hole
    train('a text larger than memory', ["huge.txt' has 1099511627776 bytes", 'fit in memory', 'smaller'], *TINY, '--data', runs.data, huge)
    train('an empty file', ['empty'], *TINY, '--data', empty)
    train('a text shorter than a sequence', ['17 bytes', '32'], *TINY, '--data', short)
    train('an unknown runtime', ["'openmp'", 'serial', 'ring'], *TINY, *data, '--runtime', 'openmp')
    train('an unknown dtype', ["--dtype: no dtype 'fp8'", 'fp32, fp32_fast_tf32, bf16'], *TINY, *data, '--dtype', 'fp8')
    train('an unknown place', ["--place: 'gpu'", 'host', 'emulated'], *TINY, *data, '--place', 'gpu')
    if not os.path.exists('/dev/nvidiactl'):
        train('a device that is not there', ['CUDA'], *TINY, *data, '--place', 'device')
        if 'starpu' in runs.runtimes():
            train('a device of StarPU that is not there', ['--place device', 'CUDA'], *TINY, *data, '--place', 'device',
                  '--runtime', 'starpu')
    train('an emulated device of StarPU', ['--place emulated', 'starpu', 'serial', 'ring', '--place device'], *TINY,
          *data, '--place', 'emulated', '--runtime', 'starpu')
    cases.refused('memory of a device of StarPU', ['--device-memory', 'STARPU_LIMIT_CUDA_MEM', 'ring'], 'info',
                  *TINY[:-2], '--place', 'device', '--runtime', 'starpu', '--device-memory', '5MB')
    on_device = ['--place', 'emulated']
    train('something else to offload', ["'all'", 'none', 'optimizer', 'parameters'], *TINY, *data, *on_device,
          '--offload', 'all')
    train('an offload without a device', ['--offload', '--place'], *TINY, *data, '--offload', 'optimizer')
    train('memory of the host without a disk', ['--host-memory', '--disk'], *TINY, *data, '--host-memory', '5MB')
    train('something else on the disk', ["'all'", 'none', 'optimizer', 'parameters'], *TINY, *data, '--disk', '/tmp',
          '--disk-keeps', 'all')
    for keeps, ways in (('none', '--disk-keeps optimizer or parameters'), ('optimizer', '--disk-keeps parameters')):
        train(f'too little of the host, {keeps} on the disk', ['--host-memory: 1000 bytes', "'train'", '; give ', ways, '--tile'],
              *TINY, *data, '--disk', '/tmp', '--disk-keeps', keeps, '--host-memory', 1000)
    train('too little of the host, all on the disk', ['--host-memory: 1000 bytes', '; give ', '--tile'], *TINY, *data,
          '--disk', '/tmp', '--disk-keeps', 'parameters', '--host-memory', 1000)
    cases.refused('too little of the host, as info says', ['--host-memory: 1000 bytes', '--disk-keeps optimizer or parameters'],
                  'info', *TINY[:-2], '--disk', '/tmp', '--host-memory', 1000)
    train('more of the host than there can be', ['--host-memory: 10995116277760000000', 'at most'], *TINY, *data,
          '--disk', '/tmp', '--host-memory', '10000000TB')
    train('a disk that keeps nothing', ['--disk', '--disk-keeps', '--host-memory'], *TINY, *data, '--disk', '/tmp')
    train('negative bytes of the host', ['--host-memory', '-5 is less than 0'], *TINY, *data, '--disk', '/tmp', '--host-memory', -5)
    train('negative bytes of a device', ['--device-memory', '-1MB is less than 0'], *TINY, *data, '--place', 'emulated',
          '--device-memory', '-1MB')
    train('more devices than layers', ['--devices: 8', '1 layers', '--layers'], *TINY, *data, '--place', 'emulated',
          '--devices', 8)
    for option in ('--steps', '--minutes', '--save-every', '--eval-every'):
        train(f'a negative {option}', [option, '-3 is less than 0'], *TINY, *data, option, -3)
    for option, value, pieces in NUMBERS:
        train(f'{option} {value}', pieces, *TINY, *data, option, value)
    train('a trace in no folder', ["--trace: '/nowhere/x.json'", 'No such file or directory'], *TINY, *data, '--trace',
          '/nowhere/x.json')
    train('a trace below a file', ["--trace: ", "text.txt/x.json' can't be written", 'Not a directory'], *TINY, *data, '--trace',
          runs.data / 'x.json')
    train('a trace of too long a name', ['--trace: ', "can't be written", 'name too long'], *TINY, *data, '--trace',
          runs.folder / (253 * 'x'))
    train('a trace of a folder', ['--trace', 'there is a directory', 'another name'], *TINY, *data, '--trace', runs.folder)
    named = runs.new_folder()
    cases.refused_first("a trace of the run's folder", ['--trace', 'there is a directory', 'another name'], 'train', *TINY, *data,
                        '--steps', 2, '--out', named, '--trace', named)
    pipe = runs.folder / 'trace'
    os.mkfifo(pipe)
    train('a trace into a pipe', ['--trace', 'pipe', 'another name'], *TINY, *data, '--trace', pipe)
    link = runs.folder / 'stdout'
    os.symlink('/proc/self/fd/1', link)
    train('a trace into the standard output', ['--trace', 'a link', 'another name'], *TINY, *data, '--trace', link)
    cases.refused('a folder with too long a name', ['make directory', 'too long'], 'train', *TINY, *data, '--steps', 2, '--out',
                  runs.folder / (300 * 'x'))
    train('a disk of StarPU', ['--disk', 'starpu', 'serial', 'ring'], *TINY, *data, '--disk', '/tmp', '--runtime', 'starpu')
    train('a disk without its directory', ["'/nowhere'", 'No such file or directory'], *TINY, *data, '--disk', '/nowhere',
          '--disk-keeps', 'optimizer')
    train('devices without a place', ['--devices', '--place'], *TINY, *data, '--devices', 2)
    train('no devices', ['--devices', '64'], *TINY, *data, *on_device, '--devices', 0)
    train('a device that is too small', ['--device-memory: 1024', 'device 0', 'smaller tiles'], *TINY, *data, *on_device,
          '--offload', 'parameters', '--device-memory', '1024')
    train('a device that is too small for all', ['--device-memory: 1024', '--offload optimizer or parameters'], *TINY, *data,
          *on_device, '--device-memory', '1024')
    train('an unknown preset', ["'huge'", 'tiny', 'small', '124m'], *data, '--preset', 'huge')
    train('0 workers', ['0', '1024'], *TINY, *data, '--workers', 0)
    train('1,025 workers', ['1025', '1024'], *TINY, *data, '--workers', 1025)
    train('a tile that is no number', ["'big'", '256'], *TINY, *data, '--tile', 'big')
    train('an axis that the model lacks', ["'width'", 'embed'], *TINY, *data, '--tile', '64,width=32')
    train('an axis that must stay whole', ["'head_dim'", 'whole'], *TINY, *data, '--tile', '64,head_dim=8')
    train('heads that do not divide', ['3', '64'], *TINY, *data, '--heads', 3)
    train('a sequence of 1', ['--seq: 1 is outside 2 to 65536'], *TINY, *data, '--seq', 1)
    train('unknown numerics', ["'exakt'", 'exact', 'fast'], *TINY, *data, '--numerics', 'exakt')
    train('an unknown instruction set', ["'v9'", 'best'], *TINY, *data, '--isa', 'v9')
    train('a model larger than memory', ['GB', '--width'], *data, '--preset', '124m', '--width', 32768, '--heads', 64,
          '--tile', 0)
    cases.refused_first('weights that no plan fits into memory', ['weights', ' TB at least', 'this machine has', '--width'],
                        'train', *data, '--out', runs.new_folder(), '--width', 65536, '--layers', 1000)
    cases.refused_first('activations that no plan fits into memory', [' TB at least', 'activations'], 'train', *data, '--out',
                        runs.new_folder(), '--layers', 1000, '--batch', 65536)
    train('an unknown option', ['--colour'], *TINY, *data, '--colour', 'red')
    train('tiles so small that the plan does not fit', ['larger tiles (--tile)'], *data, '--preset', '124m', '--tile', 4,
          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)))
    train('resuming nothing', ['--resume', 'no checkpoint'], *TINY, *data, '--resume')

    out = runs.new_folder()
    runs.train(*TINY[:-2], '--steps', 3, out=out)
    good = digest(out)

    def intact(what):
        same = digest(out) == good
        cases.wrong += not same
        print(f'{"ok " if same else "BAD"} the checkpoint is as it was after: {what}')

    def on_run(what, pieces, *arguments, **options):
        cases.refused(what, pieces, *arguments, **options)
        intact(what)

    on_run('a folder that holds a run', ['--resume'], 'train', *TINY, *data, '--out', out)
    on_run('a checkpoint of another model', ['another model', 'n_embd'], 'train', *TINY, *data, '--out', out, '--resume',
           '--width', 128)
    on_run('another dtype', ['--dtype: bf16 but the run', 'began with fp32'], 'train', *TINY, *data, '--out', out, '--resume',
           '--dtype', 'bf16')
    on_run('another text', ['--data'], 'train', *TINY, '--data', __file__, '--out', out, '--resume')
    on_run('a full disk while saving', [], 'train', *TINY, *data, '--out', out, '--resume', '--steps', 4,
           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)))
    on_run('a prompt of no bytes', ['--prompt'], 'generate', '--run', out, '--prompt', '')
    on_run('a negative temperature', ['--temperature'], 'generate', '--run', out, '--temperature', -1)
    cases.refused('too little of the host for generating', ['bytes of host', '; give ', 'or --disk-keeps parameters, or',
                  'tiles (--tile)'], 'generate', '--run', out, '--disk', '/tmp', '--host-memory', 5000)
    for command in 'generate', 'info':
        cases.refused('a run that is not there', ["--run: 'nowhere' is not there", "gpt2 train --out 'nowhere'"], command, '--run',
                      'nowhere')
        cases.refused('a folder without a run', [f"--run: '{runs.folder}' holds no checkpoint"], command, '--run', runs.folder)

    for name in ('model.safetensors', 'manifest.json'):
        copy = pathlib.Path(runs.new_folder())
        shutil.copytree(out, copy)
        path = next(copy.rglob(name))
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        cases.refused(f'a flipped bit in {name}', [name], 'generate', '--run', copy)
        path.write_bytes(content[:len(content) // 2])
        cases.refused(f'half of {name}', [name], 'generate', '--run', copy)
    for share, pieces in SHARED:
        cases.refused_first(f'4 ranks with {" ".join(map(str, share))}', pieces, 'info', *TINY[:-2], '--ranks', 4, *share)
    newcomers(runs, cases, out)
    forged_manifests(runs, cases, out)
    folders(runs, cases, out)
    if cases.wrong:
        sys.exit(f'{cases.wrong} cases went wrong')


main()
