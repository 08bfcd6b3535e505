"""Writes `lazytensor/core/tensor_methods.pyi` from the functions that are marked as members of Tensor.

`python -m tests.method_stub` rewrites it; `test_tensor_methods.py` holds that it is what it would be.
"""

import collections.abc
import inspect
import pathlib
import re
import types
import typing
from collections.abc import Callable
from typing import Any

from lazytensor.core.tensor_members import MemberMark
from lazytensor.functional.attach_members import marked_functions
from lazytensor.functional.type_promotion import Operand

PATH = pathlib.Path(__file__).parents[1] / "lazytensor" / "core" / "tensor_methods.pyi"
WIDTH = 120
MAX_SUMMARY = WIDTH - 14
"""The longest summary that fits into a line with its indentation and quotes."""
SHADOWED = ("bool", "float", "int", "type")
"""Types that are also methods, which is what their names mean inside of the class."""
HEAD = '''"""What Tensor has besides its own file; `python -m tests.method_stub` writes it from the marked functions."""

import builtins
{imports}
class Methods:
    """Methods, forms that write in place, operators and properties of Tensor."""

'''


class Names:
    """How types are spelled in the stub, and what has to be imported for that."""

    def __init__(self) -> None:
        self.imports: dict[str, set[str]] = {}

    def known(self, module: str, name: str) -> str:
        self.imports.setdefault(module, set()).add(name)
        return name

    def of(self, annotation: Any) -> str:
        if annotation == Operand:
            return self.known("lazytensor.functional.type_promotion", "Operand")
        if annotation in (None, types.NoneType):
            return "None"
        if annotation is Any:
            return self.known("typing", "Any")
        if annotation is ...:
            return "..."
        if isinstance(annotation, str):
            return annotation.replace("Tensor", self.known("lazytensor.core.tensor", "Tensor"))
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin in (types.UnionType, typing.Union):
            return " | ".join(self.of(a) for a in arguments)
        if origin is collections.abc.Callable:
            takes, gives = arguments
            inside = "..." if takes is ... else f"[{', '.join(map(self.of, takes))}]"
            return f"{self.known('collections.abc', 'Callable')}[{inside}, {self.of(gives)}]"
        if origin is not None:
            return f"{self.of(origin)}[{', '.join(map(self.of, arguments))}]"
        return self._class(annotation)

    def _class(self, kind: type) -> str:
        if kind.__module__ == "builtins":
            return f"builtins.{kind.__name__}" if kind.__name__ in SHADOWED else kind.__name__
        if kind.__module__ == "numpy":
            kind_name = self.known("numpy", kind.__name__)
            return f"{kind_name}[Any, Any]" if kind_name == "ndarray" else kind_name
        return self.known(kind.__module__, kind.__name__)

    def parameter(self, p: inspect.Parameter) -> str:
        prefix = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        kind = self.of(Any if p.annotation is p.empty else p.annotation)
        default = "" if p.default is p.empty else f" = {_literal(p.default)}"
        return f"{prefix}{p.name}: {kind}{default}"

    def parameters(self, function: Callable[..., Any]) -> list[str]:
        """What a method takes: the first argument of the function is the tensor."""
        listed, is_bare_star_due = ["self"], True
        for p in list(inspect.signature(function).parameters.values())[1:]:
            if p.kind is p.KEYWORD_ONLY and is_bare_star_due:
                listed.append("*")
            is_bare_star_due = is_bare_star_due and p.kind not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
            listed.append(self.parameter(p))
        return listed


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    is_plain = value is None or isinstance(value, bool | int | float)
    return repr(value) if is_plain and repr(value) not in ("inf", "-inf", "nan") else "..."


def _summary(function: Callable[..., Any]) -> str:
    """Return the first line of a docstring, cut after its last sentence or clause that fits into a line of the stub."""
    text = (function.__doc__ or "").split("\n", maxsplit=1)[0]
    if len(text) <= MAX_SUMMARY:
        return text
    masked = text
    for quoted in (r"`[^`]*`", r'"[^"]*"', *(r"[(\[][^()\[\]]*[)\]]",) * 3):  # brackets nest
        masked = re.sub(quoted, lambda found: "_" * len(found[0]), masked)
    # Cut after a sentence or before a semicolon, else at a comma. Three dots do not end a sentence.
    for mark in (r"(?<!\.)\. |; ", ", "):
        cuts = [found.start() for found in re.finditer(mark, masked[:MAX_SUMMARY])]
        if cuts:
            return f"{text[: cuts[-1]]}."
    return text


def _method(name: str, parameters: list[str], result: str, summary: str = "", note: str = "") -> str:
    """One method; without a summary on as few lines as it goes."""
    body = f'\n        """{summary}"""\n' if summary else " ...\n"
    tail = f") -> {result}:"
    head = f"    def {name}({', '.join(parameters)}{tail}"
    if len(head) + (0 if summary else 4) > WIDTH:
        inside = f"        {', '.join(parameters)}"
        if len(inside) > WIDTH:
            inside = "\n".join(f"        {p}," for p in parameters)
        head = f"    def {name}(\n{inside}\n    {tail}"
    return head + note + body if summary else head + body.rstrip() + note + "\n"


def _members(names: Names, function: Callable[..., Any], mark: MemberMark) -> dict[str, str]:
    """The stub of everything that Tensor has because of one mark, by name."""
    parameters, summary = names.parameters(function), _summary(function)
    result = names.of(inspect.signature(function).return_annotation)
    if mark.is_property:
        return {n: "    @property\n" + _method(n, ["self"], result, summary) for n in mark.names}
    members = {n: _method(n, parameters, result, summary) for n in mark.names}
    if mark.in_place:
        members |= {f"{n}_": _method(f"{n}_", parameters, result) for n in mark.names}
    other = f"other: {names.of(Operand)}"
    if mark.is_comparison:
        name = f"__{function.__name__}__"
        # Comparing gives a tensor, which is not what `object` promises of == and !=.
        is_overriding = function.__name__ in ("eq", "ne")
        note = "  # type: ignore[override]" if is_overriding else ""
        members[name] = _method(name, ["self", "other: object" if is_overriding else other], result, note=note)
    if mark.operator:
        for form in ("", "r", "i"):
            name = f"__{form}{mark.operator}__"
            members[name] = _method(name, ["self", other], result)
    return members


def stub() -> str:
    """The text of `lazytensor/core/tensor_methods.pyi`."""
    names = Names()
    members: dict[str, str] = {}
    for function, mark in marked_functions():
        members |= _members(names, function, mark)
    # By house style the standard library stands before the package's own modules.
    parts = [{m: n for m, n in names.imports.items() if m.startswith("lazytensor") is own} for own in (False, True)]
    imports = "\n".join(
        "".join(f"from {m} import {', '.join(sorted(part[m]))}\n" for m in sorted(part)) for part in parts
    )
    return HEAD.format(imports=imports) + _spaced([text for _, text in sorted(members.items())])


def _spaced(texts: list[str]) -> str:
    """Methods one below the other; an empty line follows what has a docstring or stands before a decorator."""
    lines = [
        text + ("\n" if text.endswith('"""\n') or after.lstrip().startswith("@") else "")
        for text, after in zip(texts, [*texts[1:], ""], strict=True)
    ]
    return "".join(lines).rstrip("\n") + "\n"


if __name__ == "__main__":
    PATH.write_text(stub(), encoding="utf-8")
