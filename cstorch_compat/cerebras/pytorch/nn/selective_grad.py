"""Gradients of chosen elements only: `cerebras.pytorch.nn.SelectiveGrad`."""

import inspect
from collections.abc import Callable
from typing import Any

import lazytensor as lt
from cstorch_compat.run.param_filter import make_param_filter
from lazytensor.core.tensor import Tensor
from lazytensor.nn.module import Module, Parameter

InitMethodCallable = Callable[[Parameter], Tensor]
InitMethodType = str | InitMethodCallable
MASK_SUFFIX = "_requires_grad"
"""What the buffer with a parameter's mask adds to its name."""


def make_outlier(lowerThr: float = 0.75, upThr: float = 2.25) -> InitMethodCallable:
    """A method that chooses elements beyond `upThr` standard deviations of the absolute values along dimension 0.

    `lowerThr` is taken and has no effect, as in the original.
    """

    def outlier(param: Parameter) -> Tensor:
        size = param.detach().abs()
        return size > upThr * size.std(dim=0, keepdim=True)

    return outlier


SELECTION_METHODS: dict[str, Callable[[], InitMethodCallable]] = {"outlier": make_outlier}


def make_init_method(init_method: Any) -> InitMethodCallable:
    """A method from its name, or a function of a parameter. Raises ValueError for anything else."""
    options = (
        f"one of the built-in {list(SELECTION_METHODS)} or a function with signature (param: "
        f"torch.nn.Parameter) -> mask"
    )
    if isinstance(init_method, str):
        if init_method not in SELECTION_METHODS:
            raise ValueError(f'Unknown `init_method`: "{init_method}". Valid options are {options}.')
        return SELECTION_METHODS[init_method]()
    # The annotation is how the original knows such a function.
    said = [p.annotation for p in inspect.signature(init_method).parameters.values()] if callable(init_method) else []
    if said != [Parameter]:
        raise ValueError(f"Passed in argument `init_method` is not a valid option. Valid options are {options}.")
    method: InitMethodCallable = init_method
    return method


class SelectiveGrad:
    """Lets chosen elements of chosen parameters train: the gradient of all others is zero.

    `param_filter` is a pattern of names, a list of them or a function (name, parameter) -> bool; `init_method` says
    from a parameter which elements train. The mask becomes a buffer beside the parameter, `NAME_requires_grad`.
    """

    def __init__(self, param_filter: Any, init_method: Any = "outlier"):
        self.param_filter = make_param_filter(param_filter)
        self.init_method = make_init_method(init_method)

    # `Module.apply` calls its argument with each submodule; that of a prepared model calls `apply` below instead.
    def __call__(self, module: Any) -> None:
        raise TypeError(f"'{type(self).__name__}' object is not callable: prepare the model by cstorch.compile first")

    def apply(self, obj: Any) -> None:
        """Choose elements of a module's parameters. Raises TypeError for anything else."""
        if not isinstance(obj, Module):
            raise TypeError(f"Expected torch.nn.Module or cstorch.optim.Optimizer, but got {type(obj)}")
        # By module, since the mask is a buffer beside its parameter, and patterns are for whole names.
        for prefix, module in obj.named_modules():
            for name, param in list(module.named_parameters(recurse=False)):
                if self.param_filter(f"{prefix}.{name}".removeprefix("."), param):
                    _register_mask(module, name, param, self.init_method(param))


def _register_mask(module: Module, name: str, param: Tensor, chosen: Tensor) -> None:
    # A buffer, so that it is saved: weights that train must be the same ones after a restart.
    module.register_buffer(f"{name}{MASK_SUFFIX}", chosen.detach())
    param.register_hook(lambda g: lt.where(getattr(module, f"{name}{MASK_SUFFIX}"), g, lt.zeros_like(g)))
