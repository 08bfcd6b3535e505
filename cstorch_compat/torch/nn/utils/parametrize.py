"""Parameters that are computed from others: `torch.nn.utils.parametrize`.

The module becomes one of a class of its own, on which the name of the parameter is a property; the parameters behind
it stand in `module.parametrizations`, so state dicts and optimizers see those.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cstorch_compat.run.process import RunLocal
from lazytensor.autograd.grad_modes import no_grad
from lazytensor.core.tensor import Tensor
from lazytensor.nn import Buffer, Module, ModuleDict, ModuleList, Parameter

_computed_values: RunLocal[dict[tuple[int, str], Tensor] | None] = RunLocal(lambda: None)
"""In a block of `cached`, the values that were computed in it."""


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor in their order, and what the first of them computes from.

    That is `original`, or `original0`, `original1`, ... where the `right_inverse` of the first gives several tensors.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False):
        super().__init__(modules)
        self.unsafe = unsafe
        value: Any = original
        # Values go through the list from its beginning to its end, so inverses go from its end.
        with no_grad():
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    value = module.right_inverse(value)
        self.is_tensor = isinstance(value, Tensor)
        if self.is_tensor:
            # The very object where nothing was inverted, since optimizers may have it.
            kept = original if value is original else _match_kind(original, value)
            self._add("original", kept)
        else:
            self.ntensors = len(value)
            for i, part in enumerate(value):
                self._add(f"original{i}", _match_kind(original, part))

    def _add(self, name: str, value: Tensor) -> None:
        if isinstance(value, Parameter):
            self.register_parameter(name, value)
        else:
            self.register_buffer(name, value)

    # Returns nothing, other than the inverses that users write: the value is put where the originals are.
    def right_inverse(self, value: Tensor) -> None:
        """Let the originals be what gives this value. Raises RuntimeError if a parametrization has no inverse."""
        with no_grad():
            inverted: Any = value
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                inverted = module.right_inverse(inverted)
            for name, part in zip(self.names(), (inverted,) if self.is_tensor else inverted, strict=True):
                getattr(self, name).copy_(part)

    def names(self) -> list[str]:
        """Under which names the originals stand."""
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]

    def forward(self) -> Tensor:
        """The value of the tensor."""
        first, *others = self
        value: Tensor = first(*(getattr(self, name) for name in self.names()))
        for module in others:
            value = module(value)
        return value


def _match_kind(original: Tensor, value: Tensor) -> Tensor:
    if isinstance(original, Parameter):
        return Parameter(value.detach(), requires_grad=original.requires_grad)
    return value.detach()


@contextmanager
def cached() -> Iterator[None]:
    """A block in which each parametrized tensor is computed once."""
    # Blocks may lie in each other: the values live until the outermost one ends.
    outer = _computed_values.value
    _computed_values.value = outer if outer is not None else {}
    try:
        yield
    finally:
        _computed_values.value = outer


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a tensor of the module, or any, is computed."""
    table = module._modules.get("parametrizations")
    if not isinstance(table, ModuleDict):
        return False
    return len(table) > 0 if tensor_name is None else tensor_name in table


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute a parameter or buffer by a module from now on, after those that do already. The module, in place.

    Raises ValueError for a name that there is not, and for one that changes shape or type unless `unsafe`.
    """
    if is_parametrized(module, tensor_name):
        _check_parametrization(parametrization, getattr(module, tensor_name), unsafe)
        table = module.parametrizations[tensor_name]
        if hasattr(parametrization, "right_inverse"):
            table.right_inverse(parametrization.right_inverse(getattr(module, tensor_name)))
        table.append(parametrization)
        return module
    if tensor_name not in {**module._parameters, **module._buffers}:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    # Everything that may be refused comes before the module is touched.
    original = getattr(module, tensor_name)
    parametrizations = ParametrizationList([parametrization], original, unsafe)
    if not unsafe:
        with no_grad():
            _check_same_form(original, parametrizations())
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _set_parametrized_class(module)
    module.parametrizations[tensor_name] = parametrizations
    setattr(type(module), tensor_name, _make_property(tensor_name))
    return module


def _check_parametrization(parametrization: Module, value: Tensor, unsafe: bool) -> None:
    if not unsafe:
        with no_grad():
            _check_same_form(value, parametrization(value))


def _check_same_form(before: Tensor, after: Tensor) -> None:
    for what in ("dtype", "shape"):
        old, new = getattr(before, what), getattr(after, what)
        if old != new:
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` flag is "
                f"enabled.\nunparametrized {what}: {old}\nparametrized {what}: {new}"
            )


def _set_parametrized_class(module: Module) -> None:
    # One class for each module: a property belongs to a class, and other modules of it keep their parameters. The
    # module stays the object that it was, so everybody who holds it sees the change.
    kind = type(module)
    module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), {"__module__": kind.__module__})
    module.add_module("parametrizations", ModuleDict())


def _make_property(name: str) -> property:
    def read(module: Module) -> Tensor:
        # Computed at each use: the originals may have been trained in between.
        values, key = _computed_values.value, (id(module), name)
        if values is None:
            return module.parametrizations[name]()  # type: ignore[no-any-return]
        if key not in values:
            values[key] = module.parametrizations[name]()
        return values[key]

    return property(read, lambda module, value: module.parametrizations[name].right_inverse(value))


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make the tensor an ordinary one again, with the value that it has or with the original one.

    Raises ValueError if it is not parametrized, or is computed from several tensors and is to be left as it was.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    table = module.parametrizations[tensor_name]
    if not leave_parametrized and not table.is_tensor:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    tensor = getattr(table, table.names()[0])
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name)
        # The object stays where shapes allow, since an optimizer may have it.
        tensor = (
            _copy_into(tensor, value) if table.is_tensor and tensor.shape == value.shape else _match_kind(tensor, value)
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if not is_parametrized(module):
        del module._modules["parametrizations"]
        module.__class__ = type(module).__mro__[1]
    if isinstance(tensor, Parameter):
        module.register_parameter(tensor_name, tensor)
    else:
        module.register_buffer(tensor_name, Buffer(tensor))
    return module


def _copy_into(tensor: Tensor, value: Tensor) -> Tensor:
    with no_grad():
        return tensor.copy_(value)


def type_before_parametrizations(module: Module) -> type:
    """The class that the module was made of."""
    return type(module).__mro__[1] if is_parametrized(module) else type(module)
