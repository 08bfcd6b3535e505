"""The keywords that PyTorch's creation functions share: `layout`, `pin_memory`, `memory_format`, `requires_grad`."""

import functools
from collections.abc import Callable, Collection
from typing import Any

from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionMissing

_WITHOUT_OPTIONS = frozenset(("as_tensor", "asarray"))
"""Functions with a dtype and a device that have none of these keywords in PyTorch."""


def has_creation_options(name: str, parameters: Collection[str]) -> bool:
    """Return whether the function `name` creates a tensor, as its parameters `dtype` and `device` show."""
    return {"dtype", "device"} <= set(parameters) and name not in _WITHOUT_OPTIONS


def accept_creation_options(function: Callable[..., Tensor], parameters: Collection[str]) -> Callable[..., Tensor]:
    """Return `function`, one with `parameters`, wrapped so that it accepts PyTorch's other keywords.

    `layout`, `pin_memory` and `memory_format` change no value and are removed. A `layout` other than strided raises
    OptionMissing. `requires_grad` is set on the result. Keywords that PyTorch's function does not have reach
    `function`, which raises TypeError.
    """
    name = function.__name__
    unused = {"pin_memory"} | ({"layout"} if name != "tensor" else set())
    unused |= {"memory_format"} if name.endswith("_like") or name == "empty" else set()
    unused -= set(parameters)
    sets_requires_grad = "requires_grad" not in parameters

    @functools.wraps(function)
    def created(*args: Any, **kwargs: Any) -> Tensor:
        if not kwargs:
            return function(*args)
        for option in unused & kwargs.keys():
            value = kwargs.pop(option)
            if option == "layout" and value is not None and "strided" not in str(value):
                raise OptionMissing(
                    f"{name}() creates only strided tensors, but layout is {value}",
                    where=source.where(),
                    hint="Remove layout=, or create a sparse tensor with torch.sparse_coo_tensor.",
                )
        requires_grad = kwargs.pop("requires_grad", False) if sets_requires_grad else False
        result = function(*args, **kwargs)
        return result.requires_grad_() if requires_grad else result

    return created
