"""The functions `torch._foreach_*`, which apply one operation to each tensor of a list.

Optimizers of libraries use them. In PyTorch they reduce the number of kernel launches. Here the operations of a step
are one program in any case.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import ShapeError

FOREACH_PREFIX = "_foreach_"


def _make_list_function(name: str) -> Callable[..., Any]:
    """Return the function `name`, which calls the Tensor method of that name for each tensor of a list.

    Further arguments that are lists contribute their element at the same index. Functions whose name ends in "_" return
    None.
    """
    method = getattr(Tensor, name.removeprefix(FOREACH_PREFIX), None) or _make_in_place(
        name.removeprefix(FOREACH_PREFIX)
    )

    def each(tensors: Sequence[Tensor], *others: Any, **options: Any) -> tuple[Tensor, ...] | None:
        _require_equal_lengths(tensors, others)
        if "addc" in name and len(others) == 3:
            # The scalar is a positional argument here and a keyword argument of the method.
            options["value"], others = others[-1], others[:-1]
        results = tuple(
            method(t, *(_select_member(o, i) for o in others), **{k: _select_member(v, i) for k, v in options.items()})
            for i, t in enumerate(tensors)
        )
        return None if name.endswith("_") else results

    each.__name__ = each.__qualname__ = name
    result = "None" if name.endswith("_") else "a tuple of the results"
    called = name.removeprefix(FOREACH_PREFIX)
    each.__doc__ = (
        f"Call the tensor method `{called}` of each tensor in `tensors`, and return {result}.\n\n"
        "Another argument that is a list or tuple contributes its element at the same index; any other argument is\n"
        "used for all tensors. Raises RuntimeError if `tensors` is empty, or if a list in `others` has another length."
    )
    return each


def _make_in_place(name: str) -> Callable[..., Tensor]:
    """Return an in-place function for an operation without an in-place method. It copies the result into the tensor."""
    operation = getattr(Tensor, name.removesuffix("_"))
    return lambda x, *others, **options: x.copy_(operation(x, *others, **options))


def _require_equal_lengths(tensors: Sequence[Tensor], others: Sequence[Any]) -> None:
    if not tensors:
        raise ShapeError(
            "Tensor list must have at least one tensor.", where=source.where(), hint="Pass at least one tensor."
        )
    for other in others:
        if isinstance(other, list | tuple) and len(other) != len(tensors):
            if other and not isinstance(other[0], Tensor):
                raise ShapeError(
                    "Tensor list must have same number of elements as scalar list.",
                    where=source.where(),
                    hint="Pass one scalar for each tensor.",
                )
            raise ShapeError(
                f"Tensor lists must have the same number of tensors, got {len(tensors)} and {len(other)}",
                where=source.where(),
                hint="Pass lists of equal lengths.",
            )


def _select_member(argument: Any, i: int) -> Any:
    return argument[i] if isinstance(argument, list | tuple) else argument


@functools.cache
def _get_list_function(name: str) -> Callable[..., Any]:
    return _make_list_function(name)


def __getattr__(name: str) -> Any:
    # The table of names lists the functions that PyTorch has. Each is a Tensor method with the same name.
    if name.startswith(FOREACH_PREFIX):
        return _get_list_function(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
