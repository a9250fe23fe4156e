# SPDX-License-Identifier: BSD-3-Clause
"""The GPT-2 training step of bench_gpt2, on PyTorch: answers a line with the seconds and the loss of one step.

usage: gpt2_torch.py BATCH SEQ THREADS [--compile]
The model is GPT-2's smallest: tied embeddings, biases, gelu in its tanh form, fused AdamW, fp32.
"""
import math
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, LAYERS, VOCAB, POSITIONS = 768, 12, 12, 50257, 1024


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.projection = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, seq, _ = x.shape
        q, k, v = (part.view(batch, seq, HEADS, WIDTH // HEADS).transpose(1, 2)
                   for part in self.qkv(self.ln_1(x)).split(WIDTH, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, seq, WIDTH))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate='tanh'))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, WIDTH), nn.Embedding(POSITIONS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                continue
            out = name.endswith(('projection.weight', 'down.weight'))
            nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * LAYERS) if out else 0.02)

    def forward(self, tokens, labels):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, VOCAB), labels.view(-1))


def main():
    batch, seq, threads = map(int, sys.argv[1:4])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = Gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.99), weight_decay=0.1, fused=True)
    tokens = torch.randint(VOCAB, (batch, seq + 1))
    run = torch.compile(model) if '--compile' in sys.argv else model

    def step():
        begin = time.perf_counter()
        loss = run(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return time.perf_counter() - begin, loss.item()

    for _ in range(2):
        step()
    print(torch.__version__, flush=True)
    for _ in sys.stdin:
        print(*step(), flush=True)


main()
