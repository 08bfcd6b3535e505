"""Random number functions of `torch` that are composed of others."""

from functools import partial
from typing import Any

from lazytensor import random
from lazytensor.core.autocast import half_type
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor
from lazytensor.functional.creation import empty
from lazytensor.functional.csx_refusals import with_refusals
from lazytensor.functional.out_arguments import accept_torch_names
from lazytensor.functional.random_sampling import normal_
from lazytensor.functional.type_promotion import broadcast_shape


@accept_torch_names
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
    """Return normally distributed numbers with the given means and standard deviations.

    `mean` and `std` are tensors or numbers, which broadcast. If both are numbers, `size` is the shape of the result.
    Raises ShapeError if the shapes do not broadcast.
    """
    # Inside a scope of the vendor's package the default generator is used too. A step for the wafer has no generator.
    chosen = generator or (random.default_generator if half_type() is None else None)
    if size is not None:
        drawn = normal_(empty(size, dtype=dtype, device=device), float(mean), float(std), chosen)
        return drawn.requires_grad_() if requires_grad else drawn
    like = mean if isinstance(mean, Tensor) else std
    assert isinstance(like, Tensor), "numbers without a tensor need a size"
    shapes = [t.spec.shape for t in (mean, std) if isinstance(t, Tensor)]
    shape = broadcast_shape(*shapes) if len(shapes) > 1 else shapes[0]
    # Scale standard normal numbers, so that the random numbers are those of `randn`.
    standard = normal_(empty(shape, dtype=like.dtype, device=like.device), 0.0, 1.0, chosen)
    return (standard * std + mean).detach()
