"""Module: parameters, buffers and submodules found by attribute, named by path."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ParamSpec, Protocol, Self, TypeVar

from lazytensor.autograd.hooks import RemovableHandle
from lazytensor.core import source, storage
from lazytensor.core.dtype import bfloat16, float16, float32, float64
from lazytensor.core.storage import new_storage
from lazytensor.core.tensor import Tensor, detach_node, tensor_of_class
from lazytensor.functional.creation import empty
from lazytensor.functional.in_place import zero_
from lazytensor.nn import state_dict as saved_state
from lazytensor.nn.hooks import HOOK_TABLES, add_hook, call_with_hooks, has_hooks
from lazytensor.nn.member_checks import refuse_other_kind


class Parameter(Tensor):
    """A tensor that a module owns and an optimizer may change; it requires a gradient.

    >>> import lazytensor as lt
    >>> lt.nn.Parameter(lt.zeros(2)).requires_grad
    True
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        """A parameter over the storage of `data`."""
        source_tensor = data if data is not None else empty(0)
        # Over the cell of its data, as PyTorch's shares their storage: a write to either shows in both. A view has no
        # cell of its own, and a tensor that is part of a graph is no leaf: their value goes to a new cell.
        is_shared = not (source_tensor.view_ops or source_tensor.requires_grad)
        if storage.is_abstract and not storage.thread_state.current:
            # Whatever was to be its first value is never computed.
            parameter = tensor_of_class(cls, new_storage(storage.new_abstract_leaf(source_tensor.spec)))
        else:
            parameter = tensor_of_class(
                cls, source_tensor.cell if is_shared else new_storage(detach_node(source_tensor.node))
            )
        parameter.device = source_tensor.device
        if requires_grad:
            parameter.requires_grad_()
        return parameter

    def __deepcopy__(self, memo: dict[int, Any]) -> "Parameter":
        # PyTorch's rule, unlike that of tensors: its elements only, in a storage of its own.
        copy = memo[id(self)] = tensor_of_class(type(self), new_storage(detach_node(self.node)))
        copy.device = self.device
        if self.requires_grad:
            copy.requires_grad_()
        return copy

    def __repr__(self) -> str:
        return "Parameter containing:\n" + Tensor.__repr__(self)


class Buffer(Tensor):
    """A tensor that a module owns as state, without a gradient.

    >>> import lazytensor as lt
    >>> lt.nn.Buffer(lt.zeros(2)).requires_grad
    False
    """

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Self:
        """A buffer over the storage of `data`; without `persistent` it stays out of state dicts."""
        data = empty(0) if data is None else data
        # A view has no cell of its own: what it sees goes to a new one.
        buffer = tensor_of_class(cls, data.cell if not data.view_ops else new_storage(detach_node(data.node)))
        buffer.device, buffer.persistent = data.device, persistent
        return buffer


