"""Weights that are normalized before each use: weight normalization and spectral normalization.

Both exist as parametrizations (`torch.nn.utils.parametrizations`), and spectral normalization also as the older hook.
"""

from typing import Any

from cstorch_compat.torch.nn.utils.parametrize import register_parametrization
from lazytensor.autograd.grad_modes import no_grad
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionInvalid, ShapeError
from lazytensor.functional.creation import empty
from lazytensor.functional.random_sampling import normal_
from lazytensor.nn import Module, Parameter
from lazytensor.nn.conv import _ConvTransposeNd
from lazytensor.nn.functional import normalize
from lazytensor.nn.utils import _norm_except_dim

INITIAL_POWER_ITERATIONS = 15
"""The number of power iterations when a parametrization is registered, as in PyTorch."""


class _WeightNorm(Module):
    """The parametrization g * v / |v|, with the norm over all dimensions but `dim`, or over all if `dim` is None."""

    def __init__(self, dim: int | None = 0):
        super().__init__()
        self.dim = dim

    def _length(self, v: Tensor) -> Tensor:
        # In PyTorch -1 also means all dimensions.
        return _norm_except_dim(v, None if self.dim == -1 else self.dim)

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """Return the weight, with the shape of `weight_v`."""
        return weight_v * (weight_g / self._length(weight_v))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return the length g and the direction v of a weight."""
        return self._length(weight), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Parametrize a weight by its length and its direction, and return the module.

    The originals are the length g and the direction v. `dim` is the dimension whose slices have separate lengths; None
    gives one length for the whole weight. State dicts with the names of the older hook (`<name>_g`, `<name>_v`) can be
    loaded. Source: Salimans and Kingma, arXiv:1602.07868.
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def convert(module: Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
        length, direction = f"{prefix}{name}_g", f"{prefix}{name}_v"
        if length in state_dict and direction in state_dict:
            original = f"{prefix}parametrizations.{name}.original"
            state_dict[f"{original}0"], state_dict[f"{original}1"] = state_dict.pop(length), state_dict.pop(direction)

    module.register_load_state_dict_pre_hook(convert)
    return module


class _PowerIteration:
    """Power iteration for the largest singular value of a weight (Miyato et al., arXiv:1802.05957)."""

    def __init__(self, dim: int, eps: float):
        self.dim, self.eps = dim, eps

    def matrix(self, weight: Tensor) -> Tensor:
        """Return the weight as a matrix whose rows are dimension `dim`."""
        return (weight.movedim(self.dim, 0) if self.dim else weight).flatten(1)

    def start(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return random left and right vectors of length 1."""
        # The left vector is drawn first, as in PyTorch.
        left, right = (normal_(empty(n, dtype=weight.dtype)) for n in self.matrix(weight).shape)
        return normalize(left, dim=0, eps=self.eps), normalize(right, dim=0, eps=self.eps)

    def iterate(self, weight: Tensor, left: Tensor, right: Tensor, times: int, right_first: bool) -> None:
        """Run `times` power iterations on the vectors `left` and `right`, in place and without gradients.

        Each iteration updates both vectors; `right_first` gives the order.
        """
        rows = self.matrix(weight)
        with no_grad():
            # The hook and the parametrization update the vectors in different orders.
            for _ in range(times):
                for is_right in (right_first, not right_first):
                    product, vector = (rows.t() @ left, right) if is_right else (rows @ right, left)
                    vector.copy_(normalize(product, dim=0, eps=self.eps))

    def value(self, weight: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """Return the estimated singular value for the vectors."""
        # Clone the vectors, because the next forward pass overwrites them while a graph may still need them.
        return left.clone() @ (self.matrix(weight) @ right.clone())


class _SpectralNorm(Module):
    """The parametrization that divides a weight by its largest singular value.

    The vectors are updated in training mode.
    """

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12):
        super().__init__()
        self.n_power_iterations, self.dim, self.eps = n_power_iterations, dim, eps
        if weight.ndim > 1:
            self._power = _PowerIteration(dim, eps)
            with no_grad():
                left, right = self._power.start(weight)
            self.register_buffer("_u", left)
            self.register_buffer("_v", right)
            self._power.iterate(weight, left, right, INITIAL_POWER_ITERATIONS, right_first=False)

    def forward(self, weight: Tensor) -> Tensor:
        """Return the weight divided by its largest singular value. A vector is divided by its length.

        In training mode the estimate of the singular value is improved first, by power iterations on stored vectors.
        """
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        if self.training:
            self._power.iterate(weight, self._u, self._v, self.n_power_iterations, right_first=False)
        return weight / self._power.value(weight, self._u, self._v)

    def right_inverse(self, value: Tensor) -> Tensor:
        """Return `value`, which is normalized again on use."""
        return value


