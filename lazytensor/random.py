"""Random numbers outside compiled steps: PyTorch's CPU generator, a 32-bit Mersenne twister.

The conversion from generator words to numbers was derived from PyTorch's results. A float32 uses the low 24 bits of one
word and a float64 the low 53 bits of two; both are scaled in one rounding. Normal numbers are made from pairs of
uniform ones by Box and Muller, in blocks of 16 if there are at least 16.

Few numbers are drawn by NumPy's twister. Many are drawn by the kernels of
`lazytensor/runtime/compiled_kernels/mersenne_twister.py` with the same bits, in one pass over their memory.
"""

import ctypes
import functools
import math
import os
import secrets
import sys
import threading
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np

from lazytensor import config
from lazytensor.core import dtype as dt
from lazytensor.core import pytorch_release, source
from lazytensor.core.dtype import DType, round_to
from lazytensor.core.pytorch_release import box_muller
from lazytensor.core.tensor import CPU, Device, Tensor, from_array
from lazytensor.errors import LazyError, MemoryMissing, ShapeError
from lazytensor.runtime import jit

DEFAULT_SEED = 67280421310721
"""The seed with which PyTorch's default generator starts."""
_HEADER_BYTES, _KEY_WORDS, _TRAILER_BYTES = 24, 624, 40
STATE_BYTES = _HEADER_BYTES + 8 * _KEY_WORDS + _TRAILER_BYTES
"""The size of PyTorch's CPU generator state in bytes: seed, position, the words of the twister, and the spare normal
number.
"""
MIN_COMPILED_NUMBERS = 1024
"""The count of numbers from which on a compiled kernel draws them. Below it a kernel's call takes longer than NumPy,
and a script that draws few numbers does not have to load LLVM.
"""

# One lock for all generators, since a generator has to be copyable and picklable. It is held during a fork, so that a
# child process never starts with it locked.
_draw_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_draw_lock.acquire, after_in_parent=_draw_lock.release, after_in_child=_draw_lock.release
    )
P = ParamSpec("P")
T = TypeVar("T")


def _atomic_draw(method: "Callable[Concatenate[Generator, P], T]") -> "Callable[Concatenate[Generator, P], T]":
    """Return `method` wrapped to hold the lock of all generators, so that the numbers of one tensor are consecutive.

    Raises MemoryMissing if too many numbers are requested.
    """

    @functools.wraps(method)
    def alone(self: "Generator", /, *args: P.args, **kwargs: P.kwargs) -> T:
        with _draw_lock:
            try:
                return method(self, *args, **kwargs)
            # NumPy raises ValueError for more numbers than can be addressed.
            except (MemoryError, ValueError) as e:
                if isinstance(e, LazyError) or (isinstance(e, ValueError) and "imension" not in str(e)):
                    raise
                raise MemoryMissing(f"too many random numbers were requested: {e}", 0, where=source.where()) from e

    return alone


