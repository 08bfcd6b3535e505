"""Operators that a script or library defines in Python: `torch.library`.

An operator has a schema, kernels by dispatch key, a fake kernel for the meta device, and a backward function. It is
called by its definition or as `torch.ops.NAMESPACE.NAME`. Kernels of devices other than the CPU are never called.
"""

import ast
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cstorch_compat.torch.operators import CUSTOM_OPERATORS
from lazytensor.autograd.function import Function
from lazytensor.core import source
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Device, Tensor, grad_mode, is_grad_enabled
from lazytensor.errors import AutogradError, OptionInvalid, ShapeError

SCHEMA_TYPES: dict[Any, str] = {
    Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    DType: "ScalarType",
    Device: "Device",
    types.NoneType: "()",
}
"""The names of Python's types in a schema."""
KERNEL_KEYS = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd", "")
"""The dispatch keys under which a kernel for the CPU is looked up, in this order. The key "" is of all devices."""


def _name_type(kind: Any, what: str) -> str:
    """Return the name of a type annotation in a schema. Raises ValueError if there is none."""
    if kind in SCHEMA_TYPES:
        return SCHEMA_TYPES[kind]
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        others = [a for a in arguments if a is not types.NoneType]
        if set(others) == {int, float, bool}:
            return "Scalar"
        if len(others) == 1 and len(arguments) == 2:
            return f"{_name_type(others[0], what)}?"
    if typing.get_origin(kind) in (list, Sequence) and len(arguments) == 1:
        return f"{_name_type(arguments[0], what)}[]"
    raise OptionInvalid(
        f"infer_schema(func): {what} has unsupported type {kind}",
        where=source.where(),
        hint="Annotate it with Tensor, int, float, bool, str, a list or an optional of these, or pass schema=.",
    )


def _name_result(kind: Any) -> str:
    if typing.get_origin(kind) is tuple:
        return f"({', '.join(_name_type(a, 'Return') for a in typing.get_args(kind))})"
    return _name_type(types.NoneType if kind is None else kind, "Return")


def infer_schema(prototype_function: Callable[..., Any], /, *, mutates_args: Any, op_name: str | None = None) -> str:
    """Return the schema of a function with type annotations, such as "(Tensor x, float scale=2.0) -> Tensor".

    `mutates_args` has the names of arguments that the function changes, or is "unknown". `op_name` comes before the
    schema. Raises ValueError if an annotation is missing or unsupported.
    """
    hints = typing.get_type_hints(prototype_function)
    words: list[str] = []
    has_star = False
    for p in inspect.signature(prototype_function).parameters.values():
        if p.name not in hints:
            raise OptionInvalid(
                f"infer_schema(func): Parameter {p.name} must have a type annotation. "
                f"Got func with signature {inspect.signature(prototype_function)})",
                where=source.where(),
                hint="Annotate each parameter, or pass schema=.",
            )
        if p.kind is p.KEYWORD_ONLY and not has_star:
            words, has_star = [*words, "*"], True
        name = _name_type(hints[p.name], f"Parameter {p.name}")
        if name.startswith("Tensor") and (mutates_args == "unknown" or p.name in mutates_args):
            name = name.replace("Tensor", f"Tensor(a{len(words)}!)", 1)
        default = "" if p.default is p.empty else f"={_quote_default(p.default)}"
        words.append(f"{name} {p.name}{default}")
    return f"{op_name or ''}({', '.join(words)}) -> {_name_result(hints.get('return'))}"


