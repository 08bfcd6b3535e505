"""Rewrites the expression that a finding points at, where another one gives the same numbers and breaks no rule.

A way out that changes what a program computes is told in words only: a line to copy has to be right as it stands.
"""

import ast
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

Shape = tuple[int, ...]


@dataclass(frozen=True)
class RewriteContext:
    """What is known of a finding: its rule, the text around it, and the shapes of the tensors that were given.

    `columns` count bytes of the line, as Python does; `script` is the text of the whole file, for its imports.
    """

    key: str
    line: str
    columns: tuple[int, int] | None
    shapes: tuple[Shape, ...] = ()
    script: str = "import torch\nimport torch.nn.functional as F"


@dataclass(frozen=True)
class CallExpression:
    """A call as it is spelled: of a method the object is the first argument, of a @ b both sides are."""

    name: str
    args: list[ast.expr]
    kwargs: dict[str, ast.expr] = field(default_factory=dict)
    function: str = ""
    shapes: tuple[Shape, ...] = ()
    names: dict[str, str] = field(default_factory=dict)


Rewrite = Callable[[CallExpression], str | None]


def suggest_line(place: RewriteContext) -> str:
    """The line of code to write instead, without indentation; "" if there is none."""
    # Without a position the expression cannot be told from the rest of the line.
    if place.columns is None:
        return ""
    whole = place.line.encode()
    expression = _parse_expression(whole[slice(*place.columns)].decode())
    if expression is None:
        return ""
    begin, end = place.columns
    if place.key == "shape from data":
        # What is selected has no other expression of known shape; what it adds up to has.
        reduction = _find_enclosing_reduction(whole, place.columns)
        if reduction is None:
            return ""
        expression, begin, end = reduction
    text = _rewrite(place, expression)
    return f"{whole[:begin].decode()}{text}{whole[end:].decode()}".strip() if text else ""


def _parse_expression(text: str) -> ast.expr | None:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return None


def _find_enclosing_reduction(line: bytes, columns: tuple[int, int]) -> tuple[ast.expr, int, int] | None:
    """The call that reduces what stands at these columns, with its own."""
    # Python counts columns of what is parsed here without the indentation, and those of the frame with it.
    indent = len(line) - len(line.lstrip())
    try:
        tree = ast.parse(line.strip())
    except SyntaxError:  # a part of a longer statement, or the head of a block
        return None
    for call in ast.walk(tree):
        if (
            isinstance(call, ast.Call)
            and _parse_call(call, {}).name in ("sum", "mean")
            and call.end_col_offset is not None
        ):
            args = _parse_call(call, {}).args
            is_it = args and (args[0].col_offset, args[0].end_col_offset) == (columns[0] - indent, columns[1] - indent)
            if is_it and len(args) == 1 and not call.keywords:
                return call, call.col_offset + indent, call.end_col_offset + indent
    return None


def _rewrite(place: RewriteContext, expression: ast.expr) -> str | None:
    # In the script's own words: a line with a name that it does not import would not run.
    names = find_torch_aliases(place.script)
    call = _parse_call(expression, names)
    rewrite = REWRITES.get((place.key, call.name))
    # A star hides arguments, of which nothing can be said.
    if rewrite is None or any(isinstance(a, ast.Starred) for a in call.args) or "" in call.kwargs:
        return None
    try:
        return rewrite(replace(call, shapes=place.shapes, names=names))
    except (IndexError, KeyError):  # the call is spelled in another way, or the module is not imported
        return None


def _parse_call(expression: ast.expr, names: dict[str, str]) -> CallExpression:
    if isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.MatMult):
        return CallExpression(name="matmul", args=[expression.left, expression.right])
    if isinstance(expression, ast.Subscript):
        return CallExpression(name="[]", args=[expression.value, expression.slice])
    if not isinstance(expression, ast.Call):
        return CallExpression(name="", args=[])
    kwargs = {k.arg or "": k.value for k in expression.keywords}
    function = ast.unparse(expression.func)
    if not isinstance(expression.func, ast.Attribute):
        return CallExpression(name=function, args=list(expression.args), kwargs=kwargs, function=function)
    owner = expression.func.value
    # `torch.add(a, b)` and `a.add(b)` are one rewrite: the object is the first argument of the method.
    text = ast.unparse(owner)
    # What torch.exp(a) gives is no module, though it is spelled like one.
    is_module = isinstance(owner, ast.Name | ast.Attribute) and text.startswith(("torch.", "nn."))
    is_module |= text in ("torch", "F", *names.values())
    args = [*([] if is_module else [owner]), *expression.args]
    return CallExpression(name=expression.func.attr, args=args, kwargs=kwargs, function=function)


@functools.lru_cache(maxsize=64)
def find_torch_aliases(script: str) -> dict[str, str]:
    """How a script says `torch` and `F` (torch.nn.functional), of the two those that it can say."""
    spelled = {}
    try:
        paths = dict(_iter_imports(ast.parse(script)))
    except SyntaxError:
        return {}
    for name, path in (("torch", "torch"), ("F", "torch.nn.functional")):
        # By its own name, or through a module above it.
        parts = path.split(".")
        for n in range(len(parts), 0, -1):
            above = paths.get(".".join(parts[:n]))
            if above is not None:
                spelled[name] = ".".join([above, *parts[n:]])
                break
    return spelled


