"""Activation checkpointing: `torch.utils.checkpoint`.

The compiler decides for the whole step which activations are kept and which are recomputed. A checkpointed function is
therefore simply called. Warnings, errors, and the missing gradients of the reentrant variant without differentiable
inputs are those of PyTorch 2.13.0.
"""

import contextlib
import enum
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

from lazytensor.autograd.grad_modes import no_grad
from lazytensor.core import source
from lazytensor.core.tensor import Tensor, is_grad_enabled
from lazytensor.errors import OptionInvalid

USE_REENTRANT_WARNING = (
    "torch.utils.checkpoint{0}: the use_reentrant parameter should be passed explicitly. {1} use_reentrant=False is "
    "recommended, but if you need to preserve the current default behavior, you can pass use_reentrant=True. Refer to "
    "docs for more details on the differences between the two variants."
)
CHECKPOINT_DEPRECATION = "Starting in PyTorch 2.9, calling checkpoint without use_reentrant will raise an exception."
SEQUENTIAL_DEPRECATION = "In version 2.9 we will raise an exception if use_reentrant is not passed."

ContextPair = tuple[contextlib.AbstractContextManager[Any], contextlib.AbstractContextManager[Any]]
"""The type of a context manager for the forward pass and one for the recomputation."""


class CheckpointError(RuntimeError):
    """The error for a recomputation that differs from the forward pass."""


class CheckpointPolicy(enum.Enum):
    """An enumeration of what to do with a result in a checkpointed block."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4


class SelectiveCheckpointContext:
    """The context that a checkpoint policy receives with an operation."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None):
        self.is_recompute, self.op_output = is_recompute, op_output


class DefaultDeviceType:
    """The device type whose random number generator a checkpointed block uses. It has no effect."""

    _kind: ClassVar[str] = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Store the device type."""
        DefaultDeviceType._kind = device

    @staticmethod
    def get_device_type() -> str:
        """Return the stored device type; "cuda" by default."""
        return DefaultDeviceType._kind


def noop_context_fn() -> ContextPair:
    """Return two context managers without effect."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> ContextPair:
    """Return two context managers without effect, because the compiler selects the activations to keep."""
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
    """Call `function(*args, **kwargs)` and return its result. The compiler decides which activations are kept.

    Without `use_reentrant`, PyTorch's warning is issued and the reentrant variant is used. In that variant the result
    has no gradient unless a tensor in `args` requires one, and `context_fn`, `debug` and keyword arguments raise
    ValueError. `determinism_check` and `early_stop` have no effect.
    """
    if use_reentrant is None:
        warnings.warn(USE_REENTRANT_WARNING.format("", CHECKPOINT_DEPRECATION), stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if not isinstance(preserve, bool):
        raise OptionInvalid(
            f"preserve_rng_state must be a bool, got {type(preserve).__name__}",
            where=source.where(),
            hint="Pass True or False.",
        )
    if not use_reentrant:
        with context_fn()[0]:
            return function(*args, **kwargs)
    if context_fn is not noop_context_fn or debug is not False:
        raise OptionInvalid(
            "Passing `context_fn` or `debug` is only supported when use_reentrant=False.",
            where=source.where(),
            hint="Pass use_reentrant=False.",
        )
    if kwargs:
        raise OptionInvalid(
            "Unexpected keyword arguments: " + ",".join(kwargs),
            where=source.where(),
            hint="Pass these arguments to the function with functools.partial.",
        )
    return _run_reentrant(function, args)


def _run_reentrant(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Call `function(*args)`, without recording gradients if no tensor in `args` requires one.

    In that case a warning is issued if gradients are enabled. Tensors inside containers are not considered.
    """
    check_backward_validity(args)
    if any(isinstance(a, Tensor) and a.requires_grad for a in args):
        return function(*args)
    with no_grad():
        return function(*args)


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Issue a warning if gradients are recorded but no tensor in `inputs` requires one."""
    if is_grad_enabled() and not any(isinstance(a, Tensor) and a.requires_grad for a in inputs):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=3)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Call modules one after another, in `segments` segments of which all but the last are checkpointed.

    `functions` is a sequence of modules or a module with children. Without `use_reentrant`, a warning is issued and the
    reentrant variant is used. Raises ValueError for keyword arguments other than `preserve_rng_state`.
    """
    if use_reentrant is None:
        warnings.warn(USE_REENTRANT_WARNING.format(".checkpoint_sequential", SEQUENTIAL_DEPRECATION), stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise OptionInvalid(
            "Unexpected keyword arguments: " + ",".join(kwargs),
            where=source.where(),
            hint="Pass these arguments to the functions with functools.partial.",
        )
    # The last segment is not checkpointed, because the backward pass needs its values at once.
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
    """Return the arguments with tensors detached. Their `requires_grad` does not change."""
    return tuple(a.detach().requires_grad_(a.requires_grad) if isinstance(a, Tensor) else a for a in inputs)


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """Return the numbers of the accelerators of the tensors in `args`, and the states of their random generators.

    Both lists are empty, because there is no accelerator. `torch.get_rng_state` is the state of the CPU's generator.
    """
    return [], []


def set_device_states(devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None) -> None:
    """Set the states of random generators of accelerators, which `get_device_states` returned.

    Both lists have to be empty, because there is no accelerator. Raises AssertionError otherwise, as PyTorch without
    CUDA does.
    """
    if len(devices):
        raise AssertionError("Torch not compiled with CUDA enabled")


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Return a context manager without effect."""
    yield


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Return a context manager without effect."""
    yield
