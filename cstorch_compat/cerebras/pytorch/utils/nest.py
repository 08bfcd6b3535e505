"""Iteration over nested lists, tuples and dicts: `cerebras.pytorch.utils.nest`.

The path of a value is the list of indices and keys that lead to it, as text. For example, ["batch", "0"] is the path of
`x["batch"][0]`.
"""

from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cstorch_compat.files.tree import replace_values
from lazytensor.core import source
from lazytensor.core.pytree import TreeSpec
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionInvalid

VisitFn = Callable[[Any], Iterator[tuple[list[str], Any]]]
"""The type of functions that yield the members of a container as pairs (path, value)."""
Select = Callable[[Any], bool]


def visit_list_tuple(struct: Any) -> Iterator[tuple[list[str], Any]]:
    """Yield the members of a list or tuple as pairs of path (the index) and value."""
    yield from (([str(i)], value) for i, value in enumerate(struct))


def visit_dict(struct: Any) -> Iterator[tuple[list[str], Any]]:
    """Yield the members of a mapping as pairs of path (the key) and value."""
    yield from (([str(key)], value) for key, value in struct.items())


_visitors: dict[type, VisitFn] = {}
"""The functions that scripts registered, by type."""


def register_visit_fn(*types: type) -> Callable[[VisitFn], VisitFn]:
    """Return a decorator that registers a function as the visitor of containers of the given types.

    The function takes a container and yields pairs of path and value.
    """

    def decorate(function: VisitFn) -> VisitFn:
        for kind in types:
            _visitors[kind] = function
        return function

    return decorate


def unregister_visit_fn(*types: type) -> None:
    """Remove the visitors of the given types. Types without a registered visitor are ignored."""
    for kind in types:
        _visitors.pop(kind, None)


def find_visit_fn(struct: Any) -> VisitFn | None:
    """Return the visitor for `struct`, or None if it is not a container.

    A registered visitor, of the most derived class, takes precedence over those for mappings, lists and tuples.
    """
    # Registered visitors first, in the order of the class hierarchy.
    for kind in type(struct).__mro__:
        if kind in _visitors:
            return _visitors[kind]
    if isinstance(struct, Mapping | UserDict):
        return visit_dict
    return visit_list_tuple if isinstance(struct, list | tuple) else None


def visit_structure(
    data_structure: Any, select_fn: Select, strict: bool = False, scope: list[str] | None = None
) -> Iterator[tuple[list[str], Any]]:
    """Yield pairs of path and value for each value for which `select_fn` returns True.

    The members of a selected value are not visited. Paths begin with `scope`. With `strict`, a value that is neither
    selected nor a container raises OptionInvalid; otherwise it is skipped.
    """
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
            hint=f"Use nested lists, tuples and dicts of tensors at {'.'.join(place) or 'the top'}.",
        )


def visit_torch_tensors(
    data_structure: Any, strict: bool = False, scope: list[str] | None = None
) -> Iterator[tuple[list[str], Tensor]]:
    """Yield pairs of path and tensor for all tensors. The parameters are those of `visit_structure`."""
    yield from visit_structure(data_structure, _is_tensor, strict, scope)


def visit_device_tensors(
    data_structure: Any, device_type: str, strict: bool = False, scope: list[str] | None = None
) -> Iterator[tuple[list[str], Tensor]]:
    """Yield pairs of path and tensor for the tensors on devices of type `device_type`, as `visit_structure`."""
    yield from visit_structure(data_structure, _make_device_filter(device_type), strict, scope)


def visit_lazy_tensors(
    data_structure: Any, strict: bool = False, scope: list[str] | None = None
) -> Iterator[tuple[list[str], Tensor]]:
    """Yield pairs of path and tensor for the tensors on the wafer, whose device type is "lazy"."""
    yield from visit_device_tensors(data_structure, "lazy", strict, scope)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _make_device_filter(device_type: str) -> Select:
    return lambda value: isinstance(value, Tensor) and value.device.type == device_type


def map_structure(
    map_fn: Callable[..., Any], data_structure: Any, select_fn: Select, scope: list[str] | None = None
) -> Any:
    """Return a copy of the nested structure in which each selected value is replaced by `map_fn(path, value)`.

    A value is selected if `select_fn` returns True. Mappings, named tuples, lists and tuples are rebuilt with their
    types; other values and Counters are kept. Paths begin with `scope`.
    """
    place = scope or []
    if select_fn(data_structure):
        return map_fn(place, data_structure)

    def inner(step: object, value: Any) -> Any:
        return map_structure(map_fn, value, select_fn, [*place, str(step)])

    if isinstance(data_structure, Mapping):
        return replace_values(data_structure, [inner(k, v) for k, v in data_structure.items()])
    if isinstance(data_structure, tuple) and hasattr(data_structure, "_fields"):
        return type(data_structure)(*(inner(i, v) for i, v in enumerate(data_structure)))
    if isinstance(data_structure, list | tuple):
        return type(data_structure)(inner(i, v) for i, v in enumerate(data_structure))
    return data_structure


def map_torch_tensors(map_fn: Callable[..., Any], data_structure: Any, scope: list[str] | None = None) -> Any:
    """Return a copy of the structure in which each tensor is replaced by `map_fn(path, tensor)`."""
    return map_structure(map_fn, data_structure, _is_tensor, scope)


def map_lazy_tensors(map_fn: Callable[..., Any], data_structure: Any, scope: list[str] | None = None) -> Any:
    """Return a copy of the structure in which each tensor on the wafer is replaced by `map_fn(path, tensor)`."""
    return map_structure(map_fn, data_structure, _make_device_filter("lazy"), scope)


def recurse_spec(spec: TreeSpec, scope: list[str] | None = None) -> Iterator[list[str]]:
    """Yield the path of each leaf of a tree described by `tree_flatten`, in the order of the leaves.

    A path is a list of keys and indices as text, which begins with `scope`. A tree that is a leaf has the path `scope`.
    """
    place = scope or []
    if spec.is_leaf():
        yield place
        return
    # The context of a mapping is its list of keys. Other containers use indices.
    keys = spec.context if isinstance(spec.context, list) else range(len(spec.children_specs))
    for key, child in zip(keys, spec.children_specs, strict=True):
        yield from recurse_spec(child, [*place, str(key)])
