"""Random pairs of a mesh and a larger one: on the larger mesh a step is at most 5 % slower.

`python -m tests.campaign meshes N SEED` plans N pairs. The seed and the number of a pair determine the net that is
trained, its batch size, the mesh, and how much larger the other mesh is. One pair of `DEEP_EVERY` is a language model
on about a wafer, the others are small nets on small meshes. Both modes are planned, on a host that never limits.
"""

import pathlib
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import lazytensor as lt
from cstorch_compat.planning.recording import record_script
from lazytensor import nn
from lazytensor.core import abstract_step
from lazytensor.ir.program_family import StepFamily
from tests.recorded_steps import perceptron, recorded
from wse_sim import TINY, WSE2, Machine, plan
from wse_sim.host import APPLIANCE
from wse_sim.planner.report import ModeReport

GPT = pathlib.Path(__file__).parents[2] / "notebooks" / "scripts" / "published" / "gpt2.py"
FREE_HOST = replace(APPLIANCE, worker_bytes_per_s=1e18, stream_bits_per_s=1e18, weight_transfer_s=0, step_control_s=0)
MODES = ("pipelined", "streaming")
MAX_SLOWDOWN_RATIO = 1.05
"""Cycles of a sample on the larger mesh over those on the smaller one."""
DEEP_EVERY = 10
"""Pairs of which one has a pipeline of many stages: its plans take as long as those of ten others."""


@dataclass(frozen=True)
class Pair:
    """What is drawn: a training step, known for its batch alone or for any, and two meshes."""

    net: str
    batch_size: int
    is_of_any_batch: bool
    machine: Machine
    larger: Machine
    step: StepFamily

    def reports(self, mode: str) -> tuple[ModeReport, ModeReport]:
        """Those of both meshes."""
        known = self.step if self.is_of_any_batch else self.step.program(self.batch_size)
        batch = self.batch_size if self.is_of_any_batch else None
        one, two = (
            plan(known, machine, mode, batch, host=FREE_HOST, other=False).report.chosen
            for machine in (self.machine, self.larger)
        )
        return one, two

    def __str__(self) -> str:
        sides = (f"{m.width} x {m.height}" for m in (self.machine, self.larger))
        known = "any batch" if self.is_of_any_batch else "this batch alone"
        return f"{self.net}, batch {self.batch_size}, known for {known}, {' and '.join(sides)}"


@dataclass(frozen=True)
class Outcome:
    """The result of a pair in one mode.

    `ratio` is the cycles of a sample on the larger mesh over those on the smaller one, infinite if the step only fits
    on the smaller one. `seconds` is the processor time of both plans.
    """

    pair: int
    mode: str
    text: str
    ratio: float
    rate: float
    seconds: float

    @property
    def is_too_slow(self) -> bool:
        """Whether the larger mesh is slower than the rule allows."""
        return self.ratio > MAX_SLOWDOWN_RATIO


def outcomes(seed: int, number: int) -> list[Outcome]:
    """Plan a pair in each mode, and return the outcomes of the modes in which it fits on the smaller mesh."""
    pair = pair_of(seed, number)
    found = []
    for mode in MODES:
        start = time.process_time()
        one, two = pair.reports(mode)
        if one.fits:
            found.append(
                Outcome(
                    pair=number,
                    mode=mode,
                    text=str(pair),
                    ratio=one.samples_per_s / two.samples_per_s if two.fits else float("inf"),
                    rate=one.samples_per_s,
                    seconds=time.process_time() - start,
                )
            )
    return found


def table(seen: Sequence[Outcome]) -> str:
    """Return, for each mode, how many pairs are slower on the larger mesh and by how much, as Markdown."""
    lines = ["| mode | pairs | slower | by more than 5 % | largest ratio | seconds |", "|---|---:|---:|---:|---:|---:|"]
    for mode in MODES:
        own = [o for o in seen if o.mode == mode]
        figures = (
            len(own),
            sum(o.ratio > 1 + 1e-9 for o in own),
            sum(o.is_too_slow for o in own),
            f"{max((o.ratio for o in own), default=0):.4f}",
            f"{sum(o.seconds for o in own):.0f}",
        )
        lines.append(f"| {' | '.join(map(str, (mode, *figures)))} |")
    return "\n".join(lines)


