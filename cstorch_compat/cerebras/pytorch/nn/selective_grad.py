"""Training of selected elements of parameters: `cerebras.pytorch.nn.SelectiveGrad`."""

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
"""The suffix of the buffer that holds a parameter's mask."""


def make_outlier(lowerThr: float = 0.75, upThr: float = 2.25) -> InitMethodCallable:
    """Return a function that selects the elements of a parameter that are large compared with others of their column.

    An element is selected if its absolute value exceeds `upThr` times the standard deviation of the absolute values
    along dimension 0. `lowerThr` has no effect, as in the original.
    """

    def outlier(param: Parameter) -> Tensor:
        size = param.detach().abs()
        return size > upThr * size.std(dim=0, keepdim=True)

    return outlier


SELECTION_METHODS: dict[str, Callable[[], InitMethodCallable]] = {"outlier": make_outlier}
"""Factories of the built-in selection functions by name."""


def make_init_method(init_method: Any) -> InitMethodCallable:
    """Return the selection function for `init_method`: the name of a built-in method, or a function of a parameter.

    The result takes a parameter and returns a mask of the selected elements. A function must have exactly one argument,
    annotated as `torch.nn.Parameter`. Raises ValueError for anything else.
    """
    options = (
        f"one of the built-in {list(SELECTION_METHODS)} or a function with signature (param: "
        f"torch.nn.Parameter) -> mask"
    )
    if isinstance(init_method, str):
        if init_method not in SELECTION_METHODS:
            raise ValueError(
                f'Unknown `init_method`: "{init_method}". Valid options are {options}.\n  Pass one of these names.'
            )
        return SELECTION_METHODS[init_method]()
    # The original also recognizes such a function by its annotation.
    said = [p.annotation for p in inspect.signature(init_method).parameters.values()] if callable(init_method) else []
    if said != [Parameter]:
        raise ValueError(
            f"Passed in argument `init_method` is not a valid option. Valid options are {options}."
            "\n  Pass one of these names, or a function."
        )
    method: InitMethodCallable = init_method
    return method


class SelectiveGrad:
    """A training restriction that sets the gradients of all but selected elements to zero, in selected parameters.

    - `param_filter`: a pattern of parameter names, a list of patterns, or a function (name, parameter) -> bool.
    - `init_method`: "outlier", or a function that returns a boolean mask of the elements of a parameter that train.

    The mask is registered as the buffer `NAME_requires_grad` of the parameter's module.
    """

    def __init__(self, param_filter: Any, init_method: Any = "outlier"):
        self.param_filter = make_param_filter(param_filter)
        self.init_method = make_init_method(init_method)

    # `Module.apply` calls its argument with each submodule, while `apply` of a prepared model calls `apply` below.
    def __call__(self, module: Any) -> None:
        raise TypeError(
            f"'{type(self).__name__}' object is not callable: prepare the model by cstorch.compile first"
            "\n  Call cstorch.compile(model, backend) first."
        )

    def apply(self, obj: Any) -> None:
        """Select elements of the matching parameters of `obj`, a module, and register their masks and gradient hooks.

        Raises TypeError if `obj` is not a module.
        """
        if not isinstance(obj, Module):
            raise TypeError(
                f"Expected torch.nn.Module or cstorch.optim.Optimizer, but got {type(obj)}"
                "\n  Pass a module or an optimizer of cstorch."
            )
        # Visit each submodule, because a mask is a buffer of the parameter's module. Patterns match full names.
        for prefix, module in obj.named_modules():
            for name, param in list(module.named_parameters(recurse=False)):
                if self.param_filter(f"{prefix}.{name}".removeprefix("."), param):
                    _register_mask(module, name, param, self.init_method(param))


def _register_mask(module: Module, name: str, param: Tensor, chosen: Tensor) -> None:
    # The mask is a buffer, so that it is part of checkpoints.
    module.register_buffer(f"{name}{MASK_SUFFIX}", chosen.detach())
    param.register_hook(lambda g: lt.where(getattr(module, f"{name}{MASK_SUFFIX}"), g, lt.zeros_like(g)))
