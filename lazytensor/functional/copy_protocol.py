"""Copies of tensors by Python's own means: the modules `copy` and `pickle`."""

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
    """Return a leaf of the class of `t` that sees `cell` as `t` sees its own storage. It requires grad if `t` does."""
    view_ops = tuple(step for step in t.view_ops if step[0] != "variable")
    copy = tensor_of_class(type(t), cell, view_ops, History())
    copy.device = t.device
    copy.__dict__.update(attributes)
    return copy.requires_grad_() if t.requires_grad else copy


def _attributes(t: Tensor) -> dict[str, Any]:
    return {k: v for k, v in t.__dict__.items() if k not in UNCOPIED_ATTRIBUTES}


@method
def __copy__(x: Tensor) -> Tensor:
    """Return a leaf that shares the storage and the attributes of x. It requires a gradient if x does."""
    return _rebuild_like(x, x.cell, _attributes(x))


@method
def __deepcopy__(x: Tensor, memo: dict[int, Any]) -> Tensor:
    """Return a leaf over a copy of the whole storage of x, with copies of the gradient and the attributes.

    Tensors that share a storage share its copy if one call copies them. Raises AutogradError for a tensor that
    requires a gradient and is no leaf.
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
        # The memo holds what it has the number of, as `copy.deepcopy` does.
        memo.setdefault(id(memo), []).append(x.cell)
    copy = memo[id(x)] = _rebuild_like(x, storage, {})
    copy.__dict__.update(deepcopy(_attributes(x), memo))
    # The gradient of another loop's step has no value any more.
    if x.grad is not None and x.grad.cell.epoch in (None, cells.thread_state.current):
        copy.grad = deepcopy(x.grad, memo)
    return copy


@method
def __reduce_ex__(x: Tensor, protocol: Any) -> Any:
    """Return what `pickle` writes: elements that x shows, their type, attributes, and whether x requires grad."""
    return rebuild, (type(x), x.array("pickling it"), x.dtype, x.requires_grad, dict(x.__dict__))


def rebuild(kind: type[Tensor], array: np.ndarray, dtype: DType, requires_grad: bool, extra: dict[str, Any]) -> Tensor:
    """Return a tensor from its pickled parts."""
    tensor = tensor_of_class(kind, new_storage(leaf(array, Type(array.shape, dtype))))
    tensor.__dict__.update(extra)
    return tensor.requires_grad_() if requires_grad else tensor
