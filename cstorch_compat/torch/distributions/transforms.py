"""Transforms of random variables with their inverses and Jacobians: `torch.distributions.transforms`."""

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

from cstorch_compat.torch.distributions import constraints as constraints
from cstorch_compat.torch.distributions.continuous import machine_epsilon, smallest_normal
from cstorch_compat.torch.distributions.distribution import sum_rightmost
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionInvalid, OptionMissing
from lazytensor.functional import cumulative, reduction
from lazytensor.functional import pointwise as pw
from lazytensor.functional.activation import softplus
from lazytensor.functional.creation import zeros_like
from lazytensor.functional.joining_and_splitting import cat, stack
from lazytensor.functional.pointwise_special import atanh
from lazytensor.linalg import cholesky
from lazytensor.nn.functional import pad


def _sign_of(slope: Any) -> Any:
    """Return 1, 0 or -1 for a number, and the tensor of signs for a tensor."""
    return pw.sign(slope) if isinstance(slope, Tensor) else (slope > 0) - (slope < 0)


class Transform:
    """The base class of invertible functions of tensors.

    Calling a transform applies it, and `undo` or `inv` inverts it. The last `event_dim` dimensions are one event. A
    subclass of a script defines `_call(x)` and, if the transform is invertible, `_inverse(y)`.
    """

    bijective = True
    sign: Any = 1
    domain: Any = constraints.real
    codomain: Any = constraints.real

    def __init__(self, cache_size: int = 0):
        self._cache_size = cache_size

    @property
    def event_dim(self) -> int:
        """Return the number of last dimensions that form one event."""
        return int(self.domain.event_dim)

    @property
    def inv(self) -> "Transform":
        """Return the inverse transform."""
        return _InverseTransform(self)

    def with_cache(self, cache_size: int = 1) -> "Transform":
        """Return the transform itself. A cache is not needed, because equal nodes are computed once."""
        return self

    def __call__(self, x: Tensor) -> Tensor:
        return self._call(x)

    def undo(self, y: Tensor) -> Tensor:
        """Return the x with image `y`."""
        return self._inverse(y)

    _inv_call = undo

    def _call(self, x: Tensor) -> Tensor:
        if type(self).__call__ is not Transform.__call__:
            return type(self).__call__(self, x)
        raise self._missing("__call__")

    def _inverse(self, y: Tensor) -> Tensor:
        if type(self).undo is not Transform.undo:
            return type(self).undo(self, y)
        raise self._missing("undo")

    def _missing(self, method: str) -> OptionMissing:
        return OptionMissing(
            f"{type(self).__name__} does not implement {method}",
            where=source.where(),
            hint="Define it in the subclass, or use a transform that is invertible.",
        )

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log |det dy/dx|, one element for each event."""
        raise OptionMissing(
            f"{type(self).__name__} does not implement log_abs_det_jacobian",
            where=source.where(),
            hint="Define it in the subclass, or use a transform that is invertible.",
        )

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape of the image of a tensor with shape `shape`."""
        return shape

    inverse_shape = forward_shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and not vars(self).keys() - {"_cache_size"})

    def __hash__(self) -> int:
        return hash(type(self))


