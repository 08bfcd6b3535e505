"""The training step of an MLP 784-256-256-10 on the host backend, built from ops by hand; prints ms per step.

    python tests/bench/host_mlp.py [batch sizes, by default 64 512] [--kernels] [--torch]

`--kernels` adds the time of each instruction, `--torch` runs the same step under PyTorch if it can be imported (or, by
`--torch=PYTHON`, under another interpreter that has it). Step times are the best and the median of short windows, since
a machine that others use makes the mean meaningless; the time in BLAS alone is given as the part that no compiler can
shorten.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from lazytensor.compiler.pipeline import compile_graph
from lazytensor.core.dtype import float32, int64
from lazytensor.ir.graph import Graph, Node, node
from lazytensor.ir.types import Type
from lazytensor.ops import call, full_like
from lazytensor.ops.products import matmul
from lazytensor.ops.reduce import reduce
from lazytensor.ops.shape import broadcast_to
from lazytensor.runtime.host import HostBackend, HostExecutable
from lazytensor.runtime.reference import evaluate
from lazytensor.runtime.state_store import Store

SIZES = (784, 256, 256, 10)
RATE, MOMENTUM = 0.05, 0.9

TORCH = """
import sys, time, torch
rows, sizes = int(sys.argv[1]), {sizes}
layers = [torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])]
net = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])
optimizer = torch.optim.SGD(net.parameters(), lr={rate}, momentum={momentum})
x, y = torch.rand(rows, sizes[0]), torch.randint(0, sizes[-1], (rows,))
def step():
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    return float(loss.detach())
windows = []
for _ in range(40):
    start = time.perf_counter()
    for _ in range(25):
        step()
    windows.append((time.perf_counter() - start) / 25 * 1e3)
