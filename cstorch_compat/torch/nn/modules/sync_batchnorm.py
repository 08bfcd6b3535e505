"""The layer `SyncBatchNorm` for a single process, whose statistics are those of all processes."""

from typing import Any

from lazytensor.core import source
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionInvalid
from lazytensor.nn import Module
from lazytensor.nn.normalization import _BatchNorm


class SyncBatchNorm(_BatchNorm):
    """Batch normalization of [N, C] or [N, C, ...] over all processes of a group, of which there is one."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise OptionInvalid(
                f"expected at least 2D input (got {input.ndim}D input)",
                where=source.where(),
                hint="Pass a tensor [N, C, ...].",
            )

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Return `module` with each batch normalization layer replaced by a SyncBatchNorm with the same parameters.

        Submodules are replaced in place. If `module` itself is such a layer, the result is a new object.
        """
        converted = module
        if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
            # A new object of this class gets all attributes of the old layer.
            converted = cls(module.num_features, module.eps, module.momentum, affine=False, track_running_stats=False)
            converted.__dict__.update({**vars(module), "process_group": process_group})
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted
