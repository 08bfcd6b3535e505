"""Dropout: set random elements or whole channels to 0 and scale the others."""

import math

from lazytensor.core import source
from lazytensor.core.autocast import cast_to_half, half_type
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor, operand_node
from lazytensor.errors import OptionInvalid
from lazytensor.functional import pointwise as pw
from lazytensor.functional.activation import SELU_ALPHA, SELU_SCALE, assign_if_inplace
from lazytensor.functional.creation import empty
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.random_sampling import bernoulli_
from lazytensor.functional.random_state import draw_in_step, is_replayed
from lazytensor.functional.type_promotion import require_elements


def _check_probability(p: float) -> float:
    """Return `p` as a float. Raises OptionInvalid (a ValueError) if `p` is not between 0 and 1."""
    if not 0 <= p <= 1:
        raise OptionInvalid(
            f"dropout probability has to be between 0 and 1, but got {p}",
            where=source.where(),
            hint="Pass p between 0 and 1.",
        )
    return float(p)


def _apply_dropout(input: Tensor, p: float, shape: tuple[int, ...], inplace: bool) -> Tensor:
    """Return `input` times a random mask of `shape`, which broadcasts to the input, divided by 1 - p.

    Each element of the mask is 0 with probability `p`, else 1. `p` = 1 gives zeros, and NaN stays NaN. While automatic
    casts are on, the result has the half type. If `inplace` is true, the result is written to `input`, which is
    returned. Raises TypeUnsupported if `input` is not floating-point, unless it is empty or `p` is 1.
    """
    if p == 1:
        # 1 / (1 - p) would be infinite; times 0 keeps NaN, as PyTorch does.
        return assign_if_inplace(input, input * 0.0, inplace)
    if input.spec.size:
        require_elements(input, "f", "dropout")
    (x,) = cast_to_half(operand_node(input))
    kept = _keep_mask(shape, x.type.dtype, 1.0 - p, input)
    return assign_if_inplace(input, tensor_of(x, input) * (kept / (1.0 - p)), inplace)


def _keep_mask(shape: tuple[int, ...], dtype: DType, chance: float, like: Tensor) -> Tensor:
    """Return a random mask of `shape` and `dtype` on the device of `like`: 1 with probability `chance`, else 0.

    In a compiled step each execution draws a new mask; otherwise it is drawn now from the default generator.
    """
    # Draws the same random words as PyTorch, so that seeded scripts agree. A compiled step draws from the state that is
    # carried from step to step.
    if is_replayed():
        numbers = draw_in_step("random_uniform", shape, dtype)
        numbers.device = like.device
        return pw.cast_to(numbers < chance, dtype)
    return bernoulli_(empty(shape, dtype=dtype, device=like.device), chance)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return `input` with each element set to 0 with probability `p` and the others divided by 1 - `p`.

    If `training` is false or `p` is 0, `input` itself is returned (in the half type while automatic casts are on). If
    `inplace` is true, the result is written to `input`. Raises OptionInvalid (a ValueError) in training if `p` is not
    between 0 and 1.

    >>> import lazytensor as lt
    >>> lt.nn.functional.dropout(lt.ones(2), training=False)
    tensor([1., 1.])
    """
    if not training or _check_probability(p) == 0:
        # The vendor's layer converts its operand even if it drops nothing.
        return input if half_type() is None else tensor_of(cast_to_half(operand_node(input))[0], input)
    return _apply_dropout(input, p, input.spec.shape, inplace)


def feature_dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return `input` [N, C, ...] with whole channels set to 0 with probability `p` and the others divided by 1 - `p`.

    If `training` is false or `p` is 0, `input` itself is returned. If `inplace` is true, the result is written to
    `input`. Raises OptionInvalid (a ValueError) in training if `p` is not between 0 and 1.

    >>> import lazytensor as lt
    >>> lt.feature_dropout(lt.tensor([[1.0, 2.0]]), 0.5, False)
    tensor([[1., 2.]])
    """
    if not training or _check_probability(p) == 0:
        return input
    shape = input.spec.shape
    return _apply_dropout(input, p, (*shape[:2], *(1,) * (len(shape) - 2)), inplace)


