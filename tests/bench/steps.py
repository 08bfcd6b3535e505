"""Training steps W1 to W8 beside limits that the same run measures; no PyTorch is needed.

    python tests/bench/steps.py [W1 W3 ...] [--seconds 2] [--history build/bench.jsonl]

The limit of a step is its products at the rate of sgemm plus the bytes that all else has to move at the bandwidth of a
copy, both with as many threads as the steps have. What the cache holds moves faster than that, so that a small step may
be below its limit. A line for each run is added to the history.
"""

import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import cstorch_compat

cstorch_compat.install()

import cerebras.pytorch as cstorch  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from lazytensor.ir.program import Program  # noqa: E402
from lazytensor.runtime import thread_pool  # noqa: E402
from lazytensor.runtime.host import HostBackend  # noqa: E402

PRODUCTS = ("matmul", "conv", "conv_input", "conv_weight", "recurrent", "recurrent_sweep")


class Block(nn.Module):
    """A transformer's block."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.before, self.behind = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        batch, time, width = x.shape
        parts = self.qkv(self.before(x)).view(batch, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, time, width))
        return x + self.down(F.gelu(self.up(self.behind(x)), approximate="tanh"))


class Residual(nn.Module):
    """Two convolutions with batch norm, and a way around them."""

    def __init__(self, before: int, behind: int, stride: int):
        super().__init__()
        self.first = nn.Conv2d(before, behind, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(behind, behind, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(behind), nn.BatchNorm2d(behind)])
        self.around = nn.Conv2d(before, behind, 1, stride, bias=False) if before != behind else nn.Identity()

    def forward(self, x: Any) -> Any:
        y = self.norms[1](self.second(F.relu(self.norms[0](self.first(x)))))
        return F.relu(y + self.around(x))


class Words(nn.Module):
    """Numbers of words become vectors, a body works on them, and each gives scores of the next word."""

    def __init__(self, words: int, width: int, body: nn.Module, out: int):
        super().__init__()
        self.embed, self.body, self.head = nn.Embedding(words, width), body, nn.Linear(out, words)

    def forward(self, x: Any) -> Any:
        y = self.body(self.embed(x))
        return self.head(y[0] if isinstance(y, tuple) else y)


def perceptron() -> nn.Module:
    sizes = (784, 256), (256, 256)
    return nn.Sequential(*(m for a, b in sizes for m in (nn.Linear(a, b), nn.ReLU())), nn.Linear(256, 10))


def lenet() -> nn.Module:
    first = nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(*first, nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.Linear(84, 10))


def transformer(words: int, width: int, heads: int) -> nn.Module:
    return Words(words, width, nn.Sequential(*(Block(width, heads) for _ in range(4)), nn.LayerNorm(width)), width)


def residual() -> nn.Module:
    widths = (32, 32), (32, 32), (32, 64), (64, 64), (64, 128), (128, 128)
    blocks = [Residual(a, b, 1 if a == b else 2) for a, b in widths]
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)
    )


def recurrent() -> nn.Module:
    return Words(96, 128, nn.LSTM(128, 256, 2, batch_first=True), 256)


def chain(x: Any) -> Any:
    y = torch.tanh(x * 1.1 + 0.3) * x
    return torch.where(x > 0, 1.0 / (torch.exp(-y) + 1.0), y) * x - 0.5


def normed(x: Any) -> Any:
    return (F.layer_norm(torch.softmax(x, -1), (x.shape[-1],)) * x).sum(-1)


NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "W1": (perceptron, (64, 784), 10),
    "W1b": (perceptron, (512, 784), 10),
    "W2": (lenet, (64, 1, 28, 28), 10),
    "W3": (lambda: transformer(96, 128, 4), (16, 64), 96),
    "W4": (lambda: transformer(512, 384, 6), (8, 128), 512),
    "W7": (residual, (32, 3, 32, 32), 10),
    "W8": (recurrent, (32, 64), 96),
}
"""The net, the shape of its input, and how many classes it tells apart."""
FUNCTIONS = {"W5": (chain, (10_000_000,)), "W6": (normed, (4096, 1024))}
NAMES = sorted([*NETS, *FUNCTIONS])


def step_of(name: str, fetched: list[float]) -> Callable[[], None]:
    """One step of a workload; `fetched` is given the moment at which the script has the loss of each."""
    rng = np.random.default_rng(0)
    if name in FUNCTIONS:
        function, shape = FUNCTIONS[name]
        x = torch.tensor(rng.standard_normal(shape, dtype=np.float32))
        traced = cstorch.trace(function)
        # Outside of the traced function: it has to give all of its result.
        return _executor([(x,)], lambda batch: traced(*batch)[:1000].sum(), fetched)
    make, shape, classes = NETS[name]
    torch.manual_seed(0)
    model = make()
    net = cstorch.compile(model, cstorch.backend())
    parameters = model.parameters()
    if name.startswith("W1"):
        optimizer = cstorch.optim.SGD(parameters, lr=0.05, momentum=0.9)
    else:
        optimizer = cstorch.optim.AdamW(parameters, lr=1e-3)
    is_words = isinstance(model, Words)
    x = rng.integers(0, classes, shape) if is_words else rng.random(shape, dtype=np.float32)
    y = rng.integers(0, classes, shape if is_words else shape[0])

    @cstorch.trace
    def train(batch: Any) -> Any:
        loss = F.cross_entropy(net(batch[0]).reshape(-1, classes), batch[1].reshape(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return _executor([(torch.tensor(x), torch.tensor(y))], train, fetched)


def _executor(data: list[Any], traced: Callable[[Any], Any], fetched: list[float]) -> Callable[[], None]:
    loader = cstorch.utils.data.DataLoader(lambda: data * 4)
    steps: Iterator[Any] = iter(cstorch.utils.data.DataExecutor(loader, num_steps=1_000_000))

    @cstorch.step_closure
    def fetch(loss: Any) -> None:
        loss.item()
        fetched.append(time.perf_counter())

    return lambda: fetch(traced(next(steps)))


def best(run: Callable[[], object], times: int = 5) -> float:
    """The shortest of some runs, in seconds."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def machine() -> tuple[float, float]:
    """Floating-point operations of sgemm and bytes of a copy, read and written, in a second."""
    a, b, c = (np.ones((1536, 1536), np.float32) for _ in range(3))
    x, y = np.ones(1 << 24, np.float32), np.ones(1 << 24, np.float32)
    crew = thread_pool.team()
    halves = np.array_split(np.arange(x.size), crew.threads)
    spans = [slice(int(h[0]), int(h[-1]) + 1) for h in halves]
    copied = best(lambda: crew.share(lambda part, thread: np.copyto(y[spans[part]], x[spans[part]]), len(spans)))
    return 2 * 1536**3 / best(lambda: np.dot(a, b, c)), 2 * x.nbytes / copied


