"""Observe the calls that a step makes of public functions, Tensor methods and layers.

The graph does not distinguish `F.one_hot(x)` from the comparison that implements it. While a script is checked, the
public callables are therefore wrapped. The outermost public call in a traced step is passed to the rules before it
runs.
"""

import functools
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cstorch_compat.names.mirror_modules import get_mirror
from lazytensor.core import source, storage
from lazytensor.core.tensor import Tensor
from lazytensor.ir.types import Where
from lazytensor.nn import Module
from lazytensor.nn.container import ModuleDict, ModuleList, Sequential

WATCHED_MODULES = {
    "torch": "torch",
    "F": "torch.nn.functional",
    "torch.linalg": "torch.linalg",
    "torch.special": "torch.special",
    "nn.utils": "torch.nn.utils",
}
"""Public modules whose functions are watched, by the short name that findings print."""
UNWATCHED_NAMES = frozenset(
    """backward grad vmap func save load manual_seed seed set_grad_enabled is_grad_enabled is_tensor
    enable_grad no_grad get_default_dtype set_default_dtype register_hook retain_grad requires_grad_ detach
    register_post_accumulate_grad_hook dim size numel nelement element_size stride storage_offset data_ptr
    is_floating_point is_complex is_contiguous is_signed is_conj is_neg is_same_size is_set_to is_pinned type
    write view_through array contiguous_cell spend accumulate item tolist numpy""".split()
)
"""Names that are not wrapped: they call user functions, compute nothing, or read values.

The step reports reads itself.
"""
OPERATOR_NAMES = tuple(
    """add sub mul pow matmul getitem setitem neg abs gt ge lt le eq ne truediv floordiv mod invert and or xor lshift
    rshift""".split()
)
"""The Python operators that Tensor implements, without underscores. `r` and `i` variants are watched too."""
CONTAINER_LAYERS = (Sequential, ModuleList, ModuleDict)
"""Modules of torch.nn that do not count as a layer, because they contain the user's layers."""


@dataclass(frozen=True)
class FunctionCall:
    """One call of a public function, Tensor method or layer.

    name: the short module name and the function, such as "F.one_hot" or "Tensor.add"
    args, kwargs: the arguments; `args[0]` is the tensor if a Tensor method was called
    where: the line of the user's code
    layer: the module that was called, or None for functions
    """

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    where: Where
    layer: Module | None = None

    @property
    def short(self) -> str:
        """The name without its module: "one_hot" for "F.one_hot"."""
        return self.name.rpartition(".")[2]

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        """Return the argument at index `position` or with the keyword `name`, or `default` if it was not passed."""
        return self.args[position] if len(self.args) > position else self.kwargs.get(name, default)

    def tensors(self) -> list[Tensor]:
        """Return the tensors among the arguments, including those in lists and tuples one level deep."""
        tensors: list[Tensor] = []
        for a in (*self.args, *self.kwargs.values()):
            parts = a if isinstance(a, list | tuple) else (a,)
            tensors += [t for t in parts if isinstance(t, Tensor)]
        return tensors

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the tensors among the arguments."""
        return tuple(t.spec.shape for t in self.tensors())

    def __str__(self) -> str:
        arguments = [_format_value(a) for a in self.args] + [f"{k}={_format_value(v)}" for k, v in self.kwargs.items()]
        return f"{self.name}({', '.join(arguments)})"


def _is_internal_call() -> bool:
    """Return whether the caller of the wrapped function is a file of this package instead of the user's code."""
    return source.is_internal_file(sys._getframe(2).f_code.co_filename)


def _format_value(value: Any) -> str:
    """Return `value` as text: tensors as dtype and shape, slices as in an index, and long reprs as the type name."""
    if isinstance(value, Tensor):
        return str(value.spec)
    if isinstance(value, list | tuple):
        inner = ", ".join(_format_value(v) for v in value[:4]) + (", ..." if len(value) > 4 else "")
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if isinstance(value, slice):
        parts = ["" if v is None else _format_value(v) for v in (value.start, value.stop)]
        return ":".join(parts if value.step is None else [*parts, _format_value(value.step)])
    text = repr(value)
    return text if len(text) <= 40 else f"{type(value).__name__}"


