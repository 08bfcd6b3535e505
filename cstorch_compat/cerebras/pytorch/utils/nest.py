"""What is in nested lists, tuples and dicts: `cerebras.pytorch.utils.nest`."""

from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lazytensor.core import source
from lazytensor.core.pytree import TreeSpec
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionInvalid

VisitFn = Callable[[Any], Iterator[tuple[list[str], Any]]]
"""Gives the members of a structure with their places."""
Select = Callable[[Any], bool]


def visit_list_tuple(struct: Any) -> Iterator[tuple[list[str], Any]]:
    """The members of a list or tuple, by their numbers."""
    yield from (([str(i)], value) for i, value in enumerate(struct))


def visit_dict(struct: Any) -> Iterator[tuple[list[str], Any]]:
    """The members of a mapping, by their keys."""
    yield from (([str(key)], value) for key, value in struct.items())


_visitors: dict[type, VisitFn] = {}


def register_visit_fn(*types: type) -> Callable[[VisitFn], VisitFn]:
    """A decorator: the function gives the members of structures of these types."""

    def decorate(function: VisitFn) -> VisitFn:
        for kind in types:
            _visitors[kind] = function
        return function

    return decorate


def unregister_visit_fn(*types: type) -> None:
    """Enter structures of these types no more."""
    for kind in types:
        _visitors.pop(kind, None)


def find_visit_fn(struct: Any) -> VisitFn | None:
    """What gives the members of a structure; None for what has none."""
    # Those of scripts first, and of them the one for the nearest class.
    for kind in type(struct).__mro__:
        if kind in _visitors:
            return _visitors[kind]
    if isinstance(struct, Mapping | UserDict):
        return visit_dict
    return visit_list_tuple if isinstance(struct, list | tuple) else None


def visit_structure(
    data_structure: Any, select_fn: Select, strict: bool = False, scope: list[str] | None = None
) -> Iterator[tuple[list[str], Any]]:
    """What is selected, with its place, such as ["batch", "0"]. With `strict` anything else raises OptionInvalid."""
    place = scope or []
    if select_fn(data_structure):
        yield place, data_structure
        return
    members = find_visit_fn(data_structure)
    if members is not None:
        for step, value in members(data_structure):
            yield from visit_structure(value, select_fn, strict, [*place, *step])
    elif strict:
        raise OptionInvalid(
            f"Unknown data structure: {data_structure}",
            where=source.where(),
            hint=f"It is at {'.'.join(place) or 'the top'}: give nested lists, tuples and dicts of tensors.",
        )


def visit_torch_tensors(
    data_structure: Any, strict: bool = False, scope: list[str] | None = None
) -> Iterator[tuple[list[str], Tensor]]:
    """The tensors with their places."""
    yield from visit_structure(data_structure, _is_tensor, strict, scope)


def visit_device_tensors(
    data_structure: Any, device_type: str, strict: bool = False, scope: list[str] | None = None
) -> Iterator[tuple[list[str], Tensor]]:
    """The tensors that live on a device, with their places."""
    yield from visit_structure(data_structure, _make_device_filter(device_type), strict, scope)


def visit_lazy_tensors(
    data_structure: Any, strict: bool = False, scope: list[str] | None = None
) -> Iterator[tuple[list[str], Tensor]]:
    """The tensors of the wafer, with their places."""
    yield from visit_device_tensors(data_structure, "lazy", strict, scope)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _make_device_filter(device_type: str) -> Select:
    return lambda value: isinstance(value, Tensor) and value.device.type == device_type


def map_structure(
    map_fn: Callable[..., Any], data_structure: Any, select_fn: Select, scope: list[str] | None = None
) -> Any:
    """The structure with map_fn(place, value) for each selected value."""
    place = scope or []
    if select_fn(data_structure):
        return map_fn(place, data_structure)

    def inner(step: object, value: Any) -> Any:
        return map_structure(map_fn, value, select_fn, [*place, str(step)])

    if isinstance(data_structure, Mapping):
        # Made anew from pairs, which dict, OrderedDict and most of their subclasses take.
        return type(data_structure)((k, inner(k, v)) for k, v in data_structure.items())  # type: ignore[call-arg]
    if isinstance(data_structure, tuple) and hasattr(data_structure, "_fields"):
        return type(data_structure)(*(inner(i, v) for i, v in enumerate(data_structure)))
    if isinstance(data_structure, list | tuple):
        return type(data_structure)(inner(i, v) for i, v in enumerate(data_structure))
    return data_structure


def map_torch_tensors(map_fn: Callable[..., Any], data_structure: Any, scope: list[str] | None = None) -> Any:
    """The structure with map_fn(place, tensor) for each tensor."""
    return map_structure(map_fn, data_structure, _is_tensor, scope)


def map_lazy_tensors(map_fn: Callable[..., Any], data_structure: Any, scope: list[str] | None = None) -> Any:
    """The structure with map_fn(place, tensor) for each tensor of the wafer."""
    return map_structure(map_fn, data_structure, _make_device_filter("lazy"), scope)


def recurse_spec(spec: TreeSpec, scope: list[str] | None = None) -> Iterator[list[str]]:
    """The places of the leaves of a tree that `tree_flatten` has described, in its order."""
    place = scope or []
    if spec.is_leaf():
        yield place
        return
    # The context of a mapping is its keys; other containers count.
    keys = spec.context if isinstance(spec.context, list) else range(len(spec.children_specs))
    for key, child in zip(keys, spec.children_specs, strict=True):
        yield from recurse_spec(child, [*place, str(key)])
