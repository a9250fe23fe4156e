# SPDX-License-Identifier: BSD-3-Clause
"""The trainer's life: train, be interrupted, resume, draw a picture, generate; and help texts are there.

    generate.py build/examples/gpt2
"""
import collections
import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import termios
import time
import xml.dom.minidom
import xml.etree.ElementTree

from runs import Runs, need

SIZES = ['--preset', 'tiny', '--width', 64, '--heads', 2, '--layers', 1, '--seq', 32, '--batch', 4]
# Of two layers on two devices, 2 sequences in tiles of 64, to the byte.
PLACED = ['device 0 1295680 bytes: 822848 stored, 472832 arena (lower bound 412288)',
          'device 1 1012864 bytes: 599808 stored, 413056 arena (lower bound 346240)',
          'host     1152 bytes: 1152 stored, 0 arena (lower bound 0)',
          'copies   33536 bytes a step from device 0 to device 1, 5 tiles',
          'copies   32768 bytes a step from device 1 to device 0, 2 tiles']


BATCHES, STATES = "tensors '*', role any, axis 'batch', mesh 'data'", "tensors '*', role state, axis '', mesh 'data'"
STAGES = [f"tensors '{there}{name}.*', role any, axis '', mesh 'pipe', at {at}"
          for name, at in [('wte', 0), ('wpe', 0), ('h.0', 0), ('h.1', 1), ('ln_f', 1)] for there in ('', '*/')]
TENSOR = [f"tensors '*', role any, axis '{axis}', mesh 'tensor'" for axis in ('head', 'hidden', 'vocab')]
# The rules that --parallel and --mesh mean for ranks, as `info` prints them.
RULES = [
    (2, ['--parallel', 'ddp'], 'data=2', [BATCHES]),
    (2, ['--parallel', 'zero1'], 'data=2', [BATCHES, STATES]),
    (2, ['--parallel', 'fsdp'], 'data=2', [BATCHES, STATES, "tensors '*', role parameter, axis '', mesh 'data'"]),
    (2, ['--parallel', 'tensor'], 'tensor=2', TENSOR),
    (2, ['--parallel', 'sequence'], 'seq=2', ["tensors '*', role any, axis 'seq', mesh 'seq'"]),
    (2, ['--parallel', 'pipeline'], 'pipe=2', STAGES),
    (4, ['--parallel', 'zero1+tensor', '--mesh', 'tensor=2,data=2'], 'tensor=2,data=2', [BATCHES, STATES, *TENSOR]),
    (2, [], 'data=2', [BATCHES]),
    (4, ['--mesh', 'pipe=2,data=2'], 'pipe=2,data=2', [*STAGES, BATCHES]),
]


def check_rules(runs):
    for ranks, share, mesh, rules in RULES:
        done = runs.call('info', *SIZES, '--layers', 2, '--ranks', ranks, *share)
        found = [line.split(maxsplit=1) for line in done.stdout.splitlines() if line.startswith(('mesh ', 'rule '))]
        need(found == [['mesh', mesh], *(['rule', rule] for rule in rules)], f'{ranks} ranks {" ".join(share)} have their rules: {found}')


def progress_in_a_narrow_terminal(runs):
    """Progress on a terminal of 20 columns, whose row a longer line would not be replaced in."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 20, 0, 0))
    with subprocess.Popen([runs.program, 'train', '--data', str(runs.data), '--out', runs.new_folder(), *map(str, SIZES),
                           '--minutes', '0.05'], stdout=theirs, env=runs.environment) as process:
        os.close(theirs)
        text = b''
        try:
            while piece := os.read(ours, 4096):
                text += piece
        except OSError:  # it ended
            pass
    os.close(ours)
    replaced = re.findall(rb'\r\x1b\[K(step[^\r\n]*)(?=\r\x1b)', text)
    need(process.returncode == 0 and replaced and all(len(line) < 20 for line in replaced),
         f'progress stays in its row: {replaced[:2]}')


def progress_of_planning(runs, columns=0):
    """A plan that takes seconds says so on a terminal, of any width in one row."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
    with subprocess.Popen([runs.program, 'info', '--preset', '124m', '--tile', '8'], stdout=subprocess.DEVNULL, stderr=theirs,
                          env=runs.environment) as process:
        os.close(theirs)
        text = os.read(ours, 4096)
        process.kill()
    os.close(ours)
    whole = rb"\r\x1b\[Kplanning 'train', 1 s, .* [kMG]B; larger tiles take less: --tile 0"
    need(re.fullmatch(whole, text) if columns == 0 else text == b"\r\x1b[Kplanning 'train', 1 s, "[:4 + columns - 1],
         f'a plan that takes long says so: {text}')


