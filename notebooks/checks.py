"""Checkers of the exercises: each prints whether an answer is right or, until it is, what to think about.

A checker measures what it compares with: it is handed the functions of its chapter, so that it knows no answers.
"""

from collections.abc import Callable, Sequence
from typing import Any

from wse_sim import APPLIANCE

TOLERANCE = 0.02
"""How far a number may be from the measured one."""


def check_05_1(answer: int | None, cycles: Callable[[int], int]) -> None:
    """With how many of 16 samples at a time a step takes the fewest cycles."""
    sizes = (1, 2, 4, 8, 16)
    if answer not in sizes:
        return _say(False, "put 1, 2, 4, 8 or 16 into `answer_1`.")
    own = cycles(answer)
    faster = [size for size in sizes if cycles(size) < own]
    if faster:
        way = "fewer" if max(faster) < answer else "more"
        return _say(False, f"{own:,} cycles with {answer}, and less with {way} at a time.")
    return _say(True, f"{own:,} cycles. Fewer samples pay for a setup more often, more keep the next layer waiting.")


def check_05_2(answer: float | None, near_and_far: Callable[[], tuple[int, int]]) -> None:
    """By how many percent a step takes longer on rectangles that lie far apart."""
    if answer is None:
        return _say(False, "put a number of percent into `answer_2`.")
    near, far = near_and_far()
    if abs(answer - 100 * (far / near - 1)) > 1:
        return _say(False, f"{answer} percent of {near:,} cycles are {near * answer / 100:,.0f}: how long is one hop?")
    return _say(True, f"{near:,} cycles side by side, {far:,} in the corners.")


def check_07_1(answer: int | None, report: Callable[[int], Any]) -> None:
    """From which batch on, a power of two, the first sample's way is less than a tenth of a step."""
    if answer is None:
        return _say(False, "put a power of two into `answer_1`.")

    def share(batch: int) -> float:
        line = report(batch)
        return float(line.fill_cycles / line.step_cycles)

    if answer < 1 or answer & (answer - 1):
        return _say(False, f"{answer} is no power of two.")
    if share(answer) >= 0.1:
        return _say(False, f"with {answer:,} samples the way is {share(answer):.0%} of a step: look further up.")
    if answer > 1 and share(answer // 2) < 0.1:
        return _say(False, f"{answer // 2:,} samples are enough already.")
    return _say(True, f"{share(answer):.1%} of a step, and {share(answer // 2):.1%} with half as many samples.")


def check_07_2(step_cycles: Callable[[float, int, int], float], report: Callable[..., Any]) -> None:
    """The rule of a step's length, on lines of several depths and batches."""
    for widths in ((784, 500, 300, 10), (512, 512, 512)):
        for batch in (1, 16, 128, 1024, 8192):
            line = report(widths, batch)
            # Cycles of the slowest part of the wafer for one sample: a layer, or the edge.
            slowest = min(b.samples_per_s for b in line.bounds if b.kind in ("compute", "moving", "edge"))
            whole = next(b.samples_per_s for b in line.bounds if b.kind == "fill")
            rhythm = line.step_cycles * whole / batch / slowest
            answer = step_cycles(rhythm, line.fill_cycles, batch)
            if abs(answer - line.step_cycles) > TOLERANCE * line.step_cycles:
                asked = f"a rhythm of {rhythm:,.1f}, a way of {line.fill_cycles:,} and {batch:,} samples"
                return _say(False, f"for {asked} a step takes {line.step_cycles:,} cycles, and you said {answer}.")
    return _say(True, "ten lines out of ten.")


def check_07_3(answer: int | None, waiting_bytes: Callable[[], Sequence[int]]) -> None:
    """In which of eight equal layers the most bytes wait."""
    held = waiting_bytes()
    if answer is None or not 0 <= answer < len(held):
        return _say(False, "put 0, 4 or 7 into `answer_3`.")
    if answer != max(range(len(held)), key=held.__getitem__):
        return _say(False, f"{held[answer]:,} bytes wait in layer {answer}, and more in another one.")
    others = ", ".join(f"{n:,}" for n in held)
    return _say(True, f"{others} bytes. A sample stays longest where it has the longest way to go and come back.")


def check_09_1(answer: int | None, report: Callable[[int], Any]) -> None:
    """The least power of two of workers with which the input is not the limit."""
    if answer is None:
        return _say(False, "put a power of two into `answer_1`.")
    if answer < 2 or answer & (answer - 1):
        return _say(False, f"{answer} is no power of two above 1.")
    if report(answer).limit == "input":
        return _say(False, f"{answer} workers prepare less than the wafer takes.")
    if report(answer // 2).limit != "input":
        return _say(False, f"{answer // 2} workers are enough already.")
    return _say(True, f"then {report(answer).limit} limits. One worker for each copy would be far too few.")


def check_09_2(input_rate: Callable[[int, int, float, int], float], report: Callable[..., Any]) -> None:
    """The law of the input, on two numbers of workers and of systems."""
    sample_bytes = 64 * 4 + 8
    for workers, systems in ((5, 1), (2, 4)):
        line = report(65536, workers, host=APPLIANCE, systems=systems)
        allowed = next(b.samples_per_s for b in line.bounds if b.kind == "input")
        answer = input_rate(workers, systems, APPLIANCE.worker_bytes_per_s, sample_bytes)
        if abs(answer - allowed) > TOLERANCE * allowed:
            asked = f"{workers} workers for each of {systems} systems"
            return _say(False, f"{asked} prepare {allowed:,.0f} samples/s, and you said {answer:,.0f}.")
    return _say(True, "the wafer is not in it, nor is the net: only its samples.")


def check_09_3(answer: int | None, report: Callable[[int], Any]) -> None:
    """From which batch on, a power of two, four copies add up gradients in less than an eighth of a step."""
    if answer is None:
        return _say(False, "put a power of two into `answer_3`.")
    if answer < 2 or answer & (answer - 1):
        return _say(False, f"{answer} is no power of two above 1.")
    larger, smaller = report(answer), report(answer // 2)
    shares = [line.gradient_cycles / line.step_cycles for line in (smaller, larger)]
    if larger.copies < 4 or shares[1] >= 0.125:
        return _say(False, f"with {answer:,} samples sums take {shares[1]:.0%} of a step in {larger.copies} copies.")
    if smaller.copies == 4 and shares[0] < 0.125:
        return _say(False, f"{answer // 2:,} samples are enough already.")
    return _say(True, f"{shares[1]:.1%} of a step, and with half as many samples {shares[0]:.1%}.")


def _say(is_right: bool, sentence: str) -> None:
    print("Right:" if is_right else "Not yet:", sentence)
