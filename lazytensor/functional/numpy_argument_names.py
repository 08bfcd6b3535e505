"""NumPy's argument names, which PyTorch's functions and methods accept too: `axis=` for `dim=`."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

NUMPY_ARGUMENT_NAMES = {"axis": "dim", "keepdims": "keepdim"}
FIRST_OPERAND_NAMES, SECOND_OPERAND_NAMES = ("input", "x", "a", "x1"), ("other", "x2")
"""The accepted names of the first and the second operand, PyTorch's name first."""
TORCH_ARGUMENT_NAMES: dict[str, dict[str, str]] = {
    "addcdiv": {"tensor1": "a", "tensor2": "b"},
    "addcmul": {"tensor1": "a", "tensor2": "b"},
    "addmm": {"mat1": "a", "mat2": "b"},
    "baddbmm": {"batch1": "a", "batch2": "b"},
    "bmm": {"mat2": "b"},
    "cholesky_solve": {"input2": "L"},
    "copy_": {"src": "value"},
    "dot": {"tensor": "b"},
    "dsplit": {"sections": "indices_or_sections", "indices": "indices_or_sections"},
    "hsplit": {"sections": "indices_or_sections", "indices": "indices_or_sections"},
    "isin": {"element": "elements", "test_element": "test_elements"},
    "lerp": {"end": "b"},
    "lstsq": {"b": "B"},
    "mm": {"mat2": "b"},
    "mv": {"vec": "b"},
    "ormqr": {"input2": "tau", "input3": "other"},
    "outer": {"vec2": "b"},
    "record_stream": {"s": "stream"},
    "searchsorted": {"input": "values"},
    "split": {"tensor": "x"},
    "tensor_split": {"tensor_indices_or_sections": "indices_or_sections"},
    "uniform_": {"from": "a", "to": "b"},
    "vsplit": {"sections": "indices_or_sections", "indices": "indices_or_sections"},
}
"""PyTorch's names of parameters that have another name in the signature here, by function."""


def alternative_names(function: Callable[..., Any]) -> dict[str, str]:
    """Return a map from other names of parameters of `function` to those in its signature.

    FIRST_OPERAND_NAMES and SECOND_OPERAND_NAMES stand for the first two positional parameters, "axis" for "dim" and
    "keepdims" for "keepdim", and TORCH_ARGUMENT_NAMES has others. A name that is itself in the signature is left out.
    """
    code = cast(Any, _unwrap(function)).__code__
    positional = code.co_varnames[: code.co_argcount]
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    # By position, since the functions here name their operands differently. A parameter that has one of the names keeps
    # it.
    names = {
        new: old
        for news, old in zip((FIRST_OPERAND_NAMES, SECOND_OPERAND_NAMES), positional, strict=False)
        for new in news
        if new not in known
    }
    numpy_names = {new: old for new, old in NUMPY_ARGUMENT_NAMES.items() if old in known and new not in known}
    return {**names, **numpy_names, **TORCH_ARGUMENT_NAMES.get(function.__name__, {})}


def accept_alternative_names(function: F) -> F:
    """Return the method `function` wrapped to accept NumPy's and PyTorch's parameter names; itself if none differ.

    The names of the first operand are excluded, since that is the tensor.
    """
    own = TORCH_ARGUMENT_NAMES.get(function.__name__, {})
    table = {
        new: old for new, old in alternative_names(function).items() if new in own or new not in FIRST_OPERAND_NAMES
    }
    if not table:
        return function

    @functools.wraps(function)
    def renamed(*args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            return function(*args)
        rename_arguments(table, kwargs)
        return function(*args, **kwargs)

    return cast(F, renamed)


def rename_arguments(table: dict[str, str], kwargs: dict[str, Any]) -> None:
    """Replace keys of `kwargs` by the names that `table` gives them, in place."""
    for name in table.keys() & kwargs.keys():
        kwargs[table[name]] = kwargs.pop(name)


def _unwrap(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the innermost function that `function` wraps."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function
