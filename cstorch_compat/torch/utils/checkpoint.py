"""Checkpoints of activations: which values of a forward pass are kept and which are computed again.

The compiler decides that for the whole step, so the function is called and its operations belong to the graph as any
others. What scripts can see is kept: what is warned of, what is refused, and that the reentrant way gives no gradients
where no argument asks for one. Texts as of PyTorch 2.13.0.
"""

import contextlib
import enum
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

from lazytensor.autograd.grad_modes import no_grad
from lazytensor.core.tensor import Tensor, is_grad_enabled

USE_REENTRANT_WARNING = (
    "torch.utils.checkpoint{0}: the use_reentrant parameter should be passed explicitly. {1} use_reentrant=False is "
    "recommended, but if you need to preserve the current default behavior, you can pass use_reentrant=True. Refer to "
    "docs for more details on the differences between the two variants."
)
CHECKPOINT_DEPRECATION = "Starting in PyTorch 2.9, calling checkpoint without use_reentrant will raise an exception."
SEQUENTIAL_DEPRECATION = "In version 2.9 we will raise an exception if use_reentrant is not passed."

ContextPair = tuple[contextlib.AbstractContextManager[Any], contextlib.AbstractContextManager[Any]]


class CheckpointError(RuntimeError):
    """The second computation of a block differed from the first."""


class CheckpointPolicy(enum.Enum):
    """What to do with a result of a block."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4


class SelectiveCheckpointContext:
    """What a policy is told of an operation."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None):
        self.is_recompute, self.op_output = is_recompute, op_output


class DefaultDeviceType:
    """The kind of device whose random numbers a block draws."""

    _kind: ClassVar[str] = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Name another kind."""
        DefaultDeviceType._kind = device

    @staticmethod
    def get_device_type() -> str:
        """The kind that was named last."""
        return DefaultDeviceType._kind


def noop_context_fn() -> ContextPair:
    """Two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> ContextPair:
    """Contexts for a forward pass and its repetition; which results are kept is the compiler's choice."""
    return noop_context_fn()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], ContextPair] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Call a function whose activations need not be kept. Raises ValueError for arguments of the other way."""
    if use_reentrant is None:
        warnings.warn(USE_REENTRANT_WARNING.format("", CHECKPOINT_DEPRECATION), stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if not isinstance(preserve, bool):
        raise ValueError(f"preserve_rng_state must be a bool, got {type(preserve).__name__}")
    # The newer way is a block like any other.
    if not use_reentrant:
        with context_fn()[0]:
            return function(*args, **kwargs)
    if context_fn is not noop_context_fn or debug is not False:
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    return _run_reentrant(function, args)


def _run_reentrant(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The old way: an operation of its own, whose results have a gradient only if an argument has one."""
    check_backward_validity(args)
    if any(isinstance(a, Tensor) and a.requires_grad for a in args):
        return function(*args)
    with no_grad():
        return function(*args)


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if no argument of a reentrant block has a gradient, while gradients are recorded."""
    if is_grad_enabled() and not any(isinstance(a, Tensor) and a.requires_grad for a in inputs):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=3)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Call modules one after the other, in segments of which all but the last are checkpointed."""
    if use_reentrant is None:
        warnings.warn(USE_REENTRANT_WARNING.format(".checkpoint_sequential", SEQUENTIAL_DEPRECATION), stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    # The last segment is not checkpointed: its values are needed at once.
    modules = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size, end = len(modules) // segments, -1
    for start in range(0, size * (segments - 1), size):
        end = start + size - 1
        input = checkpoint(
            _compose(modules[start : end + 1]), input, use_reentrant=use_reentrant, preserve_rng_state=preserve
        )
    return _compose(modules[end + 1 :])(input)


def _compose(modules: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def forward(x: Any) -> Any:
        for module in modules:
            x = module(x)
        return x

    return forward


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments cut off from their graph, which still ask for gradients if they did."""
    return tuple(a.detach().requires_grad_(a.requires_grad) if isinstance(a, Tensor) else a for a in inputs)


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Whether a repetition ends with the last value that is needed, as it always does here."""
    yield


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Whether a repetition that differs is explained; there is none that could."""
    yield