def bytes_of_a_larger_vocabulary(runs):
    """A model of more tokens than bytes gives bytes: one that is printed is the token that the next one follows."""
    out = runs.new_folder()
    sizes = ['--preset', '124m', '--width', 16, '--heads', 1, '--layers', 1, '--seq', 32, '--batch', 1, '--eval-every', 0]
    done = runs.call('train', '--data', runs.data, '--out', out, *sizes, '--steps', 1, '--lr', 0)
    need(done.returncode == 0, f'a model of 50,257 tokens: {done.stderr.strip()}')

    def continued(prompt, count):
        words = [runs.program, 'generate', '--run', out, '--temperature', '0', '--tokens', str(count), '--prompt', prompt]
        return subprocess.run(words, capture_output=True, env=runs.environment).stdout[:-1]

    for prompt in (b'Abc', b'In the', b'And'):
        whole = continued(prompt, 4)
        need(len(whole) == len(prompt) + 4 and continued(whole[:-2], 2) == whole,
             f'a text goes on as it did when its first bytes were generated: {whole}')
    return out


def room_for_all_passes(runs, out):
    """Too few bytes of a place are refused with a number that is enough for all passes of a text."""
    words = ['generate', '--run', out, '--tokens', 3]
    for option, place in (('--host-memory', ['--disk', runs.folder, '--disk-keeps', 'parameters']),
                          ('--device-memory', ['--place', 'emulated'])):
        refused = runs.call(*words, *place, option, 1000).stderr
        enough = re.search(r'; give (\d+)', refused)[1]
        done = runs.call(*words, *place, option, enough)
        need(done.returncode == 0, f'{option} {enough} is enough, as it was said: {refused.strip()} {done.stderr.strip()}')


