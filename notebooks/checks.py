"""Checkers of the exercises. Each prints whether an answer is right, or else a hint.

A checker contains no answers. It gets functions of its chapter as arguments and computes the right answer with them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

import lazytensor as lt
from lazytensor.errors import LazyError
from lazytensor.ir.pattern import Rule, RuleSet
from lazytensor.ir.program import Program
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.reference import evaluate
from wse_sim import APPLIANCE, WSE2, Machine

Core = tuple[int, int]
"""Column x and row y of a core."""
TOLERANCE = 0.02
"""Maximum relative difference between an answer and the computed number."""


def check_03_1(answer: set[str], identities: Mapping[str, Any], holds: Callable[[str], np.ndarray]) -> None:
    """Check which identities give the same bits for every test value."""
    if not answer:
        return say(False, "put names of identities into `answer_1`.")
    for name in answer:
        if name not in identities:
            return say(False, f"there is no identity named {name!r}.")
        if not holds(name).all():
            return say(False, f"{name!r} changes bits. Look at both zeros, the infinities and NaN.")
    rest = [name for name in identities if name not in answer and holds(name).all()]
    if rest:
        return say(False, f"these hold, but {len(rest)} more hold too.")
    return say(
        True, f"{len(answer)} of {len(identities)} hold. `x + 0 = x` fails only because 0 and -0 have different bits."
    )


def check_03_2(rule: Rule | None) -> None:
    """Check a rule that replaces a relu of a relu by one relu, and changes nothing else."""
    if rule is None:
        return say(False, "put a Rule into `rule_2`.")
    rules = RuleSet("yours", [rule])
    probes = np.array([-1.0, -0.0, 0.0, 2.0, np.inf, np.nan], np.float32)
    for name, function, fewest in (
        ("relu(relu(relu(x)))", lambda x: x.relu().relu().relu(), 1),
        ("relu(tanh(relu(x)))", lambda x: x.relu().tanh().relu(), 3),
        ("relu(x) + 1", lambda x: x.relu() + 1, 2),
    ):
        graph = lt.trace_graph(function, lt.ones(6))
        rewritten = rules.rewrite(graph)
        (before,), (after,) = (evaluate(g.outputs, {graph.inputs[0]: probes}) for g in (graph, rewritten))
        if not np.array_equal(before.view(np.uint32), after.view(np.uint32)):
            return say(False, f"your rule changes the result of {name}.")
        left = sum(bool(n.inputs) for n in rewritten.nodes())
        if left != fewest:
            return say(False, f"{name} has {left} operations after your rule and should have {fewest}.")
    return say(True, "three relus become one, because the rule is applied to its own results too.")


def check_03_3(x: float, y: float) -> None:
    """Check two numbers for which (x + y) - y is not x."""
    a, b = np.float32(x), np.float32(y)
    if not (np.isfinite(a) and np.isfinite(b)):
        return say(False, "both numbers have to be finite in float32.")
    with np.errstate(over="ignore"):
        back = (a + b) - b
    if back == a:
        return say(False, f"({a} + {b}) - {b} is {back}. What happens if a small number is added to a large one?")
    return say(True, f"({a} + {b}) - {b} is {back}: the sum was rounded, and the subtraction cannot undo that.")


def check_04_1(answer: int | None, trace: Callable[[], Program]) -> None:
    """Check the number of loops that run over all elements of a program's largest array."""
    if answer is None:
        return say(False, "put a number into `answer_1`.")
    program = trace()
    most = max(buffer.type.size for buffer in program.buffers)
    loops = [i for i in program.instrs if i.nest and prod(loop.extent for loop in i.nest.loops) == most]
    if answer != len(loops):
        return say(
            False, f"{answer} is too {'low' if answer < len(loops) else 'high'}. Which sums have to be complete first?"
        )
    return say(True, f"{', '.join(i.label for i in loops)}. Two of them end because the next one needs a finished sum.")


