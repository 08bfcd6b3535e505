"""Functions on parameters: gradient clipping, conversion to one vector and back, and weight normalization."""

import math
from collections.abc import Iterable
from typing import Any

from lazytensor.core import source
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor, grad_mode, operand_node
from lazytensor.errors import ArgumentInvalid, OptionInvalid, ShapeError
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
    """Return the norm of order `norm_type` of all elements of `tensors`, as a 0-d tensor; 0 if there are none.

    `foreach` is ignored. If `error_if_nonfinite` is true, the value is read, and ShapeError is raised if it is not
    finite.
    """
    given = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not given:
        return tensor(0.0)
    # The norm of norms equals the norm of all elements for every order, including infinity, and needs no copy of them.
    order = float(norm_type)
    total = statistics.vector_norm(stack([statistics.vector_norm(t, order) for t in given]), order)
    # Reads the value, so the option has to be off inside a compiled step, as it is by default.
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise ShapeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped.",
            hint="Pass error_if_nonfinite=False to scale the gradients by it anyway.",
        )
    return total


def clip_grads_with_norm_(
    parameters: Parameters, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Multiply all gradients in place by min(1, max_norm / (total_norm + 1e-6)). `foreach` is ignored.

    Parameters without a gradient are skipped.
    """
    with grad_mode(False):
        # PyTorch's constant for a norm of zero. It applies to all norms, so clipped gradients are slightly too small.
        factor = pw.minimum(float(max_norm) / (total_norm + 1e-06), 1.0)
        factors: dict[DType, Node] = {}
        for g in _collect_gradients(parameters):
            if g.dtype not in factors:
                factors[g.dtype] = cast(factor.node, g.dtype)
            # No branch on the norm, since compiled steps have none; a factor of 1 changes nothing.
            g.write(call("mul", operand_node(g), broadcast_to(factors[g.dtype], g.spec.shape)))


def clip_grad_norm_(
    parameters: Parameters,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients in place so that their total norm is at most `max_norm`, and return the norm before.

    The norm has the order `norm_type`. `foreach` is ignored. If `error_if_nonfinite` is true, the norm is read: raises
    ShapeError if it is not finite, and TraceError in a traced step.
    """
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    # One source location for all operations recorded here.
    with source.fixed_location(source.where()):
        with grad_mode(False):
            total = get_total_norm(_collect_gradients(given), norm_type, error_if_nonfinite)
        clip_grads_with_norm_(given, max_norm, total)
    return total


def clip_grad_value_(parameters: Parameters, clip_value: float, foreach: bool | None = None) -> None:
    """Limit every element of all gradients in place to the range from -clip_value to clip_value.

    Parameters without a gradient are skipped. `foreach` is ignored.
    """
    bound = float(clip_value)
    with grad_mode(False):
        for g in _collect_gradients(parameters):
            copy_(g, pw.clamp(g, -bound, bound))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return all elements of `parameters` concatenated as one vector."""
    return cat([view(p, -1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Write consecutive elements of `vec` to `parameters`, in order. Further elements are ignored.

    Raises TypeError if `vec` is not a tensor.
    """
    if not isinstance(vec, Tensor):
        raise ArgumentInvalid(
            f"expected torch.Tensor, but got: {type(vec).__name__}", where=source.where(), hint="Pass a tensor."
        )
    at = 0
    with grad_mode(False):
        for p in parameters:
            copy_(p, view(slice_dim(vec, 0, at, at + p.spec.size), p.spec.shape))
            at += p.spec.size


def _norm_except_dim(v: Tensor, dim: int | None) -> Tensor:
    """Return the Euclidean norm over all dimensions but `dim`, kept with extent 1; over all if `dim` is None."""
    if dim is None:
        return statistics.norm(v)
    return statistics.norm(v, 2, [d for d in range(v.ndim) if d != dim % v.ndim], True)


class _WeightNorm:
    """A forward pre-hook that computes a weight from its magnitude and direction before each `forward`."""

    def __init__(self, name: str, dim: int | None):
        self.name, self.dim = name, dim

    def weight(self, module: Module) -> Tensor:
        """Return g * v / |v|, for the magnitude g and the direction v."""
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        weight: Tensor = v * (g / _norm_except_dim(v, self.dim))
        return weight

    def __call__(self, module: Module, args: tuple[Any, ...]) -> None:
        # Set as a plain attribute: the computed weight must not become a parameter.
        object.__setattr__(module, self.name, self.weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Replace the parameter `name` of `module` by a magnitude `name_g` and a direction `name_v`, and return the module.

    The weight is computed before each `forward`. Norms are taken over all dimensions but `dim`, or over all if it is
    None (Salimans and Kingma, arXiv:1602.07868).
    """
    hook = _WeightNorm(name, dim)
    weight = getattr(module, name)
    # The name is removed from the parameters and becomes a plain attribute, set before each forward.
    delattr(module, name)
    module.register_parameter(f"{name}_g", Parameter(_norm_except_dim(weight.detach(), dim).clone()))
    module.register_parameter(f"{name}_v", Parameter(weight.detach().clone()))
    hook(module, ())
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Undo `weight_norm`: make the weight `name` a parameter again, and return the module.

    Raises ValueError if it has no weight normalization.
    """
    table = module.__dict__["_forward_pre_hooks"]
    for key, hook in list(table.items()):
        if isinstance(hook, _WeightNorm) and hook.name == name:
            del table[key]
            # Remove the computed weight, so that the parameter can have its name.
            module.__dict__.pop(name, None)
            weight = hook.weight(module).detach().clone()
            delattr(module, f"{name}_g")
            delattr(module, f"{name}_v")
            module.register_parameter(name, Parameter(weight))
            return module
    raise OptionInvalid(
        f"weight_norm of '{name}' not found in {module}",
        where=source.where(),
        hint="Call weight_norm() on the module first, or pass another name.",
    )
