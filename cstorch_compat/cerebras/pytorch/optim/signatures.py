"""Signatures of optimizers and schedules as in the original package, for tools that read them with `inspect`.

The classes here share constructors that accept several names for a keyword. The file `signatures.txt` lists the
signature that `inspect.signature` reports for each class. Signatures of schedules for learning rate and weight decay
are derived from the generic ones.
"""

import ast
import functools
import inspect
import pathlib
import typing
from collections.abc import Mapping
from typing import Any

from lazytensor.core.tensor import Tensor
from lazytensor.optim.eager import Optimizer

TABLE = pathlib.Path(__file__).with_name("signatures.txt")
"""The file with one signature for each line, as "NAME PARAMETERS"."""
MEANINGS: dict[str, Any] = {
    # Generic types of `typing`, which `inspect` prints by those names. Text is an abbreviation of a longer annotation.
    **{name: getattr(typing, name) for name in "Any Dict Iterable List Optional Tuple Union".split()},
    **{kind.__name__: kind for kind in (bool, float, int, str, type)},
    "PARAMS": "Union[Iterable[TENSOR], Iterable[Dict[str, Any]]]",
    "TAGS": "Union[str, List[Optional[str]], NONE]",
    "TENSOR": Tensor,
    "OPTIMIZER": Optimizer,
    "NONE": None,
}
"""The types for the names in the table's annotations. KIND is the base class of the schedule."""


@functools.cache
def _table() -> dict[str, str]:
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return {name: rest for name, _, rest in (line.partition(" ") for line in lines) if rest and name != "#"}


def signature(name: str, kind: Any = None, names: Mapping[str, str] | None = None) -> inspect.Signature:
    """Return the signature in row `name` of the table. Raises KeyError if there is no such row.

    `kind` is the type for the annotation KIND. `names` maps parameter names of the row to other names. Parameters are
    positional or keyword; defaults are literals.
    """
    # Only parse the row; none of it is executed.
    head = ast.parse(f"def f({_table()[name]}): ...").body[0]
    assert isinstance(head, ast.FunctionDef)
    given = head.args.args
    required: list[Any] = [inspect.Parameter.empty] * (len(given) - len(head.args.defaults))
    return inspect.Signature(
        [
            inspect.Parameter(
                (names or {}).get(a.arg, a.arg),
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=default,
                annotation=_annotation(a.annotation, {**MEANINGS, "KIND": kind}),
            )
            for a, default in zip(given, [*required, *map(ast.literal_eval, head.args.defaults)], strict=True)
        ]
    )


def _annotation(written: ast.expr | None, meanings: Mapping[str, Any]) -> Any:
    """Return the type that an annotation of the table denotes.

    The annotation is a name in `meanings`, or one with parameters in brackets. A meaning that is text is an
    annotation itself. Raises KeyError for an unknown name, and AssertionError for None and other expressions.
    """
    # Build real types, because tools cannot inspect an annotation that is text.
    if isinstance(written, ast.Subscript):
        inner = written.slice
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        of = tuple(_annotation(p, meanings) for p in parts)
        return _annotation(written.value, meanings)[of if len(of) > 1 else of[0]]
    assert isinstance(written, ast.Name)
    meaning = meanings[written.id]
    return _annotation(ast.parse(meaning, mode="eval").body, meanings) if isinstance(meaning, str) else meaning


def show(*classes: type, kind: Any = None, names: Mapping[str, str] | None = None) -> None:
    """Set the signature of each class and its constructor to that of the table. The accepted arguments do not change.

    The constructor is replaced by a wrapper. A class without a row gets the signature of its first base class that has
    one; `names` applies only then. `kind` and `names` are those of `signature`. Raises StopIteration if no class has a
    row.
    """
    for cls in classes:
        row = next(base.__name__ for base in cls.__mro__ if base.__name__ in _table())
        _shown(cls, signature(row, kind, names if row != cls.__name__ else None))


def _shown(cls: Any, seen: inspect.Signature) -> None:
    """Make `inspect.signature` report `seen` for `cls` and its constructor.

    The constructor is replaced in place by a wrapper, which accepts the same arguments as before.
    """
    own = cls.__dict__.get("__init__")

    @functools.wraps(cls.__init__)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        # Use super() for an inherited constructor, because the next class in the resolution order depends on the
        # subclass.
        (functools.partial(own, self) if own else super(cls, self).__init__)(*args, **kwargs)

    # Set it on the constructor too, because tools may inspect either.
    parameters = seen.parameters.values()
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    constructor: Any = __init__
    constructor.__signature__ = seen.replace(parameters=[first, *parameters])
    constructor.__annotations__ = {p.name: p.annotation for p in parameters}
    cls.__init__ = constructor
