# SPDX-License-Identifier: BSD-3-Clause
"""Runs the fuzz targets of this folder from a fresh set of seeds, and says what became of it.

    run.py FOLDER [--runs N] [TARGET...]     FOLDER is build/tests/fuzz

Without --runs, 10,000 inputs each, always the same ones: the suite. With it, N inputs from a seed that is printed.
"""
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import usage

TARGETS = ('graph', 'json', 'manifest', 'plan', 'safetensors', 'transcript')
LONGEST = {'graph': 16384, 'plan': 16384}  # bytes of an input, 4096 of others
# Requests for memory beyond this end a run; a reader asks for some multiple of 4 KiB. The least that can be asked for.
LARGEST = 1  # MiB
SLOWEST = 60  # seconds of an input, on a busy machine


def run(program, corpus, runs, seed, folder, longest):
    """Returns what the fuzzer printed; exits where it found something."""
    done = subprocess.run([program, f'-runs={runs}', f'-seed={seed}', f'-max_len={longest}', f'-malloc_limit_mb={LARGEST}',
                           f'-timeout={SLOWEST}', '-print_final_stats=1', f'-artifact_prefix={folder}/', corpus],
                          capture_output=True, text=True, errors='replace')
    if done.returncode != 0:
        for found in folder.glob('[a-z]*-*'):
            print(f'{found.name}: {found.read_bytes()!r}')
        sys.exit(f'{program}: seed {seed}: exit {done.returncode}:\n{done.stderr[-4000:]}')
    return done.stderr


def main():
    words = sys.argv[1:]
    usage.check(__doc__, 1, options=['--missing'], valued=['--runs'])
    if words[0] == '--missing':
        print(f'skipped: {words[1]}')
        sys.exit(77)
    runs, seed = 10_000, 1
    if '--runs' in words:
        at = words.index('--runs')
        runs, seed = usage.number(__doc__, '--runs', runs), int(time.time())
        del words[at:at + 2]
    programs = pathlib.Path(words[0])
    if unknown := set(words[1:]) - set(TARGETS):
        usage.end(__doc__, f"there is no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    for target in words[1:] or TARGETS:
        with tempfile.TemporaryDirectory(prefix='nntile-') as name:
            folder = pathlib.Path(name)
            subprocess.run([programs / 'fuzz_seeds', folder / 'seeds'], check=True)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            text = run(programs / f'fuzz_{target}', folder / 'seeds' / target, runs, seed, folder,
                       LONGEST.get(target, 4096))
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        inputs = int(re.search(r'number_of_executed_units: (\d+)', text).group(1))
        covered = re.findall(r'cov: (\d+)', text)[-1]
        if inputs < runs:
            sys.exit(f'{target}: {inputs} inputs where {runs} were asked for')
        print(f'{target}: {inputs} inputs clean, seed {seed}, {after.ru_utime - before.ru_utime:.0f} s of CPU, {covered} edges',
              flush=True)


main()