best, median = min(windows), sorted(windows)[20]
print(f"batch {{rows}}: torch {{torch.__version__}} best {{best:.3f}} ms, median {{median:.3f}} ms")
"""


class _Builder:
    """Collects the leaves and updates of the step."""

    def __init__(self) -> None:
        self.states: dict[str, Node] = {}
        self.updates: dict[str, Node] = {}

    def state(self, name: str, shape: tuple[int, ...]) -> Node:
        type = Type(shape, float32)
        self.states[name] = node("state", (), {"id": name, "type": type}, type)
        return self.states[name]

    def momentum_update(self, name: str, gradient: Node) -> None:
        parameter = self.states[name]
        buffer = self.state(f"{name}.momentum", parameter.type.shape)
        moved = call("add", call("mul", full_like(MOMENTUM, buffer), buffer), gradient)
        self.updates[f"{name}.momentum"] = moved
        self.updates[name] = call("sub", parameter, call("mul", full_like(RATE, moved), moved))


def _input(index: int, name: str, type: Type) -> Node:
    return node("batch", (), {"index": index, "name": name, "type": type}, type)


def build(rows: int) -> Graph:
    """The step as a graph: forward, loss, backward, momentum updates of six parameters."""
    made = _Builder()
    x, labels = _input(0, "x", Type((rows, SIZES[0]), float32)), _input(1, "labels", Type((rows,), int64))
    weights = [made.state(f"fc{k}.weight", (b, a)) for k, (a, b) in enumerate(pairwise(SIZES))]
    biases = [made.state(f"fc{k}.bias", (b,)) for k, b in enumerate(SIZES[1:])]
    hidden = [x]
    for k, (w, b) in enumerate(zip(weights, biases, strict=True)):
        product = matmul(hidden[-1], w, False, True)
        z = call("add", broadcast_to(b, product.type.shape), product)
        hidden.append(call("relu", z) if k < 2 else z)
    pair = call("softmax_cross_entropy", hidden[-1], labels)
    total = reduce(call("result", pair, index=0), "add", (0,))
    loss = call("div", total, full_like(rows, total))
    g = call("result", pair, index=1)
    g = call("div", g, full_like(rows, g))
    for k in (2, 1, 0):
        made.momentum_update(f"fc{k}.weight", matmul(g, hidden[k], True, False))
        made.momentum_update(f"fc{k}.bias", reduce(g, "add", (0,)))
        if k:
            back = matmul(g, weights[k])
            g = call("where", call("gt", hidden[k], full_like(0, hidden[k])), back, full_like(0, back))
    return Graph((x, labels), made.states, (loss,), made.updates)


def start(graph: Graph) -> Store:
    """Uniform weights, zero biases and momenta."""
    store, rng = Store(), np.random.default_rng(1)
    for name, leaf in graph.state.items():
        shape = leaf.type.shape
        bound = 1 / np.sqrt(shape[-1]) if len(shape) == 2 and "momentum" not in name else 0.0
        store.add(name, rng.uniform(-bound, bound, shape).astype("f4"))
    return store


def batches(rows: int, count: int = 4) -> list[list[np.ndarray]]:
    """Random images and labels."""
    rng = np.random.default_rng(0)
    return [[rng.random((rows, SIZES[0]), "f4"), rng.integers(0, SIZES[-1], rows)] for _ in range(count)]


def timed(run: Callable[[int], object], windows: int = 40, repeat: int = 25) -> tuple[float, float]:
    """Best and median milliseconds per call."""
    found = []
    for _ in range(windows):
        begin = time.perf_counter()
        for k in range(repeat):
            run(k)
        found.append((time.perf_counter() - begin) / repeat * 1e3)
    return min(found), sorted(found)[windows // 2]


def largest_difference(graph: Graph, steps: int = 20) -> float:
    """Relative difference of the losses of the first steps to the reference interpreter."""
    store, data = start(graph), batches(graph.inputs[0].type.shape[0])
    held = store.snapshot()
    executable = HostBackend().compile(compile_graph(graph), store)
    worst = 0.0
    for k in range(steps):
        env = dict(zip(graph.inputs, data[k % 4], strict=True)) | {graph.state[s]: a for s, a in held.items()}
        *state, loss = evaluate(graph.roots(), env)
        held |= dict(zip(graph.updates, state, strict=True))
        worst = max(worst, abs(float(executable.step(data[k % 4])[0]) / float(loss) - 1))
    return worst


def report(rows: int, with_kernels: bool) -> None:
    graph = build(rows)
    begin = time.perf_counter()
    executable = HostBackend().compile(compile_graph(graph), start(graph))
    compile_s = time.perf_counter() - begin
    data = batches(rows)
    best, median = timed(lambda k: executable.step(data[k % 4]))
    kernels = [i for i in executable.program.instrs if i.kernel != "reshape"]
    each = [timed(lambda k, run=run: run(), 20)[0] * 1e3 for run in steps_of(executable)]
    blas = sum(t for t, i in zip(each, kernels, strict=True) if i.kernel == "matmul") / 1e3
    print(f"batch {rows}: host best {best:.3f} ms, median {median:.3f} ms; BLAS alone {blas:.3f} ms")
    print(
        f"  compiled in {compile_s:.2f} s; losses of 20 steps within {largest_difference(graph):.1e} of the reference"
    )
    for t, i in zip(each, kernels, strict=True) if with_kernels else ():
        print(f"  {t:9.2f} us  {i.direction:8} {i.label}")


def steps_of(executable: HostExecutable) -> list[Callable[[], object]]:
    """The bound functions, one for each instruction."""
    return executable._steps


def main(arguments: list[str]) -> None:
    sizes = [int(a) for a in arguments if a.isdigit()] or [64, 512]
    torch = next((a for a in arguments if a.startswith("--torch")), "")
    for rows in sizes:
        report(rows, "--kernels" in arguments)
        if torch:
            interpreter = torch.partition("=")[2] or sys.executable
            text = TORCH.format(sizes=SIZES, rate=RATE, momentum=MOMENTUM)
            subprocess.run([interpreter, "-c", text, str(rows)], check=False, env={"PATH": ""})


if __name__ == "__main__":
    main(sys.argv[1:])
