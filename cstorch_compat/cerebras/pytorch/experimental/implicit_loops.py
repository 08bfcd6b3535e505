"""The API for text generation in a loop on the wafer: `cerebras.pytorch.experimental`. It is not supported."""

from typing import Any, NoReturn

from cstorch_compat.names.builtin_errors import reraise_as_builtin
from cstorch_compat.run import process
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionMissing


def get_loop_iteration_slice(input_tensor: Tensor, index_tensor: Tensor) -> Tensor:
    """Return `input_tensor`. On the wafer, the original returns the slice of the current token."""
    return input_tensor


def start_implicit_loop(input_tensor: Tensor, loop_dim: int) -> NoReturn:
    """Raise NotImplementedError. The original's CPU backend has no such loop either."""
    with reraise_as_builtin():
        _refuse()


def update_implicit_loop(
    input_tensor: Tensor,
    index_tensor: Tensor,
    update_tensor: Tensor,
    stop_sequences_tensor: Tensor,
    start_token: int | list[int],
    max_tokens: int | None = None,
) -> NoReturn:
    """Raise LoopMissing. The original's CPU backend has no such loop either."""
    _refuse()


class LoopMissing(OptionMissing, NotImplementedError):
    """The error for calls of the unsupported token loop."""


def _refuse(*_: Any) -> NoReturn:
    kind = process.current_backend().backend_type
    raise LoopMissing(
        f"Implicit autoregressive loop is not supported on {kind} backend",
        where=source.where(),
        hint="Generate on the client: call the model on the tokens so far, and append the token that it returns.",
    )
