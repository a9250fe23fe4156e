# SPDX-License-Identifier: BSD-3-Clause
"""Bad input, end to end: one line that says what would work, an exit code, and the last good checkpoint untouched."""
import pathlib
import resource
import shutil
import sys

from runs import TINY, Runs, digest


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
    train('an unknown preset', ["'huge'", 'tiny', 'small', '124m'], *data, '--preset', 'huge')
    train('0 workers', ['0', '1024'], *TINY, *data, '--workers', 0)
    train('1,025 workers', ['1025', '1024'], *TINY, *data, '--workers', 1025)
    train('a tile that is no number', ["'big'", '256'], *TINY, *data, '--tile', 'big')
    train('an axis that the model lacks', ["'width'", 'embed'], *TINY, *data, '--tile', '64,width=32')
    train('an axis that must stay whole', ["'head_dim'", 'whole'], *TINY, *data, '--tile', '64,head_dim=8')
    train('heads that do not divide', ['3', '64'], *TINY, *data, '--heads', 3)
    train('a sequence of 1', ['--seq', '1'], *TINY, *data, '--seq', 1)
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
    if cases.wrong:
        sys.exit(f'{cases.wrong} cases went wrong')


main()
