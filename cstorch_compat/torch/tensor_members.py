"""Members of Tensor that are compositions, no-ops or refusals, marked and attached as those of lazytensor are."""

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
from lazytensor.errors import AutogradError, ShapeError
from lazytensor.functional import linalg, strided_views, views
from lazytensor.functional.attach_members import build_members
from lazytensor.functional.creation import empty, tensor

NO_DEVICE_MESSAGE = "Torch not compiled with {} enabled"


def _make_false_method(name: str) -> Callable[[Tensor], bool]:
    def never(x: Tensor) -> bool:
        return False

    never.__name__ = never.__qualname__ = name
    never.__doc__ = "False: there is no such device or layout here."
    return never


for _name in """is_xpu is_mps is_ipu is_maia is_mtia is_hpu is_vulkan is_xla is_mkldnn is_nested is_sparse_csr
        volatile""".split():
    globals()[_name] = tensor_property()(_make_false_method(_name))


@tensor_property()
def is_cpu(x: Tensor) -> bool:
    """Whether it lives on the CPU."""
    return x.device.type == "cpu"


@tensor_property()
def name(x: Tensor) -> None:
    """None: tensors have no names."""


@tensor_property()
def output_nr(x: Tensor) -> int:
    """0."""
    return 0


@tensor_property()
def real(x: Tensor) -> Tensor:
    """The tensor itself: there are no complex numbers."""
    return x


@method
def get_device(x: Tensor) -> int:
    """-1, the number of the CPU."""
    return -1


@method
def is_inference(x: Tensor) -> bool:
    """Whether inference mode made the storage of x."""
    return x.cell.is_inference


@method
def is_distributed(x: Tensor) -> bool:
    """False."""
    return False


@method
def is_shared(x: Tensor) -> bool:
    """Whether `share_memory_` was called."""
    return bool(x.__dict__.get("_is_shared"))


@method
def share_memory_(x: Tensor) -> Tensor:
    """Note that it is to be shared: a process that is started sends back how it has changed the tensor."""
    x.__dict__["_is_shared"] = True
    return x


