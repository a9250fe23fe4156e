# SPDX-License-Identifier: BSD-3-Clause
"""Tokens a second of a training step of GPT-2 124M by PyTorch on the first CUDA device: the median of ten steps.

usage: gpt2_torch_device.py BATCH SEQ fp32|tf32|bf16 [--compile]
bf16 is by autocast: weights in fp32, products, attention and what is kept for the gradients in bf16.
"""
import statistics
import sys

import torch
from gpt2_torch import Gpt2, train_step


def main():
    batch, seq = map(int, sys.argv[1:3])
    dtype = sys.argv[3]
    torch.manual_seed(1)
    torch.set_float32_matmul_precision('highest' if dtype == 'fp32' else 'high')
    model = Gpt2().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.99), weight_decay=0.1, fused=True)
    tokens = torch.randint(50257, (batch, seq + 1), device='cuda')
    compiled = torch.compile(model) if '--compile' in sys.argv else model

    def run(inputs, labels):
        with torch.autocast('cuda', torch.bfloat16, enabled=dtype == 'bf16'):
            return compiled(inputs, labels)

    for _ in range(5):
        train_step(run, optimizer, tokens)
    # The loss is read at the end of a step, which waits for the device.
    seconds = statistics.median(train_timed(run, optimizer, tokens) for _ in range(10))
    print(f'PyTorch {torch.__version__} {dtype}{" compiled" if "--compile" in sys.argv else ""} '
          f'{batch * seq / seconds:.0f} tok/s')


def train_timed(run, optimizer, tokens):
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    train_step(run, optimizer, tokens)
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e-3


main()