class Generator:
    """A source of random numbers that can be seeded, with PyTorch's algorithm.

    It starts with PyTorch's default seed. `device` is ignored.

    >>> import lazytensor as lt
    >>> generator = lt.Generator().manual_seed(7)
    >>> first = lt.rand(3, generator=generator)
    >>> lt.equal(first, lt.rand(3, generator=generator.manual_seed(7)))
    True
    """

    def __init__(self, device: object = "cpu"):
        self.manual_seed(DEFAULT_SEED)

    @property
    def device(self) -> Device:
        """Return the CPU."""
        return CPU

    seedings: int = 0  # number of seedings so far

    @_atomic_draw
    def manual_seed(self, seed: int) -> "Generator":
        """Seed the generator with `seed`, of which only the low 32 bits matter, and return it."""
        self.seedings += 1
        self._seed = int(seed)
        self._bits = np.random.MT19937()
        # NumPy's default seeding scrambles the seed. The legacy seeding is that of the reference implementation and of
        # PyTorch.
        self._bits._legacy_seeding(self._seed & 0xFFFFFFFF)
        self._spare: float | None = None
        return self

    def restart(self) -> None:
        """Reset the generator to its state in a new process, with the default seed."""
        self.seedings = 0
        self.manual_seed(DEFAULT_SEED)

    def initial_seed(self) -> int:
        """Return the seed with which the generator was last seeded."""
        return self._seed

    def seed(self) -> int:
        """Seed the generator with a nondeterministic 63-bit number, and return the number."""
        number = secrets.randbits(63)
        self.manual_seed(number)
        return number

    @_atomic_draw
    def get_state(self) -> Tensor:
        """Return the state as a uint8 tensor [5056], in PyTorch's layout."""
        raw = np.zeros(STATE_BYTES, np.uint8)
        inner = self._bits.state["state"]
        position = int(inner["pos"])
        raw[:8].view(np.uint64)[0] = self.initial_seed() & (1 << 64) - 1
        # PyTorch stores the number of words left in a block, and 1 if the next word begins a new block.
        raw[8:16].view(np.uint32)[:] = (_KEY_WORDS + 1 - position if position else 1, 1)
        raw[16:24].view(np.uint64)[0] = position % _KEY_WORDS
        raw[_HEADER_BYTES : _HEADER_BYTES + 8 * _KEY_WORDS].view(np.uint64)[:] = inner["key"]
        if self._spare is not None:
            raw[-32:-24].view(np.float64)[0] = self._spare
            raw[-16:-12].view(np.int32)[0] = 1
        return from_array(raw, dt.uint8)

    @_atomic_draw
    def set_state(self, new_state: Tensor) -> "Generator":
        """Restore a state that `get_state` returned, and return the generator.

        Raises ShapeError unless it is a valid uint8 tensor [5056].
        """
        raw = new_state.array("set_state")
        if raw.dtype != np.uint8 or raw.shape != (STATE_BYTES,):
            raise ShapeError(
                f"RNG state must be a torch.ByteTensor of {STATE_BYTES} elements",
                where=source.where(),
                hint="Pass a state that get_rng_state() returned.",
            )
        raw = np.array(raw)
        left = int(raw[8:12].view(np.uint32)[0])
        if not 1 <= left <= _KEY_WORDS:
            raise ShapeError(
                f"the tensor is not a state of a generator: its number of remaining words is {left}, which is not "
                f"in 1 to {_KEY_WORDS}",
                where=source.where(),
                hint="Pass a state that get_rng_state() returned.",
            )
        keys = raw[_HEADER_BYTES : _HEADER_BYTES + 8 * _KEY_WORDS].view(np.uint64).astype(np.uint32)
        self.manual_seed(int(raw[:8].view(np.uint64)[0]))
        self._bits.state = {"bit_generator": "MT19937", "state": {"key": keys, "pos": _KEY_WORDS + 1 - left}}
        self._spare = float(raw[-32:-24].view(np.float64)[0]) if raw[-16] else None
        return self

    def clone_state(self) -> "Generator":
        """Return a new generator with the same state."""
        return Generator().set_state(self.get_state())

    def words(self, n: int) -> np.ndarray:
        """Return the next `n` 32-bit words, as uint64."""
        return self._bits.random_raw(n) if n else np.zeros(0, np.uint64)

    def _compiled_draw(self, kernel: str, n: int, words: int, *arguments: object) -> None:
        """Call a kernel of the twister that draws `n` >= 1 numbers of `words` words in total."""
        memory = _state_memory(self._bits)
        key, position = memory[:_KEY_WORDS], int(memory[_KEY_WORDS])
        jit.load(jit.read_kernel("mersenne_twister"), kernel)(n, position, key, *arguments)
        memory[_KEY_WORDS] = (position + words - 1) % _KEY_WORDS + 1

    @_atomic_draw
    def uniform(self, shape: tuple[int, ...], dtype: DType, low: float = 0.0, high: float = 1.0) -> np.ndarray:
        """Return uniform random numbers in [low, high) of `shape`, in the host type of `dtype`.

        If rounding to a half type gives `high`, the number becomes `low`.
        """
        n = math.prod(shape)
        if dtype is dt.float64:
            return _fused_multiply_add(self._doubles(n), high - low, low).reshape(shape)
        factor = float(np.float32(high) - np.float32(low))
        if dtype.is_half and pytorch_release.current_release == "2.4":
            values = _fused_multiply_add(pytorch_release.half_uniform(self.words, n, dtype), factor, low)
        else:
            values = self._floats(n, factor, low)
        if dtype.is_half:
            values = round_to(values, dtype)
            values = np.where(values >= high, np.float32(low), values)
        return values.reshape(shape)

    def _floats(self, n: int, factor: float, offset: float) -> np.ndarray:
        """Return `n` float32 numbers u * factor + offset, for u uniform in [0, 1)."""
        if _is_compiled(n):
            values = np.empty(n, np.float32)
            self._compiled_draw("floats", n, n, np.array([factor, offset], np.float32).astype(np.float64), values)
            return values
        # A float32 has 24 bits, so every u is exact and 1 is never reached.
        units = (self.words(n) & np.uint64((1 << 24) - 1)).astype(np.float32) * np.float32(2.0**-24)
        return _fused_multiply_add(units, factor, offset)

    def _doubles(self, n: int) -> np.ndarray:
        """Return `n` float64 numbers, uniform in [0, 1)."""
        if _is_compiled(n):
            values = np.empty(n)
            self._compiled_draw("doubles", n, 2 * n, values)
            return values
        pairs = self.words(2 * n).reshape(n, 2)
        whole = (pairs[:, 0] << np.uint64(32) | pairs[:, 1]) & np.uint64((1 << 53) - 1)
        scaled: np.ndarray = whole.astype(np.float64) * 2.0**-53
        return scaled

    @_atomic_draw
    def normal(
        self,
        shape: tuple[int, ...],
        dtype: DType,
        mean: float = 0.0,
        deviation: float = 1.0,
        is_contiguous: bool = True,
    ) -> np.ndarray:
        """Return normal random numbers of `shape` with mean `mean` and standard deviation `deviation`.

        They have the host type of `dtype`. For a tensor that is not contiguous, or has fewer than 16 elements, they are
        drawn one by one, as in PyTorch.
        """
        n = math.prod(shape)
        if n >= 16 and is_contiguous and dtype.is_half and pytorch_release.current_release == "2.4":
            return pytorch_release.half_normal(self.words, n, dtype, mean, deviation).reshape(shape)
        # Fewer than 16 are drawn one by one in double precision, since PyTorch's vector code starts at 16.
        if n < 16 or not is_contiguous:
            drawn = self._single_normals(n) * deviation + mean
        else:
            working = dt.float64 if dtype is dt.float64 else dt.float32
            whole = n // 16 * 16
            drawn = np.empty(n, working.host)
            # For a half type no words are drawn for the last block, which is overwritten.
            u = self.uniform((whole if dtype.is_half else n,), working)
            drawn[:whole] = box_muller(u[:whole])
            if whole < n:
                # The last block of 16 is drawn again and overlaps the previous one.
                drawn[n - 16 :] = box_muller(self.uniform((16,), working))
            drawn = _fused_multiply_add(drawn, deviation, mean)
        return round_to(drawn.astype(dtype.host), dtype).reshape(shape)

    @_atomic_draw
    def single_normals(self, n: int) -> np.ndarray:
        """Return `n` standard normal numbers in double precision, drawn one by one."""
        return self._single_normals(n)

    def _single_normals(self, n: int) -> np.ndarray:
        if not _is_compiled(n):
            return np.array([self._draw_single_normal() for _ in range(n)])
        values = np.empty(n)
        first = int(self._spare is not None)
        if first:
            values[0] = self._draw_single_normal()
        pairs = (n - first) // 2
        self._compiled_draw("normals", 2 * pairs, 4 * pairs, values[first : first + 2 * pairs])
        if first + 2 * pairs < n:
            values[-1] = self._draw_single_normal()
        return values

    def _draw_single_normal(self) -> float:
        """Return one standard normal number in double precision.

        It is the stored second number of a pair, or the first of a new pair.
        """
        if self._spare is not None:
            value, self._spare = self._spare, None
            return value
        # Two uniform numbers give two normal ones; the second is stored for the next call and is part of the state.
        u1, u2 = self._doubles(2)
        radius, angle = math.sqrt(-2 * math.log1p(-u2)), 2 * math.pi * u1
        self._spare = radius * math.sin(angle)
        return radius * math.cos(angle)

    @_atomic_draw
    def bernoulli(self, n: int, p: float) -> np.ndarray:
        """Return `n` bools, each true with probability `p`."""
        if pytorch_release.current_release == "2.4":
            return pytorch_release.vendor_uniform(self.words, n) < p
        if _is_compiled(n):
            trials = np.empty(n, np.bool_)
            # A number of 53 bits times 2 ** -53 is less than p if the number is less than p * 2 ** 53.
            self._compiled_draw("trials", n, 2 * n, math.ceil(float(p) * 2.0**53), trials)
            return trials
        return self.uniform((n,), dt.float64) < p

    @_atomic_draw
    def exponential(self, n: int, dtype: DType) -> np.ndarray:
        """Return `n` exponential numbers of rate 1 as float64.

        `dtype` is the dtype of the tensor they are drawn for.
        """
        if pytorch_release.current_release == "2.4":
            return pytorch_release.exponential(self.words, n, dtype)
        return np.asarray(-np.log1p(-self.uniform((n,), dt.float64)))

    @_atomic_draw
    def integers(self, low: int, high: int, shape: tuple[int, ...], is_short: bool = False) -> np.ndarray:
        """Return random integers from `low` to `high` - 1, of `shape`, as int64.

        Each is made of one word if the range is small or `is_short` is true, and of two words otherwise, as in PyTorch.
        """
        n, span = math.prod(shape), high - low
        if is_short or span < pytorch_release.MIN_TWO_WORD_SPAN[pytorch_release.current_release]:
            if _is_compiled(n) and span < 1 << 32:
                values = np.empty(n, np.int64)
                self._compiled_draw("integers", n, n, low, span, values)
                return values.reshape(shape)
            drawn = self.words(n) % np.uint64(span)
        else:
            pairs = self.words(2 * n).reshape(n, 2)
            drawn = (pairs[:, 0] << np.uint64(32) | pairs[:, 1]) % np.uint64(span)
        return (drawn.astype(np.int64) + low).reshape(shape)

    @_atomic_draw
    def permutation(self, n: int) -> np.ndarray:
        """Return a random permutation of 0 to `n` - 1, by swapping each element with one at or after its position."""
        if _is_compiled(n):
            order = np.empty(n, np.int64)
            self._compiled_draw("permutation", n, n - 1, order)
            return order
        out = list(range(n))
        for i, word in enumerate(self.words(max(n - 1, 0)).tolist()):
            j = i + word % (n - i)
            out[i], out[j] = out[j], out[i]
        return np.array(out, np.int64)


