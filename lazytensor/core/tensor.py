"""The Tensor class: a mutable handle on immutable graph nodes.

A tensor has a storage (`cell`) and a chain of view operations (`view_ops`) from the storage to its own elements.
Reading applies the view operations to the storage's current node. Writing puts the new elements back into the value of
the whole storage, by each view operation's `put` function, so that all views of the storage see the write. The
operations are in `lazytensor.functional`, which attaches them to the class as methods.
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
from lazytensor.core import immediate_writes, overlapping_views, shared_memory_views, source
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
from lazytensor.errors import ArgumentInvalid, AutogradError, OptionInvalid, ShapeError
from lazytensor.ir.graph import Node, find, intern, leaf, unique_id
from lazytensor.ir.operation import saves_values
from lazytensor.ir.types import Type
from lazytensor.ops import OPS, call, const, full
from lazytensor.ops.elementwise import cast

ViewOps = tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]
MAX_CONST_BYTES = 65536
"""Largest size, in bytes, of data that becomes a constant when a step creates a tensor from it.

Constants are compared by content, so that a second trace of the step gives the same graph.
"""

SILENT_WRITES_ATTRIBUTE = "_silent_writes"
"""Attribute of a `.data` tensor and its views: a one-element list with the number of writes through them.

These writes do not increment the version of the storage.
"""
MULTI_OUTPUT_VIEW_ATTRIBUTE = "_is_one_of_several_views"
"""Attribute of a view that a function with several views as results returned: (function name, index of the view)."""
READ_ONLY_ATTRIBUTE = "_is_read_only"
"""Attribute of a tensor that is a copy where PyTorch returns a view: (error text, hint) for an in-place write."""
UNCOPIED_ATTRIBUTES = (
    "_hooks",
    "_after_hooks",
    "_retains_grad",
    SILENT_WRITES_ATTRIBUTE,
    MULTI_OUTPUT_VIEW_ATTRIBUTE,
    READ_ONLY_ATTRIBUTE,
)
"""Instance attributes that a copy of a tensor does not get."""

leaf_tensors: "weakref.WeakValueDictionary[int, Tensor]" = weakref.WeakValueDictionary()
"""Live leaf tensors by `leaf_id`."""

T = TypeVar("T", bound="Tensor")


class Tensor(NumberProtocol, Methods):
    """A multi-dimensional array whose value is computed when it is first read.

    Create tensors with `lazytensor.tensor(...)` and the other factory functions. Operations return new tensors.

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
    """PyTorch's value: in `numpy_array + tensor`, the tensor's operator is tried before NumPy's."""

    constructed: "ClassVar[Callable[..., Tensor]]"
    """The function that `Tensor(2, 3)` and `Tensor(data)` call; `functional.attach_members` sets it."""

    def __new__(cls, *args: Any, **kwargs: Any) -> "Tensor":
        # For scripts that call `torch.Tensor(2, 3)`; this package makes its tensors with `tensor_from_storage`.
        given = Tensor.constructed(*args, **kwargs)
        tensor = tensor_of_class(cls, given.cell, given.view_ops, given.history)
        tensor.device = given.device
        return tensor

    @staticmethod
    def _make_subclass(kind: "type[T]", data: "Tensor", require_grad: bool = False) -> "T":
        """Return a tensor of the subclass `kind` that shares the storage of `data` and has no gradient history."""
        tensor = tensor_of_class(kind, data.cell, data.view_ops, History())
        tensor.device = data.device
        if require_grad:
            tensor.requires_grad_()
        return tensor

    def _init(self, cell: Storage, view_ops: ViewOps = (), history: History | None = None) -> Self:
        """Initialise the tensor over the storage `cell`, read through `view_ops`, and return it.

        With `history`, the tensor has this gradient history; with None, it has that of the storage.
        """
        self.cell, self.view_ops, self.history = cell, view_ops, history
        self.leaf_id = 0  # not 0 for a leaf that requires a gradient
        set_grad(self, None)
        self.device = CPU
        self._seen: Node | None = None
        self._node: Node | None = None
        self._spent: Node | None = None  # the value whose graph was freed by backward inside a step
        return self

    @property
    def node(self) -> Node:
        """The node of the current value, with the gradient history of this tensor.

        The result is cached until the storage has another node or another step is active.
        """
        # This is the hottest path of the package, so the last result is cached. It is valid as long as the storage has
        # the same node in the same step.
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
            # A view of a leaf goes through the leaf's `variable` node and is tracked from there on.
            seen.tracks = seen.tracks or name == "variable"
        if self.leaf_id:
            # The number distinguishes leaves with equal values, which would be one node otherwise.
            seen = _leaf_variable(seen, self.leaf_id)
        self._seen, self._node = stored, seen
        return seen

    def write(self, n: Node) -> None:
        """Write the value `n` to the elements of this tensor, in place.

        A view writes to its part of the storage. While gradients are not recorded, the gradient history of the storage
        stays as it is. Raises ShapeError if the type of `n` differs, if a view shows an element several times, or for a
        read-only copy. Raises AutogradError for an inference tensor outside of inference mode, and, while gradients are
        recorded, for a leaf that requires a gradient, its views, and one of several views of one call.
        """
        if n.type != self.spec:
            raise ShapeError(
                f"a value of type {n.type} cannot be written to a tensor of type {self.spec}",
                where=source.where(),
                hint="Convert and reshape the value to the type of the tensor.",
            )
        self._refuse_write()
        thread_state.effects += 1
        if self.has_separate_history(n):
            self._write_separate_history(n)
            return
        if self.__dict__:
            self._before_write(n)
        # In these cases the gradient history of the storage does not change.
        is_past = thread_state.current is None and (self.history is not None or not _mode.records_gradients)
        if self.view_ops:
            # An empty view may be outside of the bounds of its base, where `put` fails.
            if not n.type.size:
                self._write_empty(n, is_past)
                return
            if immediate_writes.try_write_node(self, n):
                return
            if is_pinned(self.cell) and shared_memory_views.try_write_shared_elements(self, n, self._is_counted):
                return
            base = read(self.cell)
            if is_past and base.tracks:
                base, n = detach_node(base), detach_node(n)
            n = self._whole(base, n)
        else:
            # Drop the cached nodes, which may be the last references to the old value.
            self._seen = self._node = None
        write(self.cell, attach_storage_history(self.cell, n) if is_past else n, self._is_counted)

    def _refuse_write(self) -> None:
        """Raise AutogradError if an in-place write is not allowed.

        This is the case for a leaf that requires a gradient and its views, while gradients are recorded, and for an
        inference tensor outside of inference mode. Other refusals are those of `_before_write`.
        """
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
                hint="Clone the tensor, or write it inside torch.inference_mode().",
            )

    def _whole(self, base: Node, n: Node) -> Node:
        """Return the value of the whole storage, which was `base`, after a write of `n` to the elements of this view.

        Raises ShapeError if the view cannot be written.
        """
        by_places = overlapping_views.write_overlapping_view(self, base, n)
        value = self._put(base, self.view_ops, n) if by_places is None else by_places
        # If the view covers all elements, the old value has a gradient of zero.
        is_lost = base.tracks and not value.tracks and thread_state.current is None
        return call("overwritten", value, base) if is_lost else value

    def has_separate_history(self, n: Node) -> bool:
        """Return whether a write of `n` extends a gradient history that only this tensor and its views have.

        This is so if `n` tracks gradients or the history is not empty. False if there is no such history, if gradients
        are not recorded, and in a step.
        """
        if self.history is None or not _mode.records_gradients or thread_state.current is not None:
            return False
        return n.tracks or not self.history.is_empty

    def _write_separate_history(self, n: Node) -> None:
        """Write the values of `n` to the storage, without its gradient history.

        The history goes to that of this tensor and its views only.
        """
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
        """Add the gradient history of `n`, which has no elements, to the storage, and count the write.

        Do only the latter inside steps, and if the write does not change the history (`is_past`).
        """
        if n.tracks and not is_past and thread_state.current is None:
            write(self.cell, merge_empty_write(read(self.cell), n), self._is_counted)
        else:
            self.cell.version += self._is_counted

    def storage_node(self) -> Node | None:
        """Return the value of the whole storage with the gradient history of this tensor.

        Return None if the storage has no node now.
        """
        return self.cell.node if self.history is None or self.history.is_empty else self.history.node

    def last_written_node(self) -> Node | None:
        """Return the value of the whole storage after the last in-place operation.

        Return None if it is no longer available.
        """
        return self.cell.node if self.history is None or self.history.is_empty else self.history.written

    @property
    def _is_counted(self) -> bool:
        """Whether a write through this tensor increments the version of the storage.

        It is False for `.data` and its views.
        """
        return not (self.__dict__ and SILENT_WRITES_ATTRIBUTE in self.__dict__)

    def _before_write(self, n: Node) -> None:
        """Check and record a write of `n` to a tensor with special attributes.

        Raises ShapeError for a read-only copy. Raises AutogradError for one of several views of one call, while
        gradients are recorded, if `n` or this tensor has a gradient history. Counts the write through `.data`.
        """
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
                hint="Clone the view before changing it.",
            )

    def _put(self, base: Node, view_ops: ViewOps, value: Node) -> Node:
        """Return `base` with `value` at the elements that the chain `view_ops` shows.

        Raises ShapeError for a view without `put`.
        """
        # For a view of a view, put the value into the outer view first, then put that view's new value into the base.
        (name, attrs), rest = view_ops[0], view_ops[1:]
        if rest:
            value = self._put(call(name, base, **dict(attrs)), rest, value)
        put = OPS[name].put
        if put is None:
            raise ShapeError(
                f"several elements of a {name} view share one element of its base, so the view cannot be written",
                where=source.where(),
                hint="Call .clone() before writing.",
            )
        return put(base, value, **dict(attrs))

    def make_view(self, name: str, **attrs: Any) -> "Tensor":
        """Return a view of this tensor: the same storage with one more view operation.

        The operation is `name` with the attributes `attrs`. The view has the device and the gradient history of this
        tensor. Raises ShapeError, at the user's line, if the operation does not fit the shape.
        """
        # Call the operation now, so that a wrong shape is reported at the user's line. A view of shared memory needs
        # only its type.
        is_unread = is_pinned(self.cell) and shared_memory_views.shared_elements(self) is not None
        seen = call(name, new_abstract_leaf(self.spec) if is_unread else self.node, **attrs)
        # A view of a leaf belongs to the leaf's graph: it is read through the leaf's `variable` node.
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
        # Cache the node, which is valid as long as the storage has the same value.
        if not is_unread:
            view._seen, view._node = self._seen, seen
        return view

    @property
    def spec(self) -> Type:
        """Shape and element type of the tensor."""
        if not self.view_ops:
            return self.cell.type
        part = shared_memory_views.shared_elements(self) if is_pinned(self.cell) else None
        shown: Type = self.node.type if part is None else Type(part.shape, self.cell.type.dtype)
        return shown

    def array(self, what: str = "reading it") -> np.ndarray:
        """Return the values as a NumPy array that must not be written to. Elements of a half type are in float32.

        `what` names the reading call in error messages. Raises TraceError if the value does not exist yet inside a
        captured step, and ValuesAbsent for a tensor on the device "meta".
        """
        check_reading(self, what)
        return value_of(self.node, what, self.device.type == "cpu")

    @property
    def _version(self) -> int:
        """The number of counted writes to the storage; for `.data` and its views, the number of writes through them.

        Raises AutogradError for a tensor that was created in inference mode.
        """
        if self.cell.is_inference:
            raise AutogradError(
                "Inference tensors do not track version counter.",
                where=source.where(),
                hint="Clone the tensor outside of torch.inference_mode().",
            )
        silent: list[int] | None = self.__dict__.get(SILENT_WRITES_ATTRIBUTE)
        return self.cell.version if silent is None else silent[0]

    @property
    def shape(self) -> Size:
        """The size of each dimension."""
        return Size(self.spec.shape)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.cell.type.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.spec.shape)

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor is a leaf: it requires no gradient, or it is no result of a differentiable operation."""
        return bool(self.leaf_id) or not self.node.tracks

    @property
    def requires_grad(self) -> bool:
        """Whether backward computes a gradient for this tensor or passes one through it."""
        return bool(self.leaf_id) or self.node.tracks

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        self.requires_grad_(flag)

    def requires_grad_(self, requires_grad: bool = True) -> "Tensor":
        """Set `requires_grad` of a leaf in place and return the tensor.

        Raises AutogradError to set it on a tensor that is not floating point or is an inference tensor, and to clear it
        on a tensor that is not a leaf. Setting it on a tensor that is not a leaf but has it already does nothing.
        """
        if requires_grad and self.dtype.kind != "f":
            raise AutogradError(
                "only Tensors of floating point dtype can require gradients"
                f", but this one has the dtype {self.dtype.name}",
                where=source.where(),
                hint="Use .float().",
            )
        if requires_grad and self.cell.is_inference and not _mode.is_inference:
            raise AutogradError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.",
                where=source.where(),
                hint="Clone the tensor outside of torch.inference_mode() first.",
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
        """A tensor that shares the storage, without gradient history.

        Writes through it do not increment the version.
        """
        data = self.detach()
        data.__dict__[SILENT_WRITES_ATTRIBUTE] = [0]
        return data

    @data.setter
    def data(self, value: "Tensor") -> None:
        if value.dtype is not self.dtype or self.view_ops:
            raise ShapeError(
                f"data of type {value.spec} cannot be assigned to a tensor of type {self.spec}",
                where=source.where(),
                hint="Convert the value to the type of the tensor first.",
            )
        # A storage that is loop-carried state of a step keeps its name: only the value changes.
        before = self.cell
        state, self.cell = before.state, value.detach().contiguous_storage()
        if self.leaf_id and before.node is not None and thread_state.current is None:
            # Backward reads the current value of the leaf.
            record_overwrite(self.cell, before.node, read(self.cell), False)
        if state:
            self.cell.state = state
        self._seen = None

    def contiguous_storage(self) -> Storage:
        """Return the storage of this tensor; for a view, a new storage that holds only the elements of the view."""
        return new_storage(self.node) if self.view_ops else self.cell

    def detach(self) -> "Tensor":
        """Return a tensor that shares the storage and has no gradient history.

        Writes through it change this tensor too, also if this is a leaf. A tensor detached from `.data` also increments
        no version.
        """
        # Writing through a detached view of a leaf is allowed, so remove the leaf's `variable` from the view
        # operations.
        view_ops = tuple(step for step in self.view_ops if step[0] != "variable")
        detached = tensor_from_storage(self.cell, view_ops, History())
        detached.device = self.device
        if self.__dict__ and SILENT_WRITES_ATTRIBUTE in self.__dict__:
            detached.__dict__[SILENT_WRITES_ATTRIBUTE] = self.__dict__[SILENT_WRITES_ATTRIBUTE]
        return detached

    def free_graph(self, is_retained: bool | None, wanted: Collection[Node] | None = None) -> None:
        """Check that backward from this tensor is possible, and mark the graph as freed unless `is_retained`.

        `wanted` limits both to the part of the graph between this tensor and these nodes; None means all of it. Raises
        AutogradError if the graph was freed before and saved values are needed, or if a saved value was modified in
        place. Inside a step, `wanted` is ignored, and in-place modifications are not checked.
        """
        root = self.node
        if thread_state.current is None:
            saved_tensors.check_saved_values(root, storage_of_leaf, wanted)
            if not is_retained:
                saved_tensors.free_graph(root, wanted)
            return
        # The next trace of a step reuses the nodes, so the mark must be on the tensor.
        if self._spent is root and any(map(saves_values, gradient_graph.tracked_nodes([root]))):
            raise saved_tensors.graph_freed_error()
        if not is_retained:
            self._spent = root

    def _seed(self, gradient: "Tensor | None") -> Node:
        """Return the gradient that backward starts with: `gradient` cast to this tensor's dtype, or 1 if it is None.

        Raises AutogradError if `gradient` has another shape, or if it is None and there is not exactly one element.
        """
        if gradient is not None:
            if gradient.shape != self.shape:
                raise AutogradError(
                    f"Mismatch in shape: grad_output[0] has a shape of {gradient.shape} and output[0] has a shape of "
                    f"{self.shape}.",
                    where=source.where(),
                    hint="Pass a gradient with the shape of its tensor.",
                )
            return cast(gradient.node, self.dtype)
        if self.spec.size != 1:
            raise AutogradError(
                "grad can be implicitly created only for scalar outputs, but this output has the shape "
                f"{list(self.shape)}",
                where=source.where(),
                hint="Reduce it first, for example with .sum(), or pass gradient=.",
            )
        return full(1, self.spec)

    def accumulate(self, g: Node) -> None:
        """Add the gradient `g` to `.grad`; if that is None, `g` becomes `.grad`.

        `.grad` is updated in place, in its type, if it was created in the same step, or outside of steps as now. It
        becomes a new tensor while gradients are recorded, or if it was created before the step. A `.grad` of another
        step is replaced, because it has no value any more.
        """
        known = self.grad
        if known is None or known.cell.epoch not in (None, thread_state.current):
            self.grad = wrap(g, self.device)
        elif _mode.records_gradients or known.cell.epoch is not thread_state.current:
            self.grad = wrap(known.node + g, self.device)
        else:
            known.write(cast(known.node + g, known.dtype))

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """Return the values as a NumPy array, which shares memory with the tensor if possible.

        See `shared_memory_views` for when it does. Raises AutogradError if the tensor requires a gradient and `force`
        is False, and TypeError for a half type other than float16.
        """
        if self.requires_grad and not force:
            raise AutogradError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
                where=source.where(),
                hint="Call .detach().numpy().",
            )
        # NumPy has one half type; the message for others is PyTorch's.
        if self.dtype.is_half and self.dtype is not float16:
            raise ArgumentInvalid(
                "Got unsupported ScalarType BFloat16: use .float().numpy()",
                where=source.where(),
                hint="Call .float().numpy().",
            )
        return shared_memory_views.export_array(self)

    def __format__(self, spec: str) -> str:
        """Format a tensor without dimensions as its number, so that specifications such as ".3f" work."""
        if type(self) is Tensor and not self.spec.shape:
            return format(self._scalar("print()"), spec)
        return object.__format__(self, spec)

    def __len__(self) -> int:
        if not self.spec.shape:
            raise ArgumentInvalid(
                "len() of a 0-d tensor",
                where=source.where(),
                hint="Call .numel(), which is 1, or unsqueeze the tensor.",
            )
        return self.spec.shape[0]

    def __iter__(self) -> "Iterator[Tensor]":
        if not self.spec.shape:
            raise ArgumentInvalid(
                "iteration over a 0-d tensor", where=source.where(), hint="Call .item(), or unsqueeze the tensor."
            )
        return (self[i] for i in range(self.spec.shape[0]))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        # As in PyTorch, copy=False is not supported: a copy may be unavoidable.
        if copy is False:
            raise OptionInvalid(
                "Unable to avoid copy while creating an array as requested.",
                where=source.where(),
                hint="Pass copy=None or copy=True.",
            )
        array = self.numpy()
        return array if dtype is None and not copy else array.astype(dtype or array.dtype, copy=bool(copy))

    def __hash__(self) -> int:
        return id(self)


def _leaf_variable(n: Node, leaf_id: int) -> Node:
    """Return the `variable` node of the leaf `leaf_id` with the current value `n`.

    Within a step, each value of a leaf has one such node: the same arguments give the same node.
    """
    key, known = find("variable", (n,), {"uid": leaf_id})
    if known is None:
        known = intern(key, "variable", (n,), {"uid": leaf_id}, n.type)
        known.where = source.where()
    known.tracks = True
    if thread_state.current is None:
        # The node has the value of the leaf, so it needs no computation.
        known.value = n.value
    return known


new_uninitialized = object.__new__  # bypasses `Tensor.__new__`, which takes sizes or data


def tensor_of_class(kind: type[T], cell: Storage, view_ops: ViewOps = (), history: History | None = None) -> T:
    """Return a tensor of the class `kind` over a storage, without calling the constructor of the class."""
    return new_uninitialized(kind)._init(cell, view_ops, history)


def tensor_from_storage(cell: Storage, view_ops: ViewOps = (), history: History | None = None) -> Tensor:
    """Return a tensor over the storage `cell`, read through `view_ops`; see `Tensor._init`."""
    return new_uninitialized(Tensor)._init(cell, view_ops, history)


def storage_of_leaf(leaf_id: int) -> Storage | None:
    """Return the storage of the leaf `leaf_id`; None if the leaf was freed."""
    leaf_tensor = leaf_tensors.get(leaf_id)
    return leaf_tensor.cell if leaf_tensor is not None else None


set_grad = vars(Tensor)["grad"].__set__  # sets `.grad` without the checks of `lazytensor.autograd.function`


def wrap(n: Node, device: Device = CPU) -> Tensor:
    """Return a new tensor with value `n` on `device`. Raises MemoryMissing if the machine cannot hold it."""
    tensor = new_uninitialized(Tensor)._init(new_storage(require_node_memory(n, device)))
    if device is not CPU:
        tensor.device = device
    return tensor


def operand_node(t: Tensor) -> Node:
    """Return the node of an operand; without gradient history while gradients are not recorded.

    Raises TypeError if `t` is not a tensor.
    """
    try:
        n = t.node
    except AttributeError:
        if isinstance(t, Tensor):
            raise
        kind = type(t)
        owner = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        # The check of arguments replaces it by the class that PyTorch raises, with the user's line and a hint.
        raise TypeError(f"argument must be Tensor, not {owner}{kind.__name__}") from None
    if _mode.records_gradients or not n.tracks:
        return n
    return plain_value(n) or call("detach", n)


def plain_value(n: Node) -> Node | None:
    """Return the value of a leaf without its gradient history, given the node of the leaf; None for another node.

    Inside a step the result is None too.
    """
    return n.inputs[0] if n.op == "variable" and thread_state.current is None and not n.inputs[0].tracks else None


def from_array(array: np.ndarray, dtype: DType | None = None) -> Tensor:
    """Return a new CPU tensor with a copy of the data of a NumPy array, converted to `dtype` if that is given.

    Values for a half type must be rounded already. Inside a step, data of at most `MAX_CONST_BYTES` becomes a constant
    that is compared by content. Raises ShapeError if `dtype` is None and no tensor type corresponds to the array's.
    """
    dtype = dtype or dtype_of_array(array)
    values = np.array(array, dtype.host, order="C")
    t = Type(values.shape, dtype)
    is_constant = thread_state.current is not None and values.nbytes <= MAX_CONST_BYTES
    return tensor_from_storage(new_storage(const(values, t) if is_constant else leaf(values, t)))
