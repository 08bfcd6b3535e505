"""What the original wrote: the recorded structures, as trees of stand-ins for tensors."""

import base64
from collections import OrderedDict
from pathlib import Path

import numpy as np

from cstorch_compat.files.h5write import ArrayLeaf
from lazytensor.core import dtype as dtypes

GOLDEN = Path(__file__).parents[2] / "golden" / "checkpoints"


class Tensor:
    """The least that a tensor can be: values and a type."""

    def __init__(self, values, dtype):
        self.values, self.dtype = np.asarray(values, dtype.host), dtype


def describe(leaf):
    return ArrayLeaf(leaf.values, leaf.dtype) if isinstance(leaf, Tensor) else None


def recorded(entry):
    """The tree that a recording describes, with a mark for each pickled object."""
    ((kind, value),) = [(k, v) for k, v in entry.items() if k not in ("hex", "value")]
    if kind in ("dict", "OrderedDict"):
        make = dict if kind == "dict" else OrderedDict
        return make((next(iter(key.values())), recorded(child)) for key, child in value)
    if kind in ("list", "tuple"):
        return (list if kind == "list" else tuple)(recorded(child) for child in value)
    if kind not in ("tensor", "ndarray"):
        return "a pickle" if kind == "npscalar" else float(value) if kind == "float" else value
    name = value["dtype"].removeprefix("torch.")
    array = np.frombuffer(base64.b64decode(value["raw_le_b64"]), "<u2" if name == "bfloat16" else name)
    if name == "bfloat16":
        array = (array.astype(np.uint32) << 16).view(np.float32)
    array = array.reshape(value["shape"])
    return Tensor(array, dtypes.dtype_by_name(name)) if kind == "tensor" else array
