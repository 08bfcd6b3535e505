"""Hooks of modules: functions that are called before and after `forward`, and with gradients in the backward pass."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from lazytensor.autograd.function import observe_gradients
from lazytensor.autograd.hooks import RemovableHandle
from lazytensor.core import source
from lazytensor.core.tensor import Tensor, detach_node, is_grad_enabled, wrap
from lazytensor.errors import AutogradError
from lazytensor.ir.graph import Node
from lazytensor.ops import call

# One table for each kind of hook, keyed by handle number, so that hooks run in the order of registration.
HOOK_TABLES = """_forward_hooks _forward_hooks_with_kwargs _forward_hooks_always_called _forward_pre_hooks
    _forward_pre_hooks_with_kwargs _backward_hooks _backward_pre_hooks _state_dict_pre_hooks _state_dict_hooks
    _load_pre_hooks _load_post_hooks""".split()
CALL_HOOK_TABLES = ("_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_backward_pre_hooks")
GLOBAL_HOOKS: dict[str, dict[int, Callable[..., Any]]] = {name: {} for name in CALL_HOOK_TABLES}
"""Hooks of all modules, which run before those of a module. They are cleared at the start of a run."""
_global_hooks_with_kwargs: set[int] = set()
_warning_registry: dict[Any, Any] = {}  # the lines of the script that Python has warned of


def add_hook(table: dict[int, Callable[..., Any]], hook: Callable[..., Any], is_first: bool = False) -> RemovableHandle:
    """Add `hook` to `table`, last or (if `is_first` is true) first, and return its handle."""
    older = dict(table) if is_first else {}
    if is_first:
        table.clear()
    handle = RemovableHandle(table, hook)
    table.update(older)
    return handle


def has_hooks(own: Mapping[str, Any]) -> bool:
    """Return whether a call of a module with the attribute dictionary `own` has to run hooks."""
    before, after, backward, backward_pre = CALL_HOOK_TABLES
    return bool(own[before] or own[after] or own[backward] or own[backward_pre] or any(GLOBAL_HOOKS.values()))


def clear_global_hooks() -> None:
    """Remove all global hooks."""
    for table in GLOBAL_HOOKS.values():
        table.clear()


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call hook(module, args) before each `forward` of every module, and return a handle that can remove the hook.

    If the hook returns a value, it replaces the arguments.
    """
    return RemovableHandle(GLOBAL_HOOKS["_forward_pre_hooks"], hook)


def register_module_forward_hook(hook: Callable[..., Any], *, with_kwargs: bool = False) -> RemovableHandle:
    """Call hook(module, args, output) after each `forward` of every module. Return a handle to remove the hook.

    If `with_kwargs` is true, the call is hook(module, args, kwargs, output). If the hook returns a value, it replaces
    the output.
    """
    handle = RemovableHandle(GLOBAL_HOOKS["_forward_hooks"], hook)
    if with_kwargs:
        _global_hooks_with_kwargs.add(handle.id)
    return handle


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call hook(module, grad_output) before the backward pass of every module. Return a handle to remove the hook.

    If the hook returns a value, it replaces the gradients of the outputs.
    """
    return RemovableHandle(GLOBAL_HOOKS["_backward_pre_hooks"], hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call hook(module, grad_input, grad_output) after the backward pass of every module.

    Returns a handle that can remove the hook. If the hook returns a value, it replaces the gradients of the inputs.
    """
    return RemovableHandle(GLOBAL_HOOKS["_backward_hooks"], hook)


def _hooks_of(module: Any, table: str) -> list[tuple[int, Callable[..., Any]]]:
    """Return the hooks of a kind with their numbers, global ones first.

    The list is a copy, since a hook may remove itself while it runs.
    """
    return [*GLOBAL_HOOKS[table].items(), *module.__dict__[table].items()]