def check_04_2(variance: Callable[[Any], Any]) -> None:
    """Check a variance that reads its samples once."""
    samples = np.random.default_rng(2).standard_normal((64, 256), dtype=np.float32)
    program = lt.trace(variance, samples)
    (own,) = HostBackend().compile(program, {}).step([samples])
    if own.shape != (64,) or not np.allclose(own, samples.var(-1), atol=1e-4):
        return say(False, "the result is not the variance of each row.")
    loops = sum(program.batch[0] in i.reads for i in program.instrs)
    if loops > 1:
        return say(False, f"{loops} loops read x. Which two sums of a row are enough?")
    (far,) = HostBackend().compile(program, {}).step([samples + 1000])
    error = np.abs(far - samples.var(-1)).max()
    return say(True, f"one loop reads x. The price is accuracy: if the mean is 1000, the error is up to {error:.2f}.")


def check_04_3(bytes_moved: Callable[[int, int], tuple[float, float]]) -> None:
    """Check the bytes that a chain of operations moves without and with fusion."""
    for k, n in ((1, 64), (4, 1000), (9, 4096)):

        def chain(x: Any, k: int = k) -> Any:
            for step in range(k):
                x = x * 1.5 if step % 2 else x + 0.25
            return x

        nodes = lt.trace_graph(chain, lt.ones(n)).nodes()
        naive = sum(2 * node.type.nbytes for node in nodes if node.inputs)
        work = lt.trace(chain, lt.ones(n)).work
        answer = bytes_moved(k, n)
        if tuple(answer) != (naive, work.bytes_read + work.bytes_written):
            return say(
                False, f"{k} operations on {n:,} elements move {naive:,} bytes without fusion; you said {answer}."
            )
    return say(True, "a fused chain moves as many bytes as one operation, whatever its length.")


def check_05_1(answer: int | None, cycles: Callable[[int], int]) -> None:
    """Check the size of micro-batches with which a step of 16 samples takes the fewest cycles."""
    sizes = (1, 2, 4, 8, 16)
    if answer not in sizes:
        return say(False, "put 1, 2, 4, 8 or 16 into `answer_1`.")
    own = cycles(answer)
    faster = [size for size in sizes if cycles(size) < own]
    if faster:
        side = "smaller" if max(faster) < answer else "larger"
        return say(False, f"{own:,} cycles with {answer}. A {side} micro-batch takes fewer cycles.")
    return say(
        True,
        f"{own:,} cycles. Smaller micro-batches repeat the set-up more often; with larger ones layers wait longer.",
    )


def check_05_2(answer: float | None, near_and_far: Callable[[], tuple[int, int]]) -> None:
    """Check by how many percent a step is slower on rectangles that are far apart."""
    if answer is None:
        return say(False, "put a number of percent into `answer_2`.")
    near, far = near_and_far()
    if abs(answer - 100 * (far / near - 1)) > 1:
        return say(
            False,
            f"{answer} percent of {near:,} cycles is {near * answer / 100:,.0f} cycles. How long does one hop take?",
        )
    return say(True, f"{near:,} cycles side by side, {far:,} cycles in three corners.")


def check_06_1(rounds: Sequence[Sequence[tuple[int, int]]], run: Callable[..., Any]) -> None:
    """Check a sum over sixteen cores that takes at most 60 cycles."""
    done = run(rounds)
    if done.status != "finished" or done.memory[0, 0, 0] != 136:
        return say(
            False, f"the run ended with status {done.status!r} and {done.memory[0, 0, 0]:g} on core 0 instead of 136."
        )
    if done.cycles > 60:
        return say(False, f"{done.cycles} cycles. What takes longer, a round or a hop?")
    return say(True, f"{done.cycles} cycles.")


def check_06_2(orders: Sequence[Sequence[str]], run: Callable[..., Any]) -> None:
    """Check an exchange of two cores that ends within 140 cycles."""
    done = run(orders)
    if done.status != "finished":
        return say(False, f"the run ended with status {done.status!r}. Which core could make room?")
    words = done.memory.shape[2] // 2
    if not np.array_equal(done.memory[0, ::-1, words:], done.memory[0, :, :words]):
        return say(False, "the cores do not have each other's words.")
    if done.cycles > 140:
        return say(False, f"it takes {done.cycles} cycles, because one direction waits for the other.")
    return say(True, f"{done.cycles} cycles: a link carries words in both directions at the same time.")


