"""The type aliases of `torch.types`."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Device, Size, Tensor

Number: TypeAlias = int | float | bool
DeviceLike: TypeAlias = Device | str | int | None
FileLike: TypeAlias = Any
Storage: TypeAlias = Any
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_int, _float, _bool, _complex, _bytes, _str = int, float, bool, complex, bytes, str
_dtype, _device = DType, Device
