"""Runs drawn loops on our packages and on the real ones, shrinks what differs, and counts it by kind."""

import collections
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.campaign.loops.comparing import (
    FLOAT32_TOLERANCE,
    Difference,
    deviation,
    difference,
    error_difference,
    unequal,
)
from tests.campaign.loops.drawing import SIMPLEST, Loop, drawn
from tests.campaign.loops.explaining import known_reason
from tests.campaign.loops.rendering import script
from tests.campaign.loops.serving import Answer, Servers

CSX_TOLERANCE = 2e-4
"""CSX folds 1 - beta in float32, which changes Adam's second moment by 1e-5, over five steps."""
LAW_SHARE = 5
"""Of so many loops one is held to the laws, which take several runs each."""
SHRINK_TRIES = 60
NOISE = 1e-6
"""Relative changes of the initial weights, some units in the last place: what they change, rounding changes too."""
ROUNDING_FACTOR = {"CPU": 4.0, "CPU and CSX": 20.0}
"""Rounding in each step may change as much times this; CSX rounds 1 - beta by 1e-5."""


@dataclass(frozen=True)
class Finding:
    """A difference between two runs of a loop: which pair of runs, what differs, and the reason if it is known."""

    pair: str
    difference: Difference
    left: Answer
    right: Answer
    reason: str | None


class Runs:
    """The answers to one loop, each asked for once."""

    def __init__(self, servers: Servers, loop: Loop):
        self.servers, self.loop = servers, loop
        self._answers: dict[tuple[str, ...], Answer] = {}

    def answer(self, package: str, backend: str, half: str = "", noise: float = 0.0) -> Answer:
        """Return what became of the loop; with `half`, without the half type that the loop chooses itself."""
        key = package, backend, half, str(noise)
        if key not in self._answers:
            text = script(self.loop, noise)
            # An empty line, so that errors have the same number.
            text = re.sub(r"(?m)^cstorch\.amp\.set_half_dtype.*$", "", text) if half else text
            self._answers[key] = self.servers.answer(package, text, backend, half)
        return self._answers[key]


PAIRS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "CPU": (("real", "CPU"), ("ours", "CPU")),
    "CSX": (("real", "V"), ("ours", "V")),
    "CPU and CSX": (("ours", "CPU"), ("ours", "CSX", "float32")),
}
"""The pairs of runs that are compared: on the CPU, on CSX with validate_only, and ours on both in float32."""


def findings(servers: Servers, loop: Loop, pairs: Iterable[str] | None = None) -> Iterator[Finding]:
    """Yield the differences of a loop, at most one for each pair of runs and one for each law of our own."""
    runs = Runs(servers, loop)
    for pair in PAIRS if pairs is None else pairs:
        if pair in LAWS:
            yield from LAWS[pair](servers, loop)
        elif servers.real is not None or PAIRS[pair][0][0] != "real":
            left, right = (runs.answer(*run) for run in PAIRS[pair])
            found = difference(left, right, CSX_TOLERANCE if pair == "CPU and CSX" else FLOAT32_TOLERANCE)
            if found is not None:
                yield Finding(pair, found, left, right, explanation(runs, pair, found, left, right))


def unequal_repetition(servers: Servers, loop: Loop) -> Iterator[Finding]:
    """Yield the difference between two equal runs on CSX, to the last bit."""
    text = script(loop)
    left, right = (servers.answer("ours", text, "CSX") for _ in range(2))
    found = difference(left, right, 0.0)
    # The clock of summaries and the folder of a message differ.
    if found is not None and found.kind != "error type":
        yield Finding("equal runs", found, left, right, None)


