"""Modules of `torch` that model code imports but that are not supported.

Their names can be imported, and raise an error with a reason when used. The table of names redirects unknown names of
such modules to this module, as in "torch/fx/Tracer". Libraries test private names to find out whether a feature is in
use, so a function whose name is a question, such as `torch._C._functorch.is_batchedtensor`, returns False. Constants
have PyTorch's values.
"""

import functools
from collections.abc import Callable
from typing import Any, NoReturn

from cstorch_compat.names import torch_surface
from lazytensor.core import source
from lazytensor.errors import OptionMissing

REFUSAL_REASONS = {
    "torch.fx": (
        "FX graphs are not supported",
        "Call the module directly, or capture a step with cstorch.trace.",
    ),
    "torch.onnx": ("ONNX export is not supported", "Save model.state_dict(), and export the model with PyTorch."),
    "torch.export": (
        "exporting programs is not supported",
        "Save model.state_dict(), and export the model with PyTorch.",
    ),
    "torch.ao": (
        "quantized types are not supported",
        "Train in float32 or bfloat16, and quantize the model with PyTorch.",
    ),
    "torch.distributed": ("a run is one process", "Skip the call if the world size is 1."),
    "torch.quantization": (
        "quantized types are not supported",
        "Train in float32 or bfloat16, and quantize the model with PyTorch.",
    ),
    "torch.fft": (
        "complex numbers are not supported",
        "Use a convolution (torch.nn.functional.conv1d), or transform the data with numpy.fft before training.",
    ),
    "torch.overrides": ("functions are not replaced by classes and modes", "Call your function by its name."),
    "torch.hub": ("this package does not download files", "Put the files into the folder torch.hub.get_dir()."),
}
"""For each package: the reason, and the hint of what to do instead."""
PRIVATE_REASON = ("private names of PyTorch are not provided", "Use a documented name.")
"""The reason and the hint for private names of other packages."""
DEFAULT_REASON = ("not implemented", "Replace it by a supported operation, or run this part with PyTorch.")
"""The reason and the hint for other names."""
QUESTION_PREFIXES = ("is_", "_is_", "has_", "_has_", "are_", "_are_", "in_", "_in_")
"""Prefixes of functions that ask whether a feature is in use."""
QUESTION_SUFFIXES = ("_available", "_enabled", "_supported")
"""Suffixes of such functions."""


def find_refusal_reason(name: str) -> tuple[str, str]:
    """Return the reason for refusing the public name `name`, and the hint."""
    default = PRIVATE_REASON if "._" in name else DEFAULT_REASON
    return next((REFUSAL_REASONS[p] for p in REFUSAL_REASONS if f"{name}.".startswith(f"{p}.")), default)


def make_refusal_error(name: str) -> OptionMissing:
    """Return the error for a use of the public name `name`."""
    why, hint = find_refusal_reason(name)
    return OptionMissing(f"{name}: {why}", where=source.where(), hint=hint)


def make_refusing_function(name: str) -> Callable[..., NoReturn]:
    """Return a function that raises OptionMissing when it is called. `name` is the full public name.

    The function has the attribute `refused`, the pair (reason, hint).
    """

    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        raise make_refusal_error(name)

    refused.__name__ = refused.__qualname__ = name.rpartition(".")[2]
    refused.__doc__ = f"Raise OptionMissing, because {find_refusal_reason(name)[0]}."
    refused.__dict__["refused"] = find_refusal_reason(name)
    return refused


def make_refusing_class(name: str) -> type:
    """Return a class that can be named and subclassed, and raises OptionMissing when it is instantiated.

    A class whose name ends in Error, Exception or Warning is an exception class.
    """

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        raise make_refusal_error(name)

    body = {
        "__init__": __init__,
        "__doc__": f"A class whose constructor raises OptionMissing, because {find_refusal_reason(name)[0]}.",
        "__module__": name.rpartition(".")[0],
        "refused": find_refusal_reason(name),
        # Annotations subscript generic classes.
        "__class_getitem__": classmethod(lambda cls, parameters: cls),
    }
    # Scripts catch these exceptions and do not raise them.
    bases = (Exception,) if name.endswith(("Error", "Exception", "Warning")) else ()
    return type(name.rpartition(".")[2], bases, body)


def identity(fn_or_name: Any) -> Any:
    """Return the function unchanged. `torch.fx.wrap` would mark it as a leaf of traces."""
    return fn_or_name


def return_false(*args: Any, **kwargs: Any) -> bool:
    """Return False: nothing is traced or exported, and features that are missing are not in use."""
    return False


def do_nothing(*args: Any, **kwargs: Any) -> None:
    """Accept and ignore arguments for an exporter."""


@functools.cache
def __getattr__(name: str) -> Any:
    # Python also looks up special names in modules, which have no slash.
    path = name.replace("/", ".")
    if path == name:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, last = path.rpartition(".")
    constants = torch_surface.recorded_constants(module)
    if last in constants:
        return constants[last]
    if last.startswith(QUESTION_PREFIXES) or (last.islower() and last.endswith(QUESTION_SUFFIXES)):
        return return_false
    last = last.lstrip("_")
    return make_refusing_class(path) if last[:1].isupper() and not last.isupper() else make_refusing_function(path)
