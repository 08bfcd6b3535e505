"""Checkers of the chapters before the compiler's: tour, tensors, gradients."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from checks import say

import lazytensor as lt
from lazytensor.ir.graph import Graph
from lazytensor.ir.program import Program

Images = tuple[np.ndarray, np.ndarray]
"""Pixels, and the digit of each image."""


def check_00_1(answer: int | None, graph: Graph) -> None:
    """How many numbers a step carries into the next one."""
    if answer is None:
        return say(False, "put a number into `answer_1`.")
    carried = sum(graph.state[name].type.size for name in graph.updates)
    if answer == carried // 2:
        return say(False, f"{answer:,} are the weights and biases. What else changes in a step?")
    if answer != carried:
        side = "few" if answer < carried else "many"
        return say(False, f"{answer:,} is too {side}: how many weights has a layer, and how many biases?")
    return say(True, f"{carried:,} in {len(graph.updates)} arrays: a momentum for each weight and each bias.")


def check_00_2(
    nearest: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray], known: Images, unseen: Images, net: float
) -> None:
    """A reader by the nearest mean image."""
    pixels, digits = unseen
    own = np.asarray(nearest(*known, pixels))
    if own.shape != digits.shape:
        return say(False, f"it gives {own.shape} for {len(pixels)} images: one digit for each is wanted.")
    swapped = np.asarray(nearest(known[0], (known[1] + 1) % 10, pixels))
    if not np.array_equal(swapped, (own + 1) % 10):
        return say(False, "with all known digits one higher, it should say one higher too.")
    share = float((own == digits).mean())
    if share < 0.8:
        return say(False, f"it reads {share:.0%}. Are pixels subtracted as numbers that can be negative?")
    return say(True, f"it reads {share:.0%}, the net {net:.0%}: most digits are easy, and the net learned the others.")


def check_00_3(answer: float | None, program: Program) -> None:
    """The share of matrix products in a step's arithmetic, in percent."""
    if answer is None:
        return say(False, "put a number of percent into `answer_3`.")
    products = sum(i.work.flops for i in program.instrs if i.kernel.startswith("matmul"))
    share = 100 * products / program.work.flops
    if abs(answer - share) > 5:
        return say(False, f"{answer} is too {'few' if answer < share else 'many'}: add up the lines that are products.")
    return say(True, f"{share:.0f} percent; none of the other kernels comes near one of the five.")


def check_01_1(answer: Sequence[Sequence[float]] | None, written: Callable[[], Any]) -> None:
    """What a tensor holds after it was written through views."""
    if answer is None:
        return say(False, "put two rows of three numbers into `answer_1`.")
    if np.shape(answer) != (2, 3):
        return say(False, f"the tensor has shape (2, 3), and yours {np.shape(answer)}.")
    wrong = int((written().numpy() != np.asarray(answer)).sum())
    if wrong:
        return say(False, f"{wrong} of the six numbers are others. Which elements does each view look at?")
    return say(True, "each write goes through its view into the one cell, in the order of the lines.")


def check_01_2(multiplied: Callable[[Any], Any]) -> None:
    """4,096 times a tensor with twelve additions."""
    graph = lt.trace_graph(multiplied, lt.ones(3))
    operations = [n.op for n in graph.nodes() if n.inputs]
    others = sorted(set(operations) - {"add"})
    if others:
        return say(False, f"it has {', '.join(others)}, and additions alone are asked for.")
    value = float(multiplied(lt.ones(3)).numpy()[0])
    if value != 4096:
        return say(False, f"of a one it makes {value:g}, and not 4,096.")
    if len(operations) > 12:
        return say(False, f"{len(operations):,} additions. What may a node be used for twice?")
    return say(True, f"{len(operations)} nodes: as a tree, this graph would have 4,095.")


def check_01_3(answer: int | None, record: Callable[[float], Any], factors: Sequence[float]) -> None:
    """How many graphs come of a step whose Python number changes."""
    if answer is None:
        return say(False, "put a number into `answer_3`.")
    # Equal graphs are one object: counting objects counts programs to compile.
    different = len({tuple(record(factor).outputs) for factor in factors})
    if answer != different:
        return say(False, f"{answer} is too {'few' if answer < different else 'many'}: what does a trace freeze?")
    return say(True, f"{different}, each to be compiled. A number that changes belongs into a tensor.")


def check_02_1(derivative: Callable[[np.ndarray], np.ndarray]) -> None:
    """The derivative of x * tanh(x), by hand."""
    points = np.linspace(-2, 2, 9, dtype=np.float32)
    x = lt.tensor(points, requires_grad=True)
    (x * x.tanh()).sum().backward()
    own, right = np.asarray(derivative(points)), x.grad.numpy()
    if own.shape != right.shape:
        return say(False, f"for nine points it gives {own.shape}.")
    far = np.abs(own - right)
    if far.max() > 1e-4:
        at = int(far.argmax())
        return say(False, f"at {points[at]} the gradient is {right[at]:.4f}, and yours {own[at]:.4f}.")
    return say(True, "the product rule, and the vjp of tanh: g * (1 - y * y).")


def check_02_2(rounded: Callable[[Any], Any]) -> None:
    """Rounding that lets the gradient through."""
    points = np.array([0.4, 1.6, -2.7, 3.0], np.float32)
    x = lt.tensor(points, requires_grad=True)
    y = rounded(x)
    if not np.array_equal(y.detach().numpy(), np.round(points)):
        return say(False, f"of {points} it makes {y.detach().numpy()}.")
    (3 * y).sum().backward()
    if not np.array_equal(x.grad.numpy(), np.full(4, 3, np.float32)):
        return say(False, f"the gradient of 3 * y is {x.grad.numpy()}. What should the graph see in place of a step?")
    return say(True, "forward a rounding, backward nothing at all: that is how nets of few bits are trained.")
