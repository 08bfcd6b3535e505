"""Devices of tensors, the default device, checks of reads, and the type of `Tensor.shape`."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from lazytensor.core import source
from lazytensor.errors import DeviceAbsent, ValuesAbsent

ABSENT_DEVICE_MESSAGES = {
    "cuda": "Torch not compiled with CUDA enabled",
    "xpu": "Torch not compiled with XPU enabled",
    "mps": "PyTorch is not linked with support for mps devices",
}
"""Devices that are not available, with the error message of a CPU build of PyTorch."""
_SCALAR_READS = (".item()", "bool()", "float()", "int()", "complex()", "an index")


class Size(tuple[int, ...]):
    """The shape of a tensor: a tuple whose repr has PyTorch's form, with the name of the package as its prefix.

    >>> import lazytensor as lt
    >>> lt.ones(2, 3).size()
    lazytensor.Size([2, 3])
    """

    def __repr__(self) -> str:
        return f"{Size.__module__.partition('.')[0]}.Size({list(self)})"

    def numel(self) -> int:
        """Return the number of elements."""
        return int(np.prod(self)) if self else 1


class Device:
    """A device by name, such as "cpu", "lazy:0" or "meta". As a context manager, it is the default device in the block.

    >>> import lazytensor as lt
    >>> lt.Device("cpu", 0)
    device(type='cpu', index=0)
    """

    def __init__(self, name: "str | Device" = "cpu", index: int | None = None):
        text = name.text if isinstance(name, Device) else name
        kind, _, number = text.partition(":")
        self.type: str = kind
        self.index: int | None = index if index is not None else int(number) if number else None

    @property
    def text(self) -> str:
        """The device as a string, such as "lazy:0"; without an index, only the type."""
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __enter__(self) -> "Device":
        _default_devices.stack.append(CPU if self.type == "cpu" else self)
        return self

    def __exit__(self, *_: object) -> None:
        _default_devices.stack.pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        index = f", index={self.index}" if self.index is not None else ""
        return f"device(type='{self.type}'{index})"


CPU = Device("cpu")


class _DefaultDevices(threading.local):
    """The stack of default devices of each thread: first the thread's default, then that of each `with` block."""

    def __init__(self) -> None:
        self.stack = [CPU]


_default_devices = _DefaultDevices()


def default_device() -> Device:
    """Return the device of new tensors.

    It is that of the innermost `with device:` block, else the thread's default, which is the CPU if it was not set.
    """
    return _default_devices.stack[-1]


def set_thread_default_device(device: Device) -> None:
    """Set the device of new tensors outside of `with device:` blocks, in this thread."""
    _default_devices.stack[0] = device


def resolve_device(device: "str | Device") -> Device:
    """Return the Device for a name; every CPU index gives the same device `CPU`.

    Raises DeviceAbsent for "cuda", "xpu" and "mps". Other names are not checked.
    """
    target = device if isinstance(device, Device) else Device(device)
    if target.type in ABSENT_DEVICE_MESSAGES:
        raise DeviceAbsent(
            ABSENT_DEVICE_MESSAGES[target.type],
            where=source.where(),
            hint='Check is_available() before you choose the device, or use "cpu".',
        )
    # There is only one CPU device, so "cpu:0" is the same.
    return CPU if target.type == "cpu" else target


_reading_rules: list[Callable[[Any, str], None]] = []


def set_reading_rule(rule: Callable[[Any, str], None] | None) -> None:
    """Call `rule(tensor, reading call)` before each read of a tensor's values; None removes it.

    The rule may raise an error.
    """
    _reading_rules[:] = [rule] if rule is not None else []


def check_reading(t: Any, what: str) -> None:
    """Call the reading rule for a tensor that `what` is about to read. Raises ValuesAbsent for the device "meta"."""
    if t.device.type == "meta":
        is_number = what in _SCALAR_READS
        text = (
            "Tensor.item() cannot be called on meta tensors"
            if is_number
            else "Cannot copy out of meta tensor; no data!"
        )
        raise ValuesAbsent(
            f"{text} ({what} reads the values)",
            where=source.where(),
            hint=(
                "Create the tensor on the CPU, or give the model values with to_empty() or "
                "load_state_dict(assign=True)."
            ),
        )
    for rule in _reading_rules:
        rule(t, what)
