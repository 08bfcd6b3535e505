"""Collate samples into a batch."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lazytensor.core import source, storage
from lazytensor.core.dtype import DType, float64
from lazytensor.core.tensor import CPU, Tensor, tensor_from_storage
from lazytensor.data.dataset import Subset, TensorDataset
from lazytensor.data.worker_errors import SampleTypeError
from lazytensor.errors import DataError
from lazytensor.functional import creation, joining_and_splitting
from lazytensor.ir.types import Type


def default_collate(batch: Sequence[Any]) -> Any:
    """Return a batch made of a list of samples, as `torch.utils.data.default_collate` does.

    The type of the first sample decides. Numbers, NumPy arrays and tensors become tensors with a new first dimension;
    Python floats give float64. Mappings, named tuples and sequences are collated member by member, with the keys of the
    first sample; a plain tuple becomes a list. Strings and bytes stay a list. Raises SampleTypeError for any other
    type, DataError if shapes or lengths differ, and KeyError if a later sample lacks a key. The batch must not be
    empty.

    >>> import lazytensor as lt
    >>> from lazytensor.data import default_collate
    >>> default_collate([(lt.zeros(3), 0), (lt.ones(3), 1)])
    [tensor([[0., 0., 0.],
            [1., 1., 1.]]), tensor([0, 1])]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Sequence[Any], *, collate_fn_map: Mapping[Any, Callable[..., Any]] | None = None) -> Any:
    """Return a batch made of a list of samples by the functions in `collate_fn_map`, with types as its keys.

    The type of the first sample decides; the function of its class comes before those of base classes, in their order.
    A function is called as f(batch, collate_fn_map=collate_fn_map). Mappings, named tuples and sequences without a
    function are collated member by member. Raises the errors of `default_collate`.
    """
    first = batch[0]
    functions = collate_fn_map or {}
    function = functions.get(type(first))
    if function is None:
        function = next((f for kind, f in functions.items() if isinstance(first, kind)), None)
    if function is not None:
        return function(batch, collate_fn_map=collate_fn_map)
    # As in PyTorch, additional keys of later samples are dropped.
    if isinstance(first, Mapping):
        columns = {key: [sample[key] for sample in batch] for key in first}
        members = {key: collate(column, collate_fn_map=collate_fn_map) for key, column in columns.items()}
        return _rebuild_container(first, members)
    if isinstance(first, Sequence):
        return _collate_sequences(batch, collate_fn_map)
    raise _uncollatable_error(type(first))


def _collate_sequences(batch: Sequence[Any], collate_fn_map: Mapping[Any, Callable[..., Any]] | None) -> Any:
    """Collate samples that are sequences, member by member; a plain tuple becomes a list, other types stay.

    Raises DataError if their lengths differ.
    """
    first = batch[0]
    lengths = {len(sample) for sample in batch}
    if len(lengths) > 1:
        raise DataError(
            f"each element in list of batch should be of equal size, but the lengths are {sorted(lengths)}",
            where=source.where(),
            hint="Pad the samples, or pass collate_fn= to the DataLoader.",
        )
    members = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch, strict=True)]
    return members if type(first) is tuple else _rebuild_container(first, members)


def _rebuild_container(first: Any, members: Any) -> Any:
    """Return `members` in a container of the type of `first`, a mapping or sequence.

    Return `members` itself if the type's constructor raises TypeError; for a named tuple the error is not caught.
    """
    # A named tuple takes its members as separate arguments, other containers as one.
    if hasattr(first, "_fields"):
        return type(first)(*members)
    try:
        return type(first)(members)
    except TypeError:
        return members


def _uncollatable_error(kind: object) -> SampleTypeError:
    return SampleTypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {kind}",
        where=source.where(),
        hint="Return one of these from the data set, or pass collate_fn= to the DataLoader.",
    )


def tensor_from_values(array: np.ndarray, dtype: DType) -> Tensor:
    """Return a tensor of type `dtype` over the values of `array`, which has the host type.

    The tensor shares the array's memory unless the type is a half type.
    """
    return creation.tensor(array, dtype=dtype) if dtype.is_half else creation.tensor_over_array(array)


def _check_shapes(extents: Sequence[tuple[int, ...]]) -> None:
    """Raise DataError if a shape differs from the first one."""
    for i, shape in enumerate(extents):
        if shape != extents[0]:
            raise DataError(
                f"stack expects each tensor to be equal size, but got {list(extents[0])} at entry 0 and {list(shape)} "
                f"at entry {i}",
                where=source.where(),
                hint="Pad or crop the samples, or pass collate_fn= to the DataLoader.",
            )


