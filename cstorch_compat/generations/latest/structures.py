"""The tensors in nested lists, tuples and dicts: `cerebras.pytorch.utils.nest`."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cstorch_compat.files.tree import map_tensors
from lazytensor import source
from lazytensor.errors import OptionInvalid
from lazytensor.tensor import Tensor


def visit_torch_tensors(
    data_structure: Any, strict: bool = False, scope: list[str] | None = None
) -> Iterator[tuple[list[str], Tensor]]:
    """The tensors with their places, such as ["batch", "0"]. With `strict` anything else raises OptionInvalid."""
    place = scope or []
    if isinstance(data_structure, Tensor):
        yield place, data_structure
    elif isinstance(data_structure, Mapping):
        for key, value in data_structure.items():
            yield from visit_torch_tensors(value, strict, [*place, str(key)])
    elif isinstance(data_structure, list | tuple):
        for i, value in enumerate(data_structure):
            yield from visit_torch_tensors(value, strict, [*place, str(i)])
    elif strict:
        raise OptionInvalid(
            f"{'.'.join(place) or 'the structure'} is a {type(data_structure).__name__}, not a tensor",
            where=source.where(),
            hint="Give nested lists, tuples and dicts of tensors, or leave out strict=True.",
        )


def map_torch_tensors(map_fn: Callable[[Tensor], Any], data_structure: Any) -> Any:
    """The structure with a function of each tensor in its place."""
    return map_tensors(data_structure, map_fn)