def _quote_default(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _split_at_commas(text: str) -> list[str]:
    return [part.strip() for part in re.split(r",(?![^\[(]*[\])])", text) if part.strip()]


def _parse_parameters(schema: str) -> list[tuple[inspect.Parameter, str]]:
    """Return the parameters of a schema, each with the name of its type. Raises RuntimeError if it cannot be parsed."""
    found = re.fullmatch(r"[\w:.]*\((.*)\)\s*->\s*(.+)", schema.strip(), re.DOTALL)
    if found is None:
        raise ShapeError(
            f"cannot parse the schema {schema!r}",
            where=source.where(),
            hint="Write it as: (Tensor x, int n=2) -> Tensor",
        )
    parameters, is_keyword = [], False
    for part in _split_at_commas(found[1]):
        if part == "*":
            is_keyword = True
            continue
        declared, _, default = part.partition("=")
        type_name, _, name = declared.strip().rpartition(" ")
        value = _parse_default(default.strip()) if default else inspect.Parameter.empty
        kind = inspect.Parameter.KEYWORD_ONLY if is_keyword else inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append((inspect.Parameter(name, kind, default=value), type_name))
    return parameters


def _parse_default(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except ValueError:
        # A name such as `float` or `mean`, which PyTorch's schemas have for enumerations.
        return text


class CustomOpDef:
    """An operator with its kernels. A call runs the kernel, and records its backward function if it is registered.

    `name` is "NAMESPACE::NAME" and `schema` begins with the parameters.
    """

    def __init__(self, name: str, schema: str):
        self._qualname, self._schema = name, schema
        parameters = _parse_parameters(schema)
        self._signature = inspect.Signature([p for p, _ in parameters])
        self._types = {p.name: kind for p, kind in parameters}
        self._is_mutating = any("!" in kind for kind in self._types.values())
        self._kernels: dict[str, Callable[..., Any]] = {}
        self._fake: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None
        self._setup_context: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    @property
    def default(self) -> "CustomOpDef":
        """Return the operator, which has one overload."""
        return self

    def register_kernel(self, device_types: Any, fn: Callable[..., Any] | None = None, /) -> Any:
        """Register `fn` for a device type, a list of them, or None for all. Without `fn`, return a decorator."""
        if fn is None:
            return lambda fn: self.register_kernel(device_types, fn)
        for key in (device_types,) if isinstance(device_types, str | None) else device_types:
            self._kernels["" if key in (None, "default") else key.upper() if key in ("cpu", "cuda") else key] = fn
        return fn

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Register the function that computes the results' shapes and types, and return it."""
        self._fake = fn
        return fn

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Register `backward(ctx, *gradients)`, and `setup_context(ctx, inputs, output)`, which saves values for it."""
        self._backward, self._setup_context = backward, setup_context

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            if self._types[name] == "Tensor" and not isinstance(value, Tensor):
                raise ShapeError(
                    f"{self._qualname}() Expected a value of type 'Tensor' for argument '{name}' but instead found "
                    f"type '{type(value).__name__}'.",
                    where=source.where(),
                    hint="Pass a tensor.",
                )
        tensors = [v for v in _flatten(bound.arguments.values()) if isinstance(v, Tensor)]
        if self._fake is not None and any(t.device.type == "meta" for t in tensors):
            return self._fake(*bound.args, **bound.kwargs)
        is_tracking = is_grad_enabled() and any(t.requires_grad for t in tensors)
        if is_tracking and "Autograd" in self._kernels:
            return self._kernels["Autograd"](*bound.args, **bound.kwargs)
        kernel = self._find_kernel()
        if kernel is self._kernels.get("CompositeImplicitAutograd"):
            return kernel(*bound.args, **bound.kwargs)
        if is_tracking and not self._is_mutating:
            return self._call_with_gradient(kernel, bound)
        with grad_mode(False):
            return self._run(kernel, bound.args, bound.kwargs)

    def _find_kernel(self) -> Callable[..., Any]:
        for key in KERNEL_KEYS:
            if key in self._kernels:
                return self._kernels[key]
        raise OptionInvalid(
            f"Could not run '{self._qualname}' with arguments from the 'CPU' backend: it has kernels for "
            f"{', '.join(self._kernels) or 'no device'}",
            where=source.where(),
            hint="Register a kernel for the device type cpu.",
        )

    def _run(self, kernel: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Return the result of a kernel, which receives tensors without gradients.

        Raises RuntimeError if the result is one of these tensors.
        """
        args, kwargs = [_detach(v) for v in args], {name: _detach(v) for name, v in kwargs.items()}
        tensors = [v for v in _flatten((*args, *kwargs.values())) if isinstance(v, Tensor)]
        result = kernel(*args, **kwargs)
        if any(value is t for value in _flatten((result,)) for t in tensors):
            raise ShapeError(
                f"{self._qualname}: The output of this custom operator must not also be an input to it",
                where=source.where(),
                hint="Return a clone of the input.",
            )
        return result

    def _call_with_gradient(self, kernel: Callable[..., Any], bound: inspect.BoundArguments) -> Any:
        operator, count = self, len(bound.args)
        names = list(bound.kwargs)

        class Call(Function):
            """A call of the operator."""

            @staticmethod
            def forward(ctx: Any, *values: Any) -> Any:
                """Return the result of the kernel."""
                keywords = dict(zip(names, values[count:], strict=True))
                result = operator._run(kernel, values[:count], keywords)
                if operator._setup_context is not None:
                    inputs = {"inputs": values[:count]} | ({"keyword_only_inputs": keywords} if names else {})
                    operator._setup_context(ctx=ctx, output=result, **inputs)
                return result

            @staticmethod
            def backward(ctx: Any, *gradients: Any) -> Any:
                """Return the registered gradient. Raises RuntimeError if there is none."""
                if operator._backward is None:
                    raise AutogradError(
                        f"Trying to backward through {operator._qualname.replace('::', '.')}.default but no autograd "
                        "formula was registered. Please use register_autograd to add one.",
                        where=source.where(),
                        hint="Call register_autograd with a backward function.",
                    )
                found = operator._backward(ctx, *gradients)
                return (*found, *[None] * len(names)) if isinstance(found, tuple) and names else found

        Call.__name__ = f"GeneratedBackwardFor_{self._qualname.replace('::', '_')}_default"
        return Call.apply(*bound.args, *bound.kwargs.values())


def _detach(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_detach, value))
    return value.detach() if isinstance(value, Tensor) and value.requires_grad else value


def _flatten(values: Iterable[Any]) -> list[Any]:
    return [member for v in values for member in (v if isinstance(v, list | tuple) else (v,))]


def _find_operator(op: Any) -> CustomOpDef:
    """Return an operator given by itself or by its name. Raises RuntimeError if no operator has the name."""
    if isinstance(op, CustomOpDef):
        return op
    name = str(op).removesuffix(".default")
    if name not in CUSTOM_OPERATORS:
        raise ShapeError(
            f"operator {name} does not exist",
            where=source.where(),
            hint="Define it with torch.library.define or torch.library.custom_op.",
        )
    found: CustomOpDef = CUSTOM_OPERATORS[name]
    return found


def _require_namespace(name: str) -> None:
    if not re.fullmatch(r"\w+::[\w.]+", name):
        raise OptionInvalid(
            f"the name of an operator must be NAMESPACE::NAME, but is {name!r}",
            where=source.where(),
            hint="Begin the name with a namespace, such as mylib::name.",
        )


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: Any,
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Define the operator `name`, "NAMESPACE::NAME", by the kernel `fn`. Without `fn`, return a decorator.

    `schema` is inferred from the annotations of `fn` if it is not given. `mutates_args` has the names of arguments that
    the kernel changes. `tags` has no effect. Raises ValueError for a name without namespace.
    """
    if fn is None:
        options = {"mutates_args": mutates_args, "device_types": device_types, "schema": schema}
        return lambda fn: custom_op(name, fn, **options)
    _require_namespace(name)
    operator = CustomOpDef(name, infer_schema(fn, mutates_args=mutates_args) if schema is None else schema)
    operator.register_kernel(device_types, fn)
    CUSTOM_OPERATORS[name] = operator
    return operator


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Define the operator `qualname`, "NAMESPACE::NAME", by its schema. `lib` and `tags` have no effect."""
    _require_namespace(qualname)
    CUSTOM_OPERATORS[qualname] = CustomOpDef(qualname, schema)


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """Register a kernel of an operator for device types. Without `func`, return a decorator.

    The older form `impl(library, name, dispatch_key)` returns a decorator.
    """
    if isinstance(qualname, Library):
        library, name, key = qualname, types, func or ""

        def register(kernel: Callable[..., Any]) -> Callable[..., Any]:
            library.impl(name, kernel, key)
            return kernel

        return register
    return _find_operator(qualname).register_kernel(types, func)


def register_kernel(op: Any, device_types: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    """Register a kernel of an operator for device types. Without `func`, return a decorator."""
    return _find_operator(op).register_kernel(device_types, func)


def register_fake(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None, _stacklevel: int = 1) -> Any:
    """Register the function that computes shapes and types of an operator. Without `func`, return a decorator."""
    operator = _find_operator(op)
    return operator.register_fake if func is None else operator.register_fake(func)


def register_autograd(
    op: Any, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None, lib: Any = None
) -> None:
    """Register the gradient of an operator, as `CustomOpDef.register_autograd` does."""
    _find_operator(op).register_autograd(backward, setup_context=setup_context)


class Library:
    """A group of operators of the namespace `ns`, which `define` and `impl` add to. `kind` is DEF, IMPL or FRAGMENT."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = ""):
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise OptionInvalid(
                f"Unsupported kind: {kind}", where=source.where(), hint="Pass DEF, IMPL or FRAGMENT as kind."
            )
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operator by a schema that begins with its name, and return the name."""
        name = schema.partition("(")[0].strip()
        define(f"{self.ns}::{name}", schema)
        return name

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """Register `fn` as a kernel for a dispatch key, by default that of the library. "Meta" is the fake kernel."""
        name = op_name if "::" in str(op_name) else f"{self.ns}::{op_name}"
        operator, key = _find_operator(name), dispatch_key or self.dispatch_key
        if key == "Meta":
            operator.register_fake(fn)
        else:
            operator.register_kernel(key.replace("AutogradCPU", "Autograd"), fn)