def check_06_3(
    ways: Sequence[tuple[int, Sequence[Core]]], messages: Sequence[tuple[Core, Core]], run: Callable[..., Any]
) -> None:
    """Check the routes of three messages: at most two colours and 60 cycles."""
    if [(cores[0], cores[-1]) for _, cores in ways] != list(messages):
        return say(False, "each route has to begin at its sender and end at its receiver, in the order of MESSAGES.")
    for _, cores in ways:
        for (x, y), (next_x, next_y) in pairwise(cores):
            if abs(x - next_x) + abs(y - next_y) != 1 or not (0 <= next_x < 4 and 0 <= next_y < 3):
                return say(False, f"({next_x}, {next_y}) is not a neighbour of ({x}, {y}) on a mesh of 4 x 3 cores.")
    try:
        done = run(ways)
    except LazyError as error:
        return say(False, f"the mesh refuses a route: {str(error).splitlines()[0]}.")
    if done.status != "finished":
        return say(False, f"the run ended with status {done.status!r}.")
    for (from_x, from_y), (to_x, to_y) in messages:
        if not np.array_equal(done.memory[from_y, from_x], done.memory[to_y, to_x]):
            return say(False, f"core ({to_x}, {to_y}) does not have the words of core ({from_x}, {from_y}).")
    colours = len({colour for colour, _ in ways})
    if colours > 2:
        return say(False, f"{done.cycles} cycles with {colours} colours. Which messages can avoid each other?")
    if done.cycles > 60:
        return say(
            False,
            f"{done.cycles} cycles. A link carries one word in a cycle, whatever its colour. Do routes share one?",
        )
    return say(True, f"{done.cycles} cycles with {colours} colours.")