def _make_refusing_move(device: str) -> Callable[..., Tensor]:
    def moved(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        raise AssertionError(NO_DEVICE_MESSAGE.format(device.upper()))

    moved.__name__ = moved.__qualname__ = device
    moved.__doc__ = "Raises AssertionError, as a CPU build does."
    return moved


cuda, xpu, mtia, ipu = (method(_make_refusing_move(device)) for device in ("cuda", "xpu", "mtia", "ipu"))


@method
def adjoint(x: Tensor) -> Tensor:
    """The last two dimensions exchanged."""
    return views.transpose(x, -2, -1)


@method
def svd(x: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    """U, S and V, as torch.svd gives them: V is not turned."""
    u, s, vh = linalg.svd(x, full_matrices=False)
    return u, s, views.transpose(vh, -2, -1)


def _set_view(x: Tensor, view: Tensor) -> Tensor:
    """Let a tensor see its storage as a view of it does."""
    if x.leaf_id and x.requires_grad:
        raise AutogradError("a leaf Variable that requires grad is being used in an in-place operation.")
    x.view_ops, x._seen = view.view_ops, None
    return x


def _make_in_place_view(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def in_place(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return _set_view(x, function(x, *args, **kwargs))

    in_place.__name__ = in_place.__qualname__ = name
    in_place.__doc__ = f"`{name[:-1]}`, by which this tensor is seen from now on."
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
def detach_(x: Tensor) -> Tensor:
    """Leave the graph, in place."""
    # The handle stays, and so does everybody who holds it.
    plain = x.detach()
    x.view_ops, x.history, x.leaf_id, x._seen = plain.view_ops, plain.history, 0, None
    return x


@method
def set_(x: Tensor, source: Tensor | None = None, *_: Any) -> Tensor:
    """See the storage of another tensor from now on; without one nothing."""
    other = empty(0, dtype=x.dtype) if source is None else source
    x.cell, x.view_ops, x._seen = other.cell, other.view_ops, None
    return x


@method
def resize_(x: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Another shape in place; the first elements stay, and new ones are zeros."""
    extents = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    values = np.zeros(int(np.prod(extents)), x.dtype.host)
    # The elements of the storage, in whose order they lie, not of the view.
    old = tensor_from_storage(x.cell).array("resize_").reshape(-1)[: values.size]
    values[: old.size] = old
    x.cell, x.view_ops, x._seen = new_storage(from_array(values.reshape(extents), x.dtype).node), (), None
    return x


@method
def resize_as_(x: Tensor, other: Tensor, memory_format: Any = None) -> Tensor:
    """As `resize_`, to the shape of another."""
    return resize_(x, *other.shape)


@method
def fill_diagonal_(x: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Write one value to the diagonal of a matrix, or of a tensor of equal extents. Raises ShapeError for a vector."""
    if x.ndim < 2:
        raise ShapeError("dimensions must larger than 1", where=source.where())
    rows, columns = x.spec.shape[0], min(x.spec.shape)
    # The same number in every dimension; below its end the diagonal of a tall matrix skips a row and begins again.
    steps = np.arange(columns) if not wrap or x.ndim > 2 else np.arange(0, rows * columns, columns + 1)
    places = [steps for _ in x.spec.shape] if not wrap or x.ndim > 2 else [steps // columns, steps % columns]
    x[tuple(from_array(p, dt.int64) for p in places)] = fill_value
    return x


@method
def apply_(x: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Write what a Python function makes of each element."""
    values = [callable(v) for v in x.array("apply_").reshape(-1).tolist()]
    with grad_mode(False):
        return x.copy_(tensor(np.array(values, x.dtype.host).reshape(x.spec.shape), dtype=x.dtype))


@method
def new(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """A tensor of the same type: of the given sizes, or with the given values."""
    if len(args) == 1 and not isinstance(args[0], int):
        return tensor(args[0], dtype=x.dtype)
    return empty(*args, dtype=x.dtype) if args else empty(0, dtype=x.dtype)


storage, untyped_storage = method(tensor_memory.storage), method(tensor_memory.untyped_storage)


@method
def map_(x: Tensor, other: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Write what a Python function makes of each element and that of another tensor."""
    pairs = zip(x.array("map_").reshape(-1).tolist(), other.expand(x.shape).flatten().tolist(), strict=True)
    with grad_mode(False):
        return x.copy_(tensor([callable(a, b) for a, b in pairs], dtype=x.dtype).view(x.shape))


@method
def module_load(x: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What a state_dict's tensor becomes when it is loaded into this one."""
    return other.detach() if assign else x.copy_(other).detach()


@method
def as_subclass(x: Tensor, cls: type[Tensor]) -> Tensor:
    """The same tensor under another class."""
    return tensor_of_class(cls, x.cell, x.view_ops, x.history)


@method
def dim_order(x: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions from the outermost to the innermost."""
    return tuple(range(x.ndim))


@method
def record_stream(x: Tensor, stream: Any) -> None:
    """There are no streams."""


@tensor_property()
def grad_dtype(x: Tensor) -> DType:
    """The type of its gradient."""
    return x.dtype


@tensor_property()
def imag(x: Tensor) -> Tensor:
    """Raises RuntimeError: there are no complex numbers."""
    raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")


@method(names="to_sparse to_sparse_coo")
def to_sparse(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The elements that are not zero, with their places."""
    return sparse.to_sparse(x)


@method
def to_dense(x: Tensor, dtype: DType | None = None, **_: Any) -> Tensor:
    """The tensor itself, which is dense."""
    return x if dtype is None else x.to(dtype)


@method
def coalesce(x: Tensor) -> Tensor:
    """Raises ShapeError: a dense tensor has no places."""
    raise ShapeError(
        "coalesce expected sparse coordinate tensor layout but got Strided", hint="Call .to_sparse() first."
    )


def _attach() -> None:
    # A copy of the table, which this loop does not change.
    for function in [f for f in globals().values() if isinstance(f, FunctionType) and member_marks(f)]:
        for mark in member_marks(function):
            for member, value in build_members(function, mark).items():
                # What lazytensor has is not replaced.
                if member not in vars(Tensor):
                    setattr(Tensor, member, value)
    # Libraries read what lies at this address: a number that only tells storages apart would end the process.
    setattr(Tensor, "data_ptr", tensor_memory.data_address)  # noqa: B010 - a method of a base that is declared elsewhere


_attach()