def unequal_continuation(servers: Servers, loop: Loop) -> Iterator[Finding]:
    """Yield what differs if training goes on from a checkpoint, on each backend."""
    if not any(run["kind"] == "train" for run in loop.get("runs", SIMPLEST["runs"])):
        return
    saved = ["model", "optimizer", "schedule", "scaler", "sparsity"]
    quiet = {k: v for k, v in loop.items() if k not in ("loop_reads", "before", "after", "summaries", "metrics")}
    closures = [{"kind": "step", "is_inside": False, "takes": ["loss"], "reads": []}]
    base = {**quiet, "batches": 2, "returns": ["loss"], "closures": closures, "saves": saved}
    run = {"kind": "train", "checkpoint_steps": 2}
    broken = {**base, "runs": [{**run, "steps": 2}] * 2, "between": ["weights", "resume"]}
    whole = {**base, "runs": [{**run, "steps": 4}]}
    # On the CPU SET draws from the generator, which no checkpoint of these has.
    on_cpu = [] if "'set'" in str(loop.get("sparsity")) else [("CPU", "")]
    for backend, half in (*on_cpu, ("CSX", "float32")):
        left, right = (Runs(servers, one).answer("ours", backend, half) for one in (broken, whole))
        if left.error is None and right.error is None:
            last, other = ({k: line[2].get(k) for k in saved[:2]} for line in (left.lines[-1], right.lines[-1]))
            found = next(unequal(last, other, "the last checkpoint", FLOAT32_TOLERANCE), None)
        else:
            found = error_difference(left, right)
        # Two scripts have other lines, so that only their ends are compared where both are refused.
        if found is not None and found.kind not in ("error line", "error type"):
            yield Finding("continuation", found, left, right, None)


LAWS: dict[str, Callable[[Servers, Loop], Iterator[Finding]]] = {
    "equal runs": unequal_repetition,
    "continuation": unequal_continuation,
}
"""Laws that need no other package."""


def explanation(runs: Runs, pair: str, found: Difference, left: Answer, right: Answer) -> str | None:
    """Return the reason of a difference if it is one that is known."""
    reason = known_reason(runs.loop, pair, found, left, right)
    if reason is None and pair == "CPU and CSX" and _is_of_left_step(runs):
        return "the step in which a loop is left is executed on the CPU only"
    if reason is None and found.kind == "value" and _is_rounding(runs, pair, found, left, right):
        return "rounding: small changes of the initial weights change as much"
    return reason


def _is_of_left_step(runs: Runs) -> bool:
    """Tell whether the loop has no difference between the backends if its executions end where they were left."""
    executions = runs.loop.get("runs", [])
    if not any("break" in run for run in executions):
        return False
    whole = [{**run, "steps": min(run["steps"], run.get("break", run["steps"]))} for run in executions]
    whole = [{k: v for k, v in run.items() if k != "break"} for run in whole]
    others = findings(runs.servers, {**runs.loop, "runs": whole}, ["CPU and CSX"])
    return all(other.reason is not None for other in others)


def _is_rounding(runs: Runs, pair: str, found: Difference, left: Answer, right: Answer) -> bool:
    base, noisy = runs.answer("ours", "CPU"), runs.answer("ours", "CPU", "", NOISE)
    if found.line >= min(len(base.lines), len(noisy.lines)):
        return False
    bound = ROUNDING_FACTOR[pair] * deviation(base.lines[found.line], noisy.lines[found.line])
    return deviation(left.lines[found.line], right.lines[found.line]) <= bound < math.inf


def run(seed: int, numbers: Iterable[int], real: str | None, is_shrunk: bool) -> int:
    """Run loops and print what differs and how often each reason was met. Returns 1 if a reason is unknown.

    With `is_shrunk`, the smallest loop with such a difference is printed too, which takes some 60 runs.
    """
    counts, is_unexplained = collections.Counter[str](), False
    with Servers(real) as servers:
        for number in numbers:
            loop = drawn(seed, number)
            laws = LAWS if number % LAW_SHARE == 0 else ()
            found = list(findings(servers, loop, [*PAIRS, *laws]))
            counts["loops"] += 1
            counts["loops without a difference"] += not found
            for one in found:
                counts[f"{one.pair}: {one.reason or 'unexplained'}"] += 1
                if one.reason is None:
                    is_unexplained = True
                    print(f"loop {number}, {one.pair}: {one.difference}", flush=True)
                    if is_shrunk:
                        _print_smallest(servers, loop, one)
    for name, count in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"{count:6} {name}")
    return 1 if is_unexplained else 0


