"""Suggest an equivalent expression for the code that a finding refers to.

A rewrite gives the same numbers and breaks no rule. Way outs that change what the program computes are only described
in words, because a suggested line must be correct as it is.
"""

import ast
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

Shape = tuple[int, ...]


@dataclass(frozen=True)
class RewriteContext:
    """The input of a rewrite.

    key: the key of the rule
    line: the source line of the finding
    columns: begin and end of the expression in the line, in bytes as Python counts them; None if unknown
    shapes: the shapes of the tensor operands
    script: the text of the whole file, from which the imported names are read
    """

    key: str
    line: str
    columns: tuple[int, int] | None
    shapes: tuple[Shape, ...] = ()
    script: str = "import torch\nimport torch.nn.functional as F"


@dataclass(frozen=True)
class CallExpression:
    """A call in normal form: a method's object is the first of `args`, and `a @ b` is "matmul" with `args` [a, b].

    name: the function name without its module; "[]" for a subscript, "" for an expression that is no call
    args, kwargs: the arguments as syntax trees
    function: the callee as text
    shapes: the shapes of the tensor operands
    names: how the script spells `torch` and `F`, as returned by `find_torch_aliases`
    """

    name: str
    args: list[ast.expr]
    kwargs: dict[str, ast.expr] = field(default_factory=dict)
    function: str = ""
    shapes: tuple[Shape, ...] = ()
    names: dict[str, str] = field(default_factory=dict)


Rewrite = Callable[[CallExpression], str | None]
"""A function that returns the rewritten call as text, or None if it does not apply."""


def suggest_line(place: RewriteContext) -> str:
    """Return the source line with the expression rewritten, without indentation; "" if there is no rewrite.

    For the rule "shape from data" the enclosing `sum` or `mean` is rewritten, because only that has a fixed shape.
    """
    # Without columns the expression in the line is unknown.
    if place.columns is None:
        return ""
    whole = place.line.encode()
    expression = _parse_expression(whole[slice(*place.columns)].decode())
    if expression is None:
        return ""
    begin, end = place.columns
    if place.key == "shape from data":
        # The selected elements have no fixed shape, but their sum or mean does.
        reduction = _find_enclosing_reduction(whole, place.columns)
        if reduction is None:
            return ""
        expression, begin, end = reduction
    text = _rewrite(place, expression)
    return f"{whole[:begin].decode()}{text}{whole[end:].decode()}".strip() if text else ""


def _parse_expression(text: str) -> ast.expr | None:
    """Return the syntax tree of an expression, or None if it does not parse."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return None


def _find_enclosing_reduction(line: bytes, columns: tuple[int, int]) -> tuple[ast.expr, int, int] | None:
    """Return the `sum` or `mean` call whose only argument is the expression at `columns`, with its columns.

    Returns None if there is no such call, or if `line` is no complete statement.
    """
    # The columns of `tree` do not include the indentation; those of the frame do.
    indent = len(line) - len(line.lstrip())
    try:
        tree = ast.parse(line.strip())
    except SyntaxError:  # the line is part of a longer statement or the head of a block
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
    """Return the rewritten `expression` as text.

    Return None if no rewrite applies or a needed module is not imported.
    """
    # Use the script's own module names: a line with a name that is not imported would not run.
    names = find_torch_aliases(place.script)
    call = _parse_call(expression, names)
    rewrite = REWRITES.get((place.key, call.name))
    # The number of starred arguments is unknown.
    if rewrite is None or any(isinstance(a, ast.Starred) for a in call.args) or "" in call.kwargs:
        return None
    try:
        return rewrite(replace(call, shapes=place.shapes, names=names))
    except (IndexError, KeyError):  # the arguments have another form, or the module is not imported
        return None


def _parse_call(expression: ast.expr, names: dict[str, str]) -> CallExpression:
    """Return `expression` as a CallExpression; its name is "" if it is no call, subscript or `@`.

    `names` are the script's spellings of torch modules. They distinguish `torch.add(a, b)` from the method `a.add(b)`.
    """
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
    # The result of torch.exp(a) is a tensor, although its text begins with a module name.
    is_module = isinstance(owner, ast.Name | ast.Attribute) and text.startswith(("torch.", "nn."))
    is_module |= text in ("torch", "F", *names.values())
    args = [*([] if is_module else [owner]), *expression.args]
    return CallExpression(name=expression.func.attr, args=args, kwargs=kwargs, function=function)


@functools.lru_cache(maxsize=64)
def find_torch_aliases(script: str) -> dict[str, str]:
    """Return how `script` spells `torch` and `torch.nn.functional`, under the keys "torch" and "F".

    A module that the script does not import has no key.

    >>> find_torch_aliases("import torch as t")
    {'torch': 't', 'F': 't.nn.functional'}
    """
    spelled = {}
    try:
        paths = dict(_iter_imports(ast.parse(script)))
    except SyntaxError:
        return {}
    for name, path in (("torch", "torch"), ("F", "torch.nn.functional")):
        # The module itself, or an imported parent of it.
        parts = path.split(".")
        for n in range(len(parts), 0, -1):
            above = paths.get(".".join(parts[:n]))
            if above is not None:
                spelled[name] = ".".join([above, *parts[n:]])
                break
    return spelled


def _iter_imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the dotted path of each import in `tree` and the name that it binds."""
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                # `import a.b` binds a; `import a.b as c` binds c.
                yield (alias.name, alias.asname) if alias.asname else (alias.name.partition(".")[0],) * 2
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            for alias in statement.names:
                yield f"{statement.module}.{alias.name}", alias.asname or alias.name


