"""`Module`: an object with parameters, buffers and submodules, and the tensor classes `Parameter` and `Buffer`."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ParamSpec, Protocol, Self, TypeVar

from lazytensor.autograd.hooks import RemovableHandle
from lazytensor.core import source, storage
from lazytensor.core.dtype import DType, bfloat16, float16, float32, float64
from lazytensor.core.storage import new_storage
from lazytensor.core.tensor import Tensor, detach_node, tensor_of_class
from lazytensor.errors import ArgumentInvalid, OptionInvalid, OptionMissing, ShapeError
from lazytensor.functional.creation import empty
from lazytensor.functional.in_place import zero_
from lazytensor.nn import state_dict as saved_state
from lazytensor.nn.hooks import HOOK_TABLES, add_hook, call_with_hooks, has_hooks
from lazytensor.nn.member_checks import refuse_other_kind


class Parameter(Tensor):
    """A tensor that becomes a parameter of a module when it is assigned to an attribute.

    It requires a gradient by default.

    >>> import lazytensor as lt
    >>> lt.nn.Parameter(lt.zeros(2)).requires_grad
    True
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        """Return a parameter that shares the storage of `data`; of an empty tensor if `data` is None.

        A view and a tensor that requires a gradient are copied. While a plan without values is made, outside of a step,
        only shape and dtype are taken.
        """
        source_tensor = data if data is not None else empty(0)
        # As in PyTorch, the parameter shares the storage of its data. A view does not have a separate storage, and a
        # tensor of a graph is not a leaf: their values are copied to a new storage.
        is_shared = not (source_tensor.view_ops or source_tensor.requires_grad)
        if storage.is_abstract and not storage.thread_state.current:
            # The initial value is never computed.
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
        # As in PyTorch, and unlike a tensor's copy: only its elements, in a new storage.
        copy = memo[id(self)] = tensor_of_class(type(self), new_storage(detach_node(self.node)))
        copy.device = self.device
        if self.requires_grad:
            copy.requires_grad_()
        return copy

    def __repr__(self) -> str:
        return "Parameter containing:\n" + Tensor.__repr__(self)


class Buffer(Tensor):
    """A tensor that becomes a buffer of a module when it is assigned to an attribute: state without a gradient.

    >>> import lazytensor as lt
    >>> lt.nn.Buffer(lt.zeros(2)).requires_grad
    False
    """

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Self:
        """Return a buffer that shares the storage of `data`; a view is copied.

        If `persistent` is false, state dicts do not contain the buffer.
        """
        data = empty(0) if data is None else data
        # A view does not have a separate storage, so its elements are copied.
        buffer = tensor_of_class(cls, data.cell if not data.view_ops else new_storage(detach_node(data.node)))
        buffer.device, buffer.persistent = data.device, persistent
        return buffer