def _default_dim(module: Module, dim: int | None) -> int:
    # Transposed convolutions have the input channels in the first dimension.
    return dim if dim is not None else int(isinstance(module, _ConvTransposeNd))


def parametrized_spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Parametrize a weight by its division by its spectral norm, and return the module.

    `dim` is the dimension that becomes the rows of the matrix; None selects it by the layer type. In training mode each
    access runs `n_power_iterations` power iterations.
    """
    weight = getattr(module, name)
    normalized = _SpectralNorm(weight, n_power_iterations, _default_dim(module, dim), eps)
    return register_parametrization(module, name, normalized)


class SpectralNorm:
    """A forward pre-hook that computes the normalized weight before each forward pass.

    Raises ValueError unless `n_power_iterations` is positive.
    """

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float):
        if n_power_iterations <= 0:
            raise OptionInvalid(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}",
                where=source.where(),
                hint="Pass a positive number of iterations.",
            )
        self.name, self.n_power_iterations, self.power = name, n_power_iterations, _PowerIteration(dim, eps)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """Return the weight divided by its spectral norm, after power iterations if `do_power_iteration`."""
        weight, left, right = (getattr(module, f"{self.name}_{end}") for end in ("orig", "u", "v"))
        if do_power_iteration:
            self.power.iterate(weight, left, right, self.n_power_iterations, right_first=True)
        normalized: Tensor = weight / self.power.value(weight, left, right)
        return normalized

    def __call__(self, module: Module, inputs: Any) -> None:
        # Bypass Module.__setattr__, because the computed weight must not become a parameter.
        object.__setattr__(module, self.name, self.compute_weight(module, module.training))


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Register a hook that divides a parameter by its spectral norm before each forward pass, and return the module.

    The parameter is renamed to `<name>_orig`. Raises RuntimeError if such a hook exists.
    """
    if any(isinstance(h, SpectralNorm) and h.name == name for h in module._forward_pre_hooks.values()):
        raise ShapeError(
            f"Cannot register two spectral_norm hooks on the same parameter {name}",
            where=source.where(),
            hint="Call spectral_norm() once for each parameter.",
        )
    hook = SpectralNorm(name, n_power_iterations, _default_dim(module, dim), eps)
    weight = getattr(module, name)
    with no_grad():
        left, right = hook.power.start(weight)
    # The parameter object is kept under the new name; the old name becomes a plain attribute.
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    object.__setattr__(module, name, weight.detach())
    module.register_buffer(f"{name}_u", left)
    module.register_buffer(f"{name}_v", right)
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Remove the hook of `spectral_norm`, and return the module.

    The parameter `<name>` gets the normalized weight as a new object, without a further power iteration. The original
    parameter and the buffers are deleted. Raises ValueError if there is no hook for `name`.
    """
    hooks = module._forward_pre_hooks
    for key, hook in list(hooks.items()):
        if isinstance(hook, SpectralNorm) and hook.name == name:
            with no_grad():
                weight = hook.compute_weight(module, do_power_iteration=False)
            del hooks[key]
            module.__dict__.pop(name, None)
            for end in ("orig", "u", "v"):
                delattr(module, f"{name}_{end}")
            module.register_parameter(name, Parameter(weight.detach().clone()))
            return module
    raise OptionInvalid(
        f"spectral_norm of '{name}' not found in {module}",
        where=source.where(),
        hint="Call spectral_norm() on the module first.",
    )