def stack_samples(tensors: Sequence[Tensor]) -> Tensor:
    """Stack tensors of equal shape along a new first dimension.

    Without gradients and for equal types on the CPU, the values are computed now and copied once in NumPy; otherwise
    `stack` is recorded, which promotes types. In an abstract run, the result has no values if a sample has none. Raises
    DataError if shapes differ.
    """
    specs = [t.spec for t in tensors]
    _check_shapes([s.shape for s in specs])
    # The usual case: one copy in NumPy, instead of a node for each sample.
    is_plain = all(s.dtype is specs[0].dtype for s in specs) and not any(
        t.requires_grad or t.device != CPU for t in tensors
    )
    if not is_plain:
        return joining_and_splitting.stack(tensors)
    if not all(map(_has_values, tensors)):
        return abstract_tensor(Type((len(tensors), *specs[0].shape), specs[0].dtype))
    return tensor_from_values(np.stack([t.array("collating a batch") for t in tensors]), specs[0].dtype)


def _stacked_arrays(batch: Sequence[Any]) -> Tensor:
    """Stack NumPy arrays or scalars to a tensor of their NumPy type, promoted if they differ.

    Raises SampleTypeError if the first sample is not of bools, integers or floats, and DataError if shapes differ.
    """
    # Strings, dates and objects have no tensor type.
    if batch[0].dtype.kind not in "biuf":
        raise _uncollatable_error(batch[0].dtype)
    arrays = [np.asarray(sample) for sample in batch]
    _check_shapes([a.shape for a in arrays])
    return creation.tensor_over_array(np.stack(arrays))


default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    Tensor: lambda batch, *, collate_fn_map=None: stack_samples(batch),
    str: lambda batch, *, collate_fn_map=None: list(batch),
    bytes: lambda batch, *, collate_fn_map=None: list(batch),
    np.ndarray: lambda batch, *, collate_fn_map=None: _stacked_arrays(batch),
    np.generic: lambda batch, *, collate_fn_map=None: _stacked_arrays(batch),
    # As in PyTorch, Python floats become float64 here, although `torch.tensor` gives float32.
    float: lambda batch, *, collate_fn_map=None: creation.tensor(list(batch), dtype=float64),
    # bool is a subclass of int; `tensor` gives such values the type bool.
    int: lambda batch, *, collate_fn_map=None: creation.tensor(list(batch)),
}
"""The functions of `default_collate` by the type of the first sample. A script may add and replace functions."""


def gather_samples(dataset: Any, indices: Sequence[int]) -> list[Tensor] | None:
    """Return what `default_collate` would make of the samples at `indices`, with one indexing operation per tensor.

    This works for a TensorDataset, and for a Subset of one, whose tensors are on the CPU and require no gradient.
    Return None for any other dataset, including subclasses, which may return other samples.
    """
    # Subsets may be nested.
    while type(dataset) is Subset:
        indices, dataset = [dataset.indices[i] for i in indices], dataset.dataset
    if type(dataset) is not TensorDataset or any(t.requires_grad or t.device != CPU for t in dataset.tensors):
        return None
    # Indexing with an array copies, unlike a slice, so the batch is independent of later writes to the dataset.
    at = np.asarray(indices, np.intp)
    return [
        tensor_from_values(t.array("collating a batch")[at], t.dtype)
        if _has_values(t)
        else abstract_tensor(Type((len(indices), *t.spec.shape[1:]), t.dtype))
        for t in dataset.tensors
    ]


def _has_values(t: Tensor) -> bool:
    """Return whether the values of a tensor can be copied. In an abstract run, a tensor may have only a type."""
    return not storage.is_abstract or t.node.value is not None


def abstract_tensor(t: Type) -> Tensor:
    """Return a tensor with a shape and type but no values."""
    return tensor_from_storage(storage.Storage(storage.new_abstract_leaf(t)))


def default_convert(sample: Any) -> Any:
    """Return a sample with copies of its NumPy arrays and scalars as tensors, for loaders that make no batches.

    Mappings and sequences are converted member by member, and a plain tuple becomes a list. Everything else is
    unchanged, also text and arrays of anything but bools, integers and floats.
    """
    # Copy, because `from_numpy` would share memory with the dataset.
    if isinstance(sample, np.ndarray | np.generic) and sample.dtype.kind in "biuf":
        return creation.tensor_over_array(np.array(sample))
    if isinstance(sample, str | bytes):
        return sample
    if isinstance(sample, Mapping):
        return _rebuild_container(sample, {key: default_convert(value) for key, value in sample.items()})
    if isinstance(sample, Sequence):
        members = [default_convert(member) for member in sample]
        return members if type(sample) is tuple else _rebuild_container(sample, members)
    return sample


Collate = Callable[[Any], Any]
