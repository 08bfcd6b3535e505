"""The capture of a step under check: reads get values, refusals become findings, and the step continues."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cstorch_compat.check.call_rules import apply_call_rules
from cstorch_compat.check.findings import Findings, find_current_columns
from cstorch_compat.check.origins import find_origins, is_traced
from cstorch_compat.check.rewrites import Shape
from cstorch_compat.check.stand_ins import StandIn, is_existence_test
from cstorch_compat.check.step_frame import StepFrame
from cstorch_compat.check.watched_calls import CallWatcher, FunctionCall
from cstorch_compat.run.wafer_state import WaferState
from lazytensor import errors
from lazytensor.core import source
from lazytensor.core.capture import Capture
from lazytensor.errors import LazyError
from lazytensor.functional.csx_refusals import RULES_BY_STAGE
from lazytensor.functional.csx_refused_names import REFUSALS
from lazytensor.ir.graph import Node, topological
from lazytensor.ir.types import Where
from lazytensor.ops import OPS

MAX_READABLE_FLOPS = 2_000_000_000
"""Maximum work, in FLOPs, to compute the true value of one read. More expensive values are read as zeros."""

RULE_OF_READ = {
    "print()": "print",
    ".numpy()": "numpy",
    ".to('cpu')": "to cpu",
    "indexing with a bool mask": "shape from data",
    "nonzero()": "shape from data",
    "masked_select()": "shape from data",
    "unique()": "shape from data",
    "unique_consecutive()": "shape from data",
    "repeat_interleave()": "shape from data",
}
"""The rule for a read, by the name of the reading operation in `Tensor.array`. Other reads break the rule "read"."""
NAME_RULES = ("missing here", "unknown name", "not in this release")
"""Rules on missing names, which are answered with a StandIn."""
SAVING_CALLS = ("torch.save()", "saving it")
"""The reading operations that save a tensor."""
READ_SPELLINGS = {"bool()": "if, while, assert or bool()", "an index": "a Python index"}
"""How a finding names a reading operation, where it differs from the operation's own name."""


@dataclass(frozen=True)
class RecordedCall:
    """A public call that a step made: function name, text, tensor shapes, and columns in the line."""

    short: str
    text: str
    shapes: tuple[Shape, ...]
    columns: tuple[int, int] | None


def _function_name(short: str) -> str:
    """Return the name of the function that a method name stands for, without the underscore of in-place methods.

    Dunder names are unchanged.
    """
    return short if short.startswith("__") else short.removesuffix("_")


class CheckCapture(Capture):
    """A capture whose values can be read: the true values if they are cheap to compute, otherwise zeros."""

    def value_of(self, n: Node, what: str) -> np.ndarray:
        """Return the value of node `n`, or zeros if it takes more than MAX_READABLE_FLOPS.

        `what` names the reading operation. A value that depends on neither batch nor weights is readable without a
        finding.
        """
        if n not in self._memo and self._flops(n) > MAX_READABLE_FLOPS:
            self._memo[n] = np.zeros(n.type.shape, n.type.dtype.host)
        # A value that depends on neither batch nor weights exists on the client and may be read there.
        before = self.readable
        self.readable = before or not find_origins([n]) & {"batch", "weight"}
        # Evaluating the step needs the state of the wafer, which the script itself must not read now.
        within = self.store.window(None) if isinstance(self.store, WaferState) else contextlib.nullcontext()
        try:
            with within:
                return super().value_of(n, what)
        finally:
            self.readable = before

    def result_of(self, n: Node) -> tuple[np.ndarray, bool]:
        """Return the value of a result of the step, and whether it is exact.

        It is not if it takes more than MAX_READABLE_FLOPS: the value is then zeros. No finding is added.
        """
        before, self.readable = self.readable, True
        try:
            is_exact = n in self._memo or self._flops(n) <= MAX_READABLE_FLOPS
            return self.value_of(n, "a closure"), is_exact
        finally:
            self.readable = before

    def _flops(self, n: Node) -> int:
        """Return the work, in FLOPs, to compute `n` from what is already evaluated."""
        total = 0
        for m in topological([n], self._memo.__contains__):
            if m not in self._memo and not isinstance(m.type, tuple):
                # Values that are already evaluated cost nothing.
                total += OPS[m.op].work(m.type, *(i.type for i in m.inputs), **m.attrs).flops
        return total