P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class HasForward(Protocol[P, R]):
    """The type of a module in a call: parameters and result are those of `forward`."""

    def forward(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the outputs of the module."""


class Module:
    """The base class of models and layers.

    A subclass calls `super().__init__()`, assigns parameters and submodules to attributes, and defines `forward`.
    Calling the module calls `forward` and the hooks.

    >>> import lazytensor as lt
    >>> class Doubling(lt.nn.Module):
    ...     def forward(self, x):
    ...         return 2 * x
    >>> Doubling()(lt.ones(2))
    tensor([2., 2.])
    """

    training: bool
    # The version of the state's format, which state dicts record.
    _version = 1
    # Annotations only: the values are found by `__getattr__`, which resolves names of subclasses first.
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]

    def __init__(self) -> None:
        own = self.__dict__
        # Set directly, since `__setattr__` uses the tables to detect that this constructor has run.
        own["training"] = True
        own["_parameters"], own["_buffers"], own["_modules"] = {}, {}, {}
        # The names of buffers that are not in state dicts.
        own["_transient"] = set()
        # The module's name in reports, set when the whole model is known.
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
        # A name is in one table or among the plain attributes. Assigning another kind moves it.
        kind = self._kind_of(name, value)
        if kind is None:
            # Through object, so that properties of the subclass work.
            object.__setattr__(self, name, value)
            return
        for table in ("_parameters", "_buffers", "_modules"):
            if table != kind:
                own[table].pop(name, None)
        own.pop(name, None)
        # A plain tensor that replaces a buffer keeps the buffer's persistence.
        if isinstance(value, Buffer) or kind != "_buffers":
            is_transient = isinstance(value, Buffer) and not value.persistent
            (own["_transient"].add if is_transient else own["_transient"].discard)(name)
        own[kind][name] = value

    def _kind_of(self, name: str, value: Any) -> str | None:
        """Return the table in which `value` is stored under `name`, or None for a plain attribute.

        It is "_parameters" for a Parameter, "_modules" for a Module, and "_buffers" for a Buffer or for a tensor that
        replaces a buffer. None stays in the table of the member that it replaces. Raises TypeError if `name` is a
        member and `value` may not replace it.
        """
        if isinstance(value, Parameter):
            return "_parameters"
        if isinstance(value, Module) and name not in self._parameters:
            return "_modules"
        # A plain tensor becomes the buffer's new value, as running statistics are written.
        if isinstance(value, Buffer) or (name in self._buffers and (value is None or isinstance(value, Tensor))):
            return "_buffers"
        # None keeps the name registered as a parameter.
        if value is None and name in self._parameters:
            return "_parameters"
        if value is None and name in self._modules:
            return "_modules"
        # A plain tensor in place of a parameter would not be trained, since the optimizer has the old one.
        refuse_other_kind(self, name, value)
        return None

    def __getattr__(self, name: str) -> Any:
        # Python calls this only if there is no plain attribute. A subclass that did not call `super().__init__()` has
        # no tables yet.
        own = self.__dict__
        if "_parameters" in own:
            if name in (members := own["_parameters"]):
                return members[name]
            if name in (members := own["_buffers"]):
                return members[name]
            if name in (members := own["_modules"]):
                return members[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                return
        object.__delattr__(self, name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Register `param` under `name`. None registers the name without a parameter.

        Raises KeyError if the name is invalid or used by another attribute.
        """
        self._check_name("parameter", name, self._parameters)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Register a tensor that is state but no parameter under `name`. None registers the name without a buffer.

        If `persistent` is false, state dicts do not contain it. Raises KeyError if the name is invalid or used by
        another attribute.
        """
        self._check_name("buffer", name, self._buffers)
        self._buffers[name] = tensor
        (self._transient.discard if persistent else self._transient.add)(name)

    def add_module(self, name: str, module: "Module | None") -> None:
        """Register the submodule `module` under `name`. None registers the name without a module.

        Raises TypeError if it is not a Module, and KeyError if the name is invalid or used by another attribute.
        """
        if module is not None and not isinstance(module, Module):
            raise ArgumentInvalid(
                f"{type(module).__name__} is not a Module subclass", where=source.where(), hint="Pass a module."
            )
        self._check_name("module", name, self._modules)
        self._modules[name] = module

    register_module = add_module

    def _check_name(self, kind: str, name: str, table: dict[str, Any]) -> None:
        """Raise KeyError if `name` is empty, contains a dot, or is an attribute other than one in `table`.

        Raises TypeError if it is not a string.
        """
        if not isinstance(name, str):
            raise ArgumentInvalid(
                f"{kind} name should be a string. Got {type(name).__name__}",
                where=source.where(),
                hint="Pass the name as a string.",
            )
        if "." in name or not name:
            problem = 'contain "."' if name else 'be empty string ""'
            raise KeyError(f"{kind} name can't {problem}")
        # This includes methods: a parameter named `forward` could never be read, since tables are searched last.
        if name not in table and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs of the module. Subclasses override it; the default raises NotImplementedError."""
        raise OptionMissing(
            f'Module [{type(self).__name__}] is missing the required "forward" function',
            where=source.where(),
            hint="Define forward(self, ...) in the class.",
        )

    def __call__(self: HasForward[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        # Read from the dictionary, since this runs for every layer of every step and `__getattr__` is slow. The scope
        # names the layer in the graph, for errors and reports.
        own = self.__dict__
        forward, is_hooked = self.forward, has_hooks(own)
        place = source.thread_location()
        before = place.enter_module(own["_scope"], None if is_hooked else forward)  # hooks are user functions
        try:
            return call_with_hooks(self, args, kwargs) if is_hooked else forward(*args, **kwargs)
        finally:
            place.leave_module(before)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call hook(module, args, output) after each `forward`, and return a handle that can remove the hook.

        If the hook returns a value, it replaces the output. With `with_kwargs` the call is hook(module, args, kwargs,
        output). With `always_call` the hook also runs after an exception. With `prepend` it runs before the other
        hooks.
        """
        handle = add_hook(self._forward_hooks, hook, prepend)
        self._forward_hooks_with_kwargs[handle.id] = with_kwargs
        self._forward_hooks_always_called[handle.id] = always_call
        return handle

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call hook(module, args) before each `forward`, and return a handle that can remove the hook.

        If the hook returns a tuple, it replaces the arguments; another value but None becomes the only argument. With
        `with_kwargs` the call is hook(module, args, kwargs), which returns a pair of new args and kwargs or None. With
        `prepend` it runs before the other hooks.
        """
        handle = add_hook(self._forward_pre_hooks, hook, prepend)
        self._forward_pre_hooks_with_kwargs[handle.id] = with_kwargs
        return handle

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call hook(module, grad_input, grad_output) after the module's backward pass.

        Returns a handle that can remove the hook. If the hook returns a value, it replaces `grad_input`. With `prepend`
        it runs before the other hooks.
        """
        return add_hook(self._backward_hooks, hook, prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call hook(module, grad_output) before the module's backward pass, and return a handle that can remove it.

        If the hook returns a value, it replaces `grad_output`. With `prepend` it runs before the other hooks.
        """
        return add_hook(self._backward_pre_hooks, hook, prepend)

    # The older form reported only the last operation of `forward`, which is the same for a layer of one operation.
    register_backward_hook = register_full_backward_hook

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(module, prefix, keep_vars) before `state_dict`, and return a handle that can remove the hook."""
        return RemovableHandle(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(module, state_dict, prefix, metadata) after `state_dict`.

        Returns a handle that can remove the hook. If the hook returns a value, it replaces the dict.
        """
        return RemovableHandle(self._state_dict_hooks, hook)

    _register_state_dict_hook = register_state_dict_post_hook

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(module, state_dict, prefix, metadata, strict, missing, unexpected, errors) before loading.

        The hook may edit the dict and the lists, which contain the keys and messages of the error. Returns a handle
        that can remove the hook.
        """
        return RemovableHandle(self._load_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """Register a pre-hook of loading in the older form: the hook gets the module only if `with_module` is true."""
        return RemovableHandle(self._load_pre_hooks, hook if with_module else lambda _, *rest: hook(*rest))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(module, incompatible_keys) after loading and before errors are raised.

        Returns a handle that can remove it.
        """
        return RemovableHandle(self._load_post_hooks, hook)

    def named_children(self) -> "Iterator[tuple[str, Module]]":
        """Return an iterator over the direct submodules, as pairs of name and module.

        A module under several names comes once, under the first of them.
        """
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> "Iterator[Module]":
        """Return an iterator over the direct submodules."""
        return (m for _, m in self.named_children())

    def named_modules(
        self, memo: "set[Module] | None" = None, prefix: str = "", remove_duplicate: bool = True
    ) -> "Iterator[tuple[str, Module]]":
        """Return an iterator over this module and all submodules, as pairs of path and module.

        `prefix` precedes the paths. Each module occurs once, under its first path, unless `remove_duplicate` is false.
        `memo` is the set of modules to skip; modules are added to it as they are returned.
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        # A module that is registered twice is returned once, under its first name. This also ends cycles.
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> "Iterator[Module]":
        """Return an iterator over this module and all submodules, each once."""
        return (m for _, m in self.named_modules())

    def _named(self, table: str, prefix: str, recurse: bool, remove_duplicate: bool) -> Iterator[tuple[str, Any]]:
        """Return an iterator over the members of `table` of this module and its submodules, with their paths.

        Members of a module precede those of its submodules; without `recurse` there are no submodules. None is skipped,
        and each value occurs once, under its first path, unless `remove_duplicate` is false.
        """
        seen: set[int] = set()
        owners = self.named_modules(None, prefix, remove_duplicate) if recurse else [(prefix, self)]
        for path, module in owners:
            # In registration order, a module before its submodules, which is the order of optimizer indices and of
            # checkpoints.
            for name, value in module.__dict__[table].items():
                # Tied weights are one parameter, which must be updated once.
                if value is None or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Return an iterator over the parameters, as pairs of path and parameter.

        `prefix` precedes the paths. If `recurse` is false, only parameters of this module are returned. A shared
        parameter occurs once, unless `remove_duplicate` is false.
        """
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Return an iterator over the parameters, a shared one once.

        If `recurse` is false, only those of this module.
        """
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Return an iterator over the buffers, as pairs of path and buffer.

        The parameters are those of `named_parameters`.
        """
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Return an iterator over the buffers, a shared one once. If `recurse` is false, only those of this module."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> "Module":
        """Return the submodule at the dotted path `target`; "" is this module.

        It is not checked that the result is a module. Raises AttributeError if there is no attribute at the path.
        """
        module = self
        for part in filter(None, target.split(".")):
            if not hasattr(module, part):
                raise AttributeError(f"{type(module).__name__} has no attribute `{part}`")
            module = getattr(module, part)
        return module

    def get_parameter(self, target: str) -> "Parameter":
        """Return the parameter at the dotted path `target`. Raises AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        parameter: Parameter = self.get_submodule(path)._member(name, "_parameters")
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at the dotted path `target`. Raises AttributeError if there is none."""
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
        """Return the parameters, persistent buffers and extra state of this module and its submodules, by dotted path.

        - `destination`: a dict to add them to, instead of a new OrderedDict.
        - `prefix`: a prefix of the keys.
        - `keep_vars`: return the tensors themselves, not detached ones.

        The tensors share storage with the module. The attribute `_metadata` of the dict contains the version of each
        module.
        """
        # The older form has positional arguments.
        options: dict[str, Any] = {"destination": destination, "prefix": prefix, "keep_vars": keep_vars}
        options |= dict(zip(options, args, strict=False))
        state: OrderedDict[str, Any] = saved_state.collect_state_dict(self, **options)
        return state

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Add the state of this module, without its submodules, to `destination`."""
        saved_state.save_members(self, destination, prefix, keep_vars)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> saved_state.IncompatibleKeys:
        """Copy values from `state_dict` into the parameters and buffers of the same path.

        Returns the incompatible keys. With `assign`, the tensors of the dict replace those of the module. Raises
        RuntimeError that lists keys that are missing or unexpected (both only if `strict`) and shapes that differ.
        Values that fit are loaded before the error.
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
        """Load the state of this module, without its submodules.

        Append missing and unexpected keys and errors to the lists.
        """
        lists = missing_keys, unexpected_keys, error_msgs
        saved_state.load_members(self, state_dict, prefix, local_metadata, strict, *lists)

    def assign_member(self, name: str, before: Tensor, value: Tensor) -> None:
        """Replace the parameter or buffer `before`, named `name`, by `value`.

        A parameter keeps its `requires_grad`: it is set on `value` if that is a Parameter, and a plain tensor becomes a
        new one.
        """
        if isinstance(before, Parameter):
            if isinstance(value, Parameter):
                value.requires_grad_(before.requires_grad)
            else:
                value = Parameter(value, requires_grad=before.requires_grad)
        setattr(self, name, value)

    def get_extra_state(self) -> Any:
        """Return additional state for the state dict. Subclasses override it; the default raises RuntimeError."""
        raise ShapeError(
            "state_dict() calls Module.get_extra_state(), which the subclass must define"
            f": {type(self).__name__} does not",
            where=source.where(),
            hint="Define get_extra_state(self) in the class.",
        )

    def set_extra_state(self, state: Any) -> None:
        """Restore `state`, which `get_extra_state` returned.

        Subclasses override it; the default raises RuntimeError.
        """
        raise ShapeError(
            "load_state_dict() calls Module.set_extra_state(), which the subclass must define"
            f": {type(self).__name__} does not",
            where=source.where(),
            hint="Define set_extra_state(self, state) in the class.",
        )

    get_extra_state.is_default = set_extra_state.is_default = True  # type: ignore[attr-defined]

    def train(self, mode: bool = True) -> "Module":
        """Set training mode of this module and all submodules to `mode`, and return this module.

        Raises ValueError unless `mode` is a bool.
        """
        if not isinstance(mode, bool):
            raise OptionInvalid(
                f"training mode is expected to be boolean, but got {mode!r}",
                where=source.where(),
                hint="Pass True or False.",
            )
        for module in self.modules():
            module.__dict__["training"] = mode
        return self

    def eval(self) -> "Module":
        """Set evaluation mode of this module and all submodules, and return this module."""
        return self.train(False)

    def apply(self, fn: Callable[["Module"], Any]) -> "Module":
        """Call fn(module) for every submodule and then for this module, and return this module."""
        for module in self.children():
            # Inner modules first, so that an outer one may overwrite their values.
            module.apply(fn)
        fn(self)
        return self

    def to(self, *args: Any, **kwargs: Any) -> "Module":
        """Convert or move all parameters and buffers in place, and return this module.

        The arguments are those of `Tensor.to`. A dtype applies to floating-point tensors only; other tensors keep
        theirs. Raises ArgumentInvalid (a TypeError) for a dtype that is not floating-point.
        """
        given = (*args, kwargs.get("dtype"))
        dtypes = [a if isinstance(a, DType) else a.dtype for a in given if isinstance(a, DType | Tensor)]
        if dtypes and dtypes[-1].kind != "f":
            raise ArgumentInvalid(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype=torch.{dtypes[-1].name}",
                where=source.where(),
                hint="Convert single tensors with Tensor.to(), or pass a floating-point dtype.",
            )
        # The same arguments without a dtype, for tensors that are not floating-point.
        moves = [a.device if isinstance(a, Tensor) else a for a in args if not isinstance(a, DType)]
        move_options = {name: value for name, value in kwargs.items() if name != "dtype"}
        for tensor in (*self.parameters(), *self.buffers()):
            # The tensor stays the same object, so that optimizers and shared layers keep it.
            value = tensor.detach()
            moved = value.to(*args, **kwargs) if tensor.dtype.kind == "f" else value.to(*moves, **move_options)
            # A conversion that changes nothing keeps the storage, which other tensors may share. After another one a
            # view has all of its storage. The step "variable" marks a leaf.
            if moved.cell is not tensor.cell:
                tensor.cell = moved.contiguous_storage()
                tensor.view_ops = tuple(step for step in tensor.view_ops if step[0] == "variable")
            tensor.device, tensor._seen = moved.device, None
        return self

    def float(self) -> "Module":
        """Convert all floating-point parameters and buffers to float32 in place, and return this module."""
        return self.to(float32)

    def half(self) -> "Module":
        """Convert all floating-point parameters and buffers to float16 in place, and return this module."""
        return self.to(float16)

    def bfloat16(self) -> "Module":
        """Convert all floating-point parameters and buffers to bfloat16 in place, and return this module."""
        return self.to(bfloat16)

    def double(self) -> "Module":
        """Convert all floating-point parameters and buffers to float64 in place, and return this module."""
        return self.to(float64)

    def cpu(self) -> "Module":
        """Move all parameters and buffers to the CPU in place, and return this module."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> "Module":
        """Raise DeviceAbsent, since there is no GPU."""
        return self.to("cuda")

    def requires_grad_(self, requires_grad: bool = True) -> "Module":
        """Set whether all parameters require a gradient, and return this module."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None, or to zeros if `set_to_none` is false.

        Missing gradients stay None.
        """
        for p in self.parameters():
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                # The same tensor, unless it is part of a graph.
                p.grad = zero_(p.grad.detach() if p.grad.requires_grad else p.grad)

    def extra_repr(self) -> str:
        """Return the text that `repr` prints inside the parentheses. Subclasses override it; the default is empty."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        own = self.extra_repr()
        below = [f"({name}): " + repr(m).replace("\n", "\n  ") for name, m in self._modules.items()]
        if not below:
            return f"{self._get_name()}({own})"
        return f"{self._get_name()}(\n  " + "\n  ".join(([own] if own else []) + below) + "\n)"
