# SPDX-License-Identifier: BSD-3-Clause
"""The trainer's life: train, be interrupted, resume, draw a picture, generate; and help texts are there."""
import json
import pathlib
import signal
import subprocess
import sys
import time
import xml.dom.minidom
import xml.etree.ElementTree

from runs import Runs

SIZES = ['--preset', 'tiny', '--width', 64, '--heads', 2, '--layers', 1, '--seq', 32, '--batch', 4]


def need(condition, what):
    print(f'{"ok " if condition else "BAD"} {what}', flush=True)
    if not condition:
        sys.exit(what)


def main():
    runs = Runs(sys.argv[1])
    out = runs.new_folder()
    done = runs.call('train', '--data', runs.data, '--out', out, *SIZES, '--steps', 60, '--eval-every', 30)
    need(done.returncode == 0, 'a run of 60 steps ends well')
    losses = [float(line.split()[4]) for line in done.stdout.splitlines() if 'validation loss' in line]
    need(len(losses) == 3 and losses[-1] < losses[0] - 1, f'the validation loss falls: {losses}')
    picture = pathlib.Path(out, 'loss.svg')
    need(xml.dom.minidom.parse(str(picture)).documentElement.tagName == 'svg', 'the picture is an SVG')

    profiled = runs.new_folder()
    done = runs.call('train', '--data', runs.data, '--out', profiled, *SIZES, '--steps', 4, '--profile')
    need(done.returncode == 0 and 'waiting and overhead' in done.stdout, 'a profile says where the time goes')
    events = json.loads(pathlib.Path(profiled, 'trace.json').read_text())['traceEvents']
    need(sum(event['name'] == 'gemm' for event in events) > 8, 'the trace holds the tasks of a step')
    unwritable = runs.new_folder()
    pathlib.Path(unwritable, 'trace.json').mkdir(parents=True)
    done = runs.call('train', '--data', runs.data, '--out', unwritable, *SIZES, '--steps', 4, '--profile')
    need(done.returncode == 0 and 'warning: no trace' in done.stderr and list(pathlib.Path(unwritable).glob('step-*')),
         'a trace that cannot be written is a warning, and the run is saved')

    slow = runs.call('train', '--data', runs.data, '--out', runs.new_folder(), *SIZES, '--steps', 4, '--isa', 'v2')
    need((slow.returncode == 0 and 'no FMA: slower, and bits of their own' in slow.stdout)
         or 'not available here' in slow.stderr, 'kernels without FMA run, and say so')

    first = runs.call('generate', '--run', out, '--tokens', 50, '--prompt', 'The ')
    again = runs.call('generate', '--run', out, '--tokens', 50, '--prompt', 'The ', '--runtime', 'serial')
    other = runs.call('generate', '--run', out, '--tokens', 50, '--prompt', 'The ', '--seed', 2)
    need(first.returncode == 0 and first.stdout.startswith('The ') and len(first.stdout) >= 54, 'it continues a prompt')
    need(first.stdout == again.stdout, 'a seed gives the same text on every runtime')
    need(first.stdout != other.stdout, 'another seed gives another text')
    sure = [runs.call('generate', '--run', out, '--tokens', 20, '--temperature', 0, '--seed', seed).stdout for seed in (1, 2)]
    need(sure[0] == sure[1], 'temperature 0 takes the likeliest byte whatever the seed')
    longer = runs.call('generate', '--run', out, '--tokens', 60, '--prompt', 'x' * 100, '--top-k', 5)
    need(longer.returncode == 0, 'a prompt longer than the sequence is continued')

    info = runs.call('info', '--run', out)
    need(info.returncode == 0 and 'step 60' in info.stdout and 'all right' in info.stdout, 'info checks a run')

    parts = runs.new_folder()
    shared = [*SIZES, '--groups', 'batch=2', '--parallel', 'fsdp']
    saved = runs.call('info', *shared, '--ranks', 2, '--save-parts', parts)
    row = saved.stdout.split('\n         1 ')[1].split()
    part = runs.call('info', *shared, '--part', f'{parts}/rank-1.json')
    need(part.returncode == 0 and all(f'{text}' in part.stdout for text in (
        'rank 1 of 2, mesh data=2', f' {row[0]} stored, {row[1]} arena', f'rank 0     {row[2]} bytes sent',
        f' {row[3]} received')), f'info reads a saved part: {part.stdout}')
    other = runs.call('info', *shared[:-1], 'ddp', '--part', f'{parts}/rank-1.json')
    need('other options than these' in other.stdout, 'info says where other options made a part')
    wrong = runs.call('info', *shared, '--layers', 2, '--part', f'{parts}/rank-1.json')
    need(wrong.returncode == 2 and 'rank-1.json' in wrong.stderr, f'a part of another graph: {wrong.stderr.strip()}')
    page, dot = f'{parts}/part.html', f'{parts}/part.dot'
    drawn = [runs.call('info', *shared, '--part', f'{parts}/rank-1.json', '--draw', to, '--draw-limit', 50)
             for to in (page, dot, f'{parts}/part.svg')]
    tree = xml.etree.ElementTree.parse(page)
    boxes = [each for each in tree.iter('{http://www.w3.org/2000/svg}rect') if each.get('fill')]
    need(drawn[0].returncode == 0 and len(boxes) == 50 and 'to rank 0' in pathlib.Path(page).read_text(), 'info draws a part')
    need(drawn[1].returncode == 0 and pathlib.Path(dot).read_text().startswith('digraph "'), 'info draws a part for dot')
    need(drawn[2].returncode == 2 and '.html' in drawn[2].stderr, f'a picture of another kind: {drawn[2].stderr.strip()}')
    none = runs.call('info', *SIZES, '--save-parts', parts)
    need(none.returncode == 2 and '--ranks' in none.stderr, f'one rank has no parts: {none.stderr.strip()}')

    stopped = runs.new_folder()
    process = subprocess.Popen([runs.program, 'train', '--data', str(runs.data), '--out', stopped, *map(str, SIZES), '--steps',
                                '1000000', '--eval-every', '0'], stdout=subprocess.PIPE, text=True, env=runs.environment)
    for line in process.stdout:
        if line.startswith('machine'):
            break
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    need(process.wait() == 0 and '--resume' in rest, 'Ctrl-C saves, says how to go on, and ends cleanly')
    need(list(pathlib.Path(stopped).glob('step-*')), 'there is a checkpoint after Ctrl-C')

    nothing = runs.call('train', '--data', runs.data, '--out', runs.new_folder(), *SIZES, '--steps', 50, '--lr', 1e30, '--warmup', 1)
    need(nothing.returncode == 3 and 'the loss of step' in nothing.stderr, f'a loss that is not finite stops: {nothing.stderr.strip()}')
    for command in ([], ['train'], ['generate'], ['info']):
        help_text = runs.call(*command, '--help')
        need(help_text.returncode == 0 and '--help' in help_text.stdout, f'gpt2 {" ".join(command)} --help')


main()
