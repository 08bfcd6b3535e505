"""Support for Python's modules `copy` and `pickle`: the protocol methods of Tensor."""

from copy import deepcopy
from typing import Any

import numpy as np

from lazytensor.autograd.shared_histories import History
from lazytensor.core import source
from lazytensor.core import storage as cells
from lazytensor.core.dtype import DType
from lazytensor.core.storage import Storage, new_storage, read
from lazytensor.core.tensor import UNCOPIED_ATTRIBUTES, Tensor, detach_node, tensor_of_class
from lazytensor.core.tensor_members import method
from lazytensor.errors import AutogradError
from lazytensor.ir.graph import leaf
from lazytensor.ir.types import Type


def _rebuild_like(t: Tensor, cell: Storage, attributes: dict[str, Any]) -> Tensor:
    """Return a leaf of the class and device of `t` over the storage `cell`, read through the same view operations.

    `attributes` are set on the new tensor. It requires a gradient if `t` does.
    """
    view_ops = tuple(step for step in t.view_ops if step[0] != "variable")
    copy = tensor_of_class(type(t), cell, view_ops, History())
    copy.device = t.device
    copy.__dict__.update(attributes)
    return copy.requires_grad_() if t.requires_grad else copy


def _attributes(t: Tensor) -> dict[str, Any]:
    return {k: v for k, v in t.__dict__.items() if k not in UNCOPIED_ATTRIBUTES}


@method
def __copy__(x: Tensor) -> Tensor:
    """Return a leaf that shares the storage and attributes of `x`. It requires a gradient if `x` does."""
    return _rebuild_like(x, x.cell, _attributes(x))


@method
def __deepcopy__(x: Tensor, memo: dict[int, Any]) -> Tensor:
    """Return a leaf over a copy of the whole storage of `x`, with copies of its gradient and attributes.

    Tensors that share a storage share the copy if they are copied in one call, which `memo` tracks. A gradient of
    another loop's step is not copied. Raises AutogradError if `x` requires a gradient and is not a leaf.
    """
    if not x.is_leaf:
        raise AutogradError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.",
            where=source.where(),
            hint="Copy x.detach() instead.",
        )
    storage = memo.get(id(x.cell))
    if storage is None:
        storage = memo[id(x.cell)] = new_storage(detach_node(read(x.cell)))
        # As in `copy.deepcopy`, the memo keeps the object alive whose id is its key.
        memo.setdefault(id(memo), []).append(x.cell)
    copy = memo[id(x)] = _rebuild_like(x, storage, {})
    copy.__dict__.update(deepcopy(_attributes(x), memo))
    # A gradient of another loop's step has no value any more.
    if x.grad is not None and x.grad.cell.epoch in (None, cells.thread_state.current):
        copy.grad = deepcopy(x.grad, memo)
    return copy


@method
def __reduce_ex__(x: Tensor, protocol: Any) -> Any:
    """Return `rebuild` and its arguments for `pickle`.

    The arguments are class, elements, dtype, requires_grad and attributes.
    """
    return rebuild, (type(x), x.array("pickling it"), x.dtype, x.requires_grad, dict(x.__dict__))


def rebuild(kind: type[Tensor], array: np.ndarray, dtype: DType, requires_grad: bool, extra: dict[str, Any]) -> Tensor:
    """Return a tensor of class `kind` from its pickled parts.

    It is a leaf on the CPU that uses `array` without a copy. `extra` holds attributes that are set on it.
    """
    tensor = tensor_of_class(kind, new_storage(leaf(array, Type(array.shape, dtype))))
    tensor.__dict__.update(extra)
    return tensor.requires_grad_() if requires_grad else tensor
