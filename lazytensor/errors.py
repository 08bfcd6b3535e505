"""Exceptions of this package: what happened, where in the user's code, and what to do.

Some also derive from the built-in exception that PyTorch raises in the same case, so that `except RuntimeError` in a
script keeps working. Errors that occur on the wafer but not in PyTorch are raised by `refuse`, so that a check run can
report them and continue.
"""

from collections.abc import Callable
from typing import Any


class LazyError(Exception):
    """Base class of all errors that this package raises deliberately.

    - `what`: what happened, with values.
    - `where`: the user's `file:line`.
    - `hint`: what to do.
    - `lead`: the first line, a message of PyTorch or the vendor that scripts search for.
    """

    is_refusal: bool = False
    """Whether the error is for something that the wafer refuses and PyTorch allows."""

    def __init__(self, what: str, *, where: object = None, hint: str = "", lead: str = ""):
        self.what: str = what
        self.where: object = where
        self.hint: str = hint
        # `file:line` comes first, so that editors and terminals turn it into a link.
        text = f"{lead}\n" * bool(lead) + (f"{where}: {what}" if where else what)
        super().__init__(f"{text}\n  {hint}" if hint else text)


class ShapeError(LazyError, RuntimeError):
    """Shapes or types of operands do not fit an operation."""


class FactorizationFailed(ShapeError):
    """A matrix is singular or not positive definite: `torch.linalg.LinAlgError`."""


class CountInvalid(ShapeError, ValueError):
    """The number of labels differs from the number of samples; also a ValueError, as in PyTorch."""


class CountZero(ShapeError, ZeroDivisionError):
    """A count by which PyTorch divides is zero."""


class TraceError(LazyError, RuntimeError):
    """A value was read while a step is traced, or tracing functions were called in a wrong order."""


class ClientValueError(TraceError, TypeError):
    """A NumPy array was requested of a tensor whose value is not on the client; also a TypeError, as in PyTorch."""


class IndexInvalid(LazyError, IndexError):
    """An index is out of range."""


class ArgumentInvalid(LazyError, TypeError):
    """An argument has a type that the function does not accept."""


class TensorMissing(ArgumentInvalid, AttributeError):
    """An argument that must be a tensor is not one.

    Also an AttributeError, which PyTorch raises if it looks up a tensor's method on the argument.
    """


class NumberMissing(ArgumentInvalid, ShapeError):
    """An argument that must be a number is a tensor with dimensions.

    Also a RuntimeError, which PyTorch raises if it reads the tensor's value.
    """


class TypeUnsupported(ShapeError, NotImplementedError):
    """A function does not support the element type of its operand."""


class NumberTooLarge(LazyError, RuntimeError, ValueError, TypeError, OverflowError):
    """An integer has more than 64 bits.

    Which of the base classes PyTorch raises depends on where it reads the number.
    """


class ValuesAbsent(LazyError, NotImplementedError, TypeError):
    """The values of a tensor on the device "meta" were read.

    Which of the base classes PyTorch raises depends on the reading function.
    """


class StateError(LazyError, RuntimeError):
    """A tensor that must outlive the step has no name, or two tensors have the same name."""


class CompileError(LazyError, RuntimeError):
    """A graph cannot be lowered, or a pass violated one of its invariants."""


class AutogradError(LazyError, RuntimeError):
    """A gradient does not exist, or autograd was used incorrectly."""


# Derives from AttributeError, so that hasattr() and getattr() with a default work on the emulated modules.
class NameMissing(LazyError, AttributeError):
    """A public name of the emulated API is not available in this version."""


class DeviceAbsent(LazyError, AssertionError, RuntimeError):
    """A device is not available; also an AssertionError, as PyTorch's error for CUDA."""


class OptionMissing(LazyError, NotImplementedError):
    """An option that PyTorch supports is not supported here; also a RuntimeError, through NotImplementedError."""


class LibraryUnloadable(LazyError, OSError):
    """A compiled extension of PyTorch cannot be loaded; also an OSError, by which libraries fall back."""


class CheckpointError(LazyError, RuntimeError):
    """A checkpoint has another format, is truncated or damaged, or does not fit."""


class MemoryMissing(LazyError, RuntimeError, MemoryError):
    """A tensor is larger than the memory; also a RuntimeError, as in PyTorch.

    Programs that search for the largest batch recognise the error by PyTorch's message on Linux and by its single
    argument.
    """

    def __init__(self, what: str, size_bytes: int, *, where: object = None, lead: str = ""):
        told = (
            f" you tried to allocate {size_bytes} bytes. Error code 12 (Cannot allocate memory)" if size_bytes else ""
        )
        super().__init__(
            what,
            where=where,
            hint="Look for a wrong size, reduce the batch size, or compute in parts.",
            lead=lead or f"[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory:{told}",
        )


class PlacementError(LazyError, RuntimeError):
    """A program does not fit the machine."""


class ExecutorLost(LazyError, RuntimeError):
    """Processes that do work for this one have ended or cannot be reached."""


class DataError(LazyError, RuntimeError):
    """A dataset or a batch is missing or malformed."""


class OperandInvalid(LazyError, AssertionError):
    """A function of the wafer does not accept a tensor; also an AssertionError, as in the vendor's code."""


class OptionInvalid(LazyError, ValueError):
    """An argument or a configuration entry has an invalid value."""


Reporter = Callable[[str, LazyError, str], Any]
_reporter: Reporter | None = None


def refuse(rule: str, error: LazyError, about: str = "") -> Any:
    """Raise `error`, for something that the wafer refuses and PyTorch allows.

    If a reporter is set, call it with the arguments instead and return its result, so that the script continues as in
    PyTorch. `rule` is the kind of refusal, such as "read .item()"; `about` names its object, such as a type.
    """
    # One global reporter, because refusals occur deep inside a script's calls, where no argument can be passed.
    if _reporter is None:
        error.is_refusal = True
        raise error
    return _reporter(rule, error, about)


def report_refusal(rule: str, error: LazyError) -> None:
    """Mark `error` as a refusal and pass it to the reporter of `refuse`, if there is one. The caller raises it."""
    error.is_refusal = True
    if _reporter is not None:
        _reporter(rule, error, "")


def report_to(reporter: Reporter | None) -> None:
    """Set the reporter that `refuse` calls instead of raising errors; None means that errors are raised."""
    global _reporter
    _reporter = reporter
