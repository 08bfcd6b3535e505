"""Members of Tensor that only PyTorch scripts need: compositions, no-ops and refusals.

Importing this module attaches them to Tensor. Members that lazytensor defines are not replaced.
"""

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from cstorch_compat.torch import sparse
from cstorch_compat.torch import storage as tensor_memory
from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core.dtype import DType
from lazytensor.core.storage import new_storage
from lazytensor.core.tensor import Tensor, from_array, grad_mode, tensor_from_storage, tensor_of_class
from lazytensor.core.tensor_members import member_marks, method, tensor_property
from lazytensor.errors import AutogradError, OperandInvalid, ShapeError
from lazytensor.functional import linalg, strided_views, views
from lazytensor.functional.attach_members import build_members
from lazytensor.functional.creation import empty, tensor

NO_DEVICE_MESSAGE = "Torch not compiled with {} enabled"


def _make_false_method(name: str) -> Callable[[Tensor], bool]:
    def never(x: Tensor) -> bool:
        return False

    never.__name__ = never.__qualname__ = name
    never.__doc__ = "Return False, because no tensor here has such a device, layout or flag."
    return never


for _name in """is_xpu is_mps is_ipu is_maia is_mtia is_hpu is_vulkan is_xla is_mkldnn is_nested is_sparse_csr
        volatile""".split():
    globals()[_name] = tensor_property()(_make_false_method(_name))


@tensor_property()
def is_cpu(x: Tensor) -> bool:
    """Return whether the tensor is on the CPU."""
    return x.device.type == "cpu"


@tensor_property()
def name(x: Tensor) -> None:
    """Return None: tensors have no names."""


@tensor_property()
def output_nr(x: Tensor) -> int:
    """Return 0."""
    return 0


@tensor_property()
def real(x: Tensor) -> Tensor:
    """Return the tensor itself, because complex numbers are not supported."""
    return x


@method
def get_device(x: Tensor) -> int:
    """Return -1, the device index of the CPU."""
    return -1


@method
def is_inference(x: Tensor) -> bool:
    """Return whether the storage of `x` was created in inference mode."""
    return x.cell.is_inference


@method
def is_distributed(x: Tensor) -> bool:
    """Return False."""
    return False


@method
def is_shared(x: Tensor) -> bool:
    """Return whether `share_memory_` was called on this tensor."""
    return bool(x.__dict__.get("_is_shared"))


@method
def share_memory_(x: Tensor) -> Tensor:
    """Mark the tensor as shared, and return it. A process started with it returns its changes to the tensor."""
    x.__dict__["_is_shared"] = True
    return x


def _make_refusing_move(device: str) -> Callable[..., Tensor]:
    def moved(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        raise OperandInvalid(
            NO_DEVICE_MESSAGE.format(device.upper()),
            where=source.where(),
            hint='Keep the tensor on the CPU, or use cstorch.backend("CSX").',
        )

    moved.__name__ = moved.__qualname__ = device
    moved.__doc__ = f"Raise AssertionError, as PyTorch does in a build without support for {device}."
    return moved


cuda, xpu, mtia, ipu = (method(_make_refusing_move(device)) for device in ("cuda", "xpu", "mtia", "ipu"))


@method
def adjoint(input: Tensor) -> Tensor:
    """Return a view with the last two dimensions exchanged."""
    return views.transpose(input, -2, -1)


@method
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    """Return U, S and V as the deprecated `torch.svd`: V is not transposed. `some` and `compute_uv` have no effect."""
    u, s, vh = linalg.svd(input, full_matrices=False)
    return u, s, views.transpose(vh, -2, -1)


def _set_view(x: Tensor, view: Tensor) -> Tensor:
    """Make `x` read its storage as `view` does, and return `x`.

    Raises AutogradError for a leaf that requires a gradient.
    """
    if x.leaf_id and x.requires_grad:
        raise AutogradError(
            "a leaf Variable that requires grad is being used in an in-place operation.",
            where=source.where(),
            hint="Change it inside torch.no_grad(), or work on a copy.",
        )
    x.view_ops, x._seen = view.view_ops, None
    return x


def _make_in_place_view(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def in_place(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return _set_view(input, function(input, *args, **kwargs))

    in_place.__name__ = in_place.__qualname__ = name
    in_place.__doc__ = (
        f"Turn this tensor into the view that `{name[:-1]}` returns with the same arguments, and return it.\n\n"
        "The shape and the strides of this tensor change, and its storage does not. Raises AutogradError if it\n"
        "is a leaf that requires a gradient."
    )
    return method(in_place)


t_, transpose_ = _make_in_place_view("t_", views.t), _make_in_place_view("transpose_", views.transpose)
swapaxes_, swapdims_ = (
    _make_in_place_view("swapaxes_", views.transpose),
    _make_in_place_view("swapdims_", views.transpose),
)
squeeze_, unsqueeze_ = (
    _make_in_place_view("squeeze_", views.squeeze),
    _make_in_place_view("unsqueeze_", views.unsqueeze),
)
as_strided_ = _make_in_place_view("as_strided_", strided_views.as_strided)


@method
def detach_(input: Tensor) -> Tensor:
    """Detach the tensor from the graph in place, and return it."""
    # Other references to this tensor object see the change too.
    plain = input.detach()
    input.view_ops, input.history, input.leaf_id, input._seen = plain.view_ops, plain.history, 0, None
    return input


@method
def set_(x: Tensor, source: Tensor | None = None, *_: Any) -> Tensor:
    """Make the tensor share the storage and shape of `source`, or an empty storage if it is None. Returns the tensor.

    Other arguments, such as an offset, have no effect.
    """
    other = empty(0, dtype=x.dtype) if source is None else source
    x.cell, x.view_ops, x._seen = other.cell, other.view_ops, None
    return x


@method
def resize_(x: Tensor, *args: Any, size: Any = None, memory_format: Any = None) -> Tensor:
    """Change the shape in place to `size`, and return the tensor. It gets a new storage, which views do not share.

    The first elements of the old storage, in memory order, are kept; new elements are zero. `memory_format` has no
    effect.
    """
    given = args if size is None else (size,)
    extents = tuple(given[0]) if len(given) == 1 and not isinstance(given[0], int) else given
    values = np.zeros(int(np.prod(extents)), x.dtype.host)
    # Use the elements of the storage in memory order, not those of the view.
    old = tensor_from_storage(x.cell).array("resize_").reshape(-1)[: values.size]
    values[: old.size] = old
    x.cell, x.view_ops, x._seen = new_storage(from_array(values.reshape(extents), x.dtype).node), (), None
    return x


@method
def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """Change the shape in place to that of `the_template`, as `resize_`."""
    return resize_(input, *the_template.shape)


@method
def fill_diagonal_(x: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Write `fill_value` to the main diagonal in place, and return the tensor.

    The diagonal is as long as the least extent; extents may differ in any number of dimensions. With `wrap`, the
    diagonal of a tall matrix starts again below its end, with one row between; other tensors ignore it. Raises
    ShapeError for a vector.
    """
    if x.ndim < 2:
        raise ShapeError(
            f"dimensions must larger than 1, but the tensor has {x.ndim}",
            where=source.where(),
            hint="Pass a tensor with at least one dimension.",
        )
    rows, columns = x.spec.shape[0], min(x.spec.shape)
    # The indices are equal in all dimensions. With `wrap`, the diagonal of a tall matrix skips a row and starts again.
    steps = np.arange(columns) if not wrap or x.ndim > 2 else np.arange(0, rows * columns, columns + 1)
    places = [steps for _ in x.spec.shape] if not wrap or x.ndim > 2 else [steps // columns, steps % columns]
    x[tuple(from_array(p, dt.int64) for p in places)] = fill_value
    return x


@method
def apply_(x: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace each element by the result of a Python function of it, in place. Returns the tensor."""
    values = [callable(v) for v in x.array("apply_").reshape(-1).tolist()]
    with grad_mode(False):
        return x.copy_(tensor(np.array(values, x.dtype.host).reshape(x.spec.shape), dtype=x.dtype))


@method
def new(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return a tensor of the same dtype: with the given sizes, or with the given values.

    Without arguments it is empty.
    """
    if len(args) == 1 and not isinstance(args[0], int):
        return tensor(args[0], dtype=x.dtype)
    return empty(*args, dtype=x.dtype) if args else empty(0, dtype=x.dtype)


storage, untyped_storage = method(tensor_memory.storage), method(tensor_memory.untyped_storage)


@method
def map_(x: Tensor, other: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace each element by the result of a Python function of it and the element of `other`, in place.

    `other` is expanded to the shape of the tensor. Returns the tensor. No gradient is recorded.
    """
    pairs = zip(x.array("map_").reshape(-1).tolist(), other.expand(x.shape).flatten().tolist(), strict=True)
    with grad_mode(False):
        return x.copy_(tensor([callable(a, b) for a, b in pairs], dtype=x.dtype).view(x.shape))


@method
def module_load(x: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """Return the tensor that results from loading `other` into this one from a state dict.

    With `assign`, this is `other`; otherwise `other` is copied into this tensor.
    """
    return other.detach() if assign else x.copy_(other).detach()


@method
def as_subclass(x: Tensor, cls: type[Tensor]) -> Tensor:
    """Return a tensor of class `cls` with the same storage and history."""
    return tensor_of_class(cls, x.cell, x.view_ops, x.history)


@method
def dim_order(x: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """Return the dimensions from the outermost to the innermost: 0, 1, and so on."""
    return tuple(range(x.ndim))


@method
def record_stream(x: Tensor, stream: Any) -> None:
    """Do nothing. There are no streams."""


@tensor_property()
def grad_dtype(x: Tensor) -> DType:
    """Return the dtype of the gradient, which is that of the tensor."""
    return x.dtype


@tensor_property()
def imag(x: Tensor) -> Tensor:
    """Raise RuntimeError, because complex numbers are not supported."""
    raise ShapeError(
        "imag is not implemented for tensors with non-complex dtypes.",
        where=source.where(),
        hint="Use the tensor itself; it is real.",
    )


@method(names="to_sparse to_sparse_coo")
def to_sparse(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return the nonzero elements as a sparse tensor."""
    return sparse.to_sparse(x)


@method
def to_dense(x: Tensor, dtype: DType | None = None, **_: Any) -> Tensor:
    """Return the tensor itself, cast to `dtype` if that is given."""
    return x if dtype is None else x.to(dtype)


@method
def coalesce(x: Tensor) -> Tensor:
    """Raise ShapeError, because the tensor is dense."""
    raise ShapeError(
        "coalesce expected sparse coordinate tensor layout but got Strided", hint="Call .to_sparse() first."
    )


def _attach() -> None:
    # Iterate over a copy of the globals.
    for function in [f for f in globals().values() if isinstance(f, FunctionType) and member_marks(f)]:
        for mark in member_marks(function):
            for member, value in build_members(function, mark).items():
                if member not in vars(Tensor):
                    setattr(Tensor, member, value)
    # data_ptr is replaced: libraries read memory at this address, so it must be real outside of traced steps.
    setattr(Tensor, "data_ptr", tensor_memory.data_address)  # noqa: B010 - a method of a base that is declared elsewhere


_attach()
