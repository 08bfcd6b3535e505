"""Rewrites the expression that a finding points at, where the way out is another expression of the same value."""

import ast
from collections.abc import Callable

Rewrite = Callable[[list[ast.expr], dict[str, ast.expr]], str | None]


def suggestion(key: str, line: str, columns: tuple[int, int] | None) -> str:
    """The line of code that the rule `key` proposes in place of this one, without indentation; "" if there is none."""
    # Without a position the expression cannot be told from the rest of the line.
    if columns is None:
        return ""
    begin, end = columns
    try:
        expression = ast.parse(line[begin:end].strip(), mode="eval").body
    except SyntaxError:
        return ""
    text = _rewritten(key, expression)
    return f"{line[:begin]}{text}{line[end:]}".strip() if text else ""


def _rewritten(key: str, expression: ast.expr) -> str | None:
    if isinstance(expression, ast.Subscript):
        return _of_subscript(key, expression)
    name, args, kwargs = _call(expression)
    rewrite = REWRITES.get((key, name))
    try:
        return rewrite(args, kwargs) if rewrite is not None else None
    except (IndexError, KeyError):  # the call is spelled in another way
        return None


def _call(expression: ast.expr) -> tuple[str, list[ast.expr], dict[str, ast.expr]]:
    """The function's short name and arguments; of a method the object is the first one, of a @ b both sides."""
    if isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.MatMult):
        return "matmul", [expression.left, expression.right], {}
    if not isinstance(expression, ast.Call):
        return "", [], {}
    kwargs = {k.arg: k.value for k in expression.keywords if k.arg is not None}
    if not isinstance(expression.func, ast.Attribute):
        return ast.unparse(expression.func), list(expression.args), kwargs
    owner = ast.unparse(expression.func.value)
    # `torch.add(a, b)` and `a.add(b)` are one rewrite: the object is the first argument of the method.
    is_module = owner in ("torch", "F") or owner.startswith(("torch.", "nn."))
    return expression.func.attr, [*([] if is_module else [expression.func.value]), *expression.args], kwargs


def _of_subscript(key: str, expression: ast.Subscript) -> str | None:
    owner, index = ast.unparse(expression.value), ast.unparse(expression.slice)
    if key == "indexed weight":
        return f"F.embedding({index}, {owner})"
    return f"torch.where({index}, {owner}, 0)" if key == "shape from data" else None


def _plain(e: ast.expr) -> str:
    """An expression as an operand."""
    text = ast.unparse(e)
    return text if isinstance(e, ast.Name | ast.Attribute | ast.Call | ast.Constant | ast.Subscript) else f"({text})"


def _linear(a: list[ast.expr], k: dict[str, ast.expr]) -> str | None:
    x, w = a[0], a[1]
    # x @ w.t() and x @ w.T are linear layers in disguise.
    if isinstance(w, ast.Call) and isinstance(w.func, ast.Attribute) and w.func.attr == "t":
        w = w.func.value
    elif isinstance(w, ast.Attribute) and w.attr in ("T", "mT"):
        w = w.value
    else:
        return None
    return f"F.linear({ast.unparse(x)}, {ast.unparse(w)})"


def _matrix_vector(a: list[ast.expr], k: dict[str, ast.expr]) -> str:
    return f"({_plain(a[0])} * {_plain(a[1])}).sum(-1)"


def _one_hot(a: list[ast.expr], k: dict[str, ast.expr]) -> str:
    y, n = _plain(a[0]), ast.unparse(a[1] if len(a) > 1 else k["num_classes"])
    return f"({y}.unsqueeze(-1) == torch.arange({n}, device={y}.device)).long()"


def _lerp(a: list[ast.expr], k: dict[str, ast.expr]) -> str:
    x, y, w = _plain(a[0]), _plain(a[1]), _plain(a[2] if len(a) > 2 else k["weight"])
    return f"({x} + {w} * ({y} - {x}))"


def _summed(sign: str) -> Rewrite:
    return lambda a, k: f"({_plain(a[0])} {sign} {_plain(k['alpha'])} * {_plain(a[1])})"


def _fused(sign: str) -> Rewrite:
    return lambda a, k: f"({_plain(a[0])} + {_plain(k['value'])} * {_plain(a[1])} {sign} {_plain(a[2])})"


def _dropping(a: list[ast.expr], k: dict[str, ast.expr]) -> str:
    arguments = [*(ast.unparse(e) for e in a), *(f"{n}={ast.unparse(v)}" for n, v in k.items() if n != "drop_last")]
    return f"torch.utils.data.DataLoader({', '.join([*arguments, 'drop_last=True'])})"


REWRITES: dict[tuple[str, str], Rewrite] = {
    **{("transposed weight", name): _linear for name in ("matmul", "mm")},
    **{("no lowering", name): _matrix_vector for name in ("matmul", "mv")},
    ("no lowering", "lerp"): _lerp,
    ("no kernel", "erfc"): lambda a, k: f"(1 - torch.erf({ast.unparse(a[0])}))",
    ("no kernel", "exp2"): lambda a, k: f"(2.0 ** {_plain(a[0])})",
    ("no kernel", "hypot"): lambda a, k: f"torch.sqrt({_plain(a[0])} ** 2 + {_plain(a[1])} ** 2)",
    ("counting", "one_hot"): _one_hot,
    ("decay", "add"): _summed("+"),
    ("decay", "sub"): _summed("-"),
    ("decay", "addcmul"): _fused("*"),
    ("decay", "addcdiv"): _fused("/"),
    ("uneven batches", "DataLoader"): _dropping,
}
"""By rule and function: how the call is written instead."""
