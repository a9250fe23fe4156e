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


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, seq, width = x.shape
        q, k, v = (part.view(batch, seq, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.qkv(self.ln_1(x)).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, seq, width))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate='tanh'))


class Gpt2(nn.Module):
    """GPT-2; its smallest published size unless other sizes are given."""

    def __init__(self, width=768, heads=12, layers=12, vocab=50257, positions=1024):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(positions, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                continue
            out = name.endswith(('projection.weight', 'down.weight'))
            nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if out else 0.02)

    def forward(self, tokens, labels):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))


def train_step(model, optimizer, tokens):
    """Seconds of one step, and its loss."""
    begin = time.perf_counter()
    loss = model(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return time.perf_counter() - begin, loss.item()


def main():
    batch, seq, threads = map(int, sys.argv[1:4])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = Gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.99), weight_decay=0.1, fused=True)
    tokens = torch.randint(50257, (batch, seq + 1))
    run = torch.compile(model) if '--compile' in sys.argv else model

    for _ in range(2):
        train_step(run, optimizer, tokens)
    print(torch.__version__, flush=True)
    for _ in sys.stdin:
        print(*train_step(run, optimizer, tokens), flush=True)


if __name__ == '__main__':
    main()
