"""Times the closed forms of all kernels of a training step of GPT-2's size: `python -m tests.bench.closed_form`.

Twelve layers of 768 channels, 12 heads, a vocabulary of 50,257 and 1,024 positions, forward, backward and an update for
each weight, on the whole mesh of the WSE-2. "priced" is the cost of the phase programs of all kernels; "written and
priced" has the recipes in it, which price every arrangement that they try; "first" is the first time of that.
"""

import statistics
import time

from lazytensor.core.dtype import int32
from tests.wse_sim.programs import Builder
from wse_sim.cost_model.cost import cost
from wse_sim.layout import Rect
from wse_sim.machine import WSE2
from wse_sim.planner.dataflow import wire
from wse_sim.planner.kernel_selection import phase_program

LAYERS, WIDTH, HEADS, VOCABULARY, POSITIONS = 12, 768, 12, 50_257, 1024
ROUNDS = 9


def product(b: Builder, x: int, name: str, outer: int) -> int:
    """A linear layer and its backward products and update."""
    w = b.weight(name, (outer, b.type(x).shape[1]))
    y = b.matmul(x, w, transpose_b=True)
    gradient = b.matmul(y, x, "backward", transpose_a=True)
    b.matmul(y, w, "backward")
    b.pointwise("sub", (w, gradient), "update", into=w, name="sgd")
    return y


def attention(b: Builder, x: int) -> None:
    """Scores, their exponentials and the mixture, forward; three products of the same size and one more, backward."""
    shape, square = (HEADS, POSITIONS, WIDTH // HEADS), (HEADS, POSITIONS, POSITIONS)
    query, key, value = (b.view(x, shape) for _ in range(3))
    flops = 2 * WIDTH * POSITIONS**2
    scores = b.call("matmul", (query, key), [square], flops, attrs={"transpose_a": False, "transpose_b": True})
    weights = b.pointwise("exp", (scores,), name="softmax")
    plain = {"transpose_a": False, "transpose_b": False}
    for direction in ("forward", "backward", "backward"):
        b.call("matmul", (weights, value), [shape], flops, direction, plain)
    for turned in ("transpose_a", "transpose_b"):
        operands, made = ((weights, value), shape) if turned == "transpose_a" else ((query, value), square)
        b.call("matmul", operands, [made], flops, "backward", {**plain, turned: True})


def training_step():
    """The kernels of one step with one sequence; views between heads and channels are left out."""
    b = Builder()
    x, labels = b.input((POSITIONS, WIDTH)), b.input((POSITIONS,), int32)
    for layer in range(LAYERS):
        b.sum_rows(x)
        product(b, x, f"{layer}.qkv", 3 * WIDTH)
        attention(b, x)
        projected = product(b, x, f"{layer}.out", WIDTH)
        added = b.pointwise("add", (x, projected))
        hidden = b.pointwise("gelu", (product(b, added, f"{layer}.up", 4 * WIDTH),))
        x = b.pointwise("add", (added, product(b, hidden, f"{layer}.down", WIDTH)))
    b.cross_entropy(product(b, x, "head", VOCABULARY), labels)
    return b


def milliseconds(run) -> float:
    begin = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - begin)


def main() -> None:
    program = training_step().program()
    wiring, rect = wire(program), Rect.whole(WSE2)
    first = milliseconds(lambda: [phase_program(instr, wiring, rect, WSE2) for instr in program.instrs])
    phases = [phase_program(instr, wiring, rect, WSE2) for instr in program.instrs]
    spans = {
        "priced": [milliseconds(lambda: [cost(p, WSE2) for p in phases]) for _ in range(ROUNDS)],
        "written and priced": [
            milliseconds(lambda: [cost(phase_program(i, wiring, rect, WSE2), WSE2) for i in program.instrs])
            for _ in range(ROUNDS)
        ],
    }
    print(f"first: {first:.0f} ms")
    print(f"{len(phases)} kernels, {sum(cost(p, WSE2).cycles for p in phases):,} cycles")
    for name, taken in spans.items():
        print(f"{name}: median {statistics.median(taken):.1f} ms of {ROUNDS}, {min(taken):.1f} to {max(taken):.1f}")


if __name__ == "__main__":
    main()
