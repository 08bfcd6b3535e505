"""`torch.ops`: PyTorch's operators by namespace and name, which call the functions of this package.

Libraries use operators such as `torch.ops.aten.add.Tensor` as keys of tables, and call a few of them.
"""

import functools
from typing import Any

from cstorch_compat.names.mirror_modules import get_mirror
from lazytensor.core import source
from lazytensor.errors import LibraryUnloadable, NameMissing, OptionMissing

FUNCTION_MODULES = ("torch", "torch.nn.functional", "torch.Tensor", "torch.linalg", "torch.special")
"""Where the function of an operator is looked up, in this order."""
BUILTIN_NAMESPACES = ("aten", "prim", "prims")
"""The namespaces whose operators are those of PyTorch. Others have those that `torch.library` defines."""
CUSTOM_OPERATORS: dict[str, Any] = {}
"""The operators that `torch.library` defines, by their names NAMESPACE::NAME."""


class Operator:
    """An operator, or one of its overloads, such as `torch.ops.aten.add` or `torch.ops.aten.add.Tensor`.

    A call calls the function or method of the same name. If there is none it raises OptionMissing. Equal names give the
    same object.
    """

    def __init__(self, name: str, function_name: str):
        self._qualified_op_name, self.__name__, self._function_name = name, function_name, function_name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for path in FUNCTION_MODULES:
            owner = get_mirror("torch").Tensor if path == "torch.Tensor" else get_mirror(path)
            function = getattr(owner, self._function_name, None)
            if function is not None:
                return function(*args, **kwargs)
        raise OptionMissing(
            f"torch.ops.{self._qualified_op_name}: no function of this name is implemented",
            where=source.where(),
            hint="Replace it by a supported operation, or run this part with PyTorch.",
        )

    def __getattr__(self, overload: str) -> "Operator":
        if overload.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {overload!r}")
        operator = self.__dict__[overload] = Operator(f"{self._qualified_op_name}.{overload}", self._function_name)
        return operator

    def __repr__(self) -> str:
        return f"<Operator {self._qualified_op_name!r}>"


class OperatorNamespace:
    """The operators of one namespace, such as `torch.ops.aten`, as attributes.

    A namespace that is not in BUILTIN_NAMESPACES has those of CUSTOM_OPERATORS; another attribute raises NameMissing,
    an AttributeError.
    """

    def __init__(self, name: str):
        self.name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if f"{self.name}::{name}" in CUSTOM_OPERATORS:
            return CUSTOM_OPERATORS[f"{self.name}::{name}"]
        if self.name not in BUILTIN_NAMESPACES:
            raise NameMissing(
                f"torch.ops.{self.name} has no operator {name!r}: extensions of PyTorch cannot be loaded",
                where=source.where(),
                hint="Use the Python implementation of the library, or run this part with PyTorch.",
            )
        operator = self.__dict__[name] = Operator(f"{self.name}.{name}", name)
        return operator


class OperatorRegistry:
    """`torch.ops`: an attribute is the namespace of that name. Libraries with operators cannot be loaded."""

    def __getattr__(self, name: str) -> OperatorNamespace:
        if name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return _get_namespace(name)

    def load_library(self, path: Any) -> None:
        """Raise LibraryUnloadable, an OSError, because compiled extensions of PyTorch cannot be loaded."""
        raise LibraryUnloadable(
            f"torch.ops.load_library({path!r}): extensions of PyTorch cannot be loaded",
            where=source.where(),
            hint="Use the Python implementation of the library, or run this part with PyTorch.",
        )


@functools.cache
def _get_namespace(name: str) -> OperatorNamespace:
    """Return the namespace `name`, which is created at the first call."""
    return OperatorNamespace(name)


ops = OperatorRegistry()
