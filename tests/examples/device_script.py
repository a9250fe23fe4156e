# SPDX-License-Identifier: BSD-3-Clause
"""bench/device.py, without a device: its stages have names, its commands their programs, and its records are kept.

    device_script.py build/examples/gpt2
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import usage
from runs import need

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / 'bench/device.py'


def main():
    build = pathlib.Path(usage.check(__doc__, 1, 1)[0]).resolve().parent.parent
    command = [sys.executable, SCRIPT, '--build', build]

    def call(*arguments):
        done = subprocess.run([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        return done.returncode, done.stdout.splitlines()

    status, lines = call('--list')
    stages = [line.split()[0] for line in lines[1:]]
    right, fast = {'golden_device', 'golden_device_bf16', 'tests'}, {
        'speed_124m_fast', 'speed_124m_tf32_fast', 'speed_124m_bf16_fast', 'attention', 'gemm', 'ops', 'replay'}
    first, last = min(map(stages.index, fast)), max(map(stages.index, fast))
    need(status == 0 and right <= set(stages[:first]), f'correctness comes first: {stages}')
    need({'memcheck', 'leak', 'racecheck'} <= set(stages[last:]), f'what takes minutes comes last: {stages}')
    status, told = call('--help')
    need(status == 0 and set(lines) <= set(told), 'help tells all of it')
    records = map(json.loads, (SCRIPT.parent / 'results/h200/records.jsonl').read_text().splitlines())
    took = {record['stage']: f"{record['seconds']:.1f}" for record in records if 'step_us' not in record}
    seconds = {name: line.split()[1] for name, line in zip(stages, lines[1:])}
    need(took and seconds == {name: took.get(name, '?') for name in stages}, f'its seconds are recorded ones: {seconds}')
    need(all(len(line.split()) > 3 for line in lines[1:]), 'each stage says what it does')
    status, lines = call('--dry-run')
    lost = {line.split(';')[0].removeprefix('not there: ') for line in lines if line.startswith('not there')}
    programs = {line.split()[0] for line in lines if line.startswith('  ')}
    need([line for line in lines if line in stages] == stages, 'a dry run goes through all stages')
    need(str(build / 'examples/gpt2') in programs, 'it prints their commands')
    here = {str(build / name) for name in ('tests/cuda/test_cuda', 'bench/bench_device_attention',
                                           'bench/bench_device_gemm', 'bench/bench_device_ops')}
    need(lost == {path for path in here if not pathlib.Path(path).exists()} and (status != 0) == bool(lost),
         f'it says which programs are not there: {lost}')

    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, 'records')
        emulated = ['--place', 'emulated', '--out', out]
        stages = ['--stage', 'golden_device_bf16', '--stage', 'golden_host']
        with subprocess.Popen([*command, *emulated, *stages], stdout=subprocess.DEVNULL) as process:
            while not out.exists() and process.poll() is None:
                time.sleep(0.05)
            process.kill()
        records = [json.loads(line) for line in out.read_text().splitlines()]
        need([record['stage'] for record in records] == ['golden_device_bf16'],
             'a stage is recorded before the next one begins')
        with subprocess.Popen([*command, *emulated, '--minutes', '0', '--stage', 'golden_host'],
                              stdout=subprocess.PIPE, text=True) as process:
            said = process.communicate()[0]
        last = json.loads(out.read_text().splitlines()[-1])
        need(last['right'] is None and last['skipped'] == 'the time was over' and process.returncode == 0
             and 'skipped: golden_host' in said, f'a stage behind the time is not called wrong: {last}')
        need(records[0]['right'] and records[0]['hash'] == records[0]['golden'], 'an emulated device has the golden hash')


main()
