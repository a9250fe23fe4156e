# SPDX-License-Identifier: BSD-3-Clause
"""The operations of bench_ops, on PyTorch with one thread: answers a line with a line.

usage: ops_torch.py WIDTH ROWS CLASSES TOKENS SEQ HEADS DEPTH
"NAME 0" makes the operands of a case, runs it twice, and answers "ok", or "none" where there is no
such case; "NAME N" answers the CPU seconds of a run, over N of them.
"""
import sys
import time

import torch
from torch.nn import functional as F

aten = torch.ops.aten


class Cases:
    """A method a case: it makes operands and returns what is timed."""

    def __init__(self, width, rows, classes, tokens, seq, heads, depth):
        self.width, self.rows = width, rows
        self.classes, self.tokens = classes, tokens
        self.seq, self.heads, self.depth = seq, heads, depth

    def array(self, low=-1.0, high=1.0):
        return torch.empty(self.rows, self.width).uniform_(low, high)

    def gelutanh_forward(self):
        x = self.array(-4, 4)
        return lambda: F.gelu(x, approximate='tanh')

    def gelutanh_backward(self):
        x, dy = self.array(-4, 4), self.array()
        return lambda: aten.gelu_backward(dy, x, approximate='tanh')

    def gelutanh_backward_add(self):
        x, dy, dx = self.array(-4, 4), self.array(), self.array()
        return lambda: dx.add_(aten.gelu_backward(dy, x, approximate='tanh'))

    def normalised(self):
        x, gamma, beta = self.array(-2, 2), torch.rand(self.width) + 0.5, torch.rand(self.width)
        return x, gamma, beta, [self.width]

    def layer_norm_forward(self):
        x, gamma, beta, shape = self.normalised()
        return lambda: torch.native_layer_norm(x, shape, gamma, beta, 1e-5)

    def layer_norm_gradients(self, mask):
        x, gamma, beta, shape = self.normalised()
        dy = self.array()
        _, mean, rstd = torch.native_layer_norm(x, shape, gamma, beta, 1e-5)
        return lambda: aten.native_layer_norm_backward(dy, x, shape, mean, rstd, gamma, beta, mask)

    def layer_norm_backward(self):
        gradient, dx = self.layer_norm_gradients([True, False, False]), self.array()
        return lambda: dx.add_(gradient()[0])

    def layer_norm_backward_set(self):
        return self.layer_norm_gradients([True, False, False])

    def layer_norm_weight_backward(self):
        return self.layer_norm_gradients([False, True, True])

    def softmax_forward(self):
        x = self.array(-4, 4)
        return lambda: torch.softmax(x, -1)

    def softmax_backward(self):
        y, dy = self.array(0, 0.01), self.array()
        return lambda: aten._softmax_backward_data(dy, y, -1, torch.float32)

    def logits(self):
        return (torch.empty(self.tokens, self.classes).uniform_(-4, 4),
                torch.randint(self.classes, (self.tokens,)))

    def cross_entropy_forward(self):
        x, labels = self.logits()
        return lambda: F.cross_entropy(x, labels, reduction='none')

    def cross_entropy_backward(self):
        x, labels = self.logits()
        with torch.enable_grad():
            loss = F.cross_entropy(x.requires_grad_(), labels, reduction='none')
        dloss = torch.rand(self.tokens) + 0.5
        return lambda: torch.autograd.grad(loss, x, dloss, retain_graph=True)

    def column_sums(self):
        x = self.array()
        return lambda: x.sum(0)

    def total_sum(self):
        x = self.array()
        return lambda: x.sum()

    def global_norm(self):
        x = self.array()
        return lambda: torch.linalg.vector_norm(x)

    def copy(self):
        x, y = self.array(), self.array()
        return lambda: y.copy_(x)

    def add(self):
        x, y, z = self.array(), self.array(), self.array()
        return lambda: torch.add(x, y, out=z)

    def adamw_step(self):
        p = self.array().requires_grad_()
        p.grad = self.array()
        adamw = torch.optim.AdamW([p], lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, fused=True)
        return adamw.step

    def indices(self):
        return torch.randint(self.classes, (self.rows,))

    def embedding_forward(self):
        table, index = torch.rand(self.classes, self.width), self.indices()
        return lambda: F.embedding(index, table)

    def embedding_backward(self):
        index, dy = self.indices(), self.array()
        return lambda: aten.embedding_dense_backward(dy, index, self.classes, -1, False)

    def attended(self):
        """Rows of a head lie heads * depth apart, as in a model."""
        def one():
            x = torch.empty(1, self.seq, self.heads, self.depth).uniform_(-2, 2)
            return x.transpose(1, 2)
        return one(), one(), one()

    def attention_forward(self):
        q, k, v = self.attended()
        return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def attention_backward(self):
        operands = [x.requires_grad_() for x in self.attended()]
        with torch.enable_grad():
            out = F.scaled_dot_product_attention(*operands, is_causal=True)
        dout = torch.rand_like(out)
        return lambda: torch.autograd.grad(out, operands, dout, retain_graph=True)


def main():
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    cases, case, run = Cases(*map(int, sys.argv[1:8])), None, None
    print(torch.__version__, flush=True)
    for line in sys.stdin:
        name, count = line.split()
        if name != case:
            run = None  # the old operands first
            run, case = getattr(cases, name, lambda: None)(), name
        if run is None:
            print('none', flush=True)
        elif count == '0':
            run(), run()
            print('ok', flush=True)
        else:
            begin = time.process_time()
            for _ in range(int(count)):
                run()
            print((time.process_time() - begin) / int(count), flush=True)


if __name__ == '__main__':
    main()