def main():
    runs, = Runs.of_call(__doc__)
    out = runs.new_folder()
    done = runs.call('train', '--data', runs.data, '--out', out, *SIZES, '--steps', 60, '--eval-every', 30)
    need(done.returncode == 0 and done.stdout.splitlines()[-1] == f"saved at step 60; gpt2 generate --run '{out}' continues a text",
         'a run of 60 steps ends well, and says how to go on')
    losses = [float(line.split()[4]) for line in done.stdout.splitlines() if 'validation loss' in line]
    need(len(losses) == 3 and losses[-1] < losses[0] - 1, f'the validation loss falls: {losses}')
    picture = pathlib.Path(out, 'loss.svg')
    need(xml.dom.minidom.parse(str(picture)).documentElement.tagName == 'svg', 'the picture is an SVG')
    parameters = int(re.search(r'^model +(\d+) parameters', done.stdout, re.M)[1])
    need(f'>GPT-2, {parameters:,} parameters, on ' in picture.read_text(), 'its title has groups of digits, as the steps below it')

    profiled = runs.new_folder()
    done = runs.call('train', '--data', runs.data, '--out', profiled, *SIZES, '--steps', 4, '--profile')
    need(done.returncode == 0 and 'waiting and overhead' in done.stdout, 'a profile says where the time goes')
    events = json.loads(pathlib.Path(profiled, 'trace.json').read_text())['traceEvents']
    need(sum(event['name'] == 'gemm' for event in events) > 8, 'the trace holds the tasks of a step')

    def traced(*options):
        """Of a step on devices: what is copied, by pair of places; the rows; the largest of each counter."""
        folder = runs.new_folder()
        path = pathlib.Path(folder, 'last.json')  # the run makes its folder
        done = runs.call('train', '--data', runs.data, '--out', folder, *SIZES, '--steps', 3, '--trace', path,
                         '--place', 'emulated', *options)
        need(done.returncode == 0, f'a traced run ends well: {options}')
        events = json.loads(path.read_text())['traceEvents']
        path.unlink()
        copied, counters = collections.Counter(), {}
        for event in events:
            if event['ph'] == 'X' and event['name'] == 'copy':
                copied[event['args']['from'], event['args']['to']] += event['args']['bytes']
            if event['ph'] == 'C':
                counters[event['name']] = max(counters.get(event['name'], 0), event['args']['bytes'])
        said = {tuple(match[1:]): int(match[0]) for match in
                re.findall(r'copies +(\d+) bytes a step from (.*) to (.*), \d+ tiles', done.stdout)}
        return copied, {event['args']['name'] for event in events if event['ph'] == 'M'}, counters, said

    for options in (['--offload', 'parameters'], ['--devices', 2, '--layers', 2, '--runtime', 'serial'],
                    ['--accumulate', 2, '--offload', 'optimizer']):
        copied, rows, counters, said = traced(*options)
        need({'stream of device 0', 'copies of device 0'} <= rows and counters['arena of device 0'] > 0,
             f'a trace has a row for each stream of a device, and its memory: {rows} {counters}')
        if '--accumulate' not in options:  # there the trace has the last micro-batch, and what is said all
            need(said == dict(copied) != {},
                 f'its copies have the bytes that the plan says: {said} {copied}')

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
    small = runs.call('generate', '--run', out, '--tokens', 5, '--prompt', 'The ', '--tile', 16)  # half a head
    need(small.returncode == 0 and small.stdout.startswith('The '), f'tiles may be smaller than a head: {small.stderr}')
    prompts = 'x' * 100, 'The ' * 15 + 'x' * 40
    longer = [runs.call('generate', '--run', out, '--tokens', 60, '--prompt', prompt, '--top-k', 5) for prompt in prompts]
    need(all(done.returncode == 0 for done in longer) and
         len({done.stdout.removeprefix(prompt) for done, prompt in zip(longer, prompts, strict=True)}) == 1,
         'a prompt longer than the sequence is continued from its end')

    wide = runs.new_folder()
    done = runs.call('train', '--data', runs.data, '--out', wide, *SIZES[:-4], '--seq', 128, '--batch', 1, '--steps', 2)
    texts = [runs.call('generate', '--run', wide, '--tokens', tokens, '--prompt', 'x' * 40).stdout.removesuffix('\n')
             for tokens in (24, 25, 140)]  # a window of 64 tokens, of 128, and one that moves along
    need(done.returncode == 0 and texts[2].startswith(texts[1]) and texts[1].startswith(texts[0])
         and 40 < len(texts[0]) < len(texts[1]) < len(texts[2]), f'a text goes on where its window grows: {texts}')

    narrow = runs.new_folder()
    done = runs.call('train', '--data', runs.data, '--out', narrow, *SIZES, '--steps', 60, '--eval-every', 30, '--dtype', 'bf16')
    need(done.returncode == 0 and ', in bf16 with weights and AdamW in fp32\n' in done.stdout, 'a run in bf16 says so')
    found = [float(line.split()[4]) for line in done.stdout.splitlines() if 'validation loss' in line]
    need(all(abs(a - b) < 0.05 for a, b in zip(found, losses, strict=True)), f'its losses are about those of fp32: {found}')
    texts = [runs.call('generate', '--run', narrow, '--tokens', 50, '--prompt', 'The ', '--runtime', runtime, *place).stdout
             for runtime, place in (('ring', []), ('serial', []), ('ring', ['--place', 'emulated', '--offload', 'parameters']))]
    need(texts[0].startswith('The ') and len(texts[0]) >= 54 and len(set(texts)) == 1,
         f'text from it is one text on every runtime: {texts}')
    info = runs.call('info', '--run', narrow)
    need(info.returncode == 0 and ', in bf16 with weights and AdamW in fp32\n' in info.stdout, 'info says what it is in')
    tight = runs.new_folder()
    done = runs.call('train', '--data', runs.data, '--out', tight, *SIZES, '--steps', 2, '--dtype', 'fp32_fast_tf32')
    text = runs.call('generate', '--run', tight, '--tokens', 5)
    need(done.returncode == 0 and text.returncode == 0 and ', in fp32_fast_tf32\n' in done.stdout, 'a run in TF32, and text from it')
    sizes = {dtype: [int(n) for n in re.search(r'memory +\d+ bytes: (\d+) stored, (\d+) arena', runs.call(
        'info', *SIZES, '--tile', 0, '--dtype', dtype).stdout).groups()] for dtype in ('fp32', 'bf16')}
    need(sizes['bf16'][0] == sizes['fp32'][0] and sizes['bf16'][1] < 0.7 * sizes['fp32'][1],
         f'bf16 keeps what fp32 does, and its activations have half the bytes: {sizes}')

    info = runs.call('info', '--run', out)
    need(info.returncode == 0 and 'step 60' in info.stdout and 'all right' in info.stdout, 'info checks a run')

    placed = runs.call('info', *SIZES[:-1], 2, '--layers', 2, '--tile', 64, '--place', 'emulated', '--devices', 2)
    for line in PLACED:
        need(line in placed.stdout.splitlines(), f'info says bytes at places: {line}\n{placed.stdout}')

    hinted = runs.call('info', *SIZES, '--layers', 2, '--runtime', 'starpu', '--place', 'device', '--devices', 2).stdout
    need(all(f'device {device}   ' in hinted for device in (0, 1)) and 'copies ' not in hinted,
         f'info says which tasks are hinted to devices of StarPU\n{hinted}')

    plan = runs.folder / 'plan.txt'
    words = ['--preset', '124m', '--width', 64, '--heads', 2, '--layers', 1, '--seq', 32, '--place', 'emulated']
    for dtype, elements in ('fp32', 4), ('fp32_fast_tf32', 4), ('bf16', 8):
        runs.call('info', *words, '--dtype', dtype, '--numerics', 'fast', '--plan', plan)
        padded = [line.split()[1] for line in plan.read_text().splitlines() if line.endswith(f'columns at multiples of {elements}')]
        need(padded == ['gemm', 'gemm.grad'],
             f'columns of 50,257 logits are padded for fast products of a device, in {dtype}: {padded}')
    runs.call('info', *words, '--dtype', 'bf16', '--plan', plan)
    need('columns at' not in plan.read_text(), 'and for no other')

    check_rules(runs)
    room_for_all_passes(runs, bytes_of_a_larger_vocabulary(runs))
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
    need(none.returncode == 2 and '--ranks' in none.stderr and none.stdout == '', f'one rank has no parts: {none.stderr.strip()}')
    taken = runs.call('info', *shared, '--ranks', 2, '--save-parts', runs.data)
    need(taken.returncode == 2 and 'Not a directory' in taken.stderr and taken.stdout == '', f'a file for parts: {taken.stderr}')

    for name, sent in ('Ctrl-C', signal.SIGINT), ('SIGHUP', signal.SIGHUP):
        stopped = runs.new_folder()
        process = subprocess.Popen([runs.program, 'train', '--data', str(runs.data), '--out', stopped, *map(str, SIZES),
                                    '--steps', '1000000', '--eval-every', '0'], stdout=subprocess.PIPE, text=True,
                                   env=runs.environment)
        for line in process.stdout:
            if line.startswith('machine'):
                break
        time.sleep(1)
        process.send_signal(sent)
        rest = process.stdout.read()
        need(process.wait() == 0 and f"gpt2 train --resume --out '{stopped}' --data '{runs.data}' goes on" in rest,
             f'{name} saves, says how to go on, and ends cleanly: {rest}')
        need(list(pathlib.Path(stopped).glob('step-*')), f'there is a checkpoint after {name}')

    closed = runs.new_folder()
    process = subprocess.Popen([runs.program, 'train', '--data', str(runs.data), '--out', closed, *map(str, SIZES),
                                '--steps', '1000000', '--eval-every', '20'], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env=runs.environment)
    process.stdout.readline()
    process.stdout.close()
    said = process.stderr.read()
    need(process.wait() == 2 and said.startswith('gpt2: standard output: ') and list(pathlib.Path(closed).glob('step-*')),
         f'a run whose pipe is closed is saved, and ends: {said}')

    slow = ['--preset', 'small', '--seq', 256, '--batch', 64, '--accumulate', 8, '--workers', 1]
    process = subprocess.Popen([runs.program, 'train', '--data', str(runs.data), '--out', runs.new_folder(), *map(str, slow)],
                               stdout=subprocess.PIPE, text=True, env=runs.environment)
    need(any(line.startswith('step ') for line in process.stdout), 'a slow run is at its first step')
    time.sleep(0.5)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(1.2)
    need(process.wait() == -signal.SIGINT, 'a second Ctrl-C ends a step that takes long')

    nothing = runs.call('train', '--data', runs.data, '--out', runs.new_folder(), *SIZES, '--steps', 50, '--lr', 1e30, '--warmup', 1)
    need(nothing.returncode == 3 and re.search('the loss of step 2 is (nan|-?inf):', nothing.stderr) and 'no checkpoint' in nothing.stderr,
         f'a loss that is not finite stops: {nothing.stderr.strip()}')
    (runs.folder / '[a,b]').write_text(runs.data.read_text())
    bracketed = runs.call('train', '--data', '[a,b]', '--out', runs.new_folder(), *SIZES, '--steps', 0, cwd=runs.folder)
    need("data    '[a,b]': " in bracketed.stdout, f'a name in brackets is one: {bracketed.stdout[:300]}{bracketed.stderr}')
    progress_in_a_narrow_terminal(runs)
    progress_of_planning(runs)
    progress_of_planning(runs, 20)
    for command in ([], ['train'], ['generate'], ['info']):
        help_text = runs.call(*command, '--help')
        need(help_text.returncode == 0 and '--help' in help_text.stdout, f'gpt2 {" ".join(command)} --help')


main()
