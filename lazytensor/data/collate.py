"""Puts samples together to a batch."""

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
    """The samples as one batch: numbers, arrays and tensors become tensors with a new first dimension.

    Mappings, named tuples and sequences are taken apart and put together again member by member (a tuple comes back as
    a list, as in PyTorch); strings and bytes stay a list. Raises SampleTypeError for any other type, and DataError for
    shapes or lengths that differ.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack_samples(batch)
    if isinstance(first, str | bytes):
        return list(batch)
    if isinstance(first, np.ndarray | np.generic):
        return _stacked_arrays(batch)
    # Python's floats are double; PyTorch keeps them so here, though `torch.tensor` would make float32 of them.
    if isinstance(first, float):
        return creation.tensor(list(batch), dtype=float64)
    # Truth values are integers too, and stay bool, since `tensor` sees what they are.
    if isinstance(first, int):
        return creation.tensor(list(batch))
    # The keys of the first sample count: one that a later sample has besides is dropped, as in PyTorch.
    if isinstance(first, Mapping):
        return _rebuild_container(first, {key: default_collate([sample[key] for sample in batch]) for key in first})
    if isinstance(first, Sequence):
        return _collate_sequences(batch)
    raise _uncollatable_error(type(first))


def _collate_sequences(batch: Sequence[Any]) -> Any:
    first = batch[0]
    lengths = {len(sample) for sample in batch}
    if len(lengths) > 1:
        raise DataError(
            f"each element in list of batch should be of equal size, and there are lengths {sorted(lengths)}",
            where=source.where(),
            hint="Pad the samples, or pass collate_fn= to the DataLoader.",
        )
    members = [default_collate(column) for column in zip(*batch, strict=True)]
    return members if type(first) is tuple else _rebuild_container(first, members)


def _rebuild_container(first: Any, members: Any) -> Any:
    """The members in a container of the type of `first`, or in a plain list or dict if that type refuses."""
    # A named tuple takes its members one by one, other containers as one argument.
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
    """A tensor of any dtype over values in its host type, without a copy where that is possible."""
    return creation.tensor(array, dtype=dtype) if dtype.is_half else creation.tensor_over_array(array)


def _check_shapes(extents: Sequence[tuple[int, ...]]) -> None:
    for i, shape in enumerate(extents):
        if shape != extents[0]:
            raise DataError(
                f"stack expects each tensor to be equal size, but got {list(extents[0])} at entry 0 and {list(shape)} "
                f"at entry {i}",
                where=source.where(),
                hint="Pad or crop the samples, or pass collate_fn= to the DataLoader.",
            )


def stack_samples(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors of one shape side by side in a new first dimension, copied once where no gradient is to be kept."""
    specs = [t.spec for t in tensors]
    _check_shapes([s.shape for s in specs])
    # The usual case without a graph: one copy in NumPy, instead of a node for each sample and a program to compile.
    is_plain = all(s.dtype is specs[0].dtype for s in specs) and not any(
        t.requires_grad or t.device != CPU for t in tensors
    )
    if not is_plain:
        return joining_and_splitting.stack(tensors)
    if not all(map(_has_values, tensors)):
        return abstract_tensor(Type((len(tensors), *specs[0].shape), specs[0].dtype))
    return tensor_from_values(np.stack([t.array("collating a batch") for t in tensors]), specs[0].dtype)


def _stacked_arrays(batch: Sequence[Any]) -> Tensor:
    # Texts, dates and objects have no tensor type.
    if batch[0].dtype.kind not in "biuf":
        raise _uncollatable_error(batch[0].dtype)
    arrays = [np.asarray(sample) for sample in batch]
    _check_shapes([a.shape for a in arrays])
    return creation.tensor_over_array(np.stack(arrays))


def gather_samples(dataset: Any, indices: Sequence[int]) -> list[Tensor] | None:
    """What `default_collate` would make of these samples of a TensorDataset or of a Subset of one, in one step.

    None for any other data set, also for a subclass, which may give other samples.
    """
    # Subsets of subsets too, as two splits in a row make them.
    while type(dataset) is Subset:
        indices, dataset = [dataset.indices[i] for i in indices], dataset.dataset
    if type(dataset) is not TensorDataset or any(t.requires_grad or t.device != CPU for t in dataset.tensors):
        return None
    # A list of numbers, unlike a slice, copies: the batch does not see what is written to the data set later.
    at = np.asarray(indices, np.intp)
    return [
        tensor_from_values(t.array("collating a batch")[at], t.dtype)
        if _has_values(t)
        else abstract_tensor(Type((len(indices), *t.spec.shape[1:]), t.dtype))
        for t in dataset.tensors
    ]


def _has_values(t: Tensor) -> bool:
    """Whether a tensor has values to be copied: where none are computed, a large random one has a type alone."""
    return not storage.is_abstract or t.node.value is not None


def abstract_tensor(t: Type) -> Tensor:
    """A tensor that has a type and no values."""
    return tensor_from_storage(storage.Storage(storage.new_abstract_leaf(t)))


def default_convert(sample: Any) -> Any:
    """A sample that is no part of a batch: its arrays become tensors, everything else stays as it is."""
    # A copy: from_numpy would share memory with the data set.
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
