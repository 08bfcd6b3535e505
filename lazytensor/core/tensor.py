"""Tensor: a mutable handle on an immutable value.

A tensor is a cell (its storage) and a view_ops (the views through which it sees it). Reading replays the view_ops on
the cell's present node; writing folds the new value back through each view's `put`, so that every alias sees it.
The operations themselves live in `lazytensor.functional`, which attaches them as methods.
"""

import weakref
from collections.abc import Callable, Collection, Iterator
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from lazytensor.autograd import gradient_graph, saved_tensors
from lazytensor.autograd.grad_recording import grad_mode as grad_mode
from lazytensor.autograd.grad_recording import grad_recording_state as _mode
from lazytensor.autograd.grad_recording import is_grad_enabled as is_grad_enabled
from lazytensor.autograd.grad_recording import set_grad_enabled as set_grad_enabled
from lazytensor.autograd.shared_histories import History, attach_storage_history, detached_value_leaf, merge_empty_write
from lazytensor.autograd.shared_histories import detach_node as detach_node
from lazytensor.core import overlapping_views, shared_memory_views, source
from lazytensor.core.allocation import require_node_memory
from lazytensor.core.device import CPU as CPU
from lazytensor.core.device import Device as Device
from lazytensor.core.device import Size as Size
from lazytensor.core.device import check_reading
from lazytensor.core.device import default_device as default_device
from lazytensor.core.dtype import DType, dtype_of_array, float16
from lazytensor.core.number_protocol import NumberProtocol
from lazytensor.core.storage import (
    Storage,
    is_pinned,
    new_abstract_leaf,
    new_storage,
    read,
    thread_state,
    value_of,
    write,
)
from lazytensor.core.storage_versions import record_overwrite, record_writer
from lazytensor.core.tensor_methods import Methods
from lazytensor.errors import AutogradError, ShapeError
from lazytensor.ir.graph import Node, find, intern, leaf, unique_id
from lazytensor.ir.operation import saves_values
from lazytensor.ir.types import Type
from lazytensor.ops import OPS, call, const, full
from lazytensor.ops.elementwise import cast

ViewOps = tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]
MAX_CONST_BYTES = 65536
"""Bytes up to which data made inside a step is compared by content, so that tracing it again finds the same graph."""

SILENT_WRITES_ATTRIBUTE = "_silent_writes"
"""Attribute of `.data` and its views: a list with the number of writes, which the version of the storage leaves out."""
MULTI_OUTPUT_VIEW_ATTRIBUTE = "_is_one_of_several_views"
"""Attribute of the views that one call gave: the name of the function, and which of its outputs the view is."""
READ_ONLY_ATTRIBUTE = "_is_read_only"
"""Attribute of a tensor that is a copy where PyTorch has a view: why it cannot be written, and what to do."""
UNCOPIED_ATTRIBUTES = (
    "_hooks",
    "_after_hooks",
    "_retains_grad",
    SILENT_WRITES_ATTRIBUTE,
    MULTI_OUTPUT_VIEW_ATTRIBUTE,
    READ_ONLY_ATTRIBUTE,
)
"""Attributes of a tensor that are not attributes of a copy."""

leaf_tensors: "weakref.WeakValueDictionary[int, Tensor]" = weakref.WeakValueDictionary()

T = TypeVar("T", bound="Tensor")