def check_07_1(answer: int | None, report: Callable[[int], Any]) -> None:
    """Check from which power of two on the fill time is less than a tenth of a step."""
    if answer is None:
        return say(False, "put a power of two into `answer_1`.")

    def share(batch: int) -> float:
        line = report(batch)
        return float(line.fill_cycles / line.step_cycles)

    if answer < 1 or answer & (answer - 1):
        return say(False, f"{answer} is not a power of two.")
    if share(answer) >= 0.1:
        return say(
            False, f"with {answer:,} samples the fill time is {share(answer):.0%} of a step. Try a larger batch."
        )
    if answer > 1 and share(answer // 2) < 0.1:
        return say(False, f"{answer // 2:,} samples are already enough.")
    return say(True, f"{share(answer):.1%} of a step, and {share(answer // 2):.1%} with half as many samples.")


def check_07_2(step_cycles: Callable[[float, int, int], float], report: Callable[..., Any]) -> None:
    """Check the formula for the cycles of a step, on pipelines of two depths and three batch sizes."""
    for widths in ((784, 500, 300, 10), (512, 512, 512)):
        for batch in (1, 128, 8192):
            line = report(widths, batch)
            # Cycles of the slowest part of the wafer for one sample: a layer, or the edge.
            slowest = min(b.samples_per_s for b in line.bounds if b.kind in ("compute", "moving", "edge"))
            whole = next(b.samples_per_s for b in line.bounds if b.kind == "fill")
            rhythm = line.step_cycles * whole / batch / slowest
            answer = step_cycles(rhythm, line.fill_cycles, batch)
            if abs(answer - line.step_cycles) > TOLERANCE * line.step_cycles:
                case = f"rhythm {rhythm:,.1f}, fill {line.fill_cycles:,} and {batch:,} samples"
                return say(False, f"with {case} a step takes {line.step_cycles:,} cycles; you said {answer:,.0f}.")
    return say(True, "the formula agrees with six plans out of six.")


def check_07_3(answer: int | None, waiting_bytes: Callable[[], Sequence[int]]) -> None:
    """Check which of eight equal layers stores the most bytes of activations."""
    held = waiting_bytes()
    if answer is None or not 0 <= answer < len(held):
        return say(False, "put 0, 4 or 7 into `answer_3`.")
    if answer != max(range(len(held)), key=held.__getitem__):
        return say(False, f"layer {answer} stores {held[answer]:,} bytes, and another layer stores more.")
    others = ", ".join(f"{n:,}" for n in held)
    return say(True, f"{others} bytes. The first layer waits longest for its gradient, so it stores the most samples.")


def check_08_1(answer: int | None, report: Callable[[int], Any]) -> None:
    """Check from which power of two on weights do not limit weight streaming."""
    if answer is None or not _is_power_of_two(answer):
        return _say_no_power(answer, "answer_1")
    if report(answer).limit == "weights":
        return say(False, f"with {answer:,} samples the step is still limited by weights.")
    if report(answer // 2).limit != "weights":
        return say(False, f"{answer // 2:,} samples are already enough.")
    return say(
        True, f"then the limit is {report(answer).limit!r}. Cores do not reach their peak, so fewer rows are enough."
    )


def check_08_2(rows_needed: Callable[[Machine], float]) -> None:
    """Check the estimated number of rows, for three machines."""
    for machine in (WSE2, replace(WSE2, clock_hz=2e9), replace(WSE2, edge_bits_per_s=1e12, fma_f16_per_cycle=8)):
        # Two operations forward and four back, against two bytes forward and two back.
        operations_per_s = machine.usable_pes * 2 * machine.fma_f16_per_cycle * machine.clock_hz
        rows = 4 / (machine.edge_bits_per_s / 8) * operations_per_s / 6
        answer = rows_needed(machine)
        if abs(answer - rows) > TOLERANCE * rows:
            speeds = f"{operations_per_s / 1e15:.1f} PFLOP/s and an edge of {machine.edge_bits_per_s / 1e12:.1f} Tbit/s"
            return say(False, f"with {speeds} a weight needs {rows:,.0f} rows; you said {answer:,.0f}.")
    return say(True, "a faster clock needs more rows and a faster edge fewer. The size of the network does not matter.")


def check_08_3(answer: int | None, memory: int, fits: Mapping[int, bool]) -> None:
    """Check the largest width of eight layers whose weights fit into memory by the estimate."""
    if answer is None or not _is_power_of_two(answer):
        return _say_no_power(answer, "answer_3")
    needed = {width: 16 * 8 * width**2 for width in (answer, 2 * answer)}
    for width, is_room_expected in zip(needed, (True, False), strict=True):
        if (needed[width] <= memory) != is_room_expected:
            return say(
                False,
                f"eight layers of width {width:,} need {needed[width] / 1e9:,.1f} GB; there are {memory / 1e9:.1f} GB.",
            )
    planned = max(width for width, is_room in fits.items() if is_room)
    return say(
        True, f"in the plans, {planned:,} is the largest of {', '.join(f'{width:,}' for width in fits)} that fits."
    )


def check_09_1(answer: int | None, report: Callable[[int], Any]) -> None:
    """Check the smallest power of two of input workers with which the input is not the limit."""
    if answer is None or not _is_power_of_two(answer):
        return _say_no_power(answer, "answer_1")
    if report(answer).limit == "input":
        return say(False, f"with {answer} workers the input is still the limit.")
    if report(answer // 2).limit != "input":
        return say(False, f"{answer // 2} workers are already enough.")
    return say(True, f"then the limit is {report(answer).limit!r}. One worker for each replica would be far too few.")


def check_09_2(input_rate: Callable[[int, int, float, int], float], report: Callable[..., Any]) -> None:
    """Check the formula for the rate of the input, on two numbers of workers and systems."""
    sample_bytes = 64 * 4 + 8
    for workers, systems in ((5, 1), (2, 4)):
        line = report(65536, workers, host=APPLIANCE, systems=systems)
        allowed = next(b.samples_per_s for b in line.bounds if b.kind == "input")
        answer = input_rate(workers, systems, APPLIANCE.worker_bytes_per_s, sample_bytes)
        if abs(answer - allowed) > TOLERANCE * allowed:
            case = f"{workers} workers for each of {systems} systems"
            return say(False, f"{case} prepare {allowed:,.0f} samples/s; you said {answer:,.0f}.")
    return say(True, "the rate depends on the size of a sample, and not on the wafer or the network.")


def check_09_3(answer: int | None, report: Callable[[int], Any]) -> None:
    """Check from which power of two on four replicas add gradients in less than an eighth of a step."""
    if answer is None or not _is_power_of_two(answer):
        return _say_no_power(answer, "answer_3")
    larger, smaller = report(answer), report(answer // 2)
    shares = [line.gradient_cycles / line.step_cycles for line in (smaller, larger)]
    if larger.copies < 4 or shares[1] >= 0.125:
        return say(
            False, f"with {answer:,} samples sums take {shares[1]:.0%} of a step, with {larger.copies} replicas."
        )
    if smaller.copies == 4 and shares[0] < 0.125:
        return say(False, f"{answer // 2:,} samples are already enough.")
    return say(True, f"{shares[1]:.1%} of a step, and {shares[0]:.1%} with half as many samples.")


def check_10_1(answer: set[int], saved: Callable[[], set[int]]) -> None:
    """Check the steps after which a run saves a checkpoint."""
    if not answer:
        return say(False, "put numbers of steps into `answer_1`.")
    steps = saved()
    if set(answer) - steps:
        return say(False, f"nothing is saved after step {min(set(answer) - steps)}.")
    if steps - set(answer):
        return say(False, f"you have {len(answer)} of {len(steps)} steps. Which steps would be lost otherwise?")
    return say(True, f"{sorted(steps)}: state is copied from the wafer after these steps only.")


def check_10_2(halved: Callable[[Any], Any]) -> None:
    """Check a choice between two values that can be traced."""
    try:
        program = lt.trace(halved, lt.tensor(0.0))
    except LazyError as error:
        return say(False, f"tracing it raises {type(error).__name__}: the loss has no value yet. Compute both results.")
    step = HostBackend().compile(program, {}).step
    for loss, right in ((3.0, 1.5), (2.0, 2.0), (1.0, 1.0)):
        (own,) = step([np.array(loss, np.float32)])
        if own != right:
            return say(False, f"a loss of {loss} becomes {float(own)} and should become {right}.")
    return say(True, "both results are computed, and one of them is selected. This is an `if` that a wafer can run.")


def check_11_1(answer: int | None) -> None:
    """Check the exponent of the smallest positive float16."""
    if answer is None:
        return say(False, "put an exponent into `answer_1`.")

    def is_zero(exponent: int) -> bool:
        return bool(np.float16(2.0**exponent) == 0)

    if is_zero(answer):
        return say(False, f"2 to the power {answer} becomes zero in float16.")
    if not is_zero(answer - 1):
        return say(False, f"2 to the power {answer - 1} is not zero either.")
    return say(
        True,
        f"2 to the power {answer} is {2.0**answer:.1e}: the smallest exponent is -14, plus 10 binary digits.",
    )


def check_11_2(
    next_scale: Callable[[float, bool, int], float], run: Callable[..., Any], sizes: Sequence[float]
) -> None:
    """Check the rule of a loss scale in four cases, and then use it in a run."""
    for scale, finite, good, right in (
        (8.0, True, 1, 8.0),
        (8.0, True, 4, 16.0),
        (8.0, True, 8, 16.0),
        (8.0, False, 0, 4.0),
    ):
        answer = next_scale(scale, finite, good)
        if answer != right:
            case = f"after {good} finite steps in a row" if finite else "after a step that was not finite"
            return say(False, f"{case} a scale of {scale} becomes {right}; you said {answer}.")
    with np.errstate(over="ignore"):
        scales, skipped = run(next_scale, sizes)
    return say(
        True,
        f"{skipped} of {len(sizes)} steps are skipped. Scales are from {min(scales):,.0f} to {max(scales):,.0f}.",
    )


def check_11_3(answer: float | None, lost: Callable[[float], tuple[float, float]]) -> None:
    """Check the smallest power of two with which less than a thousandth of the gradients is lost."""
    if answer is None:
        return say(False, "put a power of two into `answer_3`.")
    if answer < 1 or np.log2(answer) % 1:
        return say(False, f"{answer} is not a power of two.")
    if lost(answer)[0] >= 1e-3:
        return say(False, f"with {answer:,.0f}, {lost(answer)[0]:.2%} of the gradients are lost.")
    if lost(answer / 2)[0] < 1e-3:
        return say(False, f"{answer / 2:,.0f} is already enough.")
    return say(
        True, f"{lost(answer)[0]:.3%} of the gradients are lost, and {lost(answer / 2)[0]:.3%} with half the scale."
    )


def check_12_1(answer: float | None, size: Callable[[], float]) -> None:
    """Check the bytes of a checkpoint for each weight with Adam."""
    if answer is None:
        return say(False, "put a number of bytes into `answer_1`.")
    measured = size()
    if abs(answer - measured) > 1:
        return say(
            False, f"{answer} is too {'low' if answer < measured else 'high'}. How many bytes does each number take?"
        )
    return say(True, f"{measured:.1f} bytes: three numbers of four bytes, and a little for names.")


def check_12_2(rule: Callable[[int, int, list[int]], Sequence[int]], samples: Callable[[int], Sequence[int]]) -> None:
    """Check a rule that divides samples among workers."""
    for workers in (1, 2, 3, 5):
        shares = [list(rule(worker, workers, list(range(12)))) for worker in range(workers)]
        if sorted(n for share in shares for n in share) != list(range(12)):
            return say(False, f"with {workers} workers the shares are {shares}. Each sample has to occur once.")
        if max(map(len, shares)) - min(map(len, shares)) > 1:
            return say(
                False,
                f"with {workers} workers the shares have {[len(share) for share in shares]} samples, which is uneven.",
            )
    loaded = samples(2)
    if sorted(loaded) != list(range(12)):
        return say(False, f"the loader returns {sorted(loaded)}.")
    return say(True, f"two workers return {list(loaded)}: each sample once, in another order.")


def check_12_3(answer: set[str], goes_on: Callable[[set[str]], bool]) -> None:
    """Check the smallest set of parts with which a plain run continues with the same bits."""
    if not answer:
        return say(False, "put names of parts into `answer_3`.")
    if not goes_on(answer):
        return say(False, f"with {sorted(answer)} the losses differ. What else does a step read?")
    spare = [part for part in sorted(answer) if goes_on(answer - {part})]
    if spare:
        return say(False, f"the run continues with the same bits, but also without {spare[0]}.")
    return say(True, f"{sorted(answer)}: a plain step reads nothing else that the previous step wrote.")


def check_13_1(answer: str | None, families: Mapping[str, Sequence[float]]) -> None:
    """Check which family with at least five rows has the largest median error."""
    if answer not in families:
        return say(False, f"put one of {', '.join(families)} into `answer_1`.")
    if len(families[answer]) < 5:
        return say(False, f"{answer} has only {len(families[answer])} rows.")
    worst = max((n for n, e in families.items() if len(e) >= 5), key=lambda n: np.median(families[n]))
    if answer != worst:
        return say(
            False, f"the median of {answer} is {np.median(families[answer]):.1%}, and another family has a larger one."
        )
    return say(True, f"the median of {answer} is {np.median(families[answer]):.1%}, over {len(families[answer])} rows.")


def check_13_2(
    fair_error: Callable[[Mapping[str, Sequence[float]]], float], families: Mapping[str, Sequence[float]]
) -> None:
    """Check an error in which each family counts once and a single row changes little."""
    own = fair_error(families)
    if not own > 0:
        return say(False, "the result is not positive.")
    if not np.isclose(
        fair_error({name: list(errors) * 7 if name == "spmm" else errors for name, errors in families.items()}), own
    ):
        return say(False, "the result changes if one family has seven times as many rows.")
    absurd = {name: [*errors, 1e9] if len(errors) > 10 else errors for name, errors in families.items()}
    if fair_error(absurd) > 2 * own:
        return say(False, "the result changes much if each large family gets one row with an absurd error.")
    return say(True, f"{own:.1%} is the error to expect for a kernel that is not in the table.")


def check_13_3(answer: float | None, ratios: Sequence[float]) -> None:
    """Check by how many percent one factor for all rows could lower the median error."""
    if answer is None:
        return say(False, "put a number of percent into `answer_3`.")
    present = np.median(np.abs(np.array(ratios) - 1))
    best = min(np.median(np.abs(np.array(ratios) * factor - 1)) for factor in np.linspace(0.8, 1.25, 901))
    gain = 100 * (1 - best / present)
    if abs(answer - gain) > 10:
        return say(False, "a factor that corrects one row makes another row worse. Try several factors.")
    return say(True, f"by {gain:.0f} percent. The errors do not come from one wrong factor.")


def check_14_1(answer: float | None, bytes_in: Callable[[float], int], dense: int) -> None:
    """Check the density below which fewer bytes are sent to the wafer."""
    if answer is None or not 0 < answer <= 1:
        return say(False, "put a share between 0 and 1 into `answer_1`.")
    if bytes_in(max(0.001, answer - 0.1)) >= dense:
        return say(
            False, f"with {answer - 0.1:.0%} of the weights, as many bytes are sent. How many bytes does an index take?"
        )
    if bytes_in(min(1.0, answer + 0.1)) < dense:
        return say(False, f"with {answer + 0.1:.0%} of the weights, fewer bytes are sent already.")
    return say(
        True, f"{bytes_in(answer / 2):,} bytes at half of that density, and {dense:,} bytes for the dense weight."
    )


def check_14_2(answer: float | None, measured: float) -> None:
    """Check the factor by which a step becomes shorter."""
    if answer is None:
        return say(False, "put a factor into `answer_2`.")
    if abs(answer - measured) > 0.2:
        return say(False, "part of the step does not shrink: the batch is sent as before.")
    return say(True, f"{measured:.2f} times as fast, with a hundredth of the weights.")


def check_15_1(cache_bytes: Callable[[int, int, int, int], float], planned: Callable[[str], Any]) -> None:
    """Check the formula for the bytes of a KV cache, on three models."""
    for name in ("gpt2", "llama-2-7b", "llama-3-8b"):
        plan = planned(name)
        model, tokens = plan.decoder, plan.prompt_tokens + plan.generated_tokens
        answer, right = cache_bytes(model.layers, model.kv_heads, model.head_size, tokens), plan.cache_bytes_per_user
        if answer != right:
            return say(False, f"for {name} and {tokens:,} tokens it is {right:,} bytes; you said {answer:,}.")
    return say(True, "the formula agrees with three plans out of three.")


def check_15_2(answer: int | None, limit: Callable[[int], str]) -> None:
    """Check the smallest power of two of users for which latency is not the limit."""
    if answer is None or not _is_power_of_two(answer):
        return _say_no_power(answer, "answer_2")
    latency = limit(1)
    if limit(answer) == latency:
        return say(False, f"{answer} users are still limited by the {latency}.")
    if limit(answer // 2) != latency:
        return say(False, f"half as many users are limited by the {limit(answer // 2)} already.")
    return say(True, f"{answer} users are limited by the {limit(answer)}.")


def check_16_1(answer: int | None, cycles: Callable[[int], tuple[int, int]]) -> None:
    """Check the smallest side of a tile from which on the exchange takes less than 5 % of the cycles.

    `cycles` returns the cycles of the exchange and of all.
    """
    if answer is None:
        return say(False, "put a side into `answer_1`.")
    if not 2 <= answer <= 60:
        return say(False, "give a side from 2 to 60.")
    shares = {side: moved / whole for side in range(answer - 1, 61) for moved, whole in [cycles(side)]}
    for side in range(answer, 61):
        if shares[side] >= 0.05:
            return say(False, f"with {side} the exchange takes {shares[side]:.1%}. Odd and even sides differ.")
    if shares[answer - 1] < 0.05:
        return say(False, f"with {answer - 1} it takes {shares[answer - 1]:.1%} already.")
    return say(True, f"with {answer} the exchange takes {shares[answer]:.1%}, with one less {shares[answer - 1]:.1%}.")


def check_16_2(check: Callable[[], Any]) -> None:
    """Check the kernel of a box in its three readings; `check` returns a `KernelCheck`."""
    try:
        found = check()
    except LazyError as error:
        return say(False, str(error))
    failures = [row.failure for row in found.rows if row.failure]
    if failures:
        return say(False, failures[0])
    return say(True, f"all readings agree, in {found.simulated} cycles.")


def say(is_right: bool, sentence: str) -> None:
    """Print "Right:" or "Not yet:" with a sentence."""
    print("Right:" if is_right else "Not yet:", sentence)


def _is_power_of_two(answer: int) -> bool:
    return answer >= 2 and not answer & (answer - 1)


def _say_no_power(answer: int | None, name: str) -> None:
    say(False, f"put a power of two into `{name}`." if answer is None else f"{answer} is not a power of two above 1.")
