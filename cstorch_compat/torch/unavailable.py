"""Modules of `torch` that model code imports but that are not supported.

Their names can be imported, and raise an error with a reason when used. The table of names redirects unknown names of
such modules to this module, as in "torch/fx/Tracer".
"""

import functools
from collections.abc import Callable
from typing import Any, NoReturn

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
    "torch.hub": ("this package does not download files", "Put the files into the folder torch.hub.get_dir()."),
}
"""For each package: the reason, and the hint of what to do instead."""


def find_refusal_reason(name: str) -> tuple[str, str]:
    """Return the reason for refusing the public name `name`, and the hint."""
    return next(REFUSAL_REASONS[p] for p in REFUSAL_REASONS if name.startswith(p))


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
    }
    # Scripts catch these exceptions and do not raise them.
    bases = (Exception,) if name.endswith(("Error", "Exception", "Warning")) else ()
    return type(name.rpartition(".")[2], bases, body)


def identity(fn_or_name: Any) -> Any:
    """Return the function unchanged. `torch.fx.wrap` would mark it as a leaf of traces."""
    return fn_or_name


def return_false() -> bool:
    """Return False: nothing is traced or exported."""
    return False


def do_nothing(*args: Any, **kwargs: Any) -> None:
    """Accept and ignore arguments for an exporter."""


@functools.cache
def __getattr__(name: str) -> Any:
    # Python also looks up special names in modules, which have no slash.
    path = name.replace("/", ".")
    if path == name:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    last = path.rpartition(".")[2].lstrip("_")
    return make_refusing_class(path) if last[:1].isupper() and not last.isupper() else make_refusing_function(path)
