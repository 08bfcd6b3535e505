"""Functions that create tensors: from data, filled with a value, from a range, and random."""

import inspect
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
from lazytensor.functional.creation_options import accept_creation_options
from lazytensor.functional.random_state import draw_in_step, is_deferred, is_replayed, tensor_of_draws
from lazytensor.functional.type_promotion import default_dtype, prepare_stored, scalar_dtype
from lazytensor.ir.graph import Node, leaf
from lazytensor.ir.types import Type
from lazytensor.ops import call
from lazytensor.ops.elementwise import cast
from lazytensor.ops.op import full as splat


def put_on_device(t: Tensor, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Set the device of the new tensor `t`, optionally make it require a gradient, and return it.

    If `device` is None, the device of the innermost `with torch.device(...)` block is used, else the CPU.
    """
    if device is None:
        # None means the device of the innermost `with torch.device(...)`, an explicit "cpu" does not.
        t.device = default_device()
    else:
        t.device = resolve_device(device)
    return t.requires_grad_() if requires_grad else t


def make_on_device(n: Node, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a new tensor with the value of node `n` on `device`, or on the default device if `device` is None.

    Raises MemoryMissing if the device cannot hold the tensor.
    """
    t = wrap(n, default_device() if device is None else resolve_device(device))
    return t.requires_grad_() if requires_grad else t


def _meta_tensor(shape: tuple[int, ...], dtype: DType, device: Any, requires_grad: bool = False) -> Tensor | None:
    """Return a tensor without values if `device` is "meta", else None.

    Callers use it to skip drawing or computing values. `device` None stands for the default device. Raises
    MemoryMissing if the device cannot hold the tensor.
    """
    target, t = default_device() if device is None else resolve_device(device), Type(shape, dtype)
    require_memory(t, target)
    return make_on_device(splat(0.0, t), target, requires_grad) if target.type == "meta" else None


def parse_size(size: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the shape given as separate integers `f(2, 3)` or as one sequence `f((2, 3))`, as a tuple.

    Raises ShapeError for a negative extent, NumberTooLarge for one of more than 63 bits, and TypeError for one that is
    not an integer.
    """
    # `x.shape` is a tuple, so it is accepted too.
    if len(size) == 1 and isinstance(size[0], Sequence):
        size = tuple(size[0])
    # `int()` would silently truncate a fraction.
    extents = tuple(map(operator.index, size))
    if extents and min(extents) < 0:
        raise ShapeError(
            f"a tensor cannot have the shape {list(extents)}", where=source.where(), hint="Pass sizes of at least 0."
        )
    if extents and max(extents) >> 63:
        raise NumberTooLarge(
            f"a tensor cannot have the shape {list(extents)}", where=source.where(), hint="Reduce the sizes."
        )
    return extents


def tensor(data: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a new tensor with a copy of `data`: a number, nested sequences of numbers, a NumPy array or a tensor.

    - `dtype`: by default that of an array or tensor; the default dtype for Python floats, int64 for integers, bool for
      bools.
    - `device`: the default device if None. A tensor on another device than the CPU keeps its device.
    - `requires_grad`: whether the result requires a gradient. The result never keeps the autograd history of `data`.

    Raises ShapeError if nested sequences have different lengths or contain other objects than numbers, and for None.
    Raises ArgumentInvalid (a TypeError) for a string, and NumberTooLarge if an integer `dtype` cannot hold a number.
    Raises TraceError for a CPU tensor without a value inside a compiled step.

    >>> import lazytensor as lt
    >>> lt.tensor([[1, 2], [3, 4]]).sum(0)
    tensor([4, 6])
    """
    if isinstance(data, Tensor):
        if device is None and data.device is not CPU is default_device():
            # The copy stays on the device and is recorded, since a step has no values yet.
            copied = wrap(cast(detach_node(data.node), dtype or data.dtype), data.device)
            return copied.requires_grad_() if requires_grad else copied
        data, dtype = data.array("torch.tensor()"), dtype or data.dtype
    elif isinstance(data, Sequence | bool | int | float) and not isinstance(data, str | np.generic):
        data = _array_of_lists(data, dtype)
        # Python floats get the default dtype; arrays and tensors keep theirs.
        dtype = dtype or (default_dtype() if data.dtype.kind == "f" else None)
    elif data is None:
        raise ShapeError(
            "Could not infer dtype of NoneType", where=source.where(), hint="Remove the None from the data."
        )
    elif isinstance(data, str):
        raise ArgumentInvalid(
            "new(): invalid data type 'str'",
            where=source.where(),
            hint="Pass a list of numbers, or convert the text first.",
        )
    array = np.asarray(data)
    result_dtype = dtype or dt.dtype_of_array(array)
    array = dt.round_to(array.astype(result_dtype.host), result_dtype)
    return put_on_device(from_array(array, result_dtype), device, requires_grad)


def _nested_extents(data: Any) -> list[int]:
    """Return the shape of nested lists or tuples, read from the first element of each level; [] for other objects."""
    is_list = isinstance(data, list | tuple)
    return [len(data), *(_nested_extents(data[0]) if data else ())] if is_list else []


def _ragged_list_error(data: Any, extents: Sequence[int], dim: int = 0) -> LazyError | None:
    """Return the error for the first nested list of another length or depth than `extents`; None if all match.

    It is CountInvalid for another length and ArgumentInvalid for another depth. `dim` is the dimension that
    `extents[0]` belongs to.
    """
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
    """Return a number or nested sequences of numbers as an array. Errors are those of `tensor`.

    A number gets the host type of `dtype`, or of its default if None; for an integer `dtype` it is truncated to an
    integer. Sequences get NumPy's type, whatever `dtype` is; an empty one without `dtype` gets float32.
    """
    if isinstance(data, bool | int | float):
        _refuse_overflow(data, data, dtype)
        # NumPy refuses to create an integer array from a number out of range, and wraps the number when it casts an
        # array.
        is_whole = dtype is not None and dtype.kind == "i"
        return np.asarray(int(data)) if is_whole else np.asarray(data, (dtype or scalar_dtype(data)).host)
    # NumPy would read a tensor inside a list element by element.
    plain = [x.tolist() if isinstance(x, Tensor | np.ndarray) else x for x in data]
    try:
        array = np.array(plain)
    except ValueError as e:
        raise _ragged_list_error(data, _nested_extents(data)) or ShapeError(str(e), where=source.where()) from e
    if array.dtype == object:
        raise ShapeError(
            "the nested sequences have an element that is not a number",
            where=source.where(),
            hint="Pass only numbers in nested sequences of equal lengths.",
        )
    if array.size and array.dtype.kind in "iuf":
        _refuse_overflow(array.min(), array.max(), dtype)
    # `torch.tensor([])` is float32, while NumPy gives float64.
    return array.astype(np.float32) if array.size == 0 and dtype is None else array


def _refuse_overflow(least: float, largest: float, dtype: DType | None) -> None:
    """Raise NumberTooLarge if `dtype` is an integer type that cannot hold `least` or `largest`."""
    if dtype is not None and dtype.kind == "i" and not dt.can_hold(dtype, least, largest):
        text = f"value cannot be converted to type {dtype.name} without overflow"
        raise NumberTooLarge(
            text, where=source.where(), hint=f"Use a dtype that holds numbers from {least} to {largest}."
        )


def as_tensor(data: Any, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Return `data` as a tensor in its shape. A tensor is converted as by `to`: itself if nothing changes.

    A NumPy array on the CPU without conversion shares its memory with the result. Other data is copied, and errors are
    raised, as by `tensor`.

    >>> import lazytensor as lt
    >>> lt.as_tensor([1, 2])
    tensor([1, 2])
    """
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    if isinstance(data, np.ndarray) and data.dtype.kind in "biuf":
        kind = dt.dtype_of_array(data)
        if dtype in (None, kind) and (default_device() if device is None else resolve_device(device)) is CPU:
            return from_numpy(data)
    return tensor(data, dtype=dtype, device=device)


def from_numpy(array: np.ndarray) -> Tensor:
    """Return a tensor that shares the memory of `array`: a write to one shows in the other.

    Inside a step, and for an array without elements, the values are copied. Raises ArgumentInvalid (a TypeError) if
    `array` is not an array. Raises OptionInvalid (a ValueError) for negative strides and for a byte order that is not
    the machine's.

    >>> import numpy as np
    >>> import lazytensor as lt
    >>> lt.from_numpy(np.arange(3)) * 2
    tensor([0, 2, 4])
    """
    if not isinstance(array, np.ndarray):
        owner = "numpy." if isinstance(array, np.generic) else ""
        raise ArgumentInvalid(
            f"expected np.ndarray (got {owner}{type(array).__name__})",
            where=source.where(),
            hint="Convert the object first, for example with numpy.asarray(x).",
        )
    d = dt.dtype_of_array(array)
    if any(s < 0 for s in array.strides):
        raise OptionInvalid(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array with "
            "array.copy().)",
            where=source.where(),
            hint="Pass array.copy().",
        )
    if not array.dtype.isnative:
        raise OptionInvalid(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is "
            "currently not supported.",
            where=source.where(),
            hint='Convert it: array.astype(array.dtype.newbyteorder("=")).',
        )
    t = Type(array.shape, d)
    if thread_state.current is not None or storage.is_abstract or not array.size:
        return tensor_from_storage(new_storage(leaf(copy_values(array, d), t)))
    return tensor_from_storage(Storage.from_store(SharedMemory(array, t), t))


def tensor_over_array(array: np.ndarray) -> Tensor:
    """Return a tensor that uses `array` as its value without a copy.

    The caller must not write to `array` afterwards. It is copied only if its dtype has another host representation.
    """
    d = dt.dtype_of_array(array)
    return tensor_from_storage(
        new_storage(leaf(array if array.dtype == d.host else array.astype(d.host), Type(array.shape, d)))
    )


def full(
    size: Any, fill_value: float, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of shape `size` filled with `fill_value`.

    `size` is an integer or a sequence. The dtype defaults to that of the number: bool, int64 or the default dtype.
    Raises ShapeError for a negative extent and NumberTooLarge if the dtype cannot hold the number.

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
) -> Tensor:
    """Return a tensor of zeros: `zeros(2, 3)`, `zeros((2, 3))` or `zeros(size=(2, 3))`.

    The dtype defaults to the default dtype. Raises ShapeError for a negative extent.

    >>> import lazytensor as lt
    >>> lt.zeros(2)
    tensor([0., 0.])
    """
    shape = parse_size(args if size is None else (size,))
    # Models call this often, and every dtype can hold zero, so the checks of `full` are skipped.
    return make_on_device(splat(0.0, Type(shape, dtype or default_dtype())), device, requires_grad)


def ones(
    *args: Any,
    size: Any = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of ones: `ones(2, 3)`, `ones((2, 3))` or `ones(size=(2, 3))`.

    The dtype defaults to the default dtype. Raises ShapeError for a negative extent.

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
) -> Tensor:
    """Return a tensor with unspecified values: `empty(2, 3)`, `empty((2, 3))` or `empty(size=(2, 3))`.

    The values are zeros here. The dtype defaults to the default dtype. Raises
    ShapeError for a negative extent.

    >>> import lazytensor as lt
    >>> lt.empty(2, 3).shape
    lazytensor.Size([2, 3])
    """
    return zeros(*args, size=size, dtype=dtype, device=device, requires_grad=requires_grad)


def full_like(x: Tensor, fill_value: float, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Return a tensor filled with `fill_value`, with the shape of `x` and, by default, its dtype and device.

    >>> import lazytensor as lt
    >>> lt.full_like(lt.ones(2), 7)
    tensor([7., 7.])
    """
    return full(x.spec.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device)


def zeros_like(x: Tensor, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Return a tensor of zeros with the shape of `x` and, by default, its dtype and device.

    >>> import lazytensor as lt
    >>> lt.zeros_like(lt.tensor([5, 6]))
    tensor([0, 0])
    """
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Tensor, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Return a tensor of ones with the shape of `x` and, by default, its dtype and device.

    >>> import lazytensor as lt
    >>> lt.ones_like(lt.tensor([5, 6]))
    tensor([1, 1])
    """
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: Tensor, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Return a tensor with unspecified values and the shape of `x` and, by default, its dtype and device.

    The values are zeros here.

    >>> import lazytensor as lt
    >>> lt.empty_like(lt.ones(2, 3)).shape
    lazytensor.Size([2, 3])
    """
    return zeros_like(x, dtype=dtype, device=device)


def _python_scalar(value: Any) -> Any:
    """Return the number that a one-element tensor holds; any other value unchanged."""
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
    """Return the vector start, start + step, ... of all values before `end`.

    With one argument the values are 0, 1, ... before it. There are ceil((end - start) / step) values. The dtype
    defaults to int64 if all three numbers are integers, else to the default dtype. Raises ShapeError if `step` is 0 or
    has the wrong sign.

    >>> import lazytensor as lt
    >>> lt.arange(1, 8, 3)
    tensor([1, 4, 7])
    """
    start, end, step = (_python_scalar(v) for v in ((0, start, step) if end is None else (start, end, step)))
    if step == 0 or (end - start) / step < 0:
        raise ShapeError(
            f"arange cannot go from {start} to {end} in steps of {step}",
            where=source.where(),
            hint="Choose a step other than 0 with the sign of end - start.",
        )
    # One float among the three makes the result floating-point, even if its value is an integer.
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
    """Return a vector of `steps` evenly spaced values from `start` to `end`, both included.

    One step gives `start`, and none an empty vector. The dtype defaults to the default dtype; an integer dtype
    truncates the values. Raises ShapeError if `steps` is negative, or if `start` or `end` is a tensor with dimensions.

    >>> import lazytensor as lt
    >>> lt.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    steps = operator.index(steps)
    if steps < 0:
        raise ShapeError(
            f"number of steps must be non-negative, got {steps}",
            where=source.where(),
            hint="Pass a number of steps of at least 0.",
        )
    for end_point in (start, end):
        if isinstance(end_point, Tensor) and end_point.ndim:
            raise ShapeError(
                f"linspace expects a start and an end without dimensions, but got {end_point.spec}",
                where=source.where(),
                hint="Pass numbers or 0-d tensors.",
            )
    start, end = _python_scalar(start), _python_scalar(end)
    result_dtype = dtype or default_dtype()
    if (absent := _meta_tensor((steps,), result_dtype, device, requires_grad)) is not None:
        return absent
    working = result_dtype.host.type if result_dtype.kind == "f" else np.float64
    # Computed in the type of the result, as PyTorch does; integers in double.
    step = (working(end) - working(start)) / working(max(steps - 1, 1))
    i = np.arange(steps)
    # Each half is computed from its nearer end, so that both ends are exact.
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
    """Return `base` raised to the values of `linspace(start, end, steps)`, as a vector of `steps` elements.

    The dtype defaults to the default dtype. Raises ShapeError if `steps` is negative.

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
    """Return a matrix [n, m], or [n, n] if `m` is None, with ones on the main diagonal and zeros elsewhere.

    The dtype defaults to the default dtype. Raises ShapeError for a negative extent.

    >>> import lazytensor as lt
    >>> lt.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    if min(n, n if m is None else m) < 0:
        raise ShapeError(
            f"n and m must be greater or equal to 0, got {n} and {m}",
            where=source.where(),
            hint="Pass sizes of at least 0.",
        )
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
    """Return a tensor of random numbers from the uniform distribution on [0, 1): `rand(2, 3)`, `rand((2, 3))`.

    The numbers come from `generator`, or from the default generator. In a compiled step without `generator` they are
    recorded as an operation, so each execution of the step draws new ones. Raises ShapeError for a negative extent.

    >>> import lazytensor as lt
    >>> lt.rand(2, 3).shape
    lazytensor.Size([2, 3])
    """
    result_dtype, shape = dtype or default_dtype(), parse_size(given if size is None else (size,))
    # The vendor's front end prints the shape of torch.rand as unknown.
    attrs = {} if half_type() is None else {"is_open": True}
    # In a compiled step the numbers are a node that each replay draws again; a generator from the user is drawn from
    # now.
    if generator is None and (is_replayed() or is_deferred(shape)):
        return put_on_device(draw_in_step("random_uniform", shape, result_dtype, **attrs), device, requires_grad)
    if (absent := _meta_tensor(shape, result_dtype, device, requires_grad)) is not None:
        return absent
    # The vendor's generator scope does not apply to this form, with several integers as the shape.
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
    """Return a tensor of random numbers from the normal distribution with mean 0 and variance 1.

    `randn(2, 3)` and `randn((2, 3))` give the shape. The numbers come from `generator`, or from the default generator.
    In a compiled step without `generator` each execution draws new ones. Raises ShapeError for a negative extent.

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
    """Return a tensor of random integers from `low` to `high` - 1.

    Call it as `randint(high, size)`, `randint(low, high, size)` or with keywords. The numbers come from `generator`, or
    from the default generator. In a compiled step without `generator` each execution draws new ones. Raises
    ArgumentInvalid (a TypeError) if `high` or `size` is missing.

    >>> import lazytensor as lt
    >>> lt.randint(0, 10, (2, 3)).dtype
    lazytensor.int64
    """
    # Parsed from the end: the size is last, and `low` is given only with three arguments.
    positional = list(bounds)
    if size is None and positional:
        size = positional.pop()
    if high is None and positional:
        high = positional.pop()
    if positional:
        low = positional.pop()
    if high is None or size is None or positional:
        raise ArgumentInvalid(
            f"randint() expects high and size, or low, high and size, but got {high} and {size}",
            where=source.where(),
            hint="Write randint(low, high, size).",
        )
    if generator is None and is_replayed() and low < high:
        return put_on_device(
            draw_in_step("random_integers", parse_size((size,)), dtype, low=low, high=high, is_open=True), device
        )
    if (absent := _meta_tensor(parse_size((size,)), dtype, device)) is not None:
        return absent
    values = random.resolve_generator(generator).integers(low, high, parse_size((size,)))
    return put_on_device(tensor_of_draws(values.astype(dtype.host, copy=False), dtype), device)


def randperm(
    n: int, *, generator: random.Generator | None = None, dtype: DType = dt.int64, device: Any = None
) -> Tensor:
    """Return a random permutation of the integers 0 to `n` - 1, as a vector [n].

    The numbers are drawn now, also in a compiled step, from `generator` or the default generator.

    >>> import lazytensor as lt
    >>> lt.sort(lt.randperm(4)).values
    tensor([0, 1, 2, 3])
    """
    if (absent := _meta_tensor((max(n, 0),), dtype, device)) is not None:
        return absent
    order = random.resolve_generator(generator).permutation(n)
    return put_on_device(tensor_of_draws(order.astype(dtype.host, copy=False), dtype), device)


def rand_like(
    x: Tensor, *, dtype: DType | None = None, device: Any = None, generator: random.Generator | None = None
) -> Tensor:
    """Return uniform random numbers in [0, 1) with the shape of `x` and, by default, its dtype and device.

    They come from `generator`, or from the default generator. In a compiled step without `generator` each execution
    draws new ones.

    >>> import lazytensor as lt
    >>> lt.rand_like(lt.ones(2, 3)).shape
    lazytensor.Size([2, 3])
    """
    dtype, device = dtype or x.dtype, x.device if device is None else device
    if is_replayed() and generator is None:
        return put_on_device(draw_in_step("random_uniform", x.spec.shape, dtype), device)
    return rand(x.spec.shape, dtype=dtype, device=device, generator=generator)


def randn_like(
    x: Tensor, *, dtype: DType | None = None, device: Any = None, generator: random.Generator | None = None
) -> Tensor:
    """Return normal random numbers (mean 0, variance 1) with the shape of `x` and, by default, its dtype and device.

    They come from `generator`, or from the default generator.

    >>> import lazytensor as lt
    >>> lt.randn_like(lt.ones(2, 3)).shape
    lazytensor.Size([2, 3])
    """
    return randn(
        x.spec.shape, dtype=dtype or x.dtype, device=x.device if device is None else device, generator=generator
    )


def _make_new_method(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    created = accept_creation_options(function, inspect.signature(function).parameters)

    def new(x: Tensor, *args: Any, dtype: DType | None = None, device: Any = None, **kwargs: Any) -> Tensor:
        return created(*args, dtype=dtype or x.dtype, device=device or x.device, **kwargs)

    new.__name__ = new.__qualname__ = f"new_{function.__name__}"
    new.__doc__ = (
        f"Return `{function.__name__}` of the other arguments, with the dtype and the device of this tensor.\n\n"
        f"`dtype` and `device` replace those of the tensor if they are given. The other arguments are those of "
        f"`{function.__name__}`."
    )
    return method(new)


new_zeros, new_ones, new_full = _make_new_method(zeros), _make_new_method(ones), _make_new_method(full)
new_empty, new_tensor = _make_new_method(empty), _make_new_method(tensor)


def scalar_tensor(s: float, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return the number `s` as a 0-d tensor. The dtype defaults to the default dtype, also for integers.

    >>> import lazytensor as lt
    >>> lt.scalar_tensor(2.5)
    tensor(2.5000)
    """
    return tensor(s, dtype=dtype or default_dtype(), device=device, requires_grad=requires_grad)
