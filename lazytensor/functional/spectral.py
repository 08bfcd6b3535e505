"""Short-time Fourier transform as matrix products with sine and cosine waves. Results are real and imaginary parts."""

import numpy as np

from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.core.tensor_members import method
from lazytensor.errors import ShapeError
from lazytensor.functional import flip_and_roll, joining_and_splitting, matmul, strided_views, views
from lazytensor.functional.creation import ones, tensor
from lazytensor.functional.padding_and_shuffles import constant_pad_nd


def _pad_signals(x: Tensor, width: int, mode: str) -> Tensor:
    """Return signals [batch, n] padded by `width` elements at both ends.

    `mode` is "constant" (zeros) or "reflect". Raises ShapeError for another mode, or if the signal is too short to
    reflect.
    """
    n = x.spec.shape[1]
    if mode == "constant":
        return constant_pad_nd(x, (width, width))
    if mode != "reflect" or width >= n:
        raise ShapeError(
            f"stft: cannot pad a signal of {n} elements by {width} in the mode {mode!r}",
            where=source.where(),
            hint="Pass a longer signal or a smaller n_fft, or center=False.",
        )
    before = flip_and_roll.flip(views.slice_dim(x, 1, 1, width + 1), 1)
    after = flip_and_roll.flip(views.slice_dim(x, 1, n - 1 - width, n - 1), 1)
    return joining_and_splitting.cat([before, x, after], 1)


def _fourier_basis(n_fft: int, count: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosines and negative sines of the first `count` frequencies: two matrices [n_fft, count]."""
    # Whole turns are removed in integer arithmetic, since the cosine of a large angle is inaccurate.
    angle = 2 * np.pi / n_fft * (np.outer(np.arange(n_fft), np.arange(count)) % n_fft)
    return tensor(np.cos(angle), dtype=like.dtype), tensor(-np.sin(angle), dtype=like.dtype)


@method
def stft(
    x: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
) -> Tensor:
    """Return the short-time Fourier transform of signals.

    [(batch,) n] gives [(batch,) frequencies, frames, 2] with real and imaginary part.

    - `n_fft`: length of a frame; `hop_length`: distance of frames, n_fft // 4 by default.
    - `window` [win_length]: weights of a frame, centred in n_fft elements; ones by default.
    - `center`: pad the signal by n_fft // 2 at both ends in the mode `pad_mode`, "reflect" or "constant".
    - `normalized`: multiply by n_fft**-0.5.
    - `onesided`: return n_fft // 2 + 1 frequencies; n_fft only if it is False.
    - `return_complex`: has to be False.

    Raises ShapeError unless `return_complex` is False, for other than one or two dimensions, and if a signal is too
    short to reflect.

    >>> import lazytensor as lt
    >>> lt.stft(lt.ones(16), 8, return_complex=False, window=lt.ones(8)).shape
    lazytensor.Size([5, 9, 2])
    """
    if return_complex is not False:
        raise ShapeError(
            "stft: complex tensors are not supported", where=source.where(), hint="Pass return_complex=False."
        )
    if x.ndim not in (1, 2):
        raise ShapeError(
            f"stft: expected a 1D or 2D tensor, got {x.ndim}D",
            where=source.where(),
            hint="Pass a signal, or a batch of signals.",
        )
    hop, length = hop_length or n_fft // 4, win_length or n_fft
    signal = views.unsqueeze(x, 0) if x.ndim == 1 else x
    signal = _pad_signals(signal, n_fft // 2, pad_mode) if center else signal
    shape = window if window is not None else ones(length, dtype=x.dtype)
    left = (n_fft - length) // 2
    weights = constant_pad_nd(shape, (left, n_fft - length - left))
    frames = strided_views.unfold(signal, 1, n_fft, hop) * weights
    # The spectrum of a real signal is symmetric.
    count = n_fft if onesided is False else n_fft // 2 + 1
    # A matrix product takes n_fft**2 steps rather than n log n, but the wafer has an operation for it.
    parts = [views.transpose(matmul.matmul(frames, w), 1, 2) for w in _fourier_basis(n_fft, count, x)]
    out = joining_and_splitting.stack(parts, 3)
    out = out * n_fft ** (-0.5) if normalized else out
    return views.select(out, 0, 0) if x.ndim == 1 else out