class Tensor(NumberProtocol, Methods):
    """A multi-dimensional array that is computed when somebody looks.

    Made by `lazytensor.tensor(...)` and the other factories, by operations, and by a module's parameters.

    >>> import lazytensor as lt
    >>> x = lt.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([[2., 4.],
            [6., 8.]])
    """

    __slots__ = (
        "cell",
        "view_ops",
        "leaf_id",
        "history",
        "grad",
        "device",
        "_seen",
        "_node",
        "_spent",
        "__dict__",
        "__weakref__",
    )
    cell: Storage
    view_ops: ViewOps
    leaf_id: int
    history: History | None
    device: Device
    grad: "Tensor | None"
    _forced_requires_grad = False
    __array_priority__ = 1000
    """PyTorch's: with a NumPy number or array on the left, the tensor's operator is asked before NumPy's."""

    constructed: "ClassVar[Callable[..., Tensor]]"
    """What makes a tensor of sizes or of data; it lies above this file, and `functional.attach_members` leaves it
    here.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> "Tensor":
        # As scripts of old have it, `torch.Tensor(2, 3)`; the house makes its tensors by `tensor_from_storage`.
        given = Tensor.constructed(*args, **kwargs)
        tensor = tensor_of_class(cls, given.cell, given.view_ops, given.history)
        tensor.device = given.device
        return tensor

    @staticmethod
    def _make_subclass(kind: "type[T]", data: "Tensor", require_grad: bool = False) -> "T":
        """Another handle on the storage of `data`, of a class of tensors."""
        tensor = tensor_of_class(kind, data.cell, data.view_ops, History())
        tensor.device = data.device
        if require_grad:
            tensor.requires_grad_()
        return tensor

    def _init(self, cell: Storage, view_ops: ViewOps = (), history: History | None = None) -> Self:
        """Be a handle on a cell, seen through a view_ops, with the gradient history of the cell or one apart from
        it.
        """
        self.cell, self.view_ops, self.history = cell, view_ops, history
        self.leaf_id = 0  # unlike 0 for a leaf whose gradient is asked for
        set_grad(self, None)
        self.device = CPU
        self._seen: Node | None = None
        self._node: Node | None = None
        self._spent: Node | None = None  # the value whose graph backward has used up
        return self

    @property
    def node(self) -> Node:
        """The node of the present value, as autograd sees it through this handle."""
        # Reading a value is the hottest path of the package: the last answer is kept, and holds as long as the cell
        # shows the same node in the same step.
        cell = self.cell
        stored = cell.node
        if stored is None or cell.epoch is not thread_state.current:
            if is_pinned(cell) and (part := shared_memory_views.snapshot(self)) is not None:
                return part
            stored = read(cell)
        if stored is self._seen:
            return self._node  # type: ignore[return-value]
        seen = stored if self.history is None else self.history.seen(stored)
        for name, attrs in self.view_ops:
            seen = call(name, seen, **dict(attrs))
            # A view of a leaf passes the leaf's own variable, and is tracked from there on.
            seen.tracks = seen.tracks or name == "variable"
        if self.leaf_id:
            # The number tells two leaves with equal values apart, which are one node otherwise.
            seen = _leaf_variable(seen, self.leaf_id)
        self._seen, self._node = stored, seen
        return seen

    def write(self, n: Node) -> None:
        """Make `n` (of the same type) the value, through the view_ops. Raises ShapeError if the type differs."""
        if n.type != self.spec:
            raise ShapeError(f"a value of {n.type} cannot be written to a {self.spec}", where=source.where())
        self._refuse_write()
        if self.has_separate_history(n):
            self._write_separate_history(n)
            return
        if self.__dict__:
            self._before_write(n)
        # The gradient history of the storage stays what it is.
        is_past = thread_state.current is None and (self.history is not None or not _mode.records_gradients)
        if self.view_ops:
            # A view of nothing may lie outside of its base, where `put` has no place for it.
            if not n.type.size:
                self._write_empty(n, is_past)
                return
            if is_pinned(self.cell) and shared_memory_views.try_write_shared_elements(self, n, self._is_counted):
                return
            base = read(self.cell)
            if is_past and base.tracks:
                base, n = detach_node(base), detach_node(n)
            n = self._whole(base, n)
        else:
            # What was seen last is not needed any more, and by nobody perhaps.
            self._seen = self._node = None
        write(self.cell, attach_storage_history(self.cell, n) if is_past else n, self._is_counted)

    def _refuse_write(self) -> None:
        """Raise AutogradError for a leaf that requires a gradient, and for a tensor of inference mode."""
        if (self.leaf_id or any(name == "variable" for name, _ in self.view_ops)) and _mode.records_gradients:
            raise AutogradError(
                f"a {'view of a ' if self.view_ops else ''}leaf Variable that requires grad is being used "
                f"in an in-place "
                "operation.",
                where=source.where(),
                hint="Change it inside torch.no_grad(), or work on a copy.",
            )
        if self.cell.is_inference and not _mode.is_inference:
            raise AutogradError(
                "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a "
                "normal tensor before doing inplace update.",
                where=source.where(),
            )

    def _whole(self, base: Node, n: Node) -> Node:
        """Return the value of the storage, `base` until now, with `n` at the elements that this view shows."""
        by_places = overlapping_views.write_overlapping_view(self, base, n)
        value = self._put(base, self.view_ops, n) if by_places is None else by_places
        # A view may show all elements: what was there has a gradient of zero.
        is_lost = base.tracks and not value.tracks and thread_state.current is None
        return call("overwritten", value, base) if is_lost else value

    def has_separate_history(self, n: Node) -> bool:
        """Return whether a write of `n` goes on with a gradient history that the storage does not have."""
        if self.history is None or not _mode.records_gradients or thread_state.current is not None:
            return False
        return n.tracks or not self.history.is_empty

    def _write_separate_history(self, n: Node) -> None:
        """Write the values of `n` to the storage, and its gradient history to that of this tensor and its views."""
        assert self.history is not None
        if self.__dict__:
            self._before_write(n)
        cell, old = self.cell, self.cell.node
        if self.view_ops:
            base = self.history.seen(read(cell))
            n = self._whole(base, n) if n.type.size else merge_empty_write(base, n)
        write(cell, attach_storage_history(cell, detached_value_leaf(n)), self._is_counted)
        if old is not None:
            record_writer(cell, old, n)
        self.history.follow(n, read(cell))
        self._seen = self._node = None

    def _write_empty(self, n: Node, is_past: bool) -> None:
        """Give the storage the history of `n`, which has no elements, outside of steps."""
        if n.tracks and not is_past and thread_state.current is None:
            write(self.cell, merge_empty_write(read(self.cell), n), self._is_counted)

    def storage_node(self) -> Node | None:
        """Return the present value of the whole storage with the gradient history of this tensor; None if unread."""
        return self.cell.node if self.history is None or self.history.is_empty else self.history.node

    def last_written_node(self) -> Node | None:
        """Return the result of the last operation in place, for the whole storage; None if it is gone."""
        return self.cell.node if self.history is None or self.history.is_empty else self.history.written

    @property
    def _is_counted(self) -> bool:
        """Whether backward notices a write through this handle."""
        return not (self.__dict__ and SILENT_WRITES_ATTRIBUTE in self.__dict__)

    def _before_write(self, n: Node) -> None:
        if READ_ONLY_ATTRIBUTE in self.__dict__:
            text, hint = self.__dict__[READ_ONLY_ATTRIBUTE]
            raise ShapeError(text, where=source.where(), hint=hint)
        if SILENT_WRITES_ATTRIBUTE in self.__dict__:
            self.__dict__[SILENT_WRITES_ATTRIBUTE][0] += 1
        if (
            MULTI_OUTPUT_VIEW_ATTRIBUTE in self.__dict__
            and _mode.records_gradients
            and (n.tracks or self.requires_grad)
        ):
            function, place = self.__dict__[MULTI_OUTPUT_VIEW_ATTRIBUTE]
            raise AutogradError(
                f"Output {place} of {function}Backward0 is a view and is being modified inplace. This view is the "
                "output of a function that returns multiple views. Such functions do not allow the output views to be "
                "modified inplace. You should replace the inplace operation by an out-of-place one.",
                where=source.where(),
            )

    def _put(self, base: Node, view_ops: ViewOps, value: Node) -> Node:
        # From the innermost view outwards: what is written to a view of a view is first put into the outer view, whose
        # new value is then put into the base.
        (name, attrs), rest = view_ops[0], view_ops[1:]
        if rest:
            value = self._put(call(name, base, **dict(attrs)), rest, value)
        put = OPS[name].put
        if put is None:
            raise ShapeError(
                f"an element of a {name} view stands for several places and cannot be written",
                where=source.where(),
                hint="Call .clone() before writing.",
            )
        return put(base, value, **dict(attrs))

    def make_view(self, name: str, **attrs: Any) -> "Tensor":
        """A tensor that shares this one's storage and sees it through one more view operation."""
        # Refuses a wrong shape here, at the user's line. A view of an array does not need its elements.
        is_unread = is_pinned(self.cell) and shared_memory_views.shared_elements(self) is not None
        seen = call(name, new_abstract_leaf(self.spec) if is_unread else self.node, **attrs)
        # A view of a leaf belongs to the leaf's graph: it is read through the leaf's own variable.
        leaf_step: ViewOps = (("variable", (("uid", self.leaf_id),)),) if self.leaf_id else ()
        view = tensor_from_storage(self.cell, (*self.view_ops, *leaf_step, (name, tuple(attrs.items()))), self.history)
        view.device = self.device
        if self.__dict__:
            view.__dict__.update(
                {
                    k: v
                    for k, v in self.__dict__.items()
                    if k in (SILENT_WRITES_ATTRIBUTE, MULTI_OUTPUT_VIEW_ATTRIBUTE, READ_ONLY_ATTRIBUTE)
                }
            )
        # What the view_ops would give once more, as long as the storage shows the same.
        if not is_unread:
            view._seen, view._node = self._seen, seen
        return view

    @property
    def spec(self) -> Type:
        """Shape and dtype as the compiler sees them."""
        if not self.view_ops:
            return self.cell.type
        part = shared_memory_views.shared_elements(self) if is_pinned(self.cell) else None
        shown: Type = self.node.type if part is None else Type(part.shape, self.cell.type.dtype)
        return shown

    def array(self, what: str = "reading it") -> np.ndarray:
        """The values as a NumPy array that must not be written to. Half types come in float32."""
        check_reading(self, what)
        return value_of(self.node, what, self.device.type == "cpu")

    @property
    def _version(self) -> int:
        """How often the storage was written to; of `.data`, how often through `.data`.

        Raises AutogradError for a tensor that inference mode made.
        """
        if self.cell.is_inference:
            raise AutogradError("Inference tensors do not track version counter.", where=source.where())
        silent: list[int] | None = self.__dict__.get(SILENT_WRITES_ATTRIBUTE)
        return self.cell.version if silent is None else silent[0]

    @property
    def shape(self) -> Size:
        """Its extents."""
        return Size(self.spec.shape)

    @property
    def dtype(self) -> DType:
        """The type of its elements."""
        return self.cell.type.dtype

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self.spec.shape)

    @property
    def is_leaf(self) -> bool:
        """Whether no operation that gradients pass made it."""
        return bool(self.leaf_id) or not self.node.tracks

    @property
    def requires_grad(self) -> bool:
        """Whether gradients reach it or pass it."""
        return bool(self.leaf_id) or self.node.tracks

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        self.requires_grad_(flag)

    def requires_grad_(self, requires_grad: bool = True) -> "Tensor":
        """Ask for a gradient (leaves only), or stop asking. Raises AutogradError for integers and non-leaves."""
        if requires_grad and self.dtype.kind != "f":
            raise AutogradError(
                "only Tensors of floating point dtype can require gradients", where=source.where(), hint="Use .float()."
            )
        if requires_grad and self.cell.is_inference and not _mode.is_inference:
            raise AutogradError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.",
                where=source.where(),
            )
        if not self.leaf_id and self.node.tracks:
            if requires_grad:
                return self
            raise AutogradError(
                "you can only change requires_grad flags of leaf variables.",
                where=source.where(),
                hint="Use .detach().",
            )
        self.leaf_id = unique_id() if requires_grad and not self.leaf_id else self.leaf_id if requires_grad else 0
        self._seen = None
        if self.leaf_id:
            leaf_tensors[self.leaf_id] = self
        return self

    @property
    def data(self) -> "Tensor":
        """The same storage without gradient history; backward does not notice what is written through it."""
        data = self.detach()
        data.__dict__[SILENT_WRITES_ATTRIBUTE] = [0]
        return data

    @data.setter
    def data(self, value: "Tensor") -> None:
        if value.dtype is not self.dtype or self.view_ops:
            raise ShapeError(f"data of {value.spec} cannot be set on a {self.spec}", where=source.where())
        # A cell that is loop-carried state of a step stays it: only its value is another tensor's now.
        before = self.cell
        state, self.cell = before.state, value.detach().contiguous_storage()
        if self.leaf_id and before.node is not None and thread_state.current is None:
            # Backward reads a leaf again.
            record_overwrite(self.cell, before.node, read(self.cell), False)
        if state:
            self.cell.state = state
        self._seen = None

    def contiguous_storage(self) -> Storage:
        """This storage if it is seen whole, else a new one that holds what is seen."""
        return new_storage(self.node) if self.view_ops else self.cell

    def detach(self) -> "Tensor":
        """A tensor that shares the storage and carries no gradient."""
        # Writing through a detached view of a leaf is allowed, so the leaf's variable has to leave the view_ops.
        view_ops = tuple(step for step in self.view_ops if step[0] != "variable")
        detached = tensor_from_storage(self.cell, view_ops, History())
        detached.device = self.device
        if self.__dict__ and SILENT_WRITES_ATTRIBUTE in self.__dict__:
            detached.__dict__[SILENT_WRITES_ATTRIBUTE] = self.__dict__[SILENT_WRITES_ATTRIBUTE]
        return detached

    def free_graph(self, is_retained: bool | None, wanted: Collection[Node] | None = None) -> None:
        """Note that the graph between this tensor and the `wanted` nodes (all of it if None) is used up.

        Raises AutogradError if it was, and values were needed.
        """
        root = self.node
        if thread_state.current is None:
            saved_tensors.check_saved_values(root, storage_of_leaf, wanted)
            if not is_retained:
                saved_tensors.free_graph(root, wanted)
            return
        # The nodes of a step are found again by the next one, so that only the tensor can remember.
        if self._spent is root and any(map(saves_values, gradient_graph.tracked_nodes([root]))):
            raise saved_tensors.graph_freed_error()
        if not is_retained:
            self._spent = root

    def _seed(self, gradient: "Tensor | None") -> Node:
        if gradient is not None:
            if gradient.shape != self.shape:
                raise AutogradError(
                    f"Mismatch in shape: grad_output[0] has a shape of {gradient.shape} and output[0] has a shape of "
                    f"{self.shape}.",
                    where=source.where(),
                    hint="Give a gradient in the shape of the tensor that it belongs to.",
                )
            return cast(gradient.node, self.dtype)
        if self.spec.size != 1:
            raise AutogradError(
                f"grad can be implicitly created only for scalar outputs, and this is {list(self.shape)}",
                where=source.where(),
                hint="Reduce it first, for example with .sum(), or pass gradient=.",
            )
        return full(1, self.spec)

    def accumulate(self, g: Node) -> None:
        """Add a gradient to `.grad` in place; while gradients are recorded, `.grad` is a new tensor.

        The gradient of another loop's step is replaced, because it has no value any more. A step that finds a gradient
        from before it makes a new tensor, too.
        """
        known = self.grad
        if known is None or known.cell.epoch not in (None, thread_state.current):
            self.grad = wrap(g, self.device)
        elif _mode.records_gradients or known.cell.epoch is not thread_state.current:
            self.grad = wrap(known.node + g, self.device)
        else:
            known.write(cast(known.node + g, known.dtype))

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The values as an array that shares the memory of the tensor (see `shared_memory_views`).

        Raises AutogradError for a tensor that requires a gradient, unless `force` is set.
        """
        if self.requires_grad and not force:
            raise AutogradError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
                where=source.where(),
            )
        # NumPy has one half type; PyTorch refuses the others with these words.
        if self.dtype.is_half and self.dtype is not float16:
            raise TypeError("Got unsupported ScalarType BFloat16: use .float().numpy()")
        return shared_memory_views.export_array(self)

    def __format__(self, spec: str) -> str:
        """A tensor without dimensions is formatted as its number, which is why it takes specs such as ".3f"."""
        if type(self) is Tensor and not self.spec.shape:
            return format(self._scalar("print()"), spec)
        return object.__format__(self, spec)

    def __len__(self) -> int:
        if not self.spec.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.spec.shape[0]

    def __iter__(self) -> "Iterator[Tensor]":
        if not self.spec.shape:
            raise TypeError("iteration over a 0-d tensor")
        return (self[i] for i in range(self.spec.shape[0]))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        # As in PyTorch, which has not the argument: NumPy cannot be promised that nothing is copied.
        if copy is False:
            raise ValueError("Unable to avoid copy while creating an array as requested.")
        array = self.numpy()
        return array if dtype is None and not copy else array.astype(dtype or array.dtype, copy=bool(copy))

    def __hash__(self) -> int:
        return id(self)


def _leaf_variable(n: Node, leaf_id: int) -> Node:
    """The node for the leaf of that number, as it is now. There is one for each parameter in each step."""
    key, known = find("variable", (n,), {"uid": leaf_id})
    if known is None:
        known = intern(key, "variable", (n,), {"uid": leaf_id}, n.type)
        known.where = source.where()
    known.tracks = True
    if thread_state.current is None:
        # It is the leaf, so that nobody has to compute it.
        known.value = n.value
    return known


new_uninitialized = object.__new__  # past the constructor, which takes what scripts give


def tensor_of_class(kind: type[T], cell: Storage, view_ops: ViewOps = (), history: History | None = None) -> T:
    """A tensor of a class, over a cell seen through a view_ops."""
    return new_uninitialized(kind)._init(cell, view_ops, history)


def tensor_from_storage(cell: Storage, view_ops: ViewOps = (), history: History | None = None) -> Tensor:
    """A tensor over a cell seen through a view_ops."""
    return new_uninitialized(Tensor)._init(cell, view_ops, history)


def storage_of_leaf(leaf_id: int) -> Storage | None:
    """The cell of a leaf that somebody still holds."""
    leaf_tensor = leaf_tensors.get(leaf_id)
    return leaf_tensor.cell if leaf_tensor is not None else None


set_grad = vars(Tensor)["grad"].__set__  # an assignment passes the checks of `lazytensor.autograd.function`


def wrap(n: Node, device: Device = CPU) -> Tensor:
    """A new tensor with the value `n`, on `device`. Raises MemoryMissing if the machine cannot hold it."""
    tensor = new_uninitialized(Tensor)._init(new_storage(require_node_memory(n, device)))
    if device is not CPU:
        tensor.device = device
    return tensor


def operand_node(t: Tensor) -> Node:
    """The node of an operand: without gradient while gradients are switched off."""
    try:
        n = t.node
    except AttributeError:
        if isinstance(t, Tensor):
            raise
        kind = type(t)
        owner = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        raise TypeError(f"argument must be Tensor, not {owner}{kind.__name__}") from None
    return n if _mode.records_gradients or not n.tracks else call("detach", n)


def from_array(array: np.ndarray, dtype: DType | None = None) -> Tensor:
    """A tensor over NumPy data, which is copied.

    Inside a step, small data becomes a constant that is compared by content.
    """
    dtype = dtype or dtype_of_array(array)
    values = np.array(array, dtype.host, order="C")
    t = Type(values.shape, dtype)
    is_constant = thread_state.current is not None and values.nbytes <= MAX_CONST_BYTES
    return tensor_from_storage(new_storage(const(values, t) if is_constant else leaf(values, t)))
