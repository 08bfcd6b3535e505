"""The calls of a script's models while no Cerebras backend exists: `check` and `plan` look for the step among them."""

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
    """A call of a model that has parameters to train, and where the script has it."""

    module: Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    place: Where
    is_tracked: bool

    @property
    def given(self) -> list[tuple[str, Tensor]]:
        """The tensors among its arguments, with their paths."""
        return flatten((self.args, self.kwargs) if self.kwargs else self.args)

    @property
    def needs_gradients(self) -> bool:
        """Whether gradients are asked for, of a model in training mode."""
        return self.is_tracked and self.module.training


class ModelCalls:
    """Tells `called` of each call before it is made, and `returned` of what came back.

    Only the outermost call is the user's. With a backend the script marks its steps itself, and nothing is told.
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
            # A loss or a frozen encoder is no model that is trained.
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
        """Count a call; returns how many of its model were counted at its line."""
        self._times[id(call.module), call.place] += 1
        return self._times[id(call.module), call.place]

    def again(self, call: ModelCall) -> list[Tensor]:
        """Make a call a second time, which nobody is told of, and give the tensors that it returns.

        It was made while nobody knew that no training would follow.
        """
        # Layers of ours alone have no line of the user's inside; then all of it belongs to the line of the call.
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
    """Give the state of a model the names that `cstorch.compile` would have given, and its modules their paths."""
    for name, t in (*module.named_parameters(), *module.named_buffers()):
        if not t.cell.state:
            storage.register(t.cell, f"{prefix}.{name}")
    name_scopes(module, prefix)