class _InverseTransform(Transform):
    def __init__(self, transform: Transform):
        super().__init__()
        self._inverted = transform
        self.domain, self.codomain = transform.codomain, transform.domain
        self.bijective = transform.bijective

    @property
    def sign(self) -> Any:
        return self._inverted.sign

    @property
    def event_dim(self) -> int:
        return int(self.codomain.event_dim)

    @property
    def inv(self) -> Transform:
        return self._inverted

    def __call__(self, x: Tensor) -> Tensor:
        return self._inverted.undo(x)

    def undo(self, y: Tensor) -> Tensor:
        return self._inverted(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inverted.log_abs_det_jacobian(y, x)


class ExpTransform(Transform):
    """The transform y = exp(x)."""

    codomain = constraints.positive

    def __call__(self, x: Tensor) -> Tensor:
        return pw.exp(x)

    def undo(self, y: Tensor) -> Tensor:
        """Return log(y)."""
        return pw.log(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return x."""
        return x


class PowerTransform(Transform):
    """The transform y = x^exponent of positive numbers."""

    domain = codomain = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0):
        super().__init__(cache_size)
        self.exponent = exponent

    @property
    def sign(self) -> Any:
        """Return the sign of the exponent: the direction in which the transform is monotonic."""
        return _sign_of(self.exponent)

    def __call__(self, x: Tensor) -> Tensor:
        return pw.pow(x, self.exponent)

    def undo(self, y: Tensor) -> Tensor:
        """Return y^(1 / exponent)."""
        return pw.pow(y, 1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log |exponent * y / x|."""
        return pw.log(pw.abs(self.exponent * y / x))


class SigmoidTransform(Transform):
    """The transform y = 1 / (1 + exp(-x)), clamped to the open interval (0, 1)."""

    codomain = constraints.unit_interval

    def __call__(self, x: Tensor) -> Tensor:
        return pw.clamp(pw.sigmoid(x), smallest_normal(x.dtype), 1.0 - machine_epsilon(x.dtype))

    def undo(self, y: Tensor) -> Tensor:
        """Return log(y) - log(1 - y), with y clamped to the open interval (0, 1)."""
        inside = pw.clamp(y, smallest_normal(y.dtype), 1.0 - machine_epsilon(y.dtype))
        return pw.log(inside) - pw.log1p(-inside)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return -softplus(-x) - softplus(x)."""
        return -softplus(-x) - softplus(x)


class SoftplusTransform(Transform):
    """The transform y = log(1 + exp(x))."""

    codomain = constraints.positive

    def __call__(self, x: Tensor) -> Tensor:
        return softplus(x)

    def undo(self, y: Tensor) -> Tensor:
        """Return y + log(1 - exp(-y))."""
        return pw.log(-pw.expm1(-y)) + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return -softplus(-x)."""
        return -softplus(-x)


class TanhTransform(Transform):
    """The transform y = tanh(x)."""

    codomain = constraints.interval(-1.0, 1.0)

    def __call__(self, x: Tensor) -> Tensor:
        return pw.tanh(x)

    def undo(self, y: Tensor) -> Tensor:
        """Return artanh(y)."""
        return atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return 2 (log(2) - x - softplus(-2 x))."""
        # log(1 - y^2) would be -inf in float32 for moderately large x.
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(Transform):
    """The transform y = |x|. It is not bijective; `undo` returns y."""

    bijective = False
    codomain = constraints.positive

    def __call__(self, x: Tensor) -> Tensor:
        return pw.abs(x)

    def undo(self, y: Tensor) -> Tensor:
        """Return y."""
        return y


class AffineTransform(Transform):
    """The transform y = loc + scale * x."""

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0):
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        """Return the `event_dim` given to the constructor."""
        return self._event_dim

    @property
    def sign(self) -> Any:
        """Return the sign of the scale: the direction in which the transform is monotonic."""
        return _sign_of(self.scale)

    def __call__(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x  # type: ignore[no-any-return]

    def undo(self, y: Tensor) -> Tensor:
        """Return (y - loc) / scale."""
        answer: Tensor = (y - self.loc) / self.scale
        return answer

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log |scale|, summed over each event."""
        # Broadcast to the shape of x, because a scalar scale applies to each element.
        slope = pw.log(pw.abs(x * 0 + self.scale))
        return sum_rightmost(slope, self._event_dim)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


class SoftmaxTransform(Transform):
    """The softmax over the last dimension. It is not bijective and has no Jacobian determinant."""

    bijective = False
    domain, codomain = constraints.real_vector, constraints.simplex

    def __call__(self, x: Tensor) -> Tensor:
        # Subtract the maximum to avoid overflow.
        parts = pw.exp(x - reduction.amax(x, -1, True))
        return parts / reduction.sum(parts, -1, True)

    def undo(self, y: Tensor) -> Tensor:
        """Return log(y)."""
        return pw.log(y)


class StickBreakingTransform(Transform):
    """The transform from k numbers to k + 1 positive numbers that sum to 1, by stick breaking."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def _offset(self, x: Tensor) -> Tensor:
        ones = x * 0 + 1
        return pw.log((x.shape[-1] + 1) - cumulative.cumsum(ones, -1))

    def __call__(self, x: Tensor) -> Tensor:
        # Each number determines the fraction that is broken off what the previous ones have left.
        z = SigmoidTransform()(x - self._offset(x))
        left = cumulative.cumprod(1 - z, -1)
        return pad(z, [0, 1], value=1) * pad(left, [1, 0], value=1)

    def undo(self, y: Tensor) -> Tensor:
        """Return the k numbers whose image is `y`."""
        head = y[..., :-1]
        left = pw.clamp(1 - cumulative.cumsum(head, -1), smallest_normal(y.dtype), None)
        return pw.log(head) - pw.log(left) + self._offset(head)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log |det dy/dx|."""
        # The same offset as in the transform, with which x = 0 gives equal parts.
        x = x - self._offset(x)
        return reduction.sum(-x - softplus(-x) + pw.log(y[..., :-1]), -1)

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape with one more element in the last dimension."""
        return (*shape[:-1], shape[-1] + 1)


class ComposeTransform(Transform):
    """The composition of several transforms, applied in order."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0):
        super().__init__(cache_size)
        self.parts = list(parts)
        if self.parts:
            self.domain, self.codomain = self.parts[0].domain, self.parts[-1].codomain
        self.bijective = all(p.bijective for p in self.parts)

    @property
    def event_dim(self) -> int:
        """Return the maximum over the parts."""
        return max((p.event_dim for p in self.parts), default=0)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def undo(self, y: Tensor) -> Tensor:
        """Return the inverse, by inverting the parts in reverse order."""
        for part in reversed(self.parts):
            y = part.undo(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log |det dy/dx|, the sum over the parts.

        `y` has no effect, because the values between parts are computed from `x`. Without parts, each element has 0.
        """
        total: Any = 0 if self.parts else zeros_like(x)
        for part in self.parts:
            # A part with fewer event dimensions is summed over the remaining ones.
            after = part(x)
            total = total + sum_rightmost(part.log_abs_det_jacobian(x, after), self.event_dim - part.event_dim)
            x = after
        return total  # type: ignore[no-any-return]


class IndependentTransform(Transform):
    """A transform whose last `reinterpreted_batch_ndims` batch dimensions are treated as part of an event."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0):
        super().__init__(cache_size)
        self.base_transform, self.reinterpreted_batch_ndims = base_transform, reinterpreted_batch_ndims
        self.domain = constraints.independent(base_transform.domain, reinterpreted_batch_ndims)
        self.codomain = constraints.independent(base_transform.codomain, reinterpreted_batch_ndims)

    def __call__(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def undo(self, y: Tensor) -> Tensor:
        """Return the inverse of the base transform."""
        return self.base_transform.undo(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return that of the base transform, summed over an event."""
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)


class ReshapeTransform(Transform):
    """The transform that changes the shape of an event from `in_shape` to `out_shape`.

    Raises ValueError if the numbers of elements differ.
    """

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0):
        super().__init__(cache_size)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise OptionInvalid(
                "in_shape, out_shape have different numbers of elements"
                f": {list(self.in_shape)} and {list(self.out_shape)}",
                where=source.where(),
                hint="Pass two shapes with equal numbers of elements.",
            )
        self.domain = constraints.independent(constraints.real, len(self.in_shape))
        self.codomain = constraints.independent(constraints.real, len(self.out_shape))

    def __call__(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[: x.dim() - len(self.in_shape)], *self.out_shape)

    def undo(self, y: Tensor) -> Tensor:
        """Return `y` with events of shape `in_shape`."""
        return y.reshape(*y.shape[: y.dim() - len(self.out_shape)], *self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return 0 for each event."""
        return sum_rightmost(x * 0, len(self.in_shape))


class LowerCholeskyTransform(Transform):
    """The transform from square matrices to lower triangular ones with a positive diagonal, the exponential of x's."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def __call__(self, x: Tensor) -> Tensor:
        return x.tril(-1) + pw.exp(x.diagonal(dim1=-2, dim2=-1)).diag_embed()

    def undo(self, y: Tensor) -> Tensor:
        """Return the lower triangular x with image `y`."""
        return y.tril(-1) + pw.log(y.diagonal(dim1=-2, dim2=-1)).diag_embed()


class PositiveDefiniteTransform(Transform):
    """The transform from square matrices to positive definite ones, whose factor is LowerCholeskyTransform's image."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def __call__(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def undo(self, y: Tensor) -> Tensor:
        """Return the lower triangular x with image `y`."""
        return LowerCholeskyTransform().undo(cholesky(y))


class StackTransform(Transform):
    """Transforms of the slices of a tensor along the dimension `dim`."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0):
        super().__init__(cache_size)
        self.transforms, self.dim = list(tseq), dim
        self.domain = constraints.stack([t.domain for t in self.transforms], dim)
        self.codomain = constraints.stack([t.codomain for t in self.transforms], dim)
        self.bijective = all(t.bijective for t in self.transforms)

    def _slices(self, value: Tensor) -> list[Tensor]:
        return [value.select(self.dim, k) for k in range(value.shape[self.dim])]

    def __call__(self, x: Tensor) -> Tensor:
        return stack([t(part) for t, part in zip(self.transforms, self._slices(x), strict=True)], self.dim)

    def undo(self, y: Tensor) -> Tensor:
        """Return the inverse of each slice."""
        return stack([t.undo(part) for t, part in zip(self.transforms, self._slices(y), strict=True)], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log |det dy/dx| of each slice."""
        parts = zip(self.transforms, self._slices(x), self._slices(y), strict=True)
        return stack([t.log_abs_det_jacobian(a, b) for t, a, b in parts], self.dim)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


class CatTransform(Transform):
    """A transform that applies one transform to each piece along dimension `dim`.

    `lengths` are the lengths of the pieces; 1 by default.
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ):
        super().__init__(cache_size)
        self.transforms, self.dim = list(tseq), dim
        self.lengths = list(lengths) if lengths is not None else [1] * len(self.transforms)
        self.domain = constraints.cat([t.domain for t in self.transforms], dim, self.lengths)
        self.codomain = constraints.cat([t.codomain for t in self.transforms], dim, self.lengths)
        self.bijective = all(t.bijective for t in self.transforms)

    @property
    def event_dim(self) -> int:
        """Return the maximum over the parts."""
        return max(t.event_dim for t in self.transforms)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log |det dy/dx|: of each piece along `dim`, or the sum over pieces if `dim` is a part of the event."""
        pieces = zip(self.transforms, x.split(self.lengths, self.dim), y.split(self.lengths, self.dim), strict=True)
        slopes = [sum_rightmost(t.log_abs_det_jacobian(a, b), self.event_dim - t.event_dim) for t, a, b in pieces]
        dim = self.dim - x.ndim if self.dim >= 0 else self.dim
        return cat(slopes, dim + self.event_dim) if dim + self.event_dim < 0 else functools.reduce(operator.add, slopes)

    def __call__(self, x: Tensor) -> Tensor:
        return cat([t(p) for t, p in zip(self.transforms, x.split(self.lengths, self.dim), strict=True)], self.dim)

    def undo(self, y: Tensor) -> Tensor:
        """Return the concatenated inverses of the pieces."""
        return cat([t.undo(p) for t, p in zip(self.transforms, y.split(self.lengths, self.dim), strict=True)], self.dim)


identity_transform = ComposeTransform([])