def _state_memory(bits: np.random.MT19937) -> np.ndarray:
    """Return the memory of a twister's state: 624 words and the position, as uint32 [625]. `bits` must outlive it."""
    words = ctypes.c_uint32 * (_KEY_WORDS + 1)
    return np.ctypeslib.as_array(words.from_address(bits.ctypes.state_address))


@functools.cache
def _has_expected_state() -> bool:
    """Return whether the memory of NumPy's twister has the layout of `_state_memory`. NumPy does not document it."""
    bits = np.random.MT19937(1)
    bits.random_raw(1000)
    memory, twister = _state_memory(bits), bits.state["state"]
    return bool((memory[:_KEY_WORDS] == twister["key"]).all() and memory[_KEY_WORDS] == twister["pos"])


def _is_compiled(n: int) -> bool:
    """Return whether a compiled kernel draws `n` numbers."""
    return n >= MIN_COMPILED_NUMBERS and config.current().jit and _has_expected_state()


def _fused_multiply_add(u: np.ndarray, factor: float, offset: float) -> np.ndarray:
    """Return u * factor + offset, rounded once, as a fused multiply-add instruction does."""
    if (factor, offset) == (1.0, 0.0):
        return u
    if u.dtype == np.float32:
        return (u.astype(np.float64) * np.float64(np.float32(factor)) + np.float64(np.float32(offset))).astype(u.dtype)
    # The rounding errors of product and sum are computed exactly (Dekker 1971, Knuth) and added.
    product = u * factor
    (a, b), (c, d) = _split_mantissa(u), _split_mantissa(np.asarray(factor))
    error = ((a * c - product) + a * d + b * c) + b * d
    total = product + offset
    back = total - product
    rounded: np.ndarray = total + ((product - (total - back)) + (offset - back) + error)
    return rounded


