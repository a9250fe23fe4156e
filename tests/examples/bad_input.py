# SPDX-License-Identifier: BSD-3-Clause
"""Bad input, end to end: one line that says what would work, an exit code, and the last good checkpoint untouched."""
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
        good = done.returncode > 0 and text and len(text.splitlines()) == 1 and all(piece in text for piece in pieces)
        self.wrong += not good
        print(f'{"ok " if good else "BAD"} {what}: exit {done.returncode}: {text or done.stdout.strip()[-200:]}')


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
    ('"n_layer": 1', '"n_layer": -1', ['n_layer']),
    ('"layer_norm_epsilon": ', '"layer_norm_epsilon": -', ['layer_norm_epsilon']),
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
]


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
    runs = Runs(sys.argv[1])
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
    train('an empty file', ['empty'], *TINY, '--data', empty)
    train('a text shorter than a sequence', ['17 bytes', '32'], *TINY, '--data', short)
    train('an unknown runtime', ["'openmp'", 'serial', 'ring'], *TINY, *data, '--runtime', 'openmp')
    train('an unknown place', ["--place: 'gpu'", 'host', 'emulated'], *TINY, *data, '--place', 'gpu')
    if not os.path.exists('/dev/nvidiactl'):
        train('a device that is not there', ['CUDA'], *TINY, *data, '--place', 'device')
    train('a device of StarPU', ['starpu', 'serial', 'ring'], *TINY, *data, '--place', 'device', '--runtime', 'starpu')
    on_device = ['--place', 'emulated']
    train('something else to offload', ["'all'", 'none', 'optimizer', 'parameters'], *TINY, *data, *on_device,
          '--offload', 'all')
    train('an offload without a device', ['--offload', '--place'], *TINY, *data, '--offload', 'optimizer')
    train('devices without a place', ['--devices', '--place'], *TINY, *data, '--devices', 2)
    train('no devices', ['--devices', '64'], *TINY, *data, *on_device, '--devices', 0)
    train('a device that is too small', ['device 0', 'smaller tiles'], *TINY, *data, *on_device,
          '--offload', 'parameters', '--device-memory', '1024')
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
    train('an unknown option', ['--colour'], *TINY, *data, '--colour', 'red')
    train('tiles so small that the plan does not fit', ['larger tiles'], *data, '--preset', '124m', '--tile', 4,
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
    on_run('another text', ['--data'], 'train', *TINY, '--data', __file__, '--out', out, '--resume')
    on_run('a full disk while saving', [], 'train', *TINY, *data, '--out', out, '--resume', '--steps', 4,
           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)))
    on_run('a prompt of no bytes', ['--prompt'], 'generate', '--run', out, '--prompt', '')
    on_run('a negative temperature', ['--temperature'], 'generate', '--run', out, '--temperature', -1)
    cases.refused('a run that is not there', ['nowhere'], 'generate', '--run', 'nowhere')

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
    forged_manifests(runs, cases, out)
    folders(runs, cases, out)
    if cases.wrong:
        sys.exit(f'{cases.wrong} cases went wrong')


main()
