"""Hooks of modules: calls before and after `forward`, and gradients that pass a module on their way back."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from lazytensor.autograd.function import observe_gradient
from lazytensor.autograd.hooks import RemovableHandle
from lazytensor.core import source
from lazytensor.core.device import Device
from lazytensor.core.tensor import Tensor, detach_node, is_grad_enabled, wrap
from lazytensor.errors import AutogradError
from lazytensor.ir.graph import Node

# One table for each moment, by the number of the handle: hooks run in the order of their registration.
HOOK_TABLES = """_forward_hooks _forward_hooks_with_kwargs _forward_hooks_always_called _forward_pre_hooks
    _forward_pre_hooks_with_kwargs _backward_hooks _backward_pre_hooks _state_dict_pre_hooks _state_dict_hooks
    _load_pre_hooks _load_post_hooks""".split()
CALL_HOOK_TABLES = ("_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_backward_pre_hooks")
GLOBAL_HOOKS: dict[str, dict[int, Callable[..., Any]]] = {name: {} for name in CALL_HOOK_TABLES}
"""Hooks of all modules, which run before those of the module itself; a run begins without any."""
_global_hooks_with_kwargs: set[int] = set()


def add_hook(table: dict[int, Callable[..., Any]], hook: Callable[..., Any], is_first: bool = False) -> RemovableHandle:
    """A hook in a table, behind the others or before them."""
    older = dict(table) if is_first else {}
    if is_first:
        table.clear()
    handle = RemovableHandle(table, hook)
    table.update(older)
    return handle


def has_hooks(own: Mapping[str, Any]) -> bool:
    """Whether a call of the module with this dictionary has hooks to run."""
    before, after, backward, backward_pre = CALL_HOOK_TABLES
    return bool(own[before] or own[after] or own[backward] or own[backward_pre] or any(GLOBAL_HOOKS.values()))


def clear_global_hooks() -> None:
    """Take all hooks of all modules away."""
    for table in GLOBAL_HOOKS.values():
        table.clear()


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call hook(module, args) before each forward of every module."""
    return RemovableHandle(GLOBAL_HOOKS["_forward_pre_hooks"], hook)


def register_module_forward_hook(hook: Callable[..., Any], *, with_kwargs: bool = False) -> RemovableHandle:
    """Call hook(module, args, output) after each forward of every module; `with_kwargs` as with those of one module."""
    handle = RemovableHandle(GLOBAL_HOOKS["_forward_hooks"], hook)
    if with_kwargs:
        _global_hooks_with_kwargs.add(handle.id)
    return handle


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call hook(module, grad_output) before gradients pass any module."""
    return RemovableHandle(GLOBAL_HOOKS["_backward_pre_hooks"], hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call hook(module, grad_input, grad_output) when gradients have passed any module."""
    return RemovableHandle(GLOBAL_HOOKS["_backward_hooks"], hook)


def _hooks_of(module: Any, table: str) -> list[tuple[int, Callable[..., Any]]]:
    """The hooks of a moment, as a copy: a hook may remove itself while it runs."""
    return [*GLOBAL_HOOKS[table].items(), *module.__dict__[table].items()]


def call_with_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `forward` between the module's hooks."""
    args, kwargs = _run_forward_pre_hooks(module, args, kwargs)
    done: set[int] = set()

    # Inside of what backward hooks watch: they see the gradient of what the forward hooks made of the output.
    def run(*args: Any, **kwargs: Any) -> Any:
        out = module.forward(*args, **kwargs)
        for number, hook in _hooks_of(module, "_forward_hooks"):
            done.add(number)
            out = _run_forward_hook(module, number, hook, args, kwargs, out)
        return out

    try:
        if _hooks_of(module, "_backward_hooks") or _hooks_of(module, "_backward_pre_hooks"):
            return call_with_backward_hooks(module, run, args, kwargs)
        return run(*args, **kwargs)
    except Exception:
        _run_always_called_hooks(module, args, kwargs, done)
        raise


