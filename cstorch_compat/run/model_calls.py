"""Observe the calls of a script's models as long as no Cerebras backend exists.

`check` and `plan` use this to find the training step of a plain PyTorch script.
"""

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cstorch_compat.files.tree import flatten
from cstorch_compat.run import process
from lazytensor.autograd.grad_modes import set_grad_enabled
from lazytensor.core import source, storage
from lazytensor.core.tensor import Tensor, is_grad_enabled
from lazytensor.ir.types import Where
from lazytensor.nn import Module
from lazytensor.nn.module_scopes import name_scopes


@dataclass(frozen=True)
class ModelCall:
    """A call of a model with trainable parameters.

    `place` is the line of the script; `is_tracked` is whether gradients were enabled.
    """

    module: Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    place: Where
    is_tracked: bool

    @property
    def given(self) -> list[tuple[str, Tensor]]:
        """The tensors among the arguments, with their paths."""
        return flatten((self.args, self.kwargs) if self.kwargs else self.args)

    @property
    def needs_gradients(self) -> bool:
        """Whether the model is in training mode and gradients are enabled."""
        return self.is_tracked and self.module.training


class ModelCalls:
    """A context manager that calls `called` before each call of a model and `returned` with the tensors of its result.

    Only the outermost call of a module counts, and `called` gets only modules with trainable parameters. Nothing is
    reported once a backend exists, because the script then marks its steps.
    """

    def __init__(self, called: Callable[[ModelCall], None], returned: Callable[[list[Tensor]], None]):
        self.called, self.returned = called, returned
        self._times: Counter[tuple[int, Where]] = Counter()
        self._depth = 0
        self._original: Callable[..., Any] = Module.__call__

    def __enter__(self) -> "ModelCalls":
        original: Callable[..., Any] = Module.__call__
        self._original = original

        @functools.wraps(original)
        def watched(module: Module, *args: Any, **kwargs: Any) -> Any:
            # Modules without trainable parameters, such as a loss, are not the model.
            if self._depth == 0 and _has_no_backend() and any(p.requires_grad for p in module.parameters()):
                self.called(ModelCall(module, args, kwargs, source.where(), is_grad_enabled()))
            self._depth += 1
            try:
                result = original(module, *args, **kwargs)
            finally:
                self._depth -= 1
            if self._depth == 0:
                self.returned([t for _, t in flatten(result)])
            return result

        Module.__call__ = watched  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *_: object) -> None:
        Module.__call__ = self._original  # type: ignore[method-assign]

    def count(self, call: ModelCall) -> int:
        """Count `call` and return how often its model was called at its line."""
        self._times[id(call.module), call.place] += 1
        return self._times[id(call.module), call.place]

    def again(self, call: ModelCall) -> list[Tensor]:
        """Repeat `call` without reporting it, and return the tensors of its result.

        This captures a call that ran before it was known that no training would follow.
        """
        # If only layers of this package run inside, attribute all operations to the line of the call.
        place = call.place if source.is_internal_file(type(call.module).forward.__code__.co_filename) else None
        self._depth += 1
        try:
            with set_grad_enabled(call.is_tracked), source.fixed_location(place):
                return [t for _, t in flatten(self._original(call.module, *call.args, **call.kwargs))]
        finally:
            self._depth -= 1


def _has_no_backend() -> bool:
    return process.current_backend(raise_exception=False) is None


def name_model(module: Module, prefix: str = "model") -> None:
    """Name the state and the modules of a model as `cstorch.compile` would. State that has a name keeps it."""
    for name, t in (*module.named_parameters(), *module.named_buffers()):
        if not t.cell.state:
            storage.register(t.cell, f"{prefix}.{name}")
    name_scopes(module, prefix)
