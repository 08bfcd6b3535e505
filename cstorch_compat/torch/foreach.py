"""`torch._foreach_*`: one operation over lists of tensors, as optimizers that others write use them.

PyTorch saves launches of kernels with them; here the operations of a step are one program anyhow.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lazytensor.core.tensor import Tensor

FOREACH_PREFIX = "_foreach_"


def _make_list_function(name: str) -> Callable[..., Any]:
    """What calls a method of Tensor for each tensor of a list, with the members of other lists at its place."""
    # Looked up once, and not for each tensor of each step.
    method = getattr(Tensor, name.removeprefix(FOREACH_PREFIX), None) or _make_in_place(
        name.removeprefix(FOREACH_PREFIX)
    )

    def each(tensors: Sequence[Tensor], *others: Any, **options: Any) -> tuple[Tensor, ...] | None:
        _require_equal_lengths(tensors, others)
        if "addc" in name and len(others) == 3:
            # The factor is an ordinary argument of the lists and a keyword of the method.
            options["value"], others = others[-1], others[:-1]
        results = tuple(
            method(t, *(_select_member(o, i) for o in others), **{k: _select_member(v, i) for k, v in options.items()})
            for i, t in enumerate(tensors)
        )
        return None if name.endswith("_") else results

    each.__name__ = each.__qualname__ = name
    each.__doc__ = (
        f"`{name.removeprefix(FOREACH_PREFIX)}` of each tensor of a list; RuntimeError if lists differ in length."
    )
    return each


def _make_in_place(name: str) -> Callable[..., Tensor]:
    """An operation in place that tensors have no method for: the result is copied."""
    operation = getattr(Tensor, name.removesuffix("_"))
    return lambda x, *others, **options: x.copy_(operation(x, *others, **options))


def _require_equal_lengths(tensors: Sequence[Tensor], others: Sequence[Any]) -> None:
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")
    for other in others:
        if isinstance(other, list | tuple) and len(other) != len(tensors):
            if other and not isinstance(other[0], Tensor):
                raise RuntimeError("Tensor list must have same number of elements as scalar list.")
            raise RuntimeError(
                f"Tensor lists must have the same number of tensors, got {len(tensors)} and {len(other)}"
            )


def _select_member(argument: Any, i: int) -> Any:
    return argument[i] if isinstance(argument, list | tuple) else argument


@functools.cache
def _get_list_function(name: str) -> Callable[..., Any]:
    return _make_list_function(name)


def __getattr__(name: str) -> Any:
    # Which ones PyTorch has stands in the table of names; each is a method of Tensor under the same name.
    if name.startswith(FOREACH_PREFIX):
        return _get_list_function(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
