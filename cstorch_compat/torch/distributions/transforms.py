"""`torch.distributions.transforms`: functions that can be undone, with the logs of their slopes."""

import math
from collections.abc import Sequence
from typing import Any

from cstorch_compat.torch.distributions import constraints as constraints
from cstorch_compat.torch.distributions.continuous import machine_epsilon, smallest_normal
from cstorch_compat.torch.distributions.distribution import sum_rightmost
from lazytensor.core.tensor import Tensor
from lazytensor.functional import cumulative, reduction
from lazytensor.functional import pointwise as pw
from lazytensor.functional.activation import softplus
from lazytensor.functional.joining_and_splitting import cat
from lazytensor.functional.pointwise_special import atanh
from lazytensor.nn.functional import pad


class Transform:
    """A function and its inverse; `event_dim` dimensions are one value."""

    bijective = True
    sign = 1
    domain: Any = constraints.real
    codomain: Any = constraints.real

    def __init__(self, cache_size: int = 0):
        self._cache_size = cache_size

    @property
    def event_dim(self) -> int:
        """How many of the last dimensions are one value."""
        return int(self.domain.event_dim)

    @property
    def inv(self) -> "Transform":
        """The inverse."""
        return _InverseTransform(self)

    def with_cache(self, cache_size: int = 1) -> "Transform":
        """Itself: equal nodes are one node, so nothing is computed twice."""
        return self

    def __call__(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def undo(self, y: Tensor) -> Tensor:
        """The value whose image is y."""
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |dy / dx|"""
        raise NotImplementedError

    def forward_shape(self, shape: Any) -> Any:
        """The shape of the image."""
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
        # Seen from the other side.
        self.domain, self.codomain = transform.codomain, transform.domain
        self.bijective, self.sign = transform.bijective, transform.sign

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
    """exp x"""

    codomain = constraints.positive

    def __call__(self, x: Tensor) -> Tensor:
        return pw.exp(x)

    def undo(self, y: Tensor) -> Tensor:
        """log y"""
        return pw.log(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """x"""
        return x


class PowerTransform(Transform):
    """x to a power, of positive numbers."""

    domain = codomain = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0):
        super().__init__(cache_size)
        self.exponent = exponent

    def __call__(self, x: Tensor) -> Tensor:
        return pw.pow(x, self.exponent)

    def undo(self, y: Tensor) -> Tensor:
        """The root."""
        return pw.pow(y, 1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |p y / x|"""
        return pw.log(pw.abs(self.exponent * y / x))


class SigmoidTransform(Transform):
    """1 / (1 + exp -x)"""

    codomain = constraints.unit_interval

    def __call__(self, x: Tensor) -> Tensor:
        return pw.clamp(pw.sigmoid(x), smallest_normal(x.dtype), 1.0 - machine_epsilon(x.dtype))

    def undo(self, y: Tensor) -> Tensor:
        """log y - log(1 - y)"""
        # At 0 and 1 the inverse is infinite.
        inside = pw.clamp(y, smallest_normal(y.dtype), 1.0 - machine_epsilon(y.dtype))
        return pw.log(inside) - pw.log1p(-inside)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """-softplus(-x) - softplus(x)"""
        return -softplus(-x) - softplus(x)


class SoftplusTransform(Transform):
    """log(1 + exp x)"""

    codomain = constraints.positive

    def __call__(self, x: Tensor) -> Tensor:
        return softplus(x)

    def undo(self, y: Tensor) -> Tensor:
        """y + log(1 - exp -y)"""
        return pw.log(-pw.expm1(-y)) + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """-softplus(-x)"""
        return -softplus(-x)


class TanhTransform(Transform):
    """tanh x"""

    codomain = constraints.interval(-1.0, 1.0)

    def __call__(self, x: Tensor) -> Tensor:
        return pw.tanh(x)

    def undo(self, y: Tensor) -> Tensor:
        """artanh y"""
        return atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """2 (log 2 - x - softplus(-2 x))"""
        # Not log(1 - y^2), which is 0 in float32 long before tanh is 1.
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(Transform):
    """|x|, whose inverse is taken to be positive."""

    bijective = False
    codomain = constraints.positive

    def __call__(self, x: Tensor) -> Tensor:
        return pw.abs(x)

    def undo(self, y: Tensor) -> Tensor:
        """y"""
        return y


class AffineTransform(Transform):
    """loc + scale * x"""

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0):
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        """As it was given."""
        return self._event_dim

    def __call__(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x  # type: ignore[no-any-return]

    def undo(self, y: Tensor) -> Tensor:
        """(y - loc) / scale"""
        answer: Tensor = (y - self.loc) / self.scale
        return answer

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |scale|, for each event."""
        # In the shape of x: a scale given as a number is that of each element.
        slope = pw.log(pw.abs(x * 0 + self.scale))
        return sum_rightmost(slope, self._event_dim)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


class SoftmaxTransform(Transform):
    """Numbers as parts of a whole; without a slope."""

    bijective = False
    domain, codomain = constraints.real_vector, constraints.simplex

    def __call__(self, x: Tensor) -> Tensor:
        # The largest number is taken off first, so that nothing overflows.
        parts = pw.exp(x - reduction.amax(x, -1, True))
        return parts / reduction.sum(parts, -1, True)

    def undo(self, y: Tensor) -> Tensor:
        """log y"""
        return pw.log(y)


class StickBreakingTransform(Transform):
    """Numbers as parts that are broken off a whole, one after the other."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def _offset(self, x: Tensor) -> Tensor:
        ones = x * 0 + 1
        return pw.log((x.shape[-1] + 1) - cumulative.cumsum(ones, -1))

    def __call__(self, x: Tensor) -> Tensor:
        # Each number is the share of what the ones before it have left.
        z = SigmoidTransform()(x - self._offset(x))
        left = cumulative.cumprod(1 - z, -1)
        return pad(z, [0, 1], value=1) * pad(left, [1, 0], value=1)

    def undo(self, y: Tensor) -> Tensor:
        """The numbers whose parts these are."""
        head = y[..., :-1]
        left = pw.clamp(1 - cumulative.cumsum(head, -1), smallest_normal(y.dtype), None)
        return pw.log(head) - pw.log(left) + self._offset(head)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum over the parts."""
        # The same shift as in the transform itself: breaking evenly is where all numbers are 0.
        x = x - self._offset(x)
        return reduction.sum(-x - softplus(-x) + pw.log(y[..., :-1]), -1)

    def forward_shape(self, shape: Any) -> Any:
        """One part more than numbers."""
        return (*shape[:-1], shape[-1] + 1)


class ComposeTransform(Transform):
    """Several, one after the other."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0):
        super().__init__(cache_size)
        self.parts = list(parts)
        if self.parts:
            self.domain, self.codomain = self.parts[0].domain, self.parts[-1].codomain
        self.bijective = all(p.bijective for p in self.parts)

    @property
    def event_dim(self) -> int:
        """The largest of all."""
        return max((p.event_dim for p in self.parts), default=0)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def undo(self, y: Tensor) -> Tensor:
        """The inverses from the last to the first."""
        for part in reversed(self.parts):
            y = part.undo(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum of those of the parts."""
        total: Any = 0
        for part in self.parts:
            # A part with smaller events than the whole is summed over the rest.
            after = part(x)
            total = total + sum_rightmost(part.log_abs_det_jacobian(x, after), self.event_dim - part.event_dim)
            x = after
        return total  # type: ignore[no-any-return]


class IndependentTransform(Transform):
    """A transform of which the last dimensions are one event."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0):
        super().__init__(cache_size)
        self.base_transform, self.reinterpreted_batch_ndims = base_transform, reinterpreted_batch_ndims
        self.domain = constraints.independent(base_transform.domain, reinterpreted_batch_ndims)
        self.codomain = constraints.independent(base_transform.codomain, reinterpreted_batch_ndims)

    def __call__(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def undo(self, y: Tensor) -> Tensor:
        """That of the base."""
        return self.base_transform.undo(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum over an event."""
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)


class ReshapeTransform(Transform):
    """Another shape of the same values."""

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0):
        super().__init__(cache_size)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")
        self.domain = constraints.independent(constraints.real, len(self.in_shape))
        self.codomain = constraints.independent(constraints.real, len(self.out_shape))

    def __call__(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[: x.dim() - len(self.in_shape)], *self.out_shape)

    def undo(self, y: Tensor) -> Tensor:
        """The shape before."""
        return y.reshape(*y.shape[: y.dim() - len(self.out_shape)], *self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """0"""
        return sum_rightmost(x * 0, len(self.in_shape))


class CatTransform(Transform):
    """Transforms for pieces along a dimension."""

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ):
        super().__init__(cache_size)
        self.transforms, self.dim = list(tseq), dim
        self.lengths = list(lengths) if lengths is not None else [1] * len(self.transforms)

    def __call__(self, x: Tensor) -> Tensor:
        return cat([t(p) for t, p in zip(self.transforms, x.split(self.lengths, self.dim), strict=True)], self.dim)

    def undo(self, y: Tensor) -> Tensor:
        """The inverses for the pieces."""
        return cat([t.undo(p) for t, p in zip(self.transforms, y.split(self.lengths, self.dim), strict=True)], self.dim)


identity_transform = ComposeTransform([])
