"""Wrappers for data-parallel models, for a single device. They only add the attribute `module`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cstorch_compat.torch.distributed import process_group
from lazytensor.core import source
from lazytensor.errors import OptionInvalid, ShapeError
from lazytensor.nn.module import Module


class DataParallel(Module):
    """A wrapper that runs a model on the only device."""

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0):
        super().__init__()
        self.module, self.dim = module, dim
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return the result of the wrapped model."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """Return the result of the model for `inputs`, which may be a tuple of arguments."""
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))


class DistributedDataParallel(Module):
    """A wrapper of the model of the only process. No gradients are exchanged.

    Raises ValueError before `init_process_group`, and for `device_ids`, as PyTorch does for a model on the CPU. Raises
    RuntimeError if no parameter requires a gradient.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        **_: Any,
    ):
        super().__init__()
        _check_arguments(module, device_ids)
        self.module, self.dim = module, dim
        self.device_ids, self.output_device = None, None
        self.broadcast_buffers, self.find_unused_parameters = broadcast_buffers, find_unused_parameters
        self.require_backward_grad_sync = True

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return the result of the wrapped model."""
        return self.module(*inputs, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Return a context manager without gradient exchange. It only changes `require_backward_grad_sync`."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextmanager
    def join(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        """Return a context manager without effect."""
        yield

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Do nothing. There is no communication."""

    def scatter(self, inputs: Any, kwargs: Any, device_ids: Any = None) -> Any:
        """Return `inputs` and `kwargs`."""
        return inputs, kwargs

    def gather(self, outputs: Any, output_device: Any = None) -> Any:
        """Return `outputs`."""
        return outputs


def _check_arguments(module: Module, device_ids: Sequence[Any] | None) -> None:
    """Raise the errors that `DistributedDataParallel` documents.

    Raises ValueError without a process group or if `device_ids` is not empty, and RuntimeError if no parameter of
    `module` requires a gradient.
    """
    # As in PyTorch, the process group is checked first.
    process_group.get_world_size()
    if not any(p.requires_grad for p in module.parameters()):
        raise ShapeError(
            "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient.",
            where=source.where(),
            hint="Use the module itself.",
        )
    # PyTorch raises this error too. Continuing would hide that the script does not run on a GPU.
    if device_ids:
        raise OptionInvalid(
            "DistributedDataParallel device_ids and output_device arguments only work with single-device/"
            f"multiple-device GPU modules or CPU modules, but got device_ids {list(device_ids)}, output_device None, "
            "and module parameters {device(type='cpu')}.",
            where=source.where(),
            hint="Omit device_ids and output_device.",
        )
