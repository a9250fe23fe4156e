# SPDX-License-Identifier: BSD-3-Clause
"""The training step of bench_ranks on PyTorch: DistributedDataParallel over gloo, 2 processes of one thread. Answers a
line with the seconds and the mean loss of one step.

usage: ranks_torch.py BATCH SEQ        BATCH of both processes together
"""
import datetime
import os
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
from gpt2_torch import Gpt2, train_step
from torch.nn.parallel import DistributedDataParallel

RANKS = 2


def serve(rank, batch, seq, store, go, tell):
    """Makes a step when a line comes from `go`; rank 0 passes it on to `tell`."""
    torch.set_num_threads(1)
    dist.init_process_group('gloo', init_method=f'file://{store}', rank=rank, world_size=RANKS,
                            timeout=datetime.timedelta(hours=2))
    torch.manual_seed(1)
    model = DistributedDataParallel(Gpt2(), gradient_as_bucket_view=True, static_graph=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.99), weight_decay=0.1, fused=True)
    share = batch // RANKS
    tokens = torch.randint(50257, (batch, seq + 1))[rank * share:(rank + 1) * share]

    for _ in range(2):
        train_step(model, optimizer, tokens)
    if rank == 0:
        print(torch.__version__, flush=True)
    for line in go:
        if tell:
            print(line, end='', file=tell, flush=True)
        seconds, loss = train_step(model, optimizer, tokens)
        mean = torch.tensor(loss)
        dist.all_reduce(mean)
        if rank == 0:
            print(seconds, mean.item() / RANKS, flush=True)


def main():
    batch, seq = map(int, sys.argv[1:3])
    os.environ.setdefault('GLOO_SOCKET_IFNAME', 'lo')
    if len(sys.argv) > 3:
        serve(int(sys.argv[3]), batch, seq, sys.argv[4], sys.stdin, None)
        return
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, 'store')
        other = subprocess.Popen([sys.executable, *sys.argv, '1', store], stdin=subprocess.PIPE, text=True)
        try:
            serve(0, batch, seq, store, sys.stdin, other.stdin)
        finally:
            other.stdin.close()
            other.wait()


if __name__ == '__main__':
    main()
