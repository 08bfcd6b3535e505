"""Wrappers that spread a model over devices, for the one device that there is: what they add is the name `module`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cstorch_compat.torch.distributed import process_group
from lazytensor.nn.module import Module


class DataParallel(Module):
    """A model that runs on the only device."""

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0):
        super().__init__()
        self.module, self.dim = module, dim
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the model gives."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """What the model gives for the inputs, which may be a tuple of arguments."""
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))


class DistributedDataParallel(Module):
    """A model of the one process of a group; there are no gradients to exchange.

    Raises ValueError for `device_ids`, as PyTorch does for a model on the CPU, and before the group was started.
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
        """What the model gives."""
        return self.module(*inputs, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients are not exchanged in the block; with one process they never are."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextmanager
    def join(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        """Nobody else can run out of data."""
        yield

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """A hook that nothing calls: there is no communication."""

    def scatter(self, inputs: Any, kwargs: Any, device_ids: Any = None) -> Any:
        """The inputs as they are."""
        return inputs, kwargs

    def gather(self, outputs: Any, output_device: Any = None) -> Any:
        """The outputs as they are."""
        return outputs


def _check_arguments(module: Module, device_ids: Sequence[Any] | None) -> None:
    # The process group is asked first, as in the original.
    process_group.get_world_size()
    if not any(p.requires_grad for p in module.parameters()):
        raise RuntimeError(
            "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient."
        )
    # Scripts for GPUs stop here in PyTorch too; going on would hide that they run on no GPU.
    if device_ids:
        raise ValueError(
            "DistributedDataParallel device_ids and output_device arguments only work with single-device/"
            f"multiple-device GPU modules or CPU modules, but got device_ids {list(device_ids)}, output_device None, "
            "and module parameters {device(type='cpu')}."
        )
