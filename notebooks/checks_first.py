"""Checkers of chapters 00 to 02: tour, tensors, gradients. See `checks`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from checks import say

import lazytensor as lt
from lazytensor.ir.graph import Graph
from lazytensor.ir.program import Program

Images = tuple[np.ndarray, np.ndarray]
"""The pixels of all images, and the digit of each image."""


def check_00_1(answer: int | None, graph: Graph) -> None:
    """Check the number of elements of all state that a step updates."""
    if answer is None:
        return say(False, "put a number into `answer_1`.")
    carried = sum(graph.state[name].type.size for name in graph.updates)
    if answer == carried // 2:
        return say(False, f"{answer:,} is the number of weights and biases. What else does a step change?")
    if answer != carried:
        side = "low" if answer < carried else "high"
        return say(False, f"{answer:,} is too {side}. How many weights and how many biases does each layer have?")
    return say(True, f"{carried:,} numbers in {len(graph.updates)} tensors: each weight and each bias has a momentum.")


def check_00_2(
    nearest: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray], known: Images, unseen: Images, net: float
) -> None:
    """Check a classifier by the nearest mean image."""
    pixels, digits = unseen
    own = np.asarray(nearest(*known, pixels))
    if own.shape != digits.shape:
        return say(
            False, f"the result for {len(pixels)} images has shape {own.shape}. Return one digit for each image."
        )
    swapped = np.asarray(nearest(known[0], (known[1] + 1) % 10, pixels))
    if not np.array_equal(swapped, (own + 1) % 10):
        return say(
            False, "if all training labels are raised by one, the answers should rise by one. Do you use `digits`?"
        )
    share = float((own == digits).mean())
    if share < 0.8:
        return say(False, f"it reads {share:.0%} of the digits. Pixels are unsigned: can a difference be negative?")
    return say(True, f"it reads {share:.0%} of the digits and the network {net:.0%}: most digits are easy.")


def check_00_3(answer: float | None, program: Program) -> None:
    """Check the share of matrix products in a step's arithmetic, in percent."""
    if answer is None:
        return say(False, "put a number of percent into `answer_3`.")
    products = sum(i.work.flops for i in program.instrs if i.kernel.startswith("matmul"))
    share = 100 * products / program.work.flops
    if abs(answer - share) > 5:
        return say(
            False, f"{answer} is too {'low' if answer < share else 'high'}. Add up the rows of the kernel `matmul`."
        )
    return say(True, f"{share:.0f} percent of the arithmetic is in the five matrix products.")


def check_01_1(answer: Sequence[Sequence[float]] | None, written: Callable[[], Any]) -> None:
    """Check the values of a tensor after writes through its views."""
    if answer is None:
        return say(False, "put two rows of three numbers into `answer_1`.")
    if np.shape(answer) != (2, 3):
        return say(False, f"the tensor has shape (2, 3), and your answer has shape {np.shape(answer)}.")
    wrong = int((written().numpy() != np.asarray(answer)).sum())
    if wrong:
        return say(False, f"{wrong} of the six numbers are wrong. Which elements does each view show?")
    return say(True, "each write changes the one storage that all views share, in the order of the lines.")


def check_01_2(multiplied: Callable[[Any], Any]) -> None:
    """Check a function that multiplies by 4,096 with at most twelve additions."""
    graph = lt.trace_graph(multiplied, lt.ones(3))
    operations = [n.op for n in graph.nodes() if n.inputs]
    others = sorted(set(operations) - {"add"})
    if others:
        return say(False, f"it uses {', '.join(others)}. Use only additions.")
    value = float(multiplied(lt.ones(3)).numpy()[0])
    if value != 4096:
        return say(False, f"for an input of 1 it returns {value:g} instead of 4,096.")
    if len(operations) > 12:
        return say(False, f"it uses {len(operations):,} additions. Can you use the same sum as both operands?")
    return say(True, f"{len(operations)} additions, because the graph stores each sum once. A tree would have 4,095.")


def check_01_3(answer: int | None, record: Callable[[float], Any], factors: Sequence[float]) -> None:
    """Check how many different graphs a step with a changing Python number records."""
    if answer is None:
        return say(False, "put a number into `answer_3`.")
    # Equal graphs are one object: counting objects counts programs to compile.
    different = len({tuple(record(factor).outputs) for factor in factors})
    if answer != different:
        return say(
            False,
            f"{answer} is too {'low' if answer < different else 'high'}. Which of the values are equal bit for bit?",
        )
    return say(True, f"{different} graphs, and each has to be compiled. Put a number that changes into a tensor.")


def check_02_1(derivative: Callable[[np.ndarray], np.ndarray]) -> None:
    """Check the derivative of x * tanh(x)."""
    points = np.linspace(-2, 2, 9, dtype=np.float32)
    x = lt.tensor(points, requires_grad=True)
    (x * x.tanh()).sum().backward()
    own, right = np.asarray(derivative(points)), x.grad.numpy()
    if own.shape != right.shape:
        return say(False, f"the result for nine points has shape {own.shape}.")
    far = np.abs(own - right)
    if far.max() > 1e-4:
        at = int(far.argmax())
        return say(False, f"at x = {points[at]} the derivative is {right[at]:.4f}, and yours is {own[at]:.4f}.")
    return say(True, "it is the product rule with the rule of tanh: g * (1 - y * y).")


def check_02_2(rounded: Callable[[Any], Any]) -> None:
    """Check a rounding whose gradient is that of the identity."""
    points = np.array([0.4, 1.6, -2.7, 3.0], np.float32)
    x = lt.tensor(points, requires_grad=True)
    y = rounded(x)
    if not np.array_equal(y.detach().numpy(), np.round(points)):
        return say(False, f"{points} becomes {y.detach().numpy()}, which is not rounded.")
    (3 * y).sum().backward()
    if not np.array_equal(x.grad.numpy(), np.full(4, 3, np.float32)):
        return say(False, f"the gradient of 3 * y is {x.grad.numpy()}. Which part should have no gradient?")
    return say(True, "it rounds forward and passes the gradient unchanged. Networks of few bits are trained like this.")
