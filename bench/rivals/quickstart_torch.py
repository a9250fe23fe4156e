# SPDX-License-Identifier: BSD-3-Clause
"""What examples/quickstart trains, on PyTorch: the same model, text, schedule and minutes.

usage: quickstart_torch.py [--minutes 3] [--threads 2] [--data FILE]
Without --data the text is the King James Bible of Debian's package bible-kjv. Prints the validation loss in nats per
byte every 500 steps and at the end. Eager: a compiled model is no faster at this size once compiling is counted.
"""
import argparse
import math
import subprocess
import time

import torch

from gpt2_torch import Gpt2

SEQ, BATCH, PEAK, WARMUP = 64, 8, 3e-3, 50


def read_text(path):
    if path:
        return open(path, 'rb').read()
    return subprocess.run(['bible', '-l100', 'gen1:1-rev22:21'], capture_output=True, check=True).stdout


def windows(tokens, starts):
    both = torch.stack([tokens[start:start + SEQ + 1] for start in starts])
    return both[:, :-1].contiguous(), both[:, 1:].contiguous()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--minutes', type=float, default=3)
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--data')
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    tokens = torch.frombuffer(bytearray(read_text(options.data)), dtype=torch.uint8).long()
    cut = len(tokens) - len(tokens) // 20
    train, valid = tokens[:cut], tokens[cut:]
    model = Gpt2(width=192, heads=6, layers=4, vocab=256, positions=SEQ)
    weights = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{'params': weights, 'weight_decay': 0.1}, {'params': others, 'weight_decay': 0}],
                                  lr=PEAK, betas=(0.9, 0.99), fused=True)

    def validation():
        with torch.no_grad():
            count = 20
            starts = torch.linspace(0, len(valid) - SEQ - 1, count * BATCH).long()
            return sum(model(*windows(valid, starts[i * BATCH:(i + 1) * BATCH])).item() for i in range(count)) / count

    # As the quickstart does: the first steps, within the warm-up, tell how many fit.
    steps, step, spent = 1 << 30, 0, 0.0
    while step < steps:
        begin = time.perf_counter()
        progress = max(0.0, (step - WARMUP) / max(1, steps - WARMUP))
        rate = PEAK * min(1, (step + 1) / WARMUP) * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * progress)))
        for group in optimizer.param_groups:
            group['lr'] = rate
        loss = model(*windows(train, torch.randint(len(train) - SEQ - 1, (BATCH,))))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        spent += time.perf_counter() - begin
        if step == 20:
            begun = spent  # the first steps are slow here; the next 20 are timed
        if step == 40:
            steps = max(80, int(0.97 * options.minutes * 60 / ((spent - begun) / 20)))
        if step % 500 == 0:
            print(f'step {step}/{steps}  loss {loss.item():.4f}  val {validation():.4f}  {spent:.0f} s', flush=True)
    print(f'torch {torch.__version__}: {step} steps in {spent:.0f} s, validation loss {validation():.4f} nats per byte')


main()
