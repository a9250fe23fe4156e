# SPDX-License-Identifier: BSD-3-Clause
"""Scripts of the benches on files and programs that are not whole: summary.py and plot.py on records, compile_time.py
with a file, a compiler or a git that are not there, device.py with a trainer that says nothing and a bench that crashes.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import usage
from runs import need

BENCH = pathlib.Path(__file__).resolve().parents[2] / 'bench'
RECORD = {'bench': 'ranks', 'case': 'ddp', 'runtime': 'ring', 'metric': 'overlap', 'value': 0.5, 'unit': '1', 'low': 0.4,
          'high': 0.6, 'runs': 3}
WRONG = {'nothing': '', 'half': json.dumps([{'cpu': 'a'}, RECORD])[:-30], 'a machine alone': '{"cpu": "a"}', 'a number': '3',
         'no machine': '[]', 'a record of less': json.dumps([{}, {key: RECORD[key] for key in RECORD if key != 'runtime'}]),
         'no UTF-8': '[{"cpu": "\udce9"}]'}


def call(script, *words, env=None):
    return subprocess.run([sys.executable, BENCH / script, *words], capture_output=True, text=True, env=env)


def program(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'#!/bin/sh\n{text}\n')
    path.chmod(0o755)


def main():
    usage.check(__doc__, 0, 0)
    with tempfile.TemporaryDirectory() as folder:
        good = pathlib.Path(folder, 'good.json')
        good.write_text(json.dumps([{'cpu': 'a'}, RECORD]))
        alone = call('summary.py', 'bars', good).stdout
        need(alone.startswith('bars: '), f'records have bars: {alone}')
        for what, text in WRONG.items():
            wrong = pathlib.Path(folder, 'wrong.json')
            wrong.write_bytes(text.encode(errors='surrogateescape'))
            done = call('summary.py', 'bars', wrong, good)
            need(done.returncode == 0 and not done.stderr and done.stdout.startswith(f'no bars of {wrong}: ')
                 and done.stdout.split('\n', 1)[1] == alone, f'{what}: {done.stdout.splitlines()[0]}')
            done = call('plot.py', wrong, pathlib.Path(folder, 'picture.svg'))
            need(done.returncode == 1 and done.stderr.startswith(f'{wrong}: ') and len(done.stderr.splitlines()) == 1,
                 f'{what}: {done.stderr.strip()}')
        done = call('summary.py', 'bars', pathlib.Path(folder, 'none.json'))
        need(done.stdout.startswith(f'no bars of {folder}/none.json: ') and not done.stderr, f'a file that is not there: {done.stdout}')
        file = pathlib.Path(folder, 'compile_time.json')
        done = call('compile_time.py', '--quick', '--compiler', 'true', '--json', file)
        need(done.returncode == 0 and not done.stderr, f'a compiler that compiles nothing is timed: {done.stderr[-200:]}')
        need(call('summary.py', 'bars', file).stdout.startswith('bars: '), 'which are records')
        for words, why in ((['--json', file / 'below'], 'Not a directory'), (['--compiler', ''], "'' is no program"),
                           (['--compiler', 'no compiler'], "'no compiler' is no program")):
            done = call('compile_time.py', '--compiler', 'true', *words)
            need(done.returncode == 2 and why in done.stderr and not done.stdout, f'{why}: {done.stderr.strip()[-200:]}')
        program(pathlib.Path(folder, 'bin/compiler'), 'echo it is 1.0')
        done = call('compile_time.py', '--quick', '--compiler', 'compiler', '--json', file, env={'PATH': f'{folder}/bin'})
        need(done.returncode == 0 and not done.stderr, f'a machine without git times, too: {done.stderr[-200:]}')
        need(json.loads(file.read_text())[0]['commit'] == 'unknown', 'of no commit that is known')
        for words in (['--count', '--before', folder], ['--before', BENCH.parent]):
            done = call('compile_time.py', '--compiler', 'true', *words)
            need(done.returncode == 2 and '--before: ' in done.stderr and not done.stdout, f'{words}: {done.stderr.strip()[-200:]}')
        for words in ['--quick'], ['--json', pathlib.Path(folder, 'counted.json')], ['--check', '1']:
            done = call('compile_time.py', '--compiler', 'true', '--count', *words)
            need(done.returncode == 2 and '--count prints' in done.stderr and not pathlib.Path(folder, 'counted.json').exists(),
                 f'--count {words[0]}: {done.stderr.strip()[-200:]}')
        program(pathlib.Path(folder, 'examples/gpt2'), '')
        program(pathlib.Path(folder, 'bench/bench_device_gemm'), ': >"$2"; echo it crashed; kill -SEGV $$')
        for out in (f'{folder}/none/records', folder):
            done = call('device.py', '--build', folder, '--stage', 'gemm', '--out', out)
            need(done.returncode == 2 and '--out: ' in done.stderr and not done.stdout, f'--out {out}: {done.stdout}{done.stderr[-200:]}')
        done = call('device.py', '--build', folder, '--stage', 'gemm')
        record = json.loads(done.stdout.splitlines()[0] if done.stdout else '{}')
        need(done.returncode == 1 and record.get('right') is False and 'it crashed' in record.get('text', ''),
             f'a bench that crashes is recorded with what it said: {done.stdout}{done.stderr[-200:]}')
        done = call('device.py', '--build', folder, '--stage', 'replay')
        record = json.loads(done.stdout.splitlines()[0] if done.stdout else '{}')
        need(done.returncode == 1 and record.get('stage') == 'replay' and record['right'] is False,
             f'a stage that finds no figures is wrong, and recorded: {done.stdout}{done.stderr[-200:]}')


main()