def _print_smallest(servers: Servers, loop: Loop, found: Finding) -> None:
    def is_same(smaller: Loop) -> bool:
        return any(_is_like(found, other) for other in findings(servers, smaller, [found.pair]))

    smallest = shrunk(loop, is_same)
    found = next((f for f in findings(servers, smallest, [found.pair]) if f.reason is None), found)
    print(json.dumps(smallest), script(smallest), sep="\n\n")
    for side in (found.left, found.right):
        print("--", side.text, *(str(line)[:200] for line in side.lines), sep="\n", flush=True)


def _is_like(found: Finding, other: Finding) -> bool:
    """Tell whether two differences are of one kind: of equal labels or errors, and both without a known reason."""
    if other.reason is not None or found.difference.kind != other.difference.kind:
        return False
    if found.difference.kind in ("value", "type", "names", "length"):
        return _label(found) == _label(other)
    return _error(found.left) == _error(other.left) and _error(found.right) == _error(other.right)


def _label(found: Finding) -> str:
    return re.split(r"[\d\[.]", found.difference.where)[0]


def _error(answer: Answer) -> str:
    # Without paths and line numbers, which a smaller script changes.
    return re.sub(r"\S*ours\.py:\d+|\d+", "", answer.error["text"])[:80] if answer.error else ""


def shrunk(loop: Loop, is_same: Callable[[Loop], bool]) -> Loop:
    """Return a smaller loop for which `is_same` still holds, by leaving out entries and items one at a time."""
    tries = SHRINK_TRIES
    is_smaller = True
    while is_smaller and tries > 0:
        is_smaller = False
        for candidate in _smaller(loop):
            tries -= 1
            if tries < 0:
                break
            if is_same(candidate):
                loop, is_smaller = candidate, True
                break
    return loop


def _smaller(loop: Loop) -> Iterator[Loop]:
    """Yield loops without one entry, or with a smaller value of one."""
    for name in loop:
        if name != "seed":
            yield {k: v for k, v in loop.items() if k != name}
    for name, value in loop.items():
        for smaller in _smaller_values(name, value):
            yield {**loop, name: smaller}


def _smaller_values(name: str, value: Any) -> Iterator[Any]:
    """Yield values without one item or optional argument, or with a smaller number."""
    if isinstance(value, list):
        for n, item in enumerate(value):
            if name in LISTS and (len(value) > 1 or name not in ("runs", "layers", "takes")):
                yield [*value[:n], *value[n + 1 :]]
            for smaller in _smaller_values("", item):
                yield [*value[:n], smaller, *value[n + 1 :]]
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in OPTIONAL:
                yield {k: v for k, v in value.items() if k != key}
            for smaller in _smaller_values(key, item):
                yield {**value, key: smaller}
    elif isinstance(value, int) and not isinstance(value, bool) and value > 1:
        yield value - 1


LISTS = {"layers", "metrics", "closures", "runs", "between", "before", "after", "loop_reads", "saves", "takes", "reads"}
"""Entries that are lists of independent items."""
OPTIONAL = {"momentum", "weight_decay", "maximize", "betas", "amsgrad", "eps", "correct_bias", "momentum_decay", "adam"}
OPTIONAL |= {"rho", "lr_decay", "initial_accumulator_value", "beta1", "scale_parameter", "lambd", "alpha", "t0"}
OPTIONAL |= {"centered", "etas", "step_sizes", "nesterov", "break", "by_name"}
"""Arguments that a shrinker may leave out."""
