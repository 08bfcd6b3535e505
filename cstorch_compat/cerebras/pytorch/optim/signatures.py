"""Signatures of optimizers and schedules as the original shows them: tools that make configurations read them.

The classes here share constructors, which take keywords under several names. `signatures.txt` has what a reader of
`inspect.signature` is to see; schedules of the learning rate and of weight decay follow from those of any setting.
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
MEANINGS: dict[str, Any] = {
    # The generic types of old, which `inspect` prints by those names; text stands for a longer annotation.
    **{name: getattr(typing, name) for name in "Any Dict Iterable List Optional Tuple Union".split()},
    **{kind.__name__: kind for kind in (bool, float, int, str, type)},
    "PARAMS": "Union[Iterable[TENSOR], Iterable[Dict[str, Any]]]",
    "TAGS": "Union[str, List[Optional[str]], NONE]",
    "TENSOR": Tensor,
    "OPTIMIZER": Optimizer,
    "NONE": None,
}
"""What the annotations of the table are made of; KIND is the family of the schedule."""


@functools.cache
def _table() -> dict[str, str]:
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return {name: rest for name, _, rest in (line.partition(" ") for line in lines) if rest and name != "#"}


def signature(name: str, kind: Any = None, names: Mapping[str, str] | None = None) -> inspect.Signature:
    """The signature of a row; `names` are what its arguments are called by, where that is not as in the row."""
    # Python reads the row, and nothing of it is run.
    head = ast.parse(f"def f({_table()[name]}): ...").body[0]
    assert isinstance(head, ast.FunctionDef)
    given = head.args.args
    # Defaults belong to the last arguments.
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
    """The type that an annotation of the table means."""
    # Built from the real types, since a text would be an annotation that no tool can look into.
    if isinstance(written, ast.Subscript):
        inner = written.slice
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        of = tuple(_annotation(p, meanings) for p in parts)
        return _annotation(written.value, meanings)[of if len(of) > 1 else of[0]]
    assert isinstance(written, ast.Name)
    meaning = meanings[written.id]
    return _annotation(ast.parse(meaning, mode="eval").body, meanings) if isinstance(meaning, str) else meaning


def show(*classes: type, kind: Any = None, names: Mapping[str, str] | None = None) -> None:
    """Let classes and their constructors show the signatures of the table; what they take stays as it is.

    A class without a row shows that of the first of its bases that has one.
    """
    for cls in classes:
        row = next(base.__name__ for base in cls.__mro__ if base.__name__ in _table())
        _shown(cls, signature(row, kind, names if row != cls.__name__ else None))


def _shown(cls: Any, seen: inspect.Signature) -> None:
    own = cls.__dict__.get("__init__")

    @functools.wraps(cls.__init__)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        # What a class does not define itself is asked of its next base, which in a family is not always the first.
        (functools.partial(own, self) if own else super(cls, self).__init__)(*args, **kwargs)

    # Of the constructor as well as of the class: tools ask either.
    parameters = seen.parameters.values()
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    constructor: Any = __init__
    constructor.__signature__ = seen.replace(parameters=[first, *parameters])
    constructor.__annotations__ = {p.name: p.annotation for p in parameters}
    cls.__init__ = constructor
