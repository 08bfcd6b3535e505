"""New tensors: from data, filled, counted, random."""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazytensor import random
from lazytensor.core import dtype as dt
from lazytensor.core import source, storage
from lazytensor.core.allocation import require_memory
from lazytensor.core.autocast import half_type
from lazytensor.core.device import CPU, resolve_device
from lazytensor.core.dtype import DType
from lazytensor.core.shared_memory import SharedMemory, copy_values
from lazytensor.core.storage import Storage, new_storage, thread_state
from lazytensor.core.tensor import Tensor, default_device, detach_node, from_array, tensor_from_storage, wrap
from lazytensor.core.tensor_members import method
from lazytensor.errors import ArgumentInvalid, CountInvalid, LazyError, NumberTooLarge, OptionInvalid, ShapeError
from lazytensor.functional.random_state import draw_in_step, is_deferred, is_replayed, tensor_of_draws
from lazytensor.functional.type_promotion import default_dtype, prepare_stored, scalar_dtype
from lazytensor.ir.graph import Node, leaf
from lazytensor.ir.types import Type
from lazytensor.ops import call
from lazytensor.ops.elementwise import cast
from lazytensor.ops.op import full as splat


def put_on_device(t: Tensor, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A new tensor put on its device."""
    if device is None:
        # None means the device of the innermost `with torch.device(...)`, an explicit "cpu" does not.
        t.device = default_device()
    else:
        t.device = resolve_device(device)
    return t.requires_grad_() if requires_grad else t


def make_on_device(n: Node, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A new tensor with the value `n` on its device, as `put_on_device` puts it.

    Raises MemoryMissing as `wrap` does.
    """
    t = wrap(n, default_device() if device is None else resolve_device(device))
    return t.requires_grad_() if requires_grad else t


def _meta_tensor(shape: tuple[int, ...], dtype: DType, device: Any, requires_grad: bool = False) -> Tensor | None:
    """A tensor on the device "meta", for which nothing is drawn or computed; None on any other device.

    Raises MemoryMissing if the machine cannot hold the tensor.
    """
    target, t = default_device() if device is None else resolve_device(device), Type(shape, dtype)
    require_memory(t, target)
    return make_on_device(splat(0.0, t), target, requires_grad) if target.type == "meta" else None


def parse_size(size: tuple[Any, ...]) -> tuple[int, ...]:
    """The extents given as `f(2, 3)` or `f((2, 3))`. Raises ShapeError for a negative one."""
    # Size is a tuple, so that torch.zeros(x.shape) comes this way too.
    if len(size) == 1 and isinstance(size[0], Sequence):
        size = tuple(size[0])
    # Not int(), which would cut a fraction off.
    extents = tuple(map(operator.index, size))
    if extents and min(extents) < 0:
        raise ShapeError(f"a tensor cannot have the shape {list(extents)}", where=source.where())
    if extents and max(extents) >> 63:
        raise NumberTooLarge(f"a tensor cannot have the shape {list(extents)}", where=source.where())
    return extents


def tensor(data: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of `data`: a number, nested sequences, a NumPy array or a tensor, in the shape of the data.

    Raises ShapeError for sequences of unlike lengths, or of other things than numbers; ArgumentInvalid for a text.

    >>> import lazytensor as lt
    >>> lt.tensor([[1, 2], [3, 4]]).sum(0)
    tensor([4, 6])
    """
    if isinstance(data, Tensor):
        if device is None and data.device is not CPU is default_device():
            # Where it is, and without a question for its values: in a step there are none yet.
            copied = wrap(cast(detach_node(data.node), dtype or data.dtype), data.device)
            return copied.requires_grad_() if requires_grad else copied
        data, dtype = data.array("torch.tensor()"), dtype or data.dtype
    elif isinstance(data, Sequence | bool | int | float) and not isinstance(data, str | np.generic):
        data = _array_of_lists(data, dtype)
        # Python's floats take the default type; arrays and tensors keep their own.
        dtype = dtype or (default_dtype() if data.dtype.kind == "f" else None)
    elif data is None:
        raise ShapeError("Could not infer dtype of NoneType", where=source.where())
    elif isinstance(data, str):
        raise ArgumentInvalid("new(): invalid data type 'str'", where=source.where())
    array = np.asarray(data)
    result_dtype = dtype or dt.dtype_of_array(array)
    array = dt.round_to(array.astype(result_dtype.host), result_dtype)
    return put_on_device(from_array(array, result_dtype), device, requires_grad)


def _nested_extents(data: Any) -> list[int]:
    """The extents of nested lists as their first elements have them."""
    is_list = isinstance(data, list | tuple)
    return [len(data), *(_nested_extents(data[0]) if data else ())] if is_list else []


def _ragged_list_error(data: Any, extents: Sequence[int], dim: int = 0) -> LazyError | None:
    """The error about the first list that has another length or depth than those before."""
    if not isinstance(data, list | tuple):
        return ArgumentInvalid("not a sequence", where=source.where()) if extents else None
    if not extents:
        return ArgumentInvalid(
            f"'{type(data).__name__}' object cannot be interpreted as a number", where=source.where()
        )
    if len(data) != extents[0]:
        text = f"expected sequence of length {extents[0]} at dim {dim} (got {len(data)}): lists of different lengths"
        return CountInvalid(text, where=source.where())
    return next((e for v in data if (e := _ragged_list_error(v, extents[1:], dim + 1))), None)


def _array_of_lists(data: Any, dtype: DType | None) -> np.ndarray:
    if isinstance(data, bool | int | float):
        _refuse_overflow(data, data, dtype)
        # What an integer type wraps NumPy would refuse as a number, and casts as an array.
        is_whole = dtype is not None and dtype.kind == "i"
        return np.asarray(int(data)) if is_whole else np.asarray(data, (dtype or scalar_dtype(data)).host)
    # NumPy would ask a tensor inside a list for each of its elements, one by one.
    plain = [x.tolist() if isinstance(x, Tensor | np.ndarray) else x for x in data]
    try:
        array = np.array(plain)
    except ValueError as e:
        raise _ragged_list_error(data, _nested_extents(data)) or ShapeError(str(e), where=source.where()) from e
    if array.dtype == object:
        raise ShapeError("the nested sequences hold something else than numbers", where=source.where())
    if array.size and array.dtype.kind in "iuf":
        _refuse_overflow(array.min(), array.max(), dtype)
    # torch.tensor([]) is floating, which NumPy would make double.
    return array.astype(np.float32) if array.size == 0 and dtype is None else array


def _refuse_overflow(least: float, largest: float, dtype: DType | None) -> None:
    """Raises NumberTooLarge if an integer type was asked for that does not hold the numbers."""
    if dtype is not None and dtype.kind == "i" and not dt.can_hold(dtype, least, largest):
        text = f"value cannot be converted to type {dtype.name} without overflow"
        raise NumberTooLarge(text, where=source.where(), hint=f"The numbers go from {least} to {largest}.")


def as_tensor(data: Any, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """`data` as a tensor in its own shape; a tensor of the right dtype is returned as it is.

    Raises as `tensor` does.

    >>> import lazytensor as lt
    >>> lt.as_tensor([1, 2])
    tensor([1, 2])
    """
    if isinstance(data, Tensor) and dtype in (None, data.dtype):
        return data
    if isinstance(data, np.ndarray) and data.dtype.kind in "biuf":
        kind = dt.dtype_of_array(data)
        if dtype in (None, kind) and (default_device() if device is None else resolve_device(device)) is CPU:
            return from_numpy(data)
    return tensor(data, dtype=dtype, device=device)


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor that shares the array's memory: a change of either shows in the other, as `shared_memory_views` has it.

    Inside a step it is a copy. Raises TypeError for anything else than an array, ValueError for one with negative
    strides or in the byte order of another machine.

    >>> import numpy as np
    >>> import lazytensor as lt
    >>> lt.from_numpy(np.arange(3)) * 2
    tensor([0, 2, 4])
    """
    if not isinstance(array, np.ndarray):
        owner = "numpy." if isinstance(array, np.generic) else ""
        raise ArgumentInvalid(f"expected np.ndarray (got {owner}{type(array).__name__})", where=source.where())
    d = dt.dtype_of_array(array)
    if any(s < 0 for s in array.strides):
        raise OptionInvalid(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array with "
            "array.copy().)",
            where=source.where(),
        )
    if not array.dtype.isnative:
        raise OptionInvalid(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is "
            "currently not supported.",
            where=source.where(),
        )
    t = Type(array.shape, d)
    if thread_state.current is not None or storage.is_abstract or not array.size:
        return tensor_from_storage(new_storage(leaf(copy_values(array, d), t)))
    return tensor_from_storage(Storage.from_store(SharedMemory(array, t), t))


def tensor_over_array(array: np.ndarray) -> Tensor:
    """A tensor over an array that nothing else refers to, and that is not written to any more: no copy is made."""
    d = dt.dtype_of_array(array)
    return tensor_from_storage(
        new_storage(leaf(array if array.dtype == d.host else array.astype(d.host), Type(array.shape, d)))
    )


def full(
    size: Any, fill_value: float, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of the shape `size` with one value everywhere. Raises ShapeError for a negative extent.

    >>> import lazytensor as lt
    >>> lt.full((2,), 7)
    tensor([7, 7])
    """
    shape = parse_size((size,) if isinstance(size, int) else tuple(size))
    value = fill_value.item() if isinstance(fill_value, Tensor | np.generic) else fill_value
    return make_on_device(prepare_stored(value, dtype or scalar_dtype(value), shape), device, requires_grad)


def zeros(
    *args: Any,
    size: Any = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    **_: Any,
) -> Tensor:
    """A tensor of zeros: zeros(2, 3) or zeros((2, 3)). Raises ShapeError for a negative extent.

    >>> import lazytensor as lt
    >>> lt.zeros(2)
    tensor([0., 0.])
    """
    shape = parse_size(args if size is None else (size,))
    # Each parameter of a model begins so, and every type holds zero: the number needs no look, as it does in `full`.
    return make_on_device(splat(0.0, Type(shape, dtype or default_dtype())), device, requires_grad)


def ones(
    *args: Any,
    size: Any = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    **_: Any,
) -> Tensor:
    """A tensor of ones: ones(2, 3) or ones((2, 3)). Raises ShapeError for a negative extent.

    >>> import lazytensor as lt
    >>> lt.ones(2, dtype=lt.int64)
    tensor([1, 1])
    """
    shape = parse_size(args if size is None else (size,))
    return full(shape, 1.0, dtype=dtype or default_dtype(), device=device, requires_grad=requires_grad)


def empty(
    *args: Any,
    size: Any = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    **_: Any,
) -> Tensor:
    """A tensor whose values nobody promises; here they are zeros. Raises ShapeError for a negative extent.

    >>> import lazytensor as lt
    >>> lt.empty(2, 3).shape
    lazytensor.Size([2, 3])
    """
    return zeros(*args, size=size, dtype=dtype, device=device, requires_grad=requires_grad)


def full_like(x: Tensor, fill_value: float, *, dtype: DType | None = None, device: Any = None, **_: Any) -> Tensor:
    """A tensor of one value with the shape, dtype and device of x.

    >>> import lazytensor as lt
    >>> lt.full_like(lt.ones(2), 7)
    tensor([7., 7.])
    """
    return full(x.spec.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device)


def zeros_like(x: Tensor, *, dtype: DType | None = None, device: Any = None, **_: Any) -> Tensor:
    """Zeros with the shape, dtype and device of x.

    >>> import lazytensor as lt
    >>> lt.zeros_like(lt.tensor([5, 6]))
    tensor([0, 0])
    """
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Tensor, *, dtype: DType | None = None, device: Any = None, **_: Any) -> Tensor:
    """Ones with the shape, dtype and device of x.

    >>> import lazytensor as lt
    >>> lt.ones_like(lt.tensor([5, 6]))
    tensor([1, 1])
    """
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: Tensor, *, dtype: DType | None = None, device: Any = None, **_: Any) -> Tensor:
    """A tensor with the shape, dtype and device of x whose values nobody promises.

    >>> import lazytensor as lt
    >>> lt.empty_like(lt.ones(2, 3)).shape
    lazytensor.Size([2, 3])
    """
    return zeros_like(x, dtype=dtype, device=device)


def _python_scalar(value: Any) -> Any:
    """A number, or the one that a tensor holds."""
    return value.item() if isinstance(value, Tensor) else value


def arange(
    start: float = 0,
    end: float | None = None,
    step: float = 1,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """start, start + step, ... below end, [n]; with one argument 0, 1, ... below it.

    Raises ShapeError for a step of 0 or away from the end.

    >>> import lazytensor as lt
    >>> lt.arange(1, 8, 3)
    tensor([1, 4, 7])
    """
    start, end, step = (_python_scalar(v) for v in ((0, start, step) if end is None else (start, end, step)))
    if step == 0 or (end - start) / step < 0:
        raise ShapeError(f"arange from {start} to {end} cannot go in steps of {step}", where=source.where())
    # One float among the three makes the result floating, even if its value is whole.
    integral = all(isinstance(v, int | np.integer) for v in (start, end, step))
    result_dtype = dtype or (dt.int64 if integral else default_dtype())
    shape = (math.ceil((end - start) / step),)
    return make_on_device(call("arange", start=start, step=step, type=Type(shape, result_dtype)), device, requires_grad)


def linspace(
    start: float,
    end: float,
    steps: int,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` values from start to end, both included: [steps]. Raises ShapeError for a negative count.

    >>> import lazytensor as lt
    >>> lt.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    steps = operator.index(steps)
    if steps < 0:
        raise ShapeError(f"number of steps must be non-negative, got {steps}", where=source.where())
    for end_point in (start, end):
        if isinstance(end_point, Tensor) and end_point.ndim:
            raise ShapeError(f"linspace takes 0-dimensional ends, got {end_point.spec}", where=source.where())
    start, end = _python_scalar(start), _python_scalar(end)
    result_dtype = dtype or default_dtype()
    if (absent := _meta_tensor((steps,), result_dtype, device, requires_grad)) is not None:
        return absent
    working = result_dtype.host.type if result_dtype.kind == "f" else np.float64
    # Computed in the type of the result, as PyTorch does; integers in double.
    step = (working(end) - working(start)) / working(max(steps - 1, 1))
    i = np.arange(steps)
    # Counted from the nearer end, so that both ends are exact.
    up = working(start) + i.astype(working) * step
    down = working(end) - (steps - 1 - i).astype(working) * step
    values = np.where(i < steps // 2, up, down) if steps > 1 else np.full(steps, start, working)
    return tensor(values.astype(working), dtype=result_dtype, device=device, requires_grad=requires_grad)


def logspace(
    start: float,
    end: float,
    steps: int,
    base: float = 10.0,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """base to the powers of `linspace(start, end, steps)`: [steps]. Raises ShapeError for a negative count.

    >>> import lazytensor as lt
    >>> lt.logspace(0, 3, 4)
    tensor([   1.,   10.,  100., 1000.])
    """
    result_dtype = dtype or default_dtype()
    exponents = linspace(start, end, steps, dtype=result_dtype if result_dtype.kind == "f" else dt.float64).array()
    powers = np.power(np.float64(base), exponents.astype(np.float64))
    return tensor(powers, dtype=result_dtype, device=device, requires_grad=requires_grad)


def eye(
    n: int, m: int | None = None, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Ones on the diagonal, zeros elsewhere: [n, m] or [n, n]. Raises ShapeError for a negative extent.

    >>> import lazytensor as lt
    >>> lt.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    if min(n, n if m is None else m) < 0:
        raise ShapeError(f"n and m must be greater or equal to 0, got {n} and {m}", where=source.where())
    absent = _meta_tensor((n, n if m is None else m), dtype or default_dtype(), device, requires_grad)
    if absent is not None:
        return absent
    return tensor(np.eye(n, m), dtype=dtype or default_dtype(), device=device, requires_grad=requires_grad)


def rand(
    *given: Any,
    size: Any = None,
    dtype: DType | None = None,
    device: Any = None,
    generator: random.Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform random numbers in [0, 1) of the shape `size`. Raises ShapeError for a negative extent.

    >>> import lazytensor as lt
    >>> lt.rand(2, 3).shape
    lazytensor.Size([2, 3])
    """
    result_dtype, shape = dtype or default_dtype(), parse_size(given if size is None else (size,))
    # The front end prints the shape of torch.rand as unknown.
    attrs = {} if half_type() is None else {"is_open": True}
    # In a step the numbers are a node, drawn anew by each replay; a generator of the user's is drawn from at once.
    if generator is None and (is_replayed() or is_deferred(shape)):
        return put_on_device(draw_in_step("random_uniform", shape, result_dtype, **attrs), device, requires_grad)
    if (absent := _meta_tensor(shape, result_dtype, device, requires_grad)) is not None:
        return absent
    # The vendor's scope overlooks this one form, with several extents by place.
    plain = random.default_generator if len(given) > 1 else None
    values = random.resolve_generator(generator or plain).uniform(shape, result_dtype)
    return put_on_device(tensor_of_draws(values, result_dtype), device, requires_grad)


def randn(
    *given: Any,
    size: Any = None,
    dtype: DType | None = None,
    device: Any = None,
    generator: random.Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal random numbers of mean 0 and deviation 1, of the shape `size`. Raises ShapeError for a negative extent.

    >>> import lazytensor as lt
    >>> lt.randn(2, 3).shape
    lazytensor.Size([2, 3])
    """
    result_dtype, shape = dtype or default_dtype(), parse_size(given if size is None else (size,))
    if generator is None and (is_replayed() or is_deferred(shape)):
        return put_on_device(draw_in_step("random_normal", shape, result_dtype), device, requires_grad)
    if (absent := _meta_tensor(shape, result_dtype, device, requires_grad)) is not None:
        return absent
    values = random.resolve_generator(generator).normal(shape, result_dtype)
    return put_on_device(tensor_of_draws(values, result_dtype), device, requires_grad)


def randint(
    *bounds: Any,
    low: int = 0,
    high: int | None = None,
    size: Sequence[int] | None = None,
    generator: random.Generator | None = None,
    dtype: DType = dt.int64,
    device: Any = None,
) -> Tensor:
    """Random integers in low..high - 1: randint(high, size) or randint(low, high, size), or by name.

    Raises TypeError if high or size is missing.

    >>> import lazytensor as lt
    >>> lt.randint(0, 10, (2, 3)).dtype
    lazytensor.int64
    """
    # Read from the end: the size is last, and only the first of three bounds is the lower one.
    positional = list(bounds)
    if size is None and positional:
        size = positional.pop()
    if high is None and positional:
        high = positional.pop()
    if positional:
        low = positional.pop()
    if high is None or size is None or positional:
        raise ArgumentInvalid("randint() takes high and size, or low, high and size", where=source.where())
    if generator is None and is_replayed() and low < high:
        return put_on_device(
            draw_in_step("random_integers", parse_size((size,)), dtype, low=low, high=high, is_open=True), device
        )
    if (absent := _meta_tensor(parse_size((size,)), dtype, device)) is not None:
        return absent
    values = random.resolve_generator(generator).integers(low, high, parse_size((size,)))
    return put_on_device(tensor_of_draws(values.astype(dtype.host), dtype), device)


def randperm(
    n: int, *, generator: random.Generator | None = None, dtype: DType = dt.int64, device: Any = None
) -> Tensor:
    """A random order of 0..n - 1: [n].

    >>> import lazytensor as lt
    >>> lt.sort(lt.randperm(4)).values
    tensor([0, 1, 2, 3])
    """
    if (absent := _meta_tensor((max(n, 0),), dtype, device)) is not None:
        return absent
    return put_on_device(
        tensor_of_draws(random.resolve_generator(generator).permutation(n).astype(dtype.host), dtype), device
    )


def rand_like(x: Tensor) -> Tensor:
    """Uniform random numbers with the shape and dtype of x.

    >>> import lazytensor as lt
    >>> lt.rand_like(lt.ones(2, 3)).shape
    lazytensor.Size([2, 3])
    """
    if is_replayed():
        return put_on_device(draw_in_step("random_uniform", x.spec.shape, x.dtype), x.device)
    return rand(x.spec.shape, dtype=x.dtype, device=x.device)


def randn_like(x: Tensor) -> Tensor:
    """Normal random numbers with the shape and dtype of x.

    >>> import lazytensor as lt
    >>> lt.randn_like(lt.ones(2, 3)).shape
    lazytensor.Size([2, 3])
    """
    return randn(x.spec.shape, dtype=x.dtype, device=x.device)


def _make_new_method(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def new(x: Tensor, *args: Any, dtype: DType | None = None, device: Any = None, **kwargs: Any) -> Tensor:
        return function(*args, dtype=dtype or x.dtype, device=device or x.device, **kwargs)

    new.__name__ = new.__qualname__ = f"new_{function.__name__}"
    new.__doc__ = f"As `{function.__name__}`, in the type and on the device of this tensor unless others are given."
    return method(new)


new_zeros, new_ones, new_full = _make_new_method(zeros), _make_new_method(ones), _make_new_method(full)
new_empty, new_tensor = _make_new_method(empty), _make_new_method(tensor)


def scalar_tensor(
    s: float, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False, **_: Any
) -> Tensor:
    """A number as a tensor without dimensions, in the default type unless another is given.

    >>> import lazytensor as lt
    >>> lt.scalar_tensor(2.5)
    tensor(2.5000)
    """
    return tensor(s, dtype=dtype or default_dtype(), device=device, requires_grad=requires_grad)
