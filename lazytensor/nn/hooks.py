"""Hooks of modules: gradients that pass a module on their way back, and state dicts on their way out and in."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from lazytensor import source
from lazytensor.errors import AutogradError
from lazytensor.gradients import observed
from lazytensor.ir.graph import Node
from lazytensor.tensor import Tensor, is_grad_enabled, wrap


# PyTorch hangs the hooks on one node on each side of a module. Here each argument and each output has a node of its own
# that reports to this object, and what all of them know together is known when the last has come.
class _Passage:
    """One call of a module with backward hooks: what has come back so far."""

    def __init__(self, module: Any, args: tuple[Any, ...]):
        self.module = module
        self.grad_inputs: list[Tensor | None] = [None] * len(args)
        self.grad_outputs: list[Tensor | None] = []
        self.waiting: set[int] = set()

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, each tensor with a gradient as one that reports it."""
        reporting = []
        for i, a in enumerate(args):
            is_watched = isinstance(a, Tensor) and a.requires_grad
            if is_watched:
                self.waiting.add(i)
            reporting.append(_as(a, partial(self.arrived, i)) if is_watched else a)
        # Without such an argument (a model's first layer) nothing ever arrives, and the hooks run when the output's
        # gradient starts.
        self.has_inputs = bool(self.waiting)
        return tuple(reporting)

    def leave(self, out: Any) -> Any:
        """The output, each tensor with a gradient as one that reports it."""
        results = list(out) if isinstance(out, tuple | list) else [out]
        self.grad_outputs = [None] * len(results)
        seen = [
            _as(r, partial(self.started, i)) if isinstance(r, Tensor) and r.requires_grad else r
            for i, r in enumerate(results)
        ]
        return type(out)(seen) if isinstance(out, tuple | list) else seen[0]

    def started(self, i: int, g: Node) -> Node:
        """The gradient of an output has come."""
        # One output after the other: hooks of a module with several see None for those still to come.
        self.grad_outputs[i] = wrap(g)
        for hook in list(self.module._backward_pre_hooks.values()):
            answer = hook(self.module, tuple(self.grad_outputs))
            if answer is not None:
                self.grad_outputs = list(answer) if isinstance(answer, tuple) else [answer]
        if not self.has_inputs:
            self.call()
        replaced = self.grad_outputs[i]
        return g if replaced is None else replaced.node

    def arrived(self, i: int, g: Node) -> Node:
        """The gradient of an argument has come; with the last one the hooks run."""
        self.grad_inputs[i] = wrap(g)
        self.waiting.discard(i)
        if self.waiting:
            return g
        answer = self.call()
        if answer is None:
            return g
        # Gradients come one by one, and those before the last have gone on when the hooks see them all: PyTorch, whose
        # hooks stand on one node, can still replace them.
        if sum(x is not None for x in self.grad_inputs) > 1:
            raise AutogradError(
                "a backward hook replaces the gradients of several arguments, of which some have passed on already",
                where=source.where(),
                hint="Use tensor.register_hook on the arguments.",
            )
        replaced = answer[i] if isinstance(answer, tuple) else answer
        return g if replaced is None else replaced.node

    def call(self) -> Any:
        """Run the hooks; the answer of the last one that gave any."""
        replaced = None
        for hook in list(self.module._backward_hooks.values()):
            answer = hook(self.module, tuple(self.grad_inputs), tuple(self.grad_outputs))
            replaced = replaced if answer is None else answer
        return replaced


def _as(t: Tensor, report: Callable[[Node], Node]) -> Tensor:
    reporting = wrap(observed(t.node, report))
    reporting.device = t.device
    return reporting


def watched(module: Any, run: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """run(*args), with the gradients on both sides reported to the module's backward hooks."""
    # Nothing will come back, and the reports would only make the graph longer.
    if not is_grad_enabled():
        return run(*args, **kwargs)
    passage = _Passage(module, args)
    return passage.leave(run(*passage.enter(args), **kwargs))


def after_saving(modules: Any, state: "OrderedDict[str, Tensor]") -> "OrderedDict[str, Tensor]":
    """A state dict after the hooks of every module in it, inner modules first."""
    # A module's hooks see what those below it have changed, as PyTorch's recursion has it.
    for path, module in reversed(list(modules)):
        for hook in list(module._state_dict_hooks.values()):
            answer = hook(module, state, f"{path}." if path else "", {})
            state = state if answer is None else answer
    return state


def before_loading(modules: Any, state: Any, strict: bool) -> Any:
    """A copy of a state dict after the hooks that change it before it is loaded."""
    # Outer modules first: a hook that renames the keys of old files does so before inner modules look for theirs.
    due = [(path, m, hook) for path, m in modules for hook in list(m._load_pre_hooks.values())]
    if not due:
        return state
    # The caller's dict stays as it was.
    state = dict(state)
    for path, module, hook in due:
        # The empty dictionary and lists stand for metadata and for the messages that PyTorch's hooks may add to.
        hook(module, state, f"{path}." if path else "", {}, strict, [], [], [])
    return state


def after_loading(modules: Any, keys: Any) -> None:
    """Tell the hooks of every module what was missing and what was superfluous."""
    for _, module in reversed(list(modules)):
        for hook in list(module._load_post_hooks.values()):
            hook(module, keys)