def _channel_dropout(input: Tensor, p: float, training: bool, inplace: bool, spatial: int) -> Tensor:
    """Return `input` with whole channels dropped with probability `p`, and the others divided by 1 - `p`.

    The channel is dimension 1, or dimension 0 if `input` has `spatial` + 1 dimensions and so no batch dimension. If
    `training` is false or `p` is 0, `input` itself is returned. With `inplace` the result is written to `input`.
    """
    # The input has a batch dimension, or a rank that PyTorch accepts with a warning.
    if input.ndim != spatial + 1:
        return feature_dropout(input, p, training, inplace)
    if not training or _check_probability(p) == 0:
        return input
    return _apply_dropout(input, p, (input.spec.shape[0], *(1,) * spatial), inplace)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return `input` [N, C, L] or [C, L] with whole channels set to 0 with probability `p`.

    The other channels are divided by 1 - `p`. If `training` is false or `p` is 0, `input` itself is returned. If
    `inplace` is true, the result is written to `input`. Raises OptionInvalid (a ValueError) in training if `p` is not
    between 0 and 1.

    >>> import lazytensor as lt
    >>> lt.nn.functional.dropout1d(lt.ones(1, 2, 2), 0.5, training=False)
    tensor([[[1., 1.],
             [1., 1.]]])
    """
    return _channel_dropout(input, p, training, inplace, 1)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return `input` [N, C, H, W] with whole channels set to 0 with probability `p`.

    The other channels are divided by 1 - `p`. If `training` is false or `p` is 0, `input` itself is returned. If
    `inplace` is true, the result is written to `input`. An input without a batch dimension is not recognized: dimension
    1 is always the channel. Raises OptionInvalid (a ValueError) in training if `p` is not between 0 and 1.

    >>> import lazytensor as lt
    >>> lt.nn.functional.dropout2d(lt.ones(1, 2, 2, 2), training=False).shape
    lazytensor.Size([1, 2, 2, 2])
    """
    return feature_dropout(input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return `input` [N, C, D, H, W] or [C, D, H, W] with whole channels set to 0 with probability `p`.

    The other channels are divided by 1 - `p`. If `training` is false or `p` is 0, `input` itself is returned. If
    `inplace` is true, the result is written to `input`. Raises OptionInvalid (a ValueError) in training if `p` is not
    between 0 and 1.

    >>> import lazytensor as lt
    >>> lt.nn.functional.dropout3d(lt.ones(1, 1, 1, 1, 2), 0.5, training=False)
    tensor([[[[[1., 1.]]]]])
    """
    return _channel_dropout(input, p, training, inplace, 3)


def _apply_alpha_dropout(input: Tensor, p: float, shape: tuple[int, ...], inplace: bool) -> Tensor:
    """Return `input` with dropped elements set to the lowest value of SELU, then shifted and scaled.

    The shift and scale restore mean 0 and variance 1. The random mask has `shape`, which broadcasts. `p` = 1 gives
    zeros.
    """
    if p == 1:
        return assign_if_inplace(input, input * 0.0, inplace)
    alpha = SELU_ALPHA * SELU_SCALE
    # Klambauer et al. 2017: a * x + b has mean 0 and variance 1 again, with -alpha where x was dropped.
    a = 1 / math.sqrt((alpha * alpha * p + 1) * (1 - p))
    kept = _keep_mask(shape, input.dtype, 1.0 - p, input) > 0
    shift = pw.where(kept, alpha * a * p, alpha * a * p - alpha * a)
    return assign_if_inplace(input, input * (pw.cast_to(kept, input.dtype) * a) + shift, inplace)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Return alpha dropout of `input`: dropped elements get the lowest value of SELU, and mean and variance are kept.

    Each element is dropped with probability `p`. If `training` is false or `p` is 0, `input` itself is returned. If
    `inplace` is true, the result is written to `input`. Raises OptionInvalid (a ValueError) in training if `p` is not
    between 0 and 1.

    >>> import lazytensor as lt
    >>> lt.nn.functional.alpha_dropout(lt.ones(2), training=False)
    tensor([1., 1.])
    """
    if not training or _check_probability(p) == 0:
        return input
    return _apply_alpha_dropout(input, p, input.spec.shape, inplace)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Return `alpha_dropout` of whole channels of `input` [N, C, ...].

    If `training` is false or `p` is 0, `input` itself is returned. If `inplace` is true, the result is written to
    `input`. Raises OptionInvalid (a ValueError) in training if `p` is not between 0 and 1.

    >>> import lazytensor as lt
    >>> lt.feature_alpha_dropout(lt.tensor([[1.0, 2.0]]), 0.5, False)
    tensor([[1., 2.]])
    """
    if not training or _check_probability(p) == 0:
        return input
    shape = input.spec.shape
    return _apply_alpha_dropout(input, p, (*shape[:2], *(1,) * (len(shape) - 2)), inplace)