def _split_mantissa(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two arrays of 26-bit numbers whose sum is `x`."""
    # Veltkamp's splitting: 2 ** 27 + 1.
    shifted = x * 134217729.0
    high = shifted - (shifted - x)
    return high, x - high


default_generator: Generator = Generator()
_scope_depth = 0


def resolve_generator(generator: Generator | None) -> Generator:
    """Return `generator`, or the default generator if it is None.

    Inside a generator scope, None gives a new generator, seeded by the default generator.
    """
    if generator is not None:
        return generator
    if not _scope_depth:
        return default_generator
    return Generator().manual_seed(int(default_generator.integers(0, sys.maxsize, ())))


def enter_scope() -> None:
    """Enter a generator scope: calls without a generator then use a new one, which the default generator seeds."""
    global _scope_depth
    _scope_depth += 1


def leave_scope() -> None:
    """Leave the innermost generator scope."""
    global _scope_depth
    _scope_depth -= 1


def manual_seed(seed: int) -> Generator:
    """Seed the default generator with `seed`, and return it.

    >>> import lazytensor as lt
    >>> _ = lt.manual_seed(0)
    >>> first = lt.rand(3)
    >>> _ = lt.manual_seed(0)
    >>> bool((lt.rand(3) == first).all())
    True
    """
    return default_generator.manual_seed(seed)
