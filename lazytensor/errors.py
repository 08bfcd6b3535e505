"""The exceptions of the house: what happened, where in the user's code, and what to do.

Some of them also derive from the built-in exception that PyTorch raises in the same place, so that a script's
`except RuntimeError` keeps working. What PyTorch would do and the wafer does not goes through `refuse`, so that a check
of a script can note it and go on.
"""

from collections.abc import Callable
from typing import Any


class LazyError(Exception):
    """Base of every error that the project raises on purpose.

    `what` says what happened, with values; `where` is the user's `file:line`; `hint` says what to do about it. `lead`
    is a sentence of the original's that scripts look for, and that has to come first.
    """

    is_refusal: bool = False
    """Whether it stands for something that the wafer refuses, and PyTorch does not."""

    def __init__(self, what: str, *, where: object = None, hint: str = "", lead: str = ""):
        self.what: str = what
        self.where: object = where
        self.hint: str = hint
        # The first line is what a terminal shows of a long traceback: the place comes first.
        # `file:line` comes first, so that editors and terminals make it a link.
        text = f"{lead}\n" * bool(lead) + (f"{where}: {what}" if where else what)
        super().__init__(f"{text}\n  {hint}" if hint else text)


class ShapeError(LazyError, RuntimeError):
    """Shapes or dtypes do not fit an operation."""


class CountInvalid(ShapeError, ValueError):
    """Labels that are not one for each sample: the ValueError that PyTorch raises there, and a ShapeError of ours."""


class CountZero(ShapeError, ZeroDivisionError):
    """A count of zero that PyTorch divides by."""


class TraceError(LazyError, RuntimeError):
    """A value was asked for while a step is being traced, or tracing was used out of order."""


class ClientValueError(TraceError, TypeError):
    """An array was asked for of a tensor whose value is not on the client: the TypeError that PyTorch raises there."""


class IndexInvalid(LazyError, IndexError):
    """A number that stands for a place, where there is none."""


class ArgumentInvalid(LazyError, TypeError):
    """An argument of a kind that a function does not take."""


class TensorMissing(ArgumentInvalid, AttributeError):
    """Something else in the place of a tensor; an AttributeError too, where PyTorch asks it for a tensor's methods."""


class NumberMissing(ArgumentInvalid, ShapeError):
    """A tensor with a shape in the place of a number; a RuntimeError too, where PyTorch looks at its value."""


class TypeUnsupported(ShapeError, NotImplementedError):
    """Elements of a type that a function has no arithmetic for."""


class NumberTooLarge(LazyError, RuntimeError, ValueError, TypeError, OverflowError):
    """A number of more than 64 bits; PyTorch raises the one or the other, by where it reads the number."""


class ValuesAbsent(LazyError, NotImplementedError, TypeError):
    """The values of a tensor on the device "meta" are read; PyTorch raises the one or the other, by what reads them."""


class StateError(LazyError, RuntimeError):
    """A tensor that has to survive the step has no identity, or two tensors claim the same one."""


class CompileError(LazyError, RuntimeError):
    """A graph cannot be lowered, or a pass broke one of its invariants."""


class AutogradError(LazyError, RuntimeError):
    """A gradient was asked for that does not exist."""


# An AttributeError, so that hasattr() and getattr() with a default work on the emulated modules.
class NameMissing(LazyError, AttributeError):
    """A public name of the emulated API that this version does not provide."""


class DeviceAbsent(LazyError, AssertionError, RuntimeError):
    """A device that this machine or this project does not have; an AssertionError as PyTorch's for CUDA."""


class OptionMissing(LazyError, NotImplementedError):
    """An option that PyTorch takes and this version does not. A RuntimeError too, by way of NotImplementedError."""


class CheckpointError(LazyError, RuntimeError):
    """A checkpoint is foreign, truncated, half-written or does not fit."""


class MemoryMissing(LazyError, RuntimeError, MemoryError):
    """A tensor is larger than the memory; PyTorch raises RuntimeError.

    Programs that look for the largest batch know the error by PyTorch's words on Linux, and by its one argument.
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
    """Processes that were to do some work have ended, or could not be reached."""


class DataError(LazyError, RuntimeError):
    """A data set or a batch is missing or malformed."""


class OperandInvalid(LazyError, AssertionError):
    """A tensor that one of the wafer's own functions cannot take; the original asserts."""


class OptionInvalid(LazyError, ValueError):
    """An argument or a configuration has a value that is not allowed."""


Reporter = Callable[[str, LazyError, str], Any]
_reporter: Reporter | None = None


def refuse(rule: str, error: LazyError, about: str = "") -> Any:
    """Raise what the wafer refuses and PyTorch does not; where a reporter listens, tell it and go on as PyTorch would.

    `rule` says what kind of refusal it is, as in "read .item()"; `about` names what it is about: a type, a name.
    Returns what the reporter gives as a stand-in.
    """
    # One reporter for the process, like the one run that a process has: a refusal is met deep inside a script's own
    # calls, where no argument could be passed down.
    if _reporter is None:
        error.is_refusal = True
        raise error
    return _reporter(rule, error, about)


def report_to(reporter: Reporter | None) -> None:
    """Have refusals reported instead of raised; None has them raised again."""
    global _reporter
    _reporter = reporter
