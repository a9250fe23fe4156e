# SPDX-License-Identifier: BSD-3-Clause
"""examples/quickstart: which words the trainer gets, from whichever folder it is called, with programs that only say how
they were called in place of the build and the trainer.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import usage
from runs import need

SCRIPT = pathlib.Path(__file__).parents[2] / 'examples' / 'quickstart'
SAY = '#!/bin/sh\necho "$(basename "$0")|$(pwd)|$*"\n'


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def main():
    usage.check(__doc__, 0, 0)
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / 'a clone'
        program(root / 'examples/quickstart', SCRIPT.read_text())
        program(root / 'subprojects/packages.sh', SAY)
        program(root / 'bin/ninja', SAY)
        program(root / 'build/examples/gpt2', SAY)
        (root / 'build/build.ninja').touch()
        elsewhere = pathlib.Path(folder) / 'elsewhere'
        elsewhere.mkdir()
        environment = {**os.environ, 'PATH': f'{root}/bin:{os.environ["PATH"]}'}

        def call(*words, at=elsewhere, script=root / 'examples/quickstart'):
            done = subprocess.run([script, *words], cwd=at, env=environment, capture_output=True, text=True)
            need(done.returncode == 0, f'quickstart {" ".join(words)}: {done.returncode} {done.stderr.strip()}')
            said = [line.split('|') for line in done.stdout.splitlines() if '|' in line]
            return done.stdout, {name if name != 'gpt2' else words.split()[0]: (at, words) for name, at, words in said}

        _, said = call()
        need(said['packages.sh'][0] == said['ninja'][0] == str(root), f'it builds in the clone: {said}')
        need(said['train'][0] == str(elsewhere) and '--out ../a clone/runs/quickstart' in said['train'][1], f'a run in the clone: {said}')
        need('--run ../a clone/runs/quickstart ' in said['generate'][1], f'whose model writes: {said}')
        (root / 'runs/quickstart').mkdir()
        text, said = call(at=root, script='examples/quickstart')
        need('--out runs/quickstart-2' in said['train'][1] and 'checkpoint: runs/quickstart-2 ' in text, f'a second run has a name of its own: {said}')
        _, said = call('--data', 'mine.txt', '--minutes', '1')
        need(said['train'][0] == str(elsewhere) and said['train'][1].endswith('--data mine.txt --minutes 1'),
             f'a text is looked for where the caller is: {said}')
        need('--minutes 3' in said['train'][1], f'three minutes, or as many as another word says: {said}')
        for words in ('--steps', '9'), ('--steps=9',):
            _, said = call(*words)
            need('--minutes' not in said['train'][1], f'steps that are given are not timed: {said}')
        for words in ('--preset', 'small'), ('--preset=small',):
            _, said = call(*words)
            need('--width' not in said['train'][1] and '--batch' not in said['train'][1], f'a preset has its own sizes: {said}')
        _, said = call('--resume', '--out', 'mine')
        need('--width' not in said['train'][1] and '--batch' not in said['train'][1], f'so has a run that goes on: {said}')
        for words in ('--out', 'mine'), ('--out=mine',):
            text, said = call(*words, '--seed', '3')
            need('runs/quickstart' not in said['train'][1] and '--run mine ' in said['generate'][1] and 'mine/loss.svg' in text,
                 f'a run where the caller says: {said}')
        shutil.rmtree(root / 'build')  # a question is answered without a build
        text, said = call('--help')
        need('on the King James Bible' in text and not said, f'--help: {text}')


if __name__ == "__main__":
    main()