def pair_of(seed: int, number: int) -> Pair:
    """Return pair `number` of a seed."""
    draw = random.Random(f"{seed} {number}")
    return drawn_deep(draw) if number % DEEP_EVERY == DEEP_EVERY - 1 else drawn(draw)


def drawn(draw: random.Random) -> Pair:
    """A pair."""
    net = draw.choice(sorted(NETS))
    batch, top = (
        draw.choice([draw.randint(1, 8), draw.randint(1, 64), draw.randint(1, 256)]),
        draw.choice([12, 40, 40, 100]),
    )
    machine = replace(
        TINY,
        width=draw.randint(1, top),
        height=draw.randint(1, top),
        ramp_cycles=draw.choice([0.5, 1, 2, 3]),
        hop_cycles=draw.choice([1, 2]),
        turn_cycles=draw.choice([0, 20]),
        edge_bits_per_s=draw.choice([1e9, 1e11, 1.2e12]),
        usable_bytes_per_pe=draw.choice([1200, TINY.usable_bytes_per_pe, TINY.usable_bytes_per_pe]),
    )
    more = draw.choice([1, 5, 20, top])
    larger = replace(
        machine, width=machine.width + draw.randint(0, more), height=machine.height + draw.randint(0, more)
    )
    text, step = NETS[net](draw)
    return Pair(
        net=f"{net} {text}",
        batch_size=batch,
        is_of_any_batch=draw.random() < 0.5,
        machine=machine,
        larger=larger,
        step=step,
    )


def drawn_deep(draw: random.Random) -> Pair:
    """A pair for a language model, on meshes that are about as large as a wafer, or half of it."""
    layers, width, length = draw.choice([4, 8, 12, 16]), draw.choice([256, 512, 768]), draw.choice([256, 1024])
    # The model of the published runs, whose extents are arguments.
    arguments = {"layers": layers, "width": width, "heads": width // 64, "length": length}
    step = record_script(str(GPT), [text for name, n in arguments.items() for text in (f"--{name}", str(n))])
    machine, more = (
        replace(WSE2, width=draw.randint(300, 750), height=draw.randint(300, 900)),
        draw.choice([5, 50, 250]),
    )
    return Pair(
        net=f"language model {arguments}",
        batch_size=draw.randint(16, 256),
        is_of_any_batch=True,
        machine=machine,
        larger=replace(
            machine, width=machine.width + draw.randint(0, more), height=machine.height + draw.randint(0, more)
        ),
        step=step,
    )


def _perceptron(draw: random.Random, layers: int, most: int) -> tuple[str, StepFamily]:
    extents = [
        draw.choice([draw.randint(2, most), draw.randint(2, 64), 1 << draw.randint(1, 8)]) for _ in range(layers)
    ]
    return str(extents), perceptron((*extents, 10), draw.choice([None, lt.float16]))


def _convolutional(draw: random.Random) -> tuple[str, StepFamily]:
    widths, size = [3, *(draw.randint(1, 16) for _ in range(draw.randint(1, 4)))], draw.randint(4, 10)
    with abstract_step.mode():
        layers = [m for a, b in pairwise(widths) for m in (nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())]
        model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10))
    return f"{widths} on {size} x {size}", _recorded(model, (3, size, size), draw)


class _Transformer(nn.Module):
    def __init__(self, width: int, heads: int, layers: int):
        super().__init__()
        blocks = [nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, batch_first=True) for _ in range(layers)]
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(width, 10)

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        return self.head(self.blocks(x).mean(1))


def _transformer(draw: random.Random) -> tuple[str, StepFamily]:
    heads, length, layers = draw.choice([1, 2, 4]), draw.randint(2, 16), draw.randint(1, 2)
    width = heads * draw.randint(1, 16)
    with abstract_step.mode():
        model = _Transformer(width, heads, layers)
    return f"{layers} layers of {width} in {heads} heads, length {length}", _recorded(model, (length, width), draw)


def _recorded(model: nn.Module, extents: tuple[int, ...], draw: random.Random) -> StepFamily:
    return recorded(model, extents, draw.choice([None, lt.float16]))


NETS: Mapping[str, Callable[[random.Random], tuple[str, StepFamily]]] = {
    "perceptron": lambda draw: _perceptron(draw, draw.randint(1, 5), 512),
    "deep perceptron": lambda draw: _perceptron(draw, draw.randint(9, 20), 128),
    "convolutional net": _convolutional,
    "transformer": _transformer,
}
"""Kind -> a function that draws a net, and says which."""
