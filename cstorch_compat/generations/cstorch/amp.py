"""What `cerebras.pytorch.amp` offers: the choice of the half type."""

import sys

from cstorch_compat import manifest, run
from lazytensor.dtype import DType, bfloat16, cbfloat16, float16

_HALF = {"float16": float16, "bfloat16": bfloat16, "cbfloat16": cbfloat16}
_chosen = float16
_mixed = True


def set_half_dtype(value: "str | DType") -> DType:
    """Choose "float16", "bfloat16" or "cbfloat16" for matrix products on CSX. Raises ValueError for others."""
    global _chosen
    name = value.name if isinstance(value, DType) else str(value)
    if name not in _HALF:
        raise ValueError(f"Invalid half dtype {value!r}. Expected one of {list(_HALF)}")
    _chosen = _HALF[name]
    run.options.half = _chosen
    return get_half_dtype()


def get_half_dtype() -> DType:
    """The half type; PyTorch has no cbfloat16, so that one is reported as float16."""
    return float16 if _chosen is cbfloat16 else _chosen


def get_half_dtype_str() -> str:
    """The name of the half type."""
    return _chosen.name


def enable_mixed_precision(enable: bool = True) -> None:
    """Say whether mixed precision is wanted. CSX makes its casts either way, as the original's front end does."""
    global _mixed
    _mixed = bool(enable)


def mixed_precision() -> bool:
    """What was said last."""
    return _mixed


manifest.explain("cerebras.pytorch.amp", sys.modules[__name__])