def limits(program: Program) -> tuple[float, float]:
    """Operations of products, and bytes of all else."""
    flops = moved = 0.0
    for instr in program.instrs:
        if instr.attrs.get("op", instr.kernel) in PRODUCTS:
            flops += instr.work.flops
        elif instr.kernel != "reshape":
            moved += sum(program.buffers[b].type.nbytes for b in (*instr.reads, *instr.writes))
    return flops, moved


def row(name: str, seconds: float) -> dict[str, Any]:
    """First step, median step and limit of one workload."""
    cstorch.backend("CPU")
    rate, bandwidth = machine()
    programs: list[Program] = []
    compiled = HostBackend.compile

    def noted(self: HostBackend, program: Program, store: Any) -> Any:
        programs.append(program)
        return compiled(self, program, store)

    HostBackend.compile = noted  # type: ignore[method-assign]
    fetched: list[float] = []
    step = step_of(name, fetched)
    start = time.perf_counter()
    step()
    step()  # hands out the loss of the first before it begins
    first = fetched[0] - start
    HostBackend.compile = compiled  # type: ignore[method-assign]
    times: list[float] = []
    while sum(times) < seconds or len(times) < 3:
        times.append(best(step, 1))
    flops, moved = max((limits(p) for p in programs), default=(0.0, 0.0))
    limit = flops / rate + moved / bandwidth
    median = statistics.median(times)
    return {
        "workload": name,
        "ms": round(median * 1e3, 3),
        "least_ms": round(min(times) * 1e3, 3),
        "limit_ms": round(limit * 1e3, 3),
        "first_s": round(first, 2),
        "threads": thread_pool.team().threads,
        "flops": rate,
        "bytes": bandwidth,
    }


def main() -> None:
    """Print a row for each workload, and add all of them to the history."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", default=NAMES, metavar="W")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--history", type=pathlib.Path, default=pathlib.Path("build/bench.jsonl"))
    parser.add_argument("--row", help="this workload alone, as JSON")
    options = parser.parse_args()
    if options.row:
        print(json.dumps(row(options.row, options.seconds)))
        return
    rows = []
    for name in options.workloads:
        # In a process of its own: what one leaves behind in memory and caches is not to help the next.
        command = [sys.executable, __file__, "--row", name, "--seconds", str(options.seconds)]
        rows.append(each := json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        print(
            f"{name:4}{each['ms']:9.3f} ms, least {each['least_ms']:9.3f}, limit {each['limit_ms']:8.3f}:"
            f"{each['ms'] / each['limit_ms']:6.2f} times; first step {each['first_s']:.2f} s; "
            f"{each['threads']} threads, sgemm {each['flops'] / 1e9:.0f} GFLOP/s, copy {each['bytes'] / 1e9:.1f} GB/s",
            flush=True,
        )
    options.history.parent.mkdir(parents=True, exist_ok=True)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    with options.history.open("a", encoding="utf-8") as history:
        history.write(json.dumps({"time": now, "rows": rows}) + "\n")


if __name__ == "__main__":
    main()