class FindingRecorder:
    """A context manager that turns refusals and calls in traced steps into findings, so that the script continues.

    findings: where findings are added
    watch: the CallWatcher that reports public calls
    is_listening: whether calls and refusals are recorded; False in the second step
    plain_step: the step of a plain PyTorch script, None before it begins and for other scripts
    outside: file and line of each call by which the loop of a plain script computes its batches
    is_after_step: whether a plain script has passed its optimizer's step
    updates: lines with the step of a torch.optim optimizer
    on_update: called at each such step
    has_read: whether the step read a value
    """

    def __init__(self, findings: Findings):
        self.findings = findings
        self.watch = CallWatcher(self._on_call)
        self.is_listening = True
        self.plain_step: StepFrame | None = None
        self.outside: set[tuple[str, int]] = set()
        self.is_after_step = False  # whether a plain script has passed its optimizer's step
        self.updates: list[Where] = []
        self.on_update: Callable[[], None] = lambda: None
        self.has_read = False
        self._calls: dict[tuple[str, int], list[RecordedCall]] = {}
        self._is_refused = False

    def __enter__(self) -> "FindingRecorder":
        # From here on refusals are reported instead of raised, and the script continues as under PyTorch.
        errors.report_to(self._refused)
        self.watch.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        errors.report_to(None)
        self.watch.__exit__()

    def _on_call(self, call: FunctionCall) -> None:
        """Apply the rules on calls to `call` and remember it for refusals that the lowering reports later."""
        self._is_refused = False
        if self.is_listening and not self._is_of_step(call):
            self.outside.add((call.where.file, call.where.line))
        elif self.is_listening:
            seen = RecordedCall(_function_name(call.short), str(call), call.shapes, find_current_columns(call.where))
            self._calls.setdefault((call.where.file, call.where.line), []).append(seen)
            self._is_refused = apply_call_rules(call, self.findings)
            if self.plain_step is not None and call.short == "cpu" and is_traced(call.args[0].node):
                self.findings.add("to cpu", call.where, str(call))

    def _refused(self, rule: str, error: LazyError, about: str) -> Any:
        """Handle a refusal with the rule key `rule` that would have been `error`. `about` names its subject.

        Returns a StandIn for a missing name, otherwise None, and the operation continues as in PyTorch. A refusal
        inside a call that was refused already is ignored.
        """
        if rule in NAME_RULES:
            return self._named(rule, error, about)
        self.has_read = self.has_read or rule.startswith("read ")
        # A call that is refused already needs no second finding from inside it.
        call = self.watch.current
        if not self.is_listening or (call is not None and self._is_refused):
            return None
        if rule == "eager optimizer":
            self._on_optimizer_step(about)
        elif rule.startswith("read "):
            self._read(rule.removeprefix("read "), about)
        elif call is None or self._is_of_step(call):
            self._add_refusal(rule, error, about)
        return None

    def _is_of_step(self, call: FunctionCall) -> bool:
        """Return whether a call belongs to the step. All calls do that the Cerebras API traces.

        In a plain script the loop also computes its next batch, before and after the optimizer's step. Such a call is
        outside of the step's lines, and has no operand that depends on the batch or on weights.
        """
        if self.plain_step is None:
            return True
        if self.is_after_step:
            return False
        return self.plain_step.is_active() or any(is_traced(t.node) for t in call.tensors())

    def _add_refusal(self, rule: str, error: LazyError, about: str) -> None:
        """Add a finding of the rule `rule` for a refused operation.

        It is at the public call that is running. During lowering no call is running: the finding is then at the line in
        `error`, with the recorded call of that line if there is one. `about` names the operation, such as "aten::erfc".
        """
        call = self.watch.current
        if call is not None:
            self.findings.add(rule, call.where, str(call), error.what, error.hint, call.shapes)
            return
        place = error.where if isinstance(error.where, Where) else source.where()
        seen = self._seen(place, about.partition("(")[0].removeprefix("aten::"))
        if seen is None:
            self.findings.add(rule, place, about, error.what, error.hint)
        else:
            self.findings.add(rule, place, seen.text, error.what, error.hint, seen.shapes, seen.columns)

    def _seen(self, place: Where, name: str) -> RecordedCall | None:
        """Return the recorded call at a line that a refused operation comes from.

        This is the call of `name`, or the only call at the line. Return None if there is neither.
        """
        calls = self._calls.get((place.file, place.line), [])
        named = [c for c in calls if c.short == name]
        return named[0] if named else calls[0] if len(calls) == 1 else None

    def _named(self, rule: str, error: LazyError, name: str) -> StandIn:
        """Add a finding for a missing name and return a StandIn for it.

        Raises `error` if the script only tests the name.
        """
        # Testing for a feature before using it is correct.
        if is_existence_test():
            raise error
        # The error recorded from the original package is more helpful than "missing here".
        recorded = [row for row in REFUSALS.get(name.rpartition(".")[2], ()) if row.when is None]
        if recorded:
            self.findings.add(RULES_BY_STAGE[recorded[0].stage], operation=name, detail=recorded[0].message)
        else:
            self.findings.add(rule, operation=name, detail=error.what, way_out=error.hint)
        return StandIn(name)

    def _on_optimizer_step(self, name: str) -> None:
        """Record the step of a torch.optim optimizer.

        In a plain script it ends the training step; otherwise it is a finding.
        """
        self.updates.append(source.where())
        self.on_update()
        if self.plain_step is not None:
            self.is_after_step = True
            self.findings.add("port", operation=name, way_out=f"Use cs{name}, and create it after cstorch.compile.")
        else:
            self.findings.add("vanilla optimizer", operation=name)

    def _read(self, what: str, kind: str) -> None:
        """Add a finding for a read. `what` is the reading operation, `kind` the dtype and shape of the tensor.

        After the step of a plain script the finding is a note to use a step closure. Reads that collate the next batch
        are ignored, and so is `.numpy()` on a line where `.cpu()` was reported.
        """
        call = self.watch.current
        if what == "collating a batch":  # the next batch of a loop whose step is still open
            return
        if what == ".numpy()" and any(f.rule.key == "to cpu" for f in self.findings.at(source.where())):
            return  # x.cpu().numpy() fails at .cpu()
        if what in SAVING_CALLS:
            # In a plain script, `advise_on_calls` reports the call.
            if not self.is_after_step:
                self.findings.add("state access")
        elif self.is_after_step:
            self.findings.add(
                "port", operation=what, way_out="Move this into a @cstorch.step_closure that takes the tensor."
            )
        elif call is not None:
            rule = RULE_OF_READ.get(what, "read")
            self.findings.add(rule, operation=str(call), shapes=call.shapes)
        else:
            branch = "Only the branch that the first batch takes was checked."
            detail = branch if what == "bool()" else ""
            self.findings.add(
                RULE_OF_READ.get(what, "read"), None, f"{READ_SPELLINGS.get(what, what)} on {kind}", detail
            )