P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class HasForward(Protocol[P, R]):
    """A module as a type checker sees it in a call: the parameters and the result are those of `forward`."""

    def forward(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the outputs of the module."""


class Module:
    """Base of all models. Subclasses set parameters and modules as attributes and define `forward`.

    >>> import lazytensor as lt
    >>> class Doubling(lt.nn.Module):
    ...     def forward(self, x):
    ...         return 2 * x
    >>> Doubling()(lt.ones(2))
    tensor([2., 2.])
    """

    training: bool
    # The version of the layout of its state, which a state dict notes.
    _version = 1
    # Plain annotations: what they hold is found by `__getattr__`, which sees a subclass's names before it sees ours.
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]

    def __init__(self) -> None:
        own = self.__dict__
        # Past `__setattr__`, which takes the tables as the sign that this constructor has run.
        own["training"] = True
        own["_parameters"], own["_buffers"], own["_modules"] = {}, {}, {}
        # The names of buffers that stay out of state dicts.
        own["_transient"] = set()
        # The module's name in reports, which the front end gives it when the whole model is known.
        own["_scope"] = ""
        for hooks in HOOK_TABLES:
            own[hooks] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if "_parameters" not in own:
            if isinstance(value, Parameter | Module):
                raise AttributeError(f"cannot assign {type(value).__name__} before Module.__init__() call")
            own[name] = value
            return
        # A name stands in one place: in one table, or among the plain attributes. Assigning another kind moves it.
        kind = self._kind_of(name, value)
        if kind is None:
            # By way of object, so that properties of the subclass work.
            object.__setattr__(self, name, value)
            return
        for table in ("_parameters", "_buffers", "_modules"):
            if table != kind:
                own[table].pop(name, None)
        own.pop(name, None)
        # A plain tensor in the place of a buffer is saved or not as the buffer was.
        if isinstance(value, Buffer) or kind != "_buffers":
            is_transient = isinstance(value, Buffer) and not value.persistent
            (own["_transient"].add if is_transient else own["_transient"].discard)(name)
        own[kind][name] = value

    def _kind_of(self, name: str, value: Any) -> str | None:
        if isinstance(value, Parameter):
            return "_parameters"
        if isinstance(value, Module) and name not in self._parameters:
            return "_modules"
        # A plain tensor under the name of a buffer is the buffer's new value, as running statistics are written.
        if isinstance(value, Buffer) or (name in self._buffers and (value is None or isinstance(value, Tensor))):
            return "_buffers"
        # None keeps the place: the name goes on being a parameter, which a tensor can come back to.
        if value is None and name in self._parameters:
            return "_parameters"
        if value is None and name in self._modules:
            return "_modules"
        # A tensor in the place of a parameter would be trained by nobody: the optimizer has the old one.
        refuse_other_kind(self, name, value)
        return None

    def __getattr__(self, name: str) -> Any:
        # Python comes here only for what is no plain attribute. A subclass that forgot `super().__init__()` has no
        # tables yet.
        own = self.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            members = own.get(table)
            if members is not None and name in members:
                return members[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                return
        object.__delattr__(self, name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter; None keeps the name for one that is not there."""
        self._check_name("parameter", name, self._parameters)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add state that is no parameter; with persistent=False it stays out of the state dict."""
        self._check_name("buffer", name, self._buffers)
        self._buffers[name] = tensor
        (self._transient.discard if persistent else self._transient.add)(name)

    def add_module(self, name: str, module: "Module | None") -> None:
        """Add a submodule under a name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._modules[name] = module

    register_module = add_module

    def _check_name(self, kind: str, name: str, table: dict[str, Any]) -> None:
        """Raise KeyError for a name that cannot be part of a path, or that stands for something else."""
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if "." in name or not name:
            problem = 'contain "."' if name else 'be empty string ""'
            raise KeyError(f"{kind} name can't {problem}")
        # Methods count too: a parameter called `forward` would never be seen, since tables are looked at last.
        if name not in table and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """To be defined by the subclass."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self: HasForward[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        # Straight from the dictionary: this runs for every layer of every step, and `__getattr__` is slow. The scope
        # names the layer in the graph, so that errors and reports can say where an operation comes from.
        own = self.__dict__
        source.push_scope(own["_scope"])
        forward = self.forward
        is_hooked = has_hooks(own)
        before = source.enter_call(None if is_hooked else forward)  # hooks are the user's
        try:
            return call_with_hooks(self, args, kwargs) if is_hooked else forward(*args, **kwargs)
        finally:
            source.leave_call(before)
            source.pop_scope()

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call hook(module, args, output) after each forward; what it returns replaces the output.

        With `with_kwargs` it is hook(module, args, kwargs, output); with `always_call` it runs after an error too.
        """
        handle = add_hook(self._forward_hooks, hook, prepend)
        self._forward_hooks_with_kwargs[handle.id] = with_kwargs
        self._forward_hooks_always_called[handle.id] = always_call
        return handle

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call hook(module, args) before each forward; what it returns replaces the arguments.

        With `with_kwargs` it is hook(module, args, kwargs), which returns both.
        """
        handle = add_hook(self._forward_pre_hooks, hook, prepend)
        self._forward_pre_hooks_with_kwargs[handle.id] = with_kwargs
        return handle

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call hook(module, grad_input, grad_output) when gradients have passed; its answer replaces grad_input."""
        return add_hook(self._backward_hooks, hook, prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call hook(module, grad_output) before gradients pass; its answer replaces grad_output."""
        return add_hook(self._backward_pre_hooks, hook, prepend)

    # The older form saw the last operation of `forward` alone; that of a layer of one operation is the same.
    register_backward_hook = register_full_backward_hook

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(module, prefix, keep_vars) before `state_dict`."""
        return RemovableHandle(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(module, state_dict, prefix, metadata) after `state_dict`; its answer replaces the dict."""
        return RemovableHandle(self._state_dict_hooks, hook)

    _register_state_dict_hook = register_state_dict_post_hook

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(module, state_dict, prefix, metadata, strict, missing, unexpected, errors) before loading.

        The hook may edit the dict and the lists, which get the keys and texts of the error.
        """
        return RemovableHandle(self._load_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """The older form, whose hook is not given the module unless `with_module` says so."""
        return RemovableHandle(self._load_pre_hooks, hook if with_module else lambda _, *rest: hook(*rest))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(module, incompatible_keys) after loading, before anything is refused."""
        return RemovableHandle(self._load_post_hooks, hook)

    def named_children(self) -> Iterator[tuple[str, "Module"]]:
        """Submodules one level down."""
        return ((n, m) for n, m in self._modules.items() if m is not None)

    def children(self) -> "Iterator[Module]":
        """Submodules one level down, without names."""
        return (m for _, m in self.named_children())

    def named_modules(
        self, memo: "set[Module] | None" = None, prefix: str = "", remove_duplicate: bool = True
    ) -> "Iterator[tuple[str, Module]]":
        """This module and all below it, each once, with its path."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        # A module that stands in two places is found once, under its first name; so is a cycle.
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> "Iterator[Module]":
        """This module and all below it."""
        return (m for _, m in self.named_modules())

    def _named(self, table: str, prefix: str, recurse: bool, remove_duplicate: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        owners = self.named_modules(None, prefix, remove_duplicate) if recurse else [(prefix, self)]
        for path, module in owners:
            # In the order of registration, a module before those below it: the order of optimizers' numbers and of
            # files.
            for name, value in module.__dict__[table].items():
                # Tied weights are one parameter, and must be updated once.
                if value is None or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters with their paths, a shared one once."""
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Parameters, a shared one once."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with their paths."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Buffers."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> "Module":
        """The module at a path. Raises AttributeError if there is none."""
        module = self
        for part in filter(None, target.split(".")):
            if not hasattr(module, part):
                raise AttributeError(f"{type(module).__name__} has no attribute `{part}`")
            module = getattr(module, part)
        return module

    def get_parameter(self, target: str) -> "Parameter":
        """The parameter at a path. Raises AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        parameter: Parameter = self.get_submodule(path)._member(name, "_parameters")
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a path. Raises AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        buffer: Tensor = self.get_submodule(path)._member(name, "_buffers")
        return buffer

    def _member(self, name: str, table: str) -> Any:
        if name not in self.__dict__[table]:
            raise AttributeError(f"`{name}` is not in {table} of {type(self).__name__}")
        return self.__dict__[table][name]

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> "OrderedDict[str, Any]":
        """Parameters, persistent buffers and extra state by path; tensors share storage with the module.

        The attribute `_metadata` has the version of each module. With `destination` they are added to that dict.
        """
        # The older order of arguments, without names.
        options: dict[str, Any] = {"destination": destination, "prefix": prefix, "keep_vars": keep_vars}
        options |= dict(zip(options, args, strict=False))
        state: OrderedDict[str, Any] = saved_state.collect_state_dict(self, **options)
        return state

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Add the state of this module to a dict, without that of the modules below it."""
        saved_state.save_members(self, destination, prefix, keep_vars)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> saved_state.IncompatibleKeys:
        """Copy values in by path, or with `assign` put the tensors of the dict in the place of the module's.

        Raises RuntimeError listing all that is missing, superfluous (both only if `strict`) or of another shape.
        """
        return saved_state.load_state_dict(self, state_dict, strict, assign)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Give this module its values, without the modules below it; add to the lists what does not fit."""
        lists = missing_keys, unexpected_keys, error_msgs
        saved_state.load_members(self, state_dict, prefix, local_metadata, strict, *lists)

    def assign_member(self, name: str, before: Tensor, value: Tensor) -> None:
        """Put a tensor in the place of a parameter or buffer; a parameter requires a gradient as the one before."""
        if isinstance(before, Parameter):
            if isinstance(value, Parameter):
                value.requires_grad_(before.requires_grad)
            else:
                value = Parameter(value, requires_grad=before.requires_grad)
        setattr(self, name, value)

    def get_extra_state(self) -> Any:
        """Return what a state dict is to keep besides tensors: to be defined by the subclass."""
        raise RuntimeError("Module.get_extra_state() is to be defined by a subclass, and is called by state_dict()")

    def set_extra_state(self, state: Any) -> None:
        """Take what `get_extra_state` returned: to be defined by the subclass."""
        raise RuntimeError("Module.set_extra_state() is to be defined by a subclass, and by load_state_dict()")

    get_extra_state.is_default = set_extra_state.is_default = True  # type: ignore[attr-defined]

    def train(self, mode: bool = True) -> "Module":
        """Switch training behaviour on or off, here and below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        for module in self.modules():
            module.__dict__["training"] = mode
        return self

    def eval(self) -> "Module":
        """Switch to evaluation behaviour."""
        return self.train(False)

    def apply(self, fn: Callable[["Module"], Any]) -> "Module":
        """Call fn on every module below, then on this one."""
        for module in self.children():
            # Inner modules first, so that an outer one may overwrite what it finds inside.
            module.apply(fn)
        fn(self)
        return self

    def to(self, *args: Any, **kwargs: Any) -> "Module":
        """Convert or move every floating-point parameter and buffer, in place."""
        for tensor in (*self.parameters(), *self.buffers()):
            # The tensor stays the same object, so optimizers and shared layers keep it. Integer buffers move between
            # devices but keep their type.
            moved = tensor.detach().to(*args, **kwargs)
            if moved.dtype is tensor.dtype or tensor.dtype.kind == "f":
                tensor.cell = moved.cell if not moved.view_ops else new_storage(moved.node)
                tensor.device, tensor._seen = moved.device, None
        return self

    def float(self) -> "Module":
        """Every floating-point parameter and buffer as float32."""
        return self.to(float32)

    def half(self) -> "Module":
        """Every floating-point parameter and buffer as float16."""
        return self.to(float16)

    def bfloat16(self) -> "Module":
        """Every floating-point parameter and buffer as bfloat16."""
        return self.to(bfloat16)

    def double(self) -> "Module":
        """Every floating-point parameter and buffer as float64."""
        return self.to(float64)

    def cpu(self) -> "Module":
        """Every parameter and buffer on the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> "Module":
        """Raises DeviceAbsent: there is no GPU."""
        return self.to("cuda")

    def requires_grad_(self, requires_grad: bool = True) -> "Module":
        """Ask for gradients of all parameters, or stop asking."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or make them zeros."""
        for p in self.parameters():
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                # The same tensor, unless it is a result of its own history.
                p.grad = zero_(p.grad.detach() if p.grad.requires_grad else p.grad)

    def extra_repr(self) -> str:
        """What to print between the brackets."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        own = self.extra_repr()
        below = [f"({name}): " + repr(m).replace("\n", "\n  ") for name, m in self._modules.items()]
        if not below:
            return f"{self._get_name()}({own})"
        return f"{self._get_name()}(\n  " + "\n  ".join(([own] if own else []) + below) + "\n)"
