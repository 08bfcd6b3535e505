"""What acts on all parameters of a model at once: limits on gradients, and the way to one vector and back."""

import math
from collections.abc import Iterable
from typing import Any

from lazytensor.core import source
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor, grad_mode, operand_node
from lazytensor.errors import ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional import statistics
from lazytensor.functional.creation import tensor
from lazytensor.functional.in_place import copy_
from lazytensor.functional.joining_and_splitting import cat, stack
from lazytensor.functional.views import slice_dim, view
from lazytensor.ir.graph import Node
from lazytensor.nn.module import Module, Parameter
from lazytensor.ops import call
from lazytensor.ops.elementwise import cast
from lazytensor.ops.shape import broadcast_to

Parameters = Tensor | Iterable[Tensor]


def _collect_gradients(parameters: Parameters) -> list[Tensor]:
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p.grad for p in given if p.grad is not None]


def get_total_norm(
    tensors: Parameters, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The p-norm of the p-norms of tensors. Raises ShapeError if it is not finite and that was asked for."""
    given = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not given:
        return tensor(0.0)
    # The norm of norms is the norm of all elements, and needs no copy of them in one vector; for all orders, infinity
    # too.
    order = float(norm_type)
    total = statistics.vector_norm(stack([statistics.vector_norm(t, order) for t in given]), order)
    # Reads the value, so inside of a traced step the option has to be off, as it is by default.
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise ShapeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped.",
            hint="Pass error_if_nonfinite=False to scale the gradients by it all the same.",
        )
    return total


def clip_grads_with_norm_(
    parameters: Parameters, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale all gradients by max_norm / total_norm where that is below one."""
    with grad_mode(False):
        # PyTorch's constant against a norm of zero; it stays in at other norms too, so clipped ones are a bit short.
        factor = pw.minimum(float(max_norm) / (total_norm + 1e-06), 1.0)
        factors: dict[DType, Node] = {}
        for g in _collect_gradients(parameters):
            if g.dtype not in factors:
                factors[g.dtype] = cast(factor.node, g.dtype)
            # No branch on the norm: a factor of 1 is the same as not clipping, and a compiled step has no branches.
            g.write(call("mul", operand_node(g), broadcast_to(factors[g.dtype], g.spec.shape)))


def clip_grad_norm_(
    parameters: Parameters,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients so that their common norm is at most max_norm; returns the norm before."""
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    # One line for all that is made here, which is a lot.
    with source.fixed_location(source.where()):
        with grad_mode(False):
            total = get_total_norm(_collect_gradients(given), norm_type, error_if_nonfinite)
        clip_grads_with_norm_(given, max_norm, total)
    return total


def clip_grad_value_(parameters: Parameters, clip_value: float, foreach: bool | None = None) -> None:
    """Limit every element of all gradients to -clip_value..clip_value."""
    bound = float(clip_value)
    with grad_mode(False):
        for g in _collect_gradients(parameters):
            copy_(g, pw.clamp(g, -bound, bound))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements one after the other."""
    return cat([view(p, -1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """The elements of a vector written to parameters in order. Raises TypeError for anything but a tensor."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    at = 0
    with grad_mode(False):
        for p in parameters:
            copy_(p, view(slice_dim(vec, 0, at, at + p.spec.size), p.spec.shape))
            at += p.spec.size


def _norm_except_dim(v: Tensor, dim: int | None) -> Tensor:
    """The norm over all dimensions but one, which keep extent 1; over all of them for None."""
    if dim is None:
        return statistics.norm(v)
    return statistics.norm(v, 2, [d for d in range(v.ndim) if d != dim % v.ndim], True)


class _WeightNorm:
    """Computes a weight from its length and direction before each forward."""

    def __init__(self, name: str, dim: int | None):
        self.name, self.dim = name, dim

    def weight(self, module: Module) -> Tensor:
        """length * direction / |direction|"""
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        weight: Tensor = v * (g / _norm_except_dim(v, self.dim))
        return weight

    def __call__(self, module: Module, args: tuple[Any, ...]) -> None:
        # Past Module's own __setattr__: the weight is computed, and must not become a parameter again.
        object.__setattr__(module, self.name, self.weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Replace a parameter by its length `name_g` and direction `name_v` (Salimans and Kingma, arXiv:1602.07868)."""
    hook = _WeightNorm(name, dim)
    weight = getattr(module, name)
    # The name becomes free of the parameter table; then it is a plain attribute, set anew before each forward.
    delattr(module, name)
    module.register_parameter(f"{name}_g", Parameter(_norm_except_dim(weight.detach(), dim).clone()))
    module.register_parameter(f"{name}_v", Parameter(weight.detach().clone()))
    hook(module, ())
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight a parameter again. Raises ValueError if it was not split."""
    table = module.__dict__["_forward_pre_hooks"]
    for key, hook in list(table.items()):
        if isinstance(hook, _WeightNorm) and hook.name == name:
            del table[key]
            # The computed weight, or the parameter could not have its name back.
            module.__dict__.pop(name, None)
            weight = hook.weight(module).detach().clone()
            delattr(module, f"{name}_g")
            delattr(module, f"{name}_v")
            module.register_parameter(name, Parameter(weight))
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
