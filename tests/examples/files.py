# SPDX-License-Identifier: BSD-3-Clause
"""Examples that write a file which they are given: one that cannot be is one line and an exit status.

    files.py build/examples/13_transcript build/examples/14_weights
"""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import usage

for program in usage.check(__doc__, 1, 9):
    done = subprocess.run([program, '/nowhere/file'], capture_output=True, text=True)
    said = done.stderr.splitlines()
    if done.returncode != 2 or len(said) != 1 or not said[0].startswith(pathlib.Path(program).name + ': create '):
        sys.exit(f'BAD {program}: exit {done.returncode}: {done.stderr.strip()}')
    print(f'ok  {said[0]}')