def _iter_imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Each module that is imported, and the name that it is given."""
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                # `import a.b` binds a; `import a.b as c` binds c.
                yield (alias.name, alias.asname) if alias.asname else (alias.name.partition(".")[0],) * 2
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            for alias in statement.names:
                yield f"{statement.module}.{alias.name}", alias.asname or alias.name


def _format_operand(e: ast.expr) -> str:
    """An expression as an operand."""
    text = ast.unparse(e)
    return text if isinstance(e, ast.Name | ast.Attribute | ast.Call | ast.Constant | ast.Subscript) else f"({text})"


def _rewrite_masked_reduction(c: CallExpression) -> str | None:
    """A sum or mean of what a mask selects: what it leaves out becomes 0, and does not count."""
    inner = _parse_call(c.args[0], c.names)
    if inner.name not in ("[]", "masked_select") or len(inner.args) != 2 or isinstance(inner.args[1], ast.Tuple):
        return None
    owner, mask = (_format_operand(a) for a in inner.args)
    (of_owner, of_mask), where = c.shapes[:2], c.names["torch"]
    # A mask of fewer dimensions selects whole rows: it is spread over the rest of theirs.
    rest = len(of_owner) - len(of_mask)
    spread = f"{mask}[{', '.join(['...', *['None'] * rest])}]" if rest else ast.unparse(inner.args[1])
    total = f"{where}.where({spread}, {owner}, 0).sum()"
    if c.name == "sum":
        return total
    # As many numbers to each element of the mask.
    each = "".join(f" * {owner}.shape[{d - rest}]" for d in range(rest))
    return f"({total} / ({mask}.sum(){each}))" if each else f"({total} / {mask}.sum())"


def _rewrite_as_embedding(c: CallExpression) -> str | None:
    owner, index = c.args
    # An embedding looks rows up, of a table.
    if isinstance(index, ast.Tuple | ast.Slice) or len(c.shapes[0]) != 2:
        return None
    return f"{c.names['F']}.embedding({ast.unparse(index)}, {ast.unparse(owner)})"


def _rewrite_as_linear(c: CallExpression) -> str | None:
    # x @ w.t() and x @ w.T are linear layers in disguise. Of a stack of matrices there is no layer, and where both
    # sides are transposed the weight may be the left one.
    x, w = c.args[0], _find_transpose_operand(c.args[1])
    if w is None or _find_transpose_operand(x) is not None or c.kwargs or len(c.shapes[1]) != 2:
        return None
    return f"{c.names['F']}.linear({ast.unparse(x)}, {ast.unparse(w)})"


def _find_transpose_operand(e: ast.expr) -> ast.expr | None:
    """What an expression is the transpose of."""
    if isinstance(e, ast.Call) and isinstance(e.func, ast.Attribute) and e.func.attr == "t":
        return e.func.value
    return e.value if isinstance(e, ast.Attribute) and e.attr in ("T", "mT") else None


def _rewrite_matrix_vector(c: CallExpression) -> str:
    return f"({_format_operand(c.args[0])} * {_format_operand(c.args[1])}).sum(-1)"


def _rewrite_one_hot(c: CallExpression) -> str | None:
    count = c.args[1] if len(c.args) > 1 else c.kwargs["num_classes"]
    y, n = _format_operand(c.args[0]), ast.unparse(count)
    # -1 asks for as many classes as there are, which only the values tell.
    if n == "-1":
        return None
    return f"({y}.unsqueeze(-1) == {c.names['torch']}.arange({n}, device={y}.device)).long()"


def _rewrite_lerp(c: CallExpression) -> str:
    x, y, w = (
        _format_operand(c.args[0]),
        _format_operand(c.args[1]),
        _format_operand(c.args[2] if len(c.args) > 2 else c.kwargs["weight"]),
    )
    return f"({x} + {w} * ({y} - {x}))"


def _make_scaled_sum_rewrite(sign: str) -> Rewrite:
    return lambda c: (
        f"({_format_operand(c.args[0])} {sign} {_format_operand(c.kwargs['alpha'])} * {_format_operand(c.args[1])})"
    )


def _make_addc_rewrite(sign: str) -> Rewrite:
    return lambda c: (
        f"({_format_operand(c.args[0])} + {_format_operand(c.kwargs['value'])} * "
        f"{_format_operand(c.args[1])} {sign} {_format_operand(c.args[2])})"
    )


def _rewrite_hypot(c: CallExpression) -> str:
    return f"{c.names['torch']}.sqrt({_format_operand(c.args[0])} ** 2 + {_format_operand(c.args[1])} ** 2)"


def _add_drop_last(c: CallExpression) -> str:
    own = [
        *(ast.unparse(e) for e in c.args),
        *(f"{n}={ast.unparse(v)}" for n, v in c.kwargs.items() if n != "drop_last"),
    ]
    return f"{c.function}({', '.join([*own, 'drop_last=True'])})"


REWRITES: dict[tuple[str, str], Rewrite] = {
    **{("transposed weight", name): _rewrite_as_linear for name in ("matmul", "mm")},
    **{("shape from data", name): _rewrite_masked_reduction for name in ("sum", "mean")},
    **{("no lowering", name): _rewrite_matrix_vector for name in ("matmul", "mv")},
    ("indexed weight", "[]"): _rewrite_as_embedding,
    ("no lowering", "lerp"): _rewrite_lerp,
    ("no kernel", "erfc"): lambda c: f"(1 - {c.names['torch']}.erf({ast.unparse(c.args[0])}))",
    ("no kernel", "exp2"): lambda c: f"(2.0 ** {_format_operand(c.args[0])})",
    ("no kernel", "hypot"): _rewrite_hypot,
    ("counting", "one_hot"): _rewrite_one_hot,
    ("decay", "add"): _make_scaled_sum_rewrite("+"),
    ("decay", "sub"): _make_scaled_sum_rewrite("-"),
    ("decay", "addcmul"): _make_addc_rewrite("*"),
    ("decay", "addcdiv"): _make_addc_rewrite("/"),
    ("uneven batches", "DataLoader"): _add_drop_last,
}
"""By rule and function: how the call is written instead."""
