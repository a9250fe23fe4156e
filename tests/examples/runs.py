# SPDX-License-Identifier: BSD-3-Clause
"""Runs the trainer as its user does, on a text that a fixed generator writes. Shared by the scripts here, as
need() is, which says what holds, and ends a script where it does not."""
import hashlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import usage

# Quick to train; most failures need no more.
TINY = ['--preset', 'tiny', '--width', 64, '--heads', 2, '--layers', 1, '--seq', 32, '--batch', 2, '--eval-every', 0]
SKIPPED = 77
GOLDEN = pathlib.Path(__file__).parent.parent / 'golden'

WORDS = ('the', 'of', 'and', 'a', 'to', 'in', 'he', 'was', 'that', 'it', 'his', 'her', 'with', 'as', 'had', 'for',
         'she', 'not', 'at', 'but', 'be', 'on', 'they', 'have', 'him', 'which', 'said', 'from', 'all', 'this', 'sea',
         'stone', 'light', 'house', 'river', 'morning', 'under', 'heard', 'walked', 'silver', 'window', 'garden')


def need(condition, what):
    print(f'{"ok " if condition else "BAD"} {what}', flush=True)
    if not condition:
        sys.exit(what)


def text(sentences=2000):
    """English-like sentences from a linear congruential generator (Knuth's MMIX constants): the same everywhere."""
    state = 2026
    lines = []
    for _ in range(sentences):
        words = []
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        for _ in range(4 + (state >> 33) % 12):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            rank = (state >> 33) % 1000
            words.append(WORDS[rank * rank * len(WORDS) // 1_000_000])  # frequent words first
        lines.append(' '.join(words).capitalize() + '.\n')
    return ''.join(lines)


def digest(folder):
    hashes = hashlib.sha256()
    for path in sorted(pathlib.Path(folder).rglob('*')):
        if path.is_file():
            hashes.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return hashes.hexdigest()


def xxh64(data):
    """XXH64 with seed 0 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md): the checksum of manifests."""
    mask = 2**64 - 1
    p1, p2, p3, p4, p5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)

    def rotl(value, bits):
        return ((value << bits) | (value >> (64 - bits))) & mask

    def turn(lane, word):
        return rotl((lane + word * p2) & mask, 31) * p1 & mask

    def word(at, size):
        return int.from_bytes(data[at:at + size], 'little')

    at = 0
    lanes = [(p1 + p2) & mask, p2, 0, -p1 & mask]
    while at + 32 <= len(data):
        lanes = [turn(lane, word(at + 8 * i, 8)) for i, lane in enumerate(lanes)]
        at += 32
    result = p5
    if len(data) >= 32:
        result = sum(rotl(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18))) & mask
        for lane in lanes:
            result = ((result ^ turn(0, lane)) * p1 + p4) & mask
    result = (result + len(data)) & mask
    for size, bits, first, second, add in ((8, 27, None, p1, p4), (4, 23, p1, p2, p3), (1, 11, p5, p1, 0)):
        while at + size <= len(data):
            mixed = turn(0, word(at, size)) if first is None else word(at, size) * first & mask
            result = (rotl(result ^ mixed, bits) * second + add) & mask
            at += size
    for bits, factor in ((33, p2), (29, p3)):
        result = (result ^ result >> bits) * factor & mask
    return result ^ result >> 32


def forge(checkpoint, old, new):
    """Changes a text in the manifest of a checkpoint, under a checksum that is right."""
    path = pathlib.Path(checkpoint) / 'manifest.json'
    opening, rest = path.read_text().split('xxh64:', 1)
    body = rest[18:]
    if old not in body:
        sys.exit(f'{path} holds no {old}')
    body = body.replace(old, new, 1)
    path.write_text(f'{opening}xxh64:{xxh64(body.encode()):016x}",{body}')


class Runs:
    """The executable, a folder of its own for runs, and the fixed text in it."""

    @staticmethod
    def of_call(text, least=1, most=1, options=(), valued=()):
        """For the trainer that a script's call names first, and the other words of the call."""
        words = usage.check(text, least, most, options, valued)
        if not os.access(words[0], os.X_OK):
            usage.end(text, f'{words[0]}: no program is there; ninja -C build builds it')
        return Runs(words[0]), *words[1:]

    def __init__(self, program):
        self.program = os.path.abspath(program)  # calls are made in other folders, too
        # What is ignored here would be by the trainer: Ctrl-C, where a script runs in the background.
        for each in signal.SIGINT, signal.SIGHUP:
            if signal.getsignal(each) == signal.SIG_IGN:
                signal.signal(each, signal.SIG_DFL)
        self._folder = tempfile.TemporaryDirectory(prefix='nntile-')
        self.folder = pathlib.Path(self._folder.name)
        self.data = self.folder / 'text.txt'
        self.data.write_text(text())
        self.environment = dict(os.environ, STARPU_SILENT='1')
        self.environment.setdefault('STARPU_HOME', self._folder.name)
        self.count = 0

    def new_folder(self):
        self.count += 1
        return str(self.folder / f'run{self.count}')

    def call(self, *arguments, launcher=(), **options):
        """Runs one subcommand; the caller looks at returncode, stdout and stderr."""
        return subprocess.run([*launcher, self.program, *map(str, arguments)], capture_output=True, text=True,
                              errors='replace', env=self.environment, **options)

    def start(self, *arguments):
        """Starts one subcommand; the caller reads what it prints, and ends it."""
        return subprocess.Popen([self.program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                text=True, errors='replace', env=self.environment)

    def train(self, *arguments, out=None):
        """Trains and returns the hash. Exits when that fails."""
        done = self.call('train', '--data', self.data, '--out', out or self.new_folder(), '--hash', '--eval-every', 0,
                         *arguments)
        if done.returncode != 0:
            sys.exit(f'train {" ".join(map(str, arguments))}: exit {done.returncode}: {done.stderr.strip()}')
        return done.stdout.strip().splitlines()[-1]

    def need_mpi(self, launcher):
        """Exits as skipped where no ranks can be started; launcher '': not there."""
        if not launcher:
            print('skipped: there is no mpiexec.mpich (package mpich)')
            sys.exit(SKIPPED)
        if 'built without MPI' in self.call('train', '--parallel', 'none').stderr:
            print('skipped: built without MPI (-Dmpi=disabled, or libmpich-dev is not installed)')
            sys.exit(SKIPPED)

    def runtimes(self):
        """The names that the build has."""
        for line in self.call('info').stdout.splitlines():
            if line.startswith('runtimes'):
                return [name.strip() for name in line.removeprefix('runtimes').split(',')]
        sys.exit('info names no runtimes')

    def isas(self):
        for line in self.call('info').stdout.splitlines():
            if line.startswith('kernels'):
                return [name.strip() for name in line.removeprefix('kernels').split('(')[0].split(',')]
        sys.exit('info names no kernels')
