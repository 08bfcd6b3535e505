"""How a function says that it is a member of Tensor: a method, a form that writes in place, an operator, a fact.

The mark stays on the function, where a reader sees it; `functional.attach_members` reads the marks and gives Tensor its
members. What an editor and a type checker see of them stands in `lazytensor/core/tensor_methods.pyi`, written from the
marks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class MemberMark:
    """Under which names Tensor has a function, and in which forms."""

    names: tuple[str, ...]
    in_place: bool = False
    operator: str = ""
    is_comparison: bool = False
    is_property: bool = False


@overload
def method(
    function: F, *, names: str = "", in_place: bool = False, operator: str = "", is_comparison: bool = False
) -> F: ...


@overload
def method(
    *, names: str = "", in_place: bool = False, operator: str = "", is_comparison: bool = False
) -> Callable[[F], F]: ...


def method(
    function: F | None = None,
    *,
    names: str = "",
    in_place: bool = False,
    operator: str = "",
    is_comparison: bool = False,
) -> F | Callable[[F], F]:
    """Mark a function as a method of Tensor, under its own name or under `names`; its first argument is the tensor.

    With `in_place` there is `name_` too, which writes the result back. `operator="add"` serves `+`, also reflected and
    as `+=`; a comparison serves the operator of its own name.
    """

    def marked(f: F) -> F:
        own = tuple(names.split()) or (f.__name__,)
        return _add_mark(f, MemberMark(names=own, in_place=in_place, operator=operator, is_comparison=is_comparison))

    return marked if function is None else marked(function)


def tensor_property(*, names: str = "") -> Callable[[F], F]:
    """Mark a function of one tensor as a property of Tensor, under its own name or under `names`."""
    return lambda f: _add_mark(f, MemberMark(tuple(names.split()) or (f.__name__,), is_property=True))


def _add_mark(function: F, mark: MemberMark) -> F:
    # In the function's own namespace: a table to register in would have to be filled by importing.
    function.__dict__["members"] = (*member_marks(function), mark)
    return function


def member_marks(function: Any) -> tuple[MemberMark, ...]:
    """What a function says of itself; nothing for any other object."""
    return tuple(getattr(function, "__dict__", {}).get("members", ()))