def _format_operand(e: ast.expr) -> str:
    """Return an expression as text, in parentheses unless it is a name, attribute, call, constant or subscript."""
    text = ast.unparse(e)
    return text if isinstance(e, ast.Name | ast.Attribute | ast.Call | ast.Constant | ast.Subscript) else f"({text})"


def _rewrite_masked_reduction(c: CallExpression) -> str | None:
    """Return the text of `torch.where(mask, x, 0).sum()` for `x[mask].sum()` or `x.masked_select(mask).sum()`.

    A mean divides this by the number of selected elements. A mask with fewer dimensions than `x` is extended with
    trailing dimensions. Return None for other operands.
    """
    inner = _parse_call(c.args[0], c.names)
    if inner.name not in ("[]", "masked_select") or len(inner.args) != 2 or isinstance(inner.args[1], ast.Tuple):
        return None
    owner, mask = (_format_operand(a) for a in inner.args)
    (of_owner, of_mask), where = c.shapes[:2], c.names["torch"]
    # A mask with fewer dimensions selects whole rows. Extend it with trailing dimensions.
    rest = len(of_owner) - len(of_mask)
    spread = f"{mask}[{', '.join(['...', *['None'] * rest])}]" if rest else ast.unparse(inner.args[1])
    total = f"{where}.where({spread}, {owner}, 0).sum()"
    if c.name == "sum":
        return total
    # The number of elements per element of the mask.
    each = "".join(f" * {owner}.shape[{d - rest}]" for d in range(rest))
    return f"({total} / ({mask}.sum(){each}))" if each else f"({total} / {mask}.sum())"


def _rewrite_as_embedding(c: CallExpression) -> str | None:
    """Return the text of `F.embedding(index, weight)` for `weight[index]`.

    Return None unless the weight is 2-D and the index is one tensor.
    """
    owner, index = c.args
    # An embedding selects rows of a 2-D table.
    if isinstance(index, ast.Tuple | ast.Slice) or len(c.shapes[0]) != 2:
        return None
    return f"{c.names['F']}.embedding({ast.unparse(index)}, {ast.unparse(owner)})"


def _rewrite_as_linear(c: CallExpression) -> str | None:
    """Return the text of `F.linear(x, w)` for `x @ w.t()` or `x @ w.T`.

    Return None unless `w` is 2-D and `x` is not transposed.
    """
    # x @ w.t() and x @ w.T equal a linear layer if the weight is 2-D. If both operands are transposed, the left one may
    # be the weight.
    x, w = c.args[0], _find_transpose_operand(c.args[1])
    if w is None or _find_transpose_operand(x) is not None or c.kwargs or len(c.shapes[1]) != 2:
        return None
    return f"{c.names['F']}.linear({ast.unparse(x)}, {ast.unparse(w)})"


def _find_transpose_operand(e: ast.expr) -> ast.expr | None:
    """Return the operand of `e` if it is `x.t()`, `x.T` or `x.mT`, else None."""
    if isinstance(e, ast.Call) and isinstance(e.func, ast.Attribute) and e.func.attr == "t":
        return e.func.value
    return e.value if isinstance(e, ast.Attribute) and e.attr in ("T", "mT") else None


def _rewrite_matrix_vector(c: CallExpression) -> str:
    """Return the text of `(a * b).sum(-1)` for a matrix-vector product of `a` and `b`."""
    return f"({_format_operand(c.args[0])} * {_format_operand(c.args[1])}).sum(-1)"


def _rewrite_one_hot(c: CallExpression) -> str | None:
    """Return the text of a comparison with `arange(n)` for `F.one_hot(y, n)`.

    Return None if `n` is -1, because then the number of classes depends on values.
    """
    count = c.args[1] if len(c.args) > 1 else c.kwargs["num_classes"]
    y, n = _format_operand(c.args[0]), ast.unparse(count)
    # With -1 the number of classes depends on the values.
    if n == "-1":
        return None
    return f"({y}.unsqueeze(-1) == {c.names['torch']}.arange({n}, device={y}.device)).long()"


def _rewrite_lerp(c: CallExpression) -> str:
    """Return the text of `x + w * (y - x)` for `lerp(x, y, w)`."""
    x, y, w = (
        _format_operand(c.args[0]),
        _format_operand(c.args[1]),
        _format_operand(c.args[2] if len(c.args) > 2 else c.kwargs["weight"]),
    )
    return f"({x} + {w} * ({y} - {x}))"


def _make_scaled_sum_rewrite(sign: str) -> Rewrite:
    """Return a rewrite of `add` or `sub` with `alpha` to `x + alpha * y`, with `sign` in place of the plus."""
    return lambda c: (
        f"({_format_operand(c.args[0])} {sign} {_format_operand(c.kwargs['alpha'])} * {_format_operand(c.args[1])})"
    )


def _make_addc_rewrite(sign: str) -> Rewrite:
    """Return a rewrite of `addcmul` or `addcdiv` to `x + value * y * z`, with `sign` in place of the last operator."""
    return lambda c: (
        f"({_format_operand(c.args[0])} + {_format_operand(c.kwargs['value'])} * "
        f"{_format_operand(c.args[1])} {sign} {_format_operand(c.args[2])})"
    )


def _rewrite_hypot(c: CallExpression) -> str:
    """Return the text of `torch.sqrt(x ** 2 + y ** 2)` for `hypot(x, y)`."""
    return f"{c.names['torch']}.sqrt({_format_operand(c.args[0])} ** 2 + {_format_operand(c.args[1])} ** 2)"


def _add_drop_last(c: CallExpression) -> str:
    """Return the text of a DataLoader call with the argument `drop_last=True` added or replaced."""
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
"""The rewrite for each pair of rule key and function name."""
