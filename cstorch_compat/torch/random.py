"""Random numbers as compositions of those that are there."""

from functools import partial
from typing import Any

from lazytensor import random
from lazytensor.core.autocast import half_type
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor
from lazytensor.functional.creation import empty
from lazytensor.functional.csx_refusals import with_refusals
from lazytensor.functional.random_sampling import normal_
from lazytensor.functional.type_promotion import broadcast_shape


@partial(with_refusals, "normal")
def normal(
    mean: float | Tensor = 0.0,
    std: float | Tensor = 1.0,
    size: Any = None,
    *,
    generator: random.Generator | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal numbers of the given means and deviations, in their shape or in `size`.

    Raises ShapeError if means and deviations do not broadcast.
    """
    # In a scope of the vendor's the default generator is drawn from all the same; in a step for the wafer no generator.
    chosen = generator or (random.default_generator if half_type() is None else None)
    # With a size both are numbers, and the draw is the one of `normal_`.
    if size is not None:
        drawn = normal_(empty(size, dtype=dtype, device=device), float(mean), float(std), chosen)
        return drawn.requires_grad_() if requires_grad else drawn
    like = mean if isinstance(mean, Tensor) else std
    assert isinstance(like, Tensor), "numbers alone need a size"
    shapes = [t.spec.shape for t in (mean, std) if isinstance(t, Tensor)]
    shape = broadcast_shape(*shapes) if len(shapes) > 1 else shapes[0]
    # Standard numbers are drawn first and moved afterwards, so that the words are those of `randn`.
    standard = normal_(empty(shape, dtype=like.dtype, device=like.device), 0.0, 1.0, chosen)
    return (standard * std + mean).detach()