def call_with_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `module.forward` with the module's forward and backward hooks, and return the output.

    Global hooks are included. If `forward` or a hook after it raises an exception, forward hooks registered with
    `always_call` that have not run yet are called with the output None, and the exception propagates.
    """
    args, kwargs = _run_forward_pre_hooks(module, args, kwargs)
    done: set[int] = set()

    # Inside the backward hooks, which see the gradient of the output that the forward hooks returned.
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
    """Return the positional and keyword arguments after the forward pre-hooks, which may replace them.

    A returned value that is no tuple becomes the only argument; None changes nothing. A hook with keyword arguments
    returns a pair of both. Raises AutogradError if it returns anything else but None.
    """
    for number, hook in _hooks_of(module, "_forward_pre_hooks"):
        if not module._forward_pre_hooks_with_kwargs.get(number):
            answer = hook(module, args)
            if answer is not None:
                # A value that is no tuple becomes one argument, as in PyTorch.
                args = answer if isinstance(answer, tuple) else (answer,)
            continue
        answer = hook(module, args, kwargs)
        if answer is None:
            continue
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise AutogradError(
                f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {answer}.",
                where=source.where(),
                hint="Return None, or the pair (args, kwargs).",
            )
        args, kwargs = answer
    return args, kwargs


def _run_forward_hook(
    module: Any, number: int, hook: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
) -> Any:
    """Return the output after one forward hook, which replaces it unless it returns None."""
    takes_kwargs = number in _global_hooks_with_kwargs or module._forward_hooks_with_kwargs.get(number)
    answer = hook(module, args, kwargs, out) if takes_kwargs else hook(module, args, out)
    return out if answer is None else answer


def _run_always_called_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], done: set[int]) -> None:
    """Run the forward hooks registered with `always_call` whose numbers are not in `done`, with the output None."""
    for number, hook in _hooks_of(module, "_forward_hooks"):
        if module._forward_hooks_always_called.get(number) and number not in done:
            _run_forward_hook(module, number, hook, args, kwargs, None)


class _BackwardHookCall:
    """One call of a module with backward hooks, and the gradients of its arguments and outputs."""

    def __init__(self, module: Any):
        self.module = module
        self.grad_outputs: tuple[Tensor | None, ...] = ()
        self.is_over = False

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return `args` in which each tensor that requires a gradient is replaced by one that reports its gradient."""
        self.args = [a if isinstance(a, Tensor) else None for a in args]
        watched = _differentiable(args)
        # Without such an argument (a model's first layer) no gradient is reported, and the hooks run when the output's
        # gradient starts.
        self.has_inputs = bool(watched)
        return tuple(_report_gradients(args, watched, partial(self.arrived, watched)))

    def leave(self, out: Any) -> Any:
        """Return the module's output `out`, with tensors that report their gradients to this call.

        `out` is a tensor, or a tuple of any class, which is kept. Only tensors that require a gradient are replaced,
        and tensors in nested containers are not.

        Other outputs are returned unchanged with a warning. They and outputs without a tensor that requires a gradient
        end the call: no hooks run.
        """
        results = out if isinstance(out, tuple) else (out,)
        watched = _differentiable(results)
        if not watched:
            self.is_over = True
            if not isinstance(out, Tensor | tuple):
                _warn_of_output(out)
            return out
        devices = [getattr(r, "device", None) for r in results]
        seen = _report_gradients(results, watched, partial(self.started, watched, devices))
        # Not by the class, whose constructor may take other arguments, as that of a namedtuple does.
        return tuple.__new__(type(out), seen) if isinstance(out, tuple) else seen[0]

    def started(
        self, watched: Sequence[int], devices: Sequence[Any], gradients: Sequence[Node | None]
    ) -> list[Node | None]:
        """Run the backward pre-hooks with the gradients of all outputs, and return the gradients to use.

        `gradients` are those of the outputs with the numbers `watched`. Hooks see None for the other outputs, and for
        outputs that the pass did not reach. The backward hooks run here too if no argument requires a gradient.
        """
        arrived: list[Tensor | None] = [None] * len(devices)
        for k, g in zip(watched, gradients, strict=True):
            arrived[k] = None if g is None else wrap(detach_node(g), devices[k])
        self.grad_outputs = given = tuple(arrived)
        for _, hook in _hooks_of(self.module, "_backward_pre_hooks"):
            answer = hook(self.module, self.grad_outputs)
            if answer is not None:
                self.grad_outputs = _check_count("Backward pre hook", "grad_output", answer, len(given))
        if not self.has_inputs and any(g is not None for g in self.call((None,) * len(self.args))):
            raise AutogradError(
                "Backward hook for Modules where no input requires gradient should always return None or None for all "
                "gradients.",
                where=source.where(),
                hint="Return None from the hook.",
            )
        return _choose_gradients(watched, gradients, given, self.grad_outputs)

    def arrived(self, watched: Sequence[int], gradients: Sequence[Node | None]) -> list[Node | None]:
        """Run the backward hooks with the gradients of all arguments, and return the gradients to use.

        `gradients` are those of the arguments with the numbers `watched`. Hooks see zeros for other tensors and for
        tensors that the pass did not reach, and None for arguments that are not tensors.
        """
        nodes = dict(zip(watched, gradients, strict=True))
        given = tuple(None if a is None else _gradient_or_zeros(nodes.get(k), a) for k, a in enumerate(self.args))
        answers = self.call(given)
        # A tensor that the pass did not reach gets its zeros, as in PyTorch.
        filled = [given[k].node if g is None else g for k, g in zip(watched, gradients, strict=True)]  # type: ignore[union-attr]
        return _choose_gradients(watched, filled, given, answers)

    def call(self, grad_inputs: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        """Run the backward hooks and return `grad_inputs`, or the gradients that the hooks returned in place of them.

        None run if the output was no tensor or tuple, or had no tensor that requires a gradient.
        """
        if self.is_over:
            return grad_inputs
        for _, hook in _hooks_of(self.module, "_backward_hooks"):
            answer = hook(self.module, grad_inputs, self.grad_outputs)
            if answer is not None:
                grad_inputs = _check_count("Backward hook", "grad_input", answer, len(grad_inputs))
        return grad_inputs


def _differentiable(values: Sequence[Any]) -> list[int]:
    """Return the numbers of the tensors of `values` that require a gradient."""
    return [k for k, v in enumerate(values) if isinstance(v, Tensor) and v.requires_grad]


def _gradient_or_zeros(g: Node | None, like: Tensor) -> Tensor:
    return wrap(call("full", value=0.0, type=like.spec) if g is None else detach_node(g), like.device)


def _check_count(kind: str, what: str, answer: Any, count: int) -> tuple[Tensor | None, ...]:
    """Return the gradients that a hook returned as a tuple. Raises AutogradError for another number than `count`."""
    gradients = tuple(answer) if isinstance(answer, tuple | list) else (answer,)
    if len(gradients) != count:
        raise AutogradError(
            f"{kind} returned an invalid number of {what}, got {len(gradients)}, but expected {count}",
            where=source.where(),
            hint="Return one gradient, or None, for each gradient that the hook receives.",
        )
    return gradients


def _choose_gradients(
    watched: Sequence[int],
    gradients: Sequence[Node | None],
    given: Sequence[Tensor | None],
    answers: Sequence[Tensor | None],
) -> list[Node | None]:
    """Return a gradient for each number of `watched`: that of `answers` if a hook replaced the one of `given`.

    A gradient that was not replaced is that of `gradients`, with its gradient history.
    """
    chosen: list[Node | None] = []
    for k, g in zip(watched, gradients, strict=True):
        answer = answers[k]
        chosen.append(g if answer is given[k] else None if answer is None else answer.node)
    return chosen


def _warn_of_output(out: Any) -> None:
    """Warn, with PyTorch's text, that backward hooks do not run for the output `out`; once for a line of the script."""
    place = source.where()
    text = (
        "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
        f"{type(out)}"
    )
    warnings.warn_explicit(text, UserWarning, place.file, place.line, registry=_warning_registry)


def _report_gradients(
    values: Sequence[Any], watched: Sequence[int], report: Callable[[Sequence[Node | None]], Sequence[Node | None]]
) -> list[Any]:
    """Return `values` with new tensors at the numbers `watched`, whose gradients pass through `report` in one call."""
    replaced = list(values)
    if watched:
        for k, n in zip(watched, observe_gradients([values[k].node for k in watched], report), strict=True):
            replaced[k] = wrap(n, values[k].device)
    return replaced


def call_with_backward_hooks(
    module: Any, run: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Return run(*args, **kwargs), with the gradients of arguments and outputs reported to the module's backward hooks.

    Gradients of keyword arguments are not reported. If gradients are disabled, no hooks are attached.
    """
    # Without gradients the reports would only make the graph longer.
    if not is_grad_enabled():
        return run(*args, **kwargs)
    passage = _BackwardHookCall(module)
    return passage.leave(run(*passage.enter(args), **kwargs))