class CallWatcher:
    """A context manager that wraps the public callables and passes each call in a traced step to `on_call`.

    `on_call` is called before the function runs. Only the outermost call counts. `current` is the call that is running,
    or None. `modules` holds each module called in a step, by its `id`.
    """

    def __init__(self, on_call: Callable[[FunctionCall], None]):
        self.on_call = on_call
        self.current: FunctionCall | None = None
        self.modules: dict[int, Module] = {}
        self._replaced: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> "CallWatcher":
        for prefix, path in WATCHED_MODULES.items():
            module = get_mirror(path)
            for name in dir(module):
                value = getattr(module, name)
                if isinstance(value, types.FunctionType) and not name.startswith("_") and name not in UNWATCHED_NAMES:
                    self._replace(module, name, value, self._wrapped(f"{prefix}.{name}", value))
        wanted = {f"__{prefix}{o}__" for o in OPERATOR_NAMES for prefix in ("", "r", "i")}
        # Also wrap methods and operators: the graph does not distinguish `x + y` from torch.add.
        for name, value in list(vars(Tensor).items()):
            if name in UNWATCHED_NAMES or (name.startswith("_") and name not in wanted):
                continue
            if isinstance(value, types.FunctionType):
                self._replace(Tensor, name, value, self._wrapped(f"Tensor.{name}", value))
            elif isinstance(value, property) and name in ("T", "mT", "H", "mH"):
                assert value.fget is not None
                self._replace(Tensor, name, value, property(self._wrapped(f"Tensor.{name}", value.fget)))
        # A layer counts as one call, whatever functions its forward calls.
        self._replace(Module, "__call__", Module.__call__, self._layer(Module.__call__))
        return self

    def __exit__(self, *_: object) -> None:
        # Restore in reverse order, because a name may have been replaced twice.
        for owner, name, value in reversed(self._replaced):
            setattr(owner, name, value)
        self._replaced.clear()

    def _replace(self, owner: Any, name: str, old: Any, new: Any) -> None:
        # The caller passes `old`, because `vars` of a mirror module evaluates all its names: half of a small check's
        # time.
        self._replaced.append((owner, name, old))
        setattr(owner, name, new)

    def _wrapped(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a wrapper of `function` that reports its calls under `name`.

        Calls outside of a traced step, inside another reported call, and from this package are not reported.
        """

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            # Show only the outermost call, which the user wrote, and only inside a step.
            if self.current is not None or storage.thread_state.current is None or _is_internal_call():
                return function(*args, **kwargs)
            return self._shown(FunctionCall(name, args, kwargs, source.where()), lambda: function(*args, **kwargs))

        return watched

    def _layer(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a wrapper of `Module.__call__` that reports layers of torch.nn as one call.

        Containers and the user's modules are not reported. All modules called in a step are added to `modules`.
        """

        @functools.wraps(function)
        def watched(module: Module, *args: Any, **kwargs: Any) -> Any:
            kind = type(module)
            # Remember the modules that the step calls: their forward is searched for side effects.
            if storage.thread_state.current is not None:
                self.modules[id(module)] = module
            is_ours = kind.__module__.startswith("lazytensor.nn") and not isinstance(module, CONTAINER_LAYERS)
            if self.current is not None or storage.thread_state.current is None or not is_ours:
                return function(module, *args, **kwargs)
            call = FunctionCall(f"nn.{kind.__name__}", args, kwargs, source.where(), module)
            return self._shown(call, lambda: function(module, *args, **kwargs))

        return watched

    def _shown(self, call: FunctionCall, run: Callable[[], Any]) -> Any:
        """Pass `call` to `on_call`, then return `run()`. `current` is `call` meanwhile."""
        self.current = call
        try:
            self.on_call(call)
            return run()
        finally:
            self.current = None
