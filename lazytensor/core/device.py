"""Where a tensor lives, and the shape that it reports."""

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
"""Devices that scripts ask for and that are not there, with what a CPU build of PyTorch says of them."""
_SCALAR_READS = (".item()", "bool()", "float()", "int()", "complex()", "an index")


class Size(tuple[int, ...]):
    """The shape of a tensor: a tuple that prints as PyTorch's, with the name of the package in front.

    >>> import lazytensor as lt
    >>> lt.ones(2, 3).size()
    lazytensor.Size([2, 3])
    """

    def __repr__(self) -> str:
        return f"{Size.__module__.partition('.')[0]}.Size({list(self)})"

    def numel(self) -> int:
        """The number of elements."""
        return int(np.prod(self)) if self else 1


class Device:
    """A device by name, such as "cpu", "lazy:0" or "meta".

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
        """As in "lazy:0"."""
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
    """The devices that each thread has chosen, as in PyTorch: outside of all blocks, then in each, outermost first."""

    def __init__(self) -> None:
        self.stack = [CPU]


_default_devices = _DefaultDevices()


def default_device() -> Device:
    """Where new tensors live that name no device: that of the innermost `with device:` block, else the CPU."""
    return _default_devices.stack[-1]


def set_thread_default_device(device: Device) -> None:
    """Decide where new tensors live outside of all blocks, in this thread."""
    _default_devices.stack[0] = device


def resolve_device(device: "str | Device") -> Device:
    """The device of this name as tensors have it. Raises DeviceAbsent for a GPU."""
    target = device if isinstance(device, Device) else Device(device)
    if target.type in ABSENT_DEVICE_MESSAGES:
        raise DeviceAbsent(
            ABSENT_DEVICE_MESSAGES[target.type],
            where=source.where(),
            hint='Choose the device by what is_available() says, or use "cpu".',
        )
    # There is one CPU: "cpu:0" is the same.
    return CPU if target.type == "cpu" else target


_reading_rules: list[Callable[[Any, str], None]] = []


def set_reading_rule(rule: Callable[[Any, str], None] | None) -> None:
    """Call a function before each reading of a tensor's values, with the tensor and what reads; it may raise."""
    _reading_rules[:] = [rule] if rule is not None else []


def check_reading(t: Any, what: str) -> None:
    """Apply the rules to a tensor whose values are read. Raises ValuesAbsent for one on the device "meta"."""
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
            hint="Make the tensor on the CPU, or give the model values by to_empty() or load_state_dict(assign=True).",
        )
    for rule in _reading_rules:
        rule(t, what)
