"""Generation of text in a loop on the wafer: `cerebras.pytorch.experimental`. It is not simulated."""

from typing import Any, NoReturn

from cstorch_compat.names.builtin_errors import reraise_as_builtin
from cstorch_compat.run import process
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionMissing


def get_loop_iteration_slice(input_tensor: Tensor, index_tensor: Tensor) -> Tensor:
    """The part of a tensor that belongs to the present token; without a loop the tensor itself."""
    return input_tensor


def start_implicit_loop(input_tensor: Tensor, loop_dim: int) -> NoReturn:
    """Raises NotImplementedError: there is no such loop here, nor on the original's CPU."""
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
    """Raises LoopMissing: there is no such loop here, nor on the original's CPU."""
    _refuse()


class LoopMissing(OptionMissing, NotImplementedError):
    """The loop over tokens on the wafer."""


def _refuse(*_: Any) -> NoReturn:
    kind = process.current_backend().backend_type
    raise LoopMissing(
        f"Implicit autoregressive loop is not supported on {kind} backend",
        where=source.where(),
        hint="Generate on the client: call the model on the tokens so far, and append the one that it gives.",
    )
