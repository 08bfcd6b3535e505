"""Decorators that mark a function as a member of Tensor: method, in-place method, operator or property.

A mark is stored on the function. `functional.attach_members` reads the marks and adds the members to Tensor. The stub
`lazytensor/core/tensor_methods.pyi`, for editors and type checkers, is generated from the marks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class MemberMark:
    """How a function becomes a member of Tensor.

    Fields:
    - `names`: the names of the member.
    - `in_place`: whether there is also an in-place form `name_`.
    - `operator`: the name of the operator that it implements, such as "add"; "" for none.
    - `is_comparison`: whether it implements the comparison operator of its name.
    - `is_property`: whether it is a property instead of a method.
    """

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
    """Mark a function as a method of Tensor; its first argument is the tensor.

    - `names`: the method's names, separated by spaces; default is the name of the function.
    - `in_place`: also add the method `name_`, which writes the result to the tensor.
    - `operator`: "add" also implements `+`, reflected `+` and `+=`.
    - `is_comparison`: also implement the comparison operator of the function's name.
    """

    def marked(f: F) -> F:
        own = tuple(names.split()) or (f.__name__,)
        return _add_mark(f, MemberMark(names=own, in_place=in_place, operator=operator, is_comparison=is_comparison))

    return marked if function is None else marked(function)


def tensor_property(*, names: str = "") -> Callable[[F], F]:
    """Mark a function of one tensor as a property of Tensor.

    `names` are its names, separated by spaces; default is the name of the function.
    """
    return lambda f: _add_mark(f, MemberMark(tuple(names.split()) or (f.__name__,), is_property=True))


def _add_mark(function: F, mark: MemberMark) -> F:
    """Add a mark to a function and return the function."""
    # Stored on the function, because a registry would depend on which modules have been imported.
    function.__dict__["members"] = (*member_marks(function), mark)
    return function


def member_marks(function: Any) -> tuple[MemberMark, ...]:
    """Return the marks of a function; an empty tuple for any other object."""
    return tuple(getattr(function, "__dict__", {}).get("members", ()))
