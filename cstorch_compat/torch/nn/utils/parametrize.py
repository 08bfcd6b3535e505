"""Parametrizations: parameters that are computed from others, as in `torch.nn.utils.parametrize`.

The module gets a subclass on which the name of the parameter is a property. The original parameters are in
`module.parametrizations`, where state dicts and optimizers find them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cstorch_compat.run.process import RunLocal
from lazytensor.autograd.grad_modes import no_grad
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionInvalid, ShapeError
from lazytensor.nn import Buffer, Module, ModuleDict, ModuleList, Parameter

_computed_values: RunLocal[dict[tuple[int, str], Tensor] | None] = RunLocal(lambda: None)
"""The values computed inside a block of `cached`, or None outside."""


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor in order, and the original tensors from which the value is computed.

    There is one tensor `original`, or `original0`, `original1` and so on if the `right_inverse` of the first
    parametrization returns several.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False):
        super().__init__(modules)
        self.unsafe = unsafe
        value: Any = original
        # The value passes the list from first to last, and the inverse from last to first.
        with no_grad():
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    value = module.right_inverse(value)
        self.is_tensor = isinstance(value, Tensor)
        if self.is_tensor:
            # Keep the object if nothing was inverted, because optimizers may refer to it.
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

    # Unlike the inverses that users define, this method stores its result in the originals.
    def right_inverse(self, value: Tensor) -> None:
        """Set the original tensors in place so that they give `value`, by the inverses in reverse order.

        Raises RuntimeError if a parametrization has no `right_inverse`.
        """
        with no_grad():
            inverted: Any = value
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise ShapeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse.",
                        where=source.where(),
                        hint="Define right_inverse in the parametrization.",
                    )
                inverted = module.right_inverse(inverted)
            for name, part in zip(self.names(), (inverted,) if self.is_tensor else inverted, strict=True):
                getattr(self, name).copy_(part)

    def names(self) -> list[str]:
        """Return the names of the original tensors."""
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]

    def forward(self) -> Tensor:
        """Return the value of the tensor, computed by all parametrizations in order.

        The first one gets the original tensors, and each other one the previous result.
        """
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
    """Return a context manager in which each parametrized tensor is computed only once.

    Later changes of the originals have no effect on it until the block ends. Nested blocks share the values.
    """
    # Blocks may be nested: the values are kept until the outermost one ends.
    outer = _computed_values.value
    _computed_values.value = outer if outer is not None else {}
    try:
        yield
    finally:
        _computed_values.value = outer


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return whether a tensor of the module, or any tensor if `tensor_name` is None, is parametrized."""
    table = module._modules.get("parametrizations")
    if not isinstance(table, ModuleDict):
        return False
    return len(table) > 0 if tensor_name is None else tensor_name in table


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Add a parametrization to a parameter or buffer, after existing ones, and return the module.

    The first one moves the tensor to `module.parametrizations` and changes the class of `module`, so that reading the
    attribute computes the value. If the parametrization has `right_inverse`, the original is set so that the value
    stays. Raises ValueError for an unknown name, and for a parametrization that changes shape or dtype unless `unsafe`
    is True.
    """
    if is_parametrized(module, tensor_name):
        _check_parametrization(parametrization, getattr(module, tensor_name), unsafe)
        table = module.parametrizations[tensor_name]
        if hasattr(parametrization, "right_inverse"):
            table.right_inverse(parametrization.right_inverse(getattr(module, tensor_name)))
        table.append(parametrization)
        return module
    if tensor_name not in {**module._parameters, **module._buffers}:
        raise OptionInvalid(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'",
            where=source.where(),
            hint="Pass the name of a parameter or a buffer.",
        )
    # Check everything before the module is changed.
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
            raise OptionInvalid(
                f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` flag is "
                f"enabled.\nunparametrized {what}: {old}\nparametrized {what}: {new}",
                where=source.where(),
                hint="Return a tensor of the same kind, or pass unsafe=True.",
            )


def _set_parametrized_class(module: Module) -> None:
    # Each module gets a separate class, because a property belongs to a class. The object stays the same, so other
    # references to it see the change.
    kind = type(module)
    module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), {"__module__": kind.__module__})
    module.add_module("parametrizations", ModuleDict())


def _make_property(name: str) -> property:
    """Return the property `name` of a parametrized module.

    Reading computes the value, or inside `cached` returns the computed one. Assigning sets the originals by the
    inverses of the parametrizations.
    """

    def read(module: Module) -> Tensor:
        # Computed at each access, because the originals may have changed.
        values, key = _computed_values.value, (id(module), name)
        if values is None:
            return module.parametrizations[name]()  # type: ignore[no-any-return]
        if key not in values:
            values[key] = module.parametrizations[name]()
        return values[key]

    return property(read, lambda module, value: module.parametrizations[name].right_inverse(value))


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a tensor an ordinary one again, and return the module.

    Its value is the current one, or the original one if `leave_parametrized` is False. Raises ValueError if the tensor
    is not parametrized, or if it has several originals and `leave_parametrized` is False.
    """
    if not is_parametrized(module, tensor_name):
        raise OptionInvalid(
            f"Module {module} does not have a parametrization on {tensor_name}",
            where=source.where(),
            hint="Pass the name of a parametrized tensor.",
        )
    table = module.parametrizations[tensor_name]
    if not leave_parametrized and not table.is_tensor:
        raise OptionInvalid(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors.",
            where=source.where(),
            hint="Pass leave_parametrized=True.",
        )
    tensor = getattr(table, table.names()[0])
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name)
        # Keep the object if the shapes match, because an optimizer may refer to it.
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
    """Return the class of the module before it was parametrized."""
    return type(module).__mro__[1] if is_parametrized(module) else type(module)