def _run_forward_pre_hooks(
    module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments after the hooks that may replace them."""
    for number, hook in _hooks_of(module, "_forward_pre_hooks"):
        if not module._forward_pre_hooks_with_kwargs.get(number):
            answer = hook(module, args)
            if answer is not None:
                # One value that is no tuple is one argument, as in PyTorch.
                args = answer if isinstance(answer, tuple) else (answer,)
            continue
        answer = hook(module, args, kwargs)
        if answer is None:
            continue
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise AutogradError(
                f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {answer}.",
                where=source.where(),
            )
        args, kwargs = answer
    return args, kwargs


def _run_forward_hook(
    module: Any, number: int, hook: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
) -> Any:
    """The output after a forward hook."""
    takes_kwargs = number in _global_hooks_with_kwargs or module._forward_hooks_with_kwargs.get(number)
    answer = hook(module, args, kwargs, out) if takes_kwargs else hook(module, args, out)
    return out if answer is None else answer


def _run_always_called_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], done: set[int]) -> None:
    """Run the forward hooks that were to be called in any case, and have not been."""
    for number, hook in _hooks_of(module, "_forward_hooks"):
        if module._forward_hooks_always_called.get(number) and number not in done:
            _run_forward_hook(module, number, hook, args, kwargs, None)


# PyTorch hangs the hooks on one node on each side of a module. Here each argument and each output has a node of its own
# that reports to this object, and what all of them know together is known when the last has come.
class _BackwardHookCall:
    """One call of a module with backward hooks: what has come back so far."""

    def __init__(self, module: Any, args: tuple[Any, ...]):
        self.module = module
        self.grad_inputs: list[Tensor | None] = [None] * len(args)
        self.grad_outputs: list[Tensor | None] = []
        self.waiting: set[int] = set()
        self.is_over = False

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, each tensor with a gradient as one that reports it."""
        reporting = []
        for i, a in enumerate(args):
            is_watched = isinstance(a, Tensor) and a.requires_grad
            if is_watched:
                self.waiting.add(i)
            reporting.append(_report_gradient(a, partial(self.arrived, i, a.device)) if is_watched else a)
        # Without such an argument (a model's first layer) nothing ever arrives, and the hooks run when the output's
        # gradient starts.
        self.has_inputs = bool(self.waiting)
        return tuple(reporting)

    def leave(self, out: Any) -> Any:
        """The output, each tensor with a gradient as one that reports it."""
        if not isinstance(out, Tensor | tuple | list):
            # PyTorch's hooks see no gradient of what a dictionary holds.
            self.is_over = True
            return out
        results = list(out) if isinstance(out, tuple | list) else [out]
        self.grad_outputs = [None] * len(results)
        seen = [
            _report_gradient(r, partial(self.started, i, r.device)) if isinstance(r, Tensor) and r.requires_grad else r
            for i, r in enumerate(results)
        ]
        return type(out)(seen) if isinstance(out, tuple | list) else seen[0]

    def started(self, i: int, device: Device, g: Node) -> Node:
        """The gradient of an output has come."""
        # One output after the other: hooks of a module with several see None for those still to come.
        self.grad_outputs[i] = wrap(detach_node(g), device)
        for _, hook in _hooks_of(self.module, "_backward_pre_hooks"):
            answer = hook(self.module, tuple(self.grad_outputs))
            if answer is not None:
                self.grad_outputs = list(answer) if isinstance(answer, tuple) else [answer]
        if not self.has_inputs:
            self.call()
        replaced = self.grad_outputs[i]
        return g if replaced is None else replaced.node

    def arrived(self, i: int, device: Device, g: Node) -> Node:
        """The gradient of an argument has come; with the last one the hooks run."""
        self.grad_inputs[i] = wrap(detach_node(g), device)
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
        if self.is_over:
            return None
        for _, hook in _hooks_of(self.module, "_backward_hooks"):
            answer = hook(self.module, tuple(self.grad_inputs), tuple(self.grad_outputs))
            replaced = replaced if answer is None else answer
        return replaced


def _report_gradient(t: Tensor, report: Callable[[Node], Node]) -> Tensor:
    return wrap(observe_gradient(t.node, report), t.device)


def call_with_backward_hooks(
    module: Any, run: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """run(*args), with the gradients on both sides reported to the module's backward hooks."""
    # Nothing will come back, and the reports would only make the graph longer.
    if not is_grad_enabled():
        return run(*args, **kwargs)
    passage = _BackwardHookCall(module, args)
    return passage.leave(run(*passage.enter(args), **kwargs))
