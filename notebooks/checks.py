"""Checkers of the exercises: each prints whether an answer is right or, until it is, what to think about.

A checker measures what it compares with: it is handed the functions of its chapter, so that it knows no answers.
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
"""x and y."""
TOLERANCE = 0.02
"""How far a number may be from the measured one."""


def check_03_1(answer: set[str], identities: Mapping[str, Any], holds: Callable[[str], np.ndarray]) -> None:
    """Which identities give the same bits for every probe."""
    if not answer:
        return say(False, "put names of identities into `answer_1`.")
    for name in answer:
        if name not in identities:
            return say(False, f"there is no identity {name!r} above.")
        if not holds(name).all():
            return say(False, f"{name!r} changes bits: look at the zeros and at what is no number.")
    rest = [name for name in identities if name not in answer and holds(name).all()]
    if rest:
        return say(False, f"all of these hold, and {len(rest)} more.")
    return say(True, f"{len(answer)} of {len(identities)}: one more shows that each zero is a number of its own.")


def check_03_2(rule: Rule | None) -> None:
    """A rule that takes away a relu of a relu, and nothing else."""
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
            return say(False, f"{name} has other bits after your rule.")
        left = sum(bool(n.inputs) for n in rewritten.nodes())
        if left != fewest:
            return say(False, f"of {name} {left} operations are left, and {fewest} should be.")
    return say(True, "three relus become one: a rule is tried again on what it has built.")


def check_03_3(x: float, y: float) -> None:
    """Two numbers of which (x + y) - y is not x."""
    a, b = np.float32(x), np.float32(y)
    if not (np.isfinite(a) and np.isfinite(b)):
        return say(False, "both numbers have to be finite in float32.")
    with np.errstate(over="ignore"):
        back = (a + b) - b
    if back == a:
        return say(False, f"({a} + {b}) - {b} is {back}. What happens to a small number beside a large one?")
    return say(True, f"({a} + {b}) - {b} is {back}: what the sum has rounded away does not come back.")


def check_04_1(answer: int | None, trace: Callable[[], Program]) -> None:
    """How many loops of a program go over all elements of its largest array."""
    if answer is None:
        return say(False, "put a number into `answer_1`.")
    program = trace()
    most = max(buffer.type.size for buffer in program.buffers)
    loops = [i for i in program.instrs if i.nest and prod(loop.extent for loop in i.nest.loops) == most]
    if answer != len(loops):
        return say(False, f"{answer} is too {'few' if answer < len(loops) else 'many'}: which sums does it wait for?")
    return say(True, f"{', '.join(i.label for i in loops)}. Two end where a sum over a row is needed.")


def check_04_2(variance: Callable[[Any], Any]) -> None:
    """A variance that goes over its samples once."""
    samples = np.random.default_rng(2).standard_normal((64, 256), dtype=np.float32)
    program = lt.trace(variance, samples)
    (own,) = HostBackend().compile(program, {}).step([samples])
    if own.shape != (64,) or not np.allclose(own, samples.var(-1), atol=1e-4):
        return say(False, "this is no variance of each row.")
    loops = sum(program.batch[0] in i.reads for i in program.instrs)
    if loops > 1:
        return say(False, f"{loops} loops read x. Which two sums of a row are enough?")
    (far,) = HostBackend().compile(program, {}).step([samples + 1000])
    error = np.abs(far - samples.var(-1)).max()
    return say(
        True, f"one loop; and where the mean is 1000, the variance is wrong by up to {error:.2f}. That is the price."
    )


def check_04_3(bytes_moved: Callable[[int, int], tuple[float, float]]) -> None:
    """What a chain moves without fusion and with it."""
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
            return say(False, f"{k} operations on {n:,} elements move {naive:,} bytes naively; you said {answer}.")
    return say(True, "the fused chain moves as much as one operation, however long it is.")


def check_05_1(answer: int | None, cycles: Callable[[int], int]) -> None:
    """With how many of 16 samples at a time a step takes the fewest cycles."""
    sizes = (1, 2, 4, 8, 16)
    if answer not in sizes:
        return say(False, "put 1, 2, 4, 8 or 16 into `answer_1`.")
    own = cycles(answer)
    faster = [size for size in sizes if cycles(size) < own]
    if faster:
        way = "fewer" if max(faster) < answer else "more"
        return say(False, f"{own:,} cycles with {answer}, and less with {way} at a time.")
    return say(True, f"{own:,} cycles. Fewer samples pay for a setup more often, more keep the next layer waiting.")


def check_05_2(answer: float | None, near_and_far: Callable[[], tuple[int, int]]) -> None:
    """By how many percent a step takes longer on rectangles that lie far apart."""
    if answer is None:
        return say(False, "put a number of percent into `answer_2`.")
    near, far = near_and_far()
    if abs(answer - 100 * (far / near - 1)) > 1:
        return say(False, f"{answer} percent of {near:,} cycles are {near * answer / 100:,.0f}: how long is one hop?")
    return say(True, f"{near:,} cycles side by side, {far:,} in the corners.")


def check_06_1(rounds: Sequence[Sequence[tuple[int, int]]], run: Callable[..., Any]) -> None:
    """A sum over sixteen cores in few cycles."""
    done = run(rounds)
    if done.status != "finished" or done.memory[0, 0, 0] != 136:
        return say(False, f"the run ended as {done.status!r}, with {done.memory[0, 0, 0]:g} at core 0 and not 136.")
    if done.cycles > 60:
        return say(False, f"{done.cycles} cycles. What costs more, a round or a hop?")
    return say(True, f"score {done.cycles}.")


def check_06_2(orders: Sequence[Sequence[str]], run: Callable[..., Any]) -> None:
    """An exchange that ends, and in few cycles."""
    done = run(orders)
    if done.status != "finished":
        return say(False, f"the run ended as {done.status!r}. Who could make room?")
    words = done.memory.shape[2] // 2
    if not np.array_equal(done.memory[0, ::-1, words:], done.memory[0, :, :words]):
        return say(False, "the words are not exchanged.")
    if done.cycles > 140:
        return say(False, f"it ends after {done.cycles} cycles: one direction waits for the other.")
    return say(True, f"score {done.cycles}: both directions at once, as links have one each.")


def check_06_3(
    ways: Sequence[tuple[int, Sequence[Core]]], messages: Sequence[tuple[Core, Core]], run: Callable[..., Any]
) -> None:
    """Ways of three messages in two colours and few cycles."""
    if [(cores[0], cores[-1]) for _, cores in ways] != list(messages):
        return say(False, "each way begins at its sender and ends at its receiver, in the order of the messages.")
    for _, cores in ways:
        for (x, y), (next_x, next_y) in pairwise(cores):
            if abs(x - next_x) + abs(y - next_y) != 1 or not (0 <= next_x < 4 and 0 <= next_y < 3):
                return say(False, f"({next_x}, {next_y}) is no neighbour of ({x}, {y}) on a mesh of 4 x 3.")
    try:
        done = run(ways)
    except LazyError as error:
        return say(False, f"the mesh refuses it: {str(error).splitlines()[0]}.")
    if done.status != "finished":
        return say(False, f"the run ended as {done.status!r}.")
    for (from_x, from_y), (to_x, to_y) in messages:
        if not np.array_equal(done.memory[from_y, from_x], done.memory[to_y, to_x]):
            return say(False, f"({to_x}, {to_y}) does not have the words of ({from_x}, {from_y}).")
    colours = len({colour for colour, _ in ways})
    if colours > 2:
        return say(False, f"{done.cycles} cycles in {colours} colours. Which messages need not meet?")
    if done.cycles > 60:
        return say(False, f"{done.cycles} cycles: a link carries one word in a cycle, whatever its colour.")
    return say(True, f"score {done.cycles}, in {colours} colours.")


def check_07_1(answer: int | None, report: Callable[[int], Any]) -> None:
    """From which batch on, a power of two, the first sample's way is less than a tenth of a step."""
    if answer is None:
        return say(False, "put a power of two into `answer_1`.")

    def share(batch: int) -> float:
        line = report(batch)
        return float(line.fill_cycles / line.step_cycles)

    if answer < 1 or answer & (answer - 1):
        return say(False, f"{answer} is no power of two.")
    if share(answer) >= 0.1:
        return say(False, f"with {answer:,} samples the way is {share(answer):.0%} of a step: look further up.")
    if answer > 1 and share(answer // 2) < 0.1:
        return say(False, f"{answer // 2:,} samples are enough already.")
    return say(True, f"{share(answer):.1%} of a step, and {share(answer // 2):.1%} with half as many samples.")


def check_07_2(step_cycles: Callable[[float, int, int], float], report: Callable[..., Any]) -> None:
    """The rule of a step's length, on lines of several depths and batches."""
    for widths in ((784, 500, 300, 10), (512, 512, 512)):
        for batch in (1, 128, 8192):
            line = report(widths, batch)
            # Cycles of the slowest part of the wafer for one sample: a layer, or the edge.
            slowest = min(b.samples_per_s for b in line.bounds if b.kind in ("compute", "moving", "edge"))
            whole = next(b.samples_per_s for b in line.bounds if b.kind == "fill")
            rhythm = line.step_cycles * whole / batch / slowest
            answer = step_cycles(rhythm, line.fill_cycles, batch)
            if abs(answer - line.step_cycles) > TOLERANCE * line.step_cycles:
                asked = f"a rhythm of {rhythm:,.1f}, a way of {line.fill_cycles:,} and {batch:,} samples"
                return say(False, f"for {asked} a step takes {line.step_cycles:,} cycles, and you said {answer}.")
    return say(True, "six lines out of six.")


def check_07_3(answer: int | None, waiting_bytes: Callable[[], Sequence[int]]) -> None:
    """In which of eight equal layers the most bytes wait."""
    held = waiting_bytes()
    if answer is None or not 0 <= answer < len(held):
        return say(False, "put 0, 4 or 7 into `answer_3`.")
    if answer != max(range(len(held)), key=held.__getitem__):
        return say(False, f"{held[answer]:,} bytes wait in layer {answer}, and more in another one.")
    others = ", ".join(f"{n:,}" for n in held)
    return say(True, f"{others} bytes. A sample stays longest where it has the longest way to go and come back.")


def check_08_1(answer: int | None, report: Callable[[int], Any]) -> None:
    """From which batch on, a power of two, weights do not limit streaming."""
    if answer is None or not _is_power_of_two(answer):
        return _say_no_power(answer, "answer_1")
    if report(answer).limit == "weights":
        return say(False, f"with {answer:,} samples it still waits for weights.")
    if report(answer // 2).limit != "weights":
        return say(False, f"{answer // 2:,} samples are enough already.")
    return say(True, f"then {report(answer).limit} limits. Below its peak a layer needs fewer rows.")


def check_08_2(rows_needed: Callable[[Machine], float]) -> None:
    """The envelope's number of rows, for machines of several speeds."""
    for machine in (WSE2, replace(WSE2, clock_hz=2e9), replace(WSE2, edge_bits_per_s=1e12, fma_f16_per_cycle=8)):
        # Two operations forward and four back, against two bytes forward and two back.
        operations_per_s = machine.usable_pes * 2 * machine.fma_f16_per_cycle * machine.clock_hz
        rows = 4 / (machine.edge_bits_per_s / 8) * operations_per_s / 6
        answer = rows_needed(machine)
        if abs(answer - rows) > TOLERANCE * rows:
            speeds = f"{operations_per_s / 1e15:.1f} PFLOP/s and an edge of {machine.edge_bits_per_s / 1e12:.1f} Tbit/s"
            return say(False, f"with {speeds} a weight has to meet {rows:,.0f} rows; you said {answer:,.0f}.")
    return say(True, "a faster clock wants more rows, a faster edge fewer; the size of the net is not in it.")


def check_08_3(answer: int | None, memory: int, fits: Mapping[int, bool]) -> None:
    """The widest eight layers that the envelope has room for."""
    if answer is None or not _is_power_of_two(answer):
        return _say_no_power(answer, "answer_3")
    needed = {width: 16 * 8 * width**2 for width in (answer, 2 * answer)}
    for width, is_room_expected in zip(needed, (True, False), strict=True):
        if (needed[width] <= memory) != is_room_expected:
            return say(False, f"eight layers of {width:,} take {needed[width] / 1e9:,.1f} of {memory / 1e9:.1f} GB.")
    planned = max(width for width, is_room in fits.items() if is_room)
    return say(True, f"and in the plan {planned:,} fits, of {', '.join(f'{width:,}' for width in fits)}.")


def check_09_1(answer: int | None, report: Callable[[int], Any]) -> None:
    """The least power of two of workers with which the input is not the limit."""
    if answer is None or not _is_power_of_two(answer):
        return _say_no_power(answer, "answer_1")
    if report(answer).limit == "input":
        return say(False, f"{answer} workers prepare less than the wafer takes.")
    if report(answer // 2).limit != "input":
        return say(False, f"{answer // 2} workers are enough already.")
    return say(True, f"then {report(answer).limit} limits. One worker for each copy would be far too few.")


def check_09_2(input_rate: Callable[[int, int, float, int], float], report: Callable[..., Any]) -> None:
    """The law of the input, on two numbers of workers and of systems."""
    sample_bytes = 64 * 4 + 8
    for workers, systems in ((5, 1), (2, 4)):
        line = report(65536, workers, host=APPLIANCE, systems=systems)
        allowed = next(b.samples_per_s for b in line.bounds if b.kind == "input")
        answer = input_rate(workers, systems, APPLIANCE.worker_bytes_per_s, sample_bytes)
        if abs(answer - allowed) > TOLERANCE * allowed:
            asked = f"{workers} workers for each of {systems} systems"
            return say(False, f"{asked} prepare {allowed:,.0f} samples/s, and you said {answer:,.0f}.")
    return say(True, "the wafer is not in it, nor is the net: only its samples.")


def check_09_3(answer: int | None, report: Callable[[int], Any]) -> None:
    """From which batch on, a power of two, four copies add up gradients in less than an eighth of a step."""
    if answer is None or not _is_power_of_two(answer):
        return _say_no_power(answer, "answer_3")
    larger, smaller = report(answer), report(answer // 2)
    shares = [line.gradient_cycles / line.step_cycles for line in (smaller, larger)]
    if larger.copies < 4 or shares[1] >= 0.125:
        return say(False, f"with {answer:,} samples sums take {shares[1]:.0%} of a step in {larger.copies} copies.")
    if smaller.copies == 4 and shares[0] < 0.125:
        return say(False, f"{answer // 2:,} samples are enough already.")
    return say(True, f"{shares[1]:.1%} of a step, and with half as many samples {shares[0]:.1%}.")


def check_10_1(answer: set[int], saved: Callable[[], set[int]]) -> None:
    """After which steps a run saves."""
    if not answer:
        return say(False, "put numbers of steps into `answer_1`.")
    steps = saved()
    if set(answer) - steps:
        return say(False, f"nothing is saved after {min(set(answer) - steps)}.")
    if steps - set(answer):
        return say(False, f"these are {len(answer)} of {len(steps)}. What would be lost otherwise?")
    return say(True, f"{sorted(steps)}: state leaves the wafer after these steps, and after no others.")


def check_10_2(halved: Callable[[Any], Any]) -> None:
    """A choice between values that can be traced."""
    try:
        program = lt.trace(halved, lt.tensor(0.0))
    except LazyError as error:
        return say(False, f"tracing it ends in a {type(error).__name__}: who could say now which way to go?")
    step = HostBackend().compile(program, {}).step
    for loss, right in ((3.0, 1.5), (2.0, 2.0), (1.0, 1.0)):
        (own,) = step([np.array(loss, np.float32)])
        if own != right:
            return say(False, f"of {loss} it makes {float(own)}, and should make {right}.")
    return say(True, "both ways are computed, and one of them is taken: an `if` that a wafer can run.")


def check_11_1(answer: int | None) -> None:
    """The exponent of the smallest float16."""
    if answer is None:
        return say(False, "put an exponent into `answer_1`.")

    def is_zero(exponent: int) -> bool:
        return bool(np.float16(2.0**exponent) == 0)

    if is_zero(answer):
        return say(False, f"2 to the power {answer} is zero in float16.")
    if not is_zero(answer - 1):
        return say(False, f"2 to the power {answer - 1} is there too.")
    return say(True, f"2 to the power {answer} is {2.0**answer:.1e}: 14 for the exponent, 10 more for the last digit.")


def check_11_2(
    next_scale: Callable[[float, bool, int], float], run: Callable[..., Any], sizes: Sequence[float]
) -> None:
    """The rule of a loss scale, by its answers and in a run."""
    for scale, finite, good, right in (
        (8.0, True, 1, 8.0),
        (8.0, True, 4, 16.0),
        (8.0, True, 8, 16.0),
        (8.0, False, 0, 4.0),
    ):
        answer = next_scale(scale, finite, good)
        if answer != right:
            told = f"after {good} good steps in a row" if finite else "after a step that was not finite"
            return say(False, f"{told} a scale of {scale} becomes {right}, and you said {answer}.")
    with np.errstate(over="ignore"):
        scales, skipped = run(next_scale, sizes)
    return say(
        True,
        f"{skipped} of {len(sizes)} steps are left out, the scale goes from {min(scales):,.0f} to {max(scales):,.0f}.",
    )


def check_11_3(answer: float | None, lost: Callable[[float], tuple[float, float]]) -> None:
    """The least power of two with which less than a thousandth of all gradients is lost."""
    if answer is None:
        return say(False, "put a power of two into `answer_3`.")
    if answer < 1 or np.log2(answer) % 1:
        return say(False, f"{answer} is no power of two.")
    if lost(answer)[0] >= 1e-3:
        return say(False, f"with {answer:,.0f} {lost(answer)[0]:.2%} are lost.")
    if lost(answer / 2)[0] < 1e-3:
        return say(False, f"{answer / 2:,.0f} is enough already.")
    return say(True, f"{lost(answer)[0]:.3%} are lost, and {lost(answer / 2)[0]:.3%} with half the scale.")


def check_12_1(answer: float | None, size: Callable[[], float]) -> None:
    """Bytes of a checkpoint for each weight with Adam."""
    if answer is None:
        return say(False, "put a number of bytes into `answer_1`.")
    measured = size()
    if abs(answer - measured) > 1:
        return say(False, f"{answer} is too {'few' if answer < measured else 'many'}: what does each number take?")
    return say(True, f"{measured:.1f} bytes: three numbers of four bytes, and a little for their names.")


def check_12_2(rule: Callable[[int, int, list[int]], Sequence[int]], samples: Callable[[int], Sequence[int]]) -> None:
    """A rule that shares samples among workers."""
    for workers in (1, 2, 3, 5):
        shares = [list(rule(worker, workers, list(range(12)))) for worker in range(workers)]
        if sorted(n for share in shares for n in share) != list(range(12)):
            return say(False, f"with {workers} workers they give {shares}: each sample has to come once.")
        if max(map(len, shares)) - min(map(len, shares)) > 1:
            return say(False, f"with {workers} workers the shares have {[len(share) for share in shares]} samples.")
    loaded = samples(2)
    if sorted(loaded) != list(range(12)):
        return say(False, f"the loader gives {sorted(loaded)}.")
    return say(True, f"two workers give {list(loaded)}, in an order of their own.")


def check_12_3(answer: set[str], goes_on: Callable[[set[str]], bool]) -> None:
    """The smallest set of parts with which a plain run goes on."""
    if not answer:
        return say(False, "put names of parts into `answer_3`.")
    if not goes_on(answer):
        return say(False, f"with {sorted(answer)} it is another run: what else does a step read?")
    spare = [part for part in sorted(answer) if goes_on(answer - {part})]
    if spare:
        return say(False, f"it goes on, and without {spare[0]} as well.")
    return say(True, f"{sorted(answer)}: a plain step reads nothing else that the last one wrote.")


def check_13_1(answer: str | None, families: Mapping[str, Sequence[float]]) -> None:
    """The family whose median row is the furthest off, of those with five rows."""
    if answer not in families:
        return say(False, f"put one of {', '.join(families)} into `answer_1`.")
    if len(families[answer]) < 5:
        return say(False, f"{answer} has {len(families[answer])} rows: too few to tell.")
    worst = max((n for n, e in families.items() if len(e) >= 5), key=lambda n: np.median(families[n]))
    if answer != worst:
        return say(False, f"its median is {np.median(families[answer]):.1%}, and another one is further off.")
    return say(True, f"{np.median(families[answer]):.1%} in {len(families[answer])} rows: no accident.")


def check_13_2(
    fair_error: Callable[[Mapping[str, Sequence[float]]], float], families: Mapping[str, Sequence[float]]
) -> None:
    """An error in which each family counts once, and no row decides."""
    own = fair_error(families)
    if not own > 0:
        return say(False, "it gives no error at all.")
    if not np.isclose(
        fair_error({name: list(errors) * 7 if name == "spmm" else errors for name, errors in families.items()}), own
    ):
        return say(False, "seven times as many rows of one family change it.")
    absurd = {name: [*errors, 1e9] if len(errors) > 10 else errors for name, errors in families.items()}
    if fair_error(absurd) > 2 * own:
        return say(False, "one absurd row in each large family changes it.")
    return say(True, f"{own:.1%}: what a kernel that nobody measured should expect.")


def check_13_3(answer: float | None, ratios: Sequence[float]) -> None:
    """By how much one factor for all rows could lower the median error."""
    if answer is None:
        return say(False, "put a number of percent into `answer_3`.")
    present = np.median(np.abs(np.array(ratios) - 1))
    best = min(np.median(np.abs(np.array(ratios) * factor - 1)) for factor in np.linspace(0.8, 1.25, 901))
    gain = 100 * (1 - best / present)
    if abs(answer - gain) > 10:
        return say(False, "what moves one row to its place moves another one away. Try the factors.")
    return say(True, f"by {gain:.0f} percent: there is no one factor that is wrong.")


def check_14_1(answer: float | None, bytes_in: Callable[[float], int], dense: int) -> None:
    """The density below which fewer bytes come in."""
    if answer is None or not 0 < answer <= 1:
        return say(False, "put a share between 0 and 1 into `answer_1`.")
    if bytes_in(max(0.001, answer - 0.1)) >= dense:
        return say(False, f"with {answer - 0.1:.0%} of the weights as many bytes come in. What does a place cost?")
    if bytes_in(min(1.0, answer + 0.1)) < dense:
        return say(False, f"with {answer + 0.1:.0%} fewer come in already.")
    return say(True, f"{bytes_in(answer / 2):,} bytes with half of that, {dense:,} with all zeros.")


def check_14_2(answer: float | None, measured: float) -> None:
    """By how much a step becomes shorter."""
    if answer is None:
        return say(False, "put a factor into `answer_2`.")
    if abs(answer - measured) > 0.2:
        return say(False, "the batch comes in all the same.")
    return say(True, f"{measured:.2f} times, for a hundredth of the weights.")


def say(is_right: bool, sentence: str) -> None:
    """Print the verdict and why."""
    print("Right:" if is_right else "Not yet:", sentence)


def _is_power_of_two(answer: int) -> bool:
    return answer >= 2 and not answer & (answer - 1)


def _say_no_power(answer: int | None, name: str) -> None:
    say(False, f"put a power of two into `{name}`." if answer is None else f"{answer} is no power of two above 1.")
