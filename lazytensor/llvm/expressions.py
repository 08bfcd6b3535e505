"""Translate expressions of kernel texts (operators, choices, calls) to LLVM."""

import ast
import math
import struct
from collections.abc import Callable, Sequence

from lazytensor.llvm import float_instructions, lane_totals, thread_instructions
from lazytensor.llvm.function_builder import Scope
from lazytensor.llvm.kernel_imports import INTRINSICS, LANES_MODULE, PANELS, THREADS, Meaning, meaning
from lazytensor.llvm.number_types import (
    BOOL,
    DOUBLE,
    INT,
    KINDS,
    POINTER,
    SINGLE,
    Array,
    Unknown,
    Value,
    common,
    literal,
)

ARITHMETIC = {
    ast.Add: ("fadd", "add"),
    ast.Sub: ("fsub", "sub"),
    ast.Mult: ("fmul", "mul"),
    ast.Div: ("fdiv", ""),
    ast.BitAnd: ("", "and"),
    ast.BitOr: ("", "or"),
    ast.BitXor: ("", "xor"),
    ast.LShift: ("", "shl"),
    ast.RShift: ("", "ashr"),
}
"""The instructions of an operator for floating-point numbers and for integers; "" if there is none."""
COMPARISONS = {
    ast.Eq: ("oeq", "eq"),
    ast.NotEq: ("une", "ne"),
    ast.Lt: ("olt", "slt"),
    ast.LtE: ("ole", "sle"),
    ast.Gt: ("ogt", "sgt"),
    ast.GtE: ("oge", "sge"),
}
BITS = frozenset({ast.BitAnd, ast.BitOr, ast.BitXor})
MAX_STACK_ELEMENTS = 64
CONSTANTS = {"inf": math.inf, "nan": math.nan, "pi": math.pi, "e": math.e}


def number(node: ast.expr, scope: Scope) -> Value:
    """Write an expression, and return the one number that it gives. Raise Unknown if it gives something else."""
    value = _single(node, scope)
    if not isinstance(value, Value):
        raise Unknown("a value that is not a number")
    return value


def _single(node: ast.expr, scope: Scope) -> Value | Array:
    values = results(node, scope)
    if len(values) != 1:
        raise Unknown("several values where one is expected")
    return values[0]


def truth(node: ast.expr, scope: Scope) -> Value:
    """Write an expression, and return whether it is not zero, as a boolean."""
    return scope.function.converted(number(node, scope), BOOL)


def results(node: ast.expr, scope: Scope) -> tuple[Value | Array, ...]:
    """Write an expression and return its results, numbers or arrays; several for a tuple.

    An expression of literals is computed now. Raise Unknown for what the language does not support.
    """
    folded = _folded(node)
    if folded is not None:
        return (literal(folded, BOOL if isinstance(folded, bool) else INT if isinstance(folded, int) else DOUBLE),)
    if isinstance(node, ast.Tuple):
        return tuple(value for each in node.elts for value in results(each, scope))
    if isinstance(node, ast.Call):
        return _call(node, scope)
    if isinstance(node, ast.Name) and isinstance(array := scope.names.get(node.id), Array):
        return (array,)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return (_piece(node, node.slice, scope),)
    write = _WRITERS.get(type(node))
    if write is None:
        raise Unknown(type(node).__name__)
    return (write(node, scope),)


def _folded(node: ast.expr) -> bool | int | float | None:
    """Return the Python value of an expression that consists only of literals, or None for others."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _folded(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.BinOp):
        a, b = _folded(node.left), _folded(node.right)
        fold = _FOLDS.get(type(node.op))
        return None if a is None or b is None or fold is None else fold(a, b)
    return None


_FOLDS: dict[type, Callable[[float, float], float]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
}


def element(node: ast.Subscript, scope: Scope) -> tuple[Array, str]:
    """Write the address of `array[index]`; return (array, address). Raise Unknown if it is not an array."""
    array = _array(node.value, scope)
    return array, scope.function.element(array, number(node.slice, scope))


def _array(node: ast.expr, scope: Scope) -> Array:
    if isinstance(node, ast.Name):
        array = scope.names.get(node.id)
        if isinstance(array, Array):
            return array
        table = meaning(node.id, scope.module, scope.text).table if array is None else None
        if table is not None:
            return scope.function.constants(table)
    raise Unknown("an element of a value that is not an array")


def _piece(node: ast.Subscript, part: ast.Slice, scope: Scope) -> Array:
    """Write the slice `array[first:last]`, an array that begins at element `first`.

    `last` is ignored, because arrays have no length in the language. Raise Unknown for a slice with a step.
    """
    array = _array(node.value, scope)
    first = number(part.lower or ast.Constant(0), scope)
    if part.step is not None:
        raise Unknown("a slice with a step")
    at = scope.function.converted(first, INT).text
    return Array(array.kind, scope.function.new(f"getelementptr {array.kind.stored}, ptr {array.text}, i64 {at}"))


def _subscript(node: ast.Subscript, scope: Scope) -> Value:
    array, pointer = element(node, scope)
    value = scope.function.new(f"load {array.kind.stored}, ptr {pointer}")
    # A boolean is a byte in memory and a bit in a register.
    if array.kind is BOOL:
        value = scope.function.new(f"icmp ne i8 {value}, 0")
    return Value(array.kind, value)


def _name(node: ast.Name, scope: Scope) -> Value:
    """Write the value of a variable, or of a constant that the module defines or imports.

    Raise Unknown if it is not a number.
    """
    known = scope.names.get(node.id)
    # A variable is a stack slot, so that it may be assigned in a loop; LLVM turns it into a register.
    if isinstance(known, tuple):
        kind, place = known
        return Value(kind, scope.function.new(f"load {kind.llvm}, ptr {place}"))
    if known is not None:
        raise Unknown(f"{node.id}, which is not a number, used as a number")
    given = meaning(node.id, scope.module, scope.text)
    if given.number is not None:
        return literal(given.number, INT)
    if given.value is None:
        raise Unknown(f"{node.id}, which is not a number, used as a number")
    return number(given.value, _scope_of(given, scope))


def _scope_of(given: Meaning, scope: Scope) -> Scope:
    """Return a new scope in the module that defines a name."""
    return Scope(scope.function, given.module, scope.text if given.module == scope.module else "")


def _attribute(node: ast.Attribute, scope: Scope) -> Value:
    if isinstance(node.value, ast.Name) and node.value.id in ("np", "math") and node.attr in CONSTANTS:
        return literal(CONSTANTS[node.attr], DOUBLE)
    raise Unknown(node.attr)


def _binary(node: ast.BinOp, scope: Scope) -> Value:
    """Write an arithmetic or bitwise operation, in the common type of its operands.

    Division of integers gives float64, and arithmetic of booleans int64. Raise Unknown for an unsupported operator or
    type.
    """
    function, operator = scope.function, type(node.op)
    a, b = number(node.left, scope), number(node.right, scope)
    kind = common(a.kind, b.kind)
    if operator in (ast.FloorDiv, ast.Mod) and kind.sort != "f":
        return _divided(operator, function.converted(a, INT), function.converted(b, INT), scope)
    if operator not in ARITHMETIC:
        raise Unknown(operator.__name__)
    if kind is BOOL and operator not in BITS:
        kind = INT
    if operator is ast.Div and kind.sort != "f":
        kind = DOUBLE
    instruction = ARITHMETIC[operator][kind.sort != "f"]
    if not instruction:
        raise Unknown(f"{operator.__name__} of {kind.name}")
    a, b = function.converted(a, kind), function.converted(b, kind)
    return Value(kind, function.new(f"{instruction} {kind.llvm} {a.text}, {b.text}"))


def _divided(operator: type, a: Value, b: Value, scope: Scope) -> Value:
    """Write `a // b` or `a % b` of integers, rounded down as in Python.

    The result is 0 for a divisor of 0, as in NumPy.
    """
    new = scope.function.new
    if b.text.isdigit() and int(b.text) > 0:
        safe = b.text
    else:
        # Division by 0, and of the lowest number by -1, traps: use the divisor 1 and correct the result below.
        one, zero = new(f"icmp eq i64 {b.text}, -1"), new(f"icmp eq i64 {b.text}, 0")
        safe = new(f"select i1 {new(f'or i1 {one}, {zero}')}, i64 1, i64 {b.text}")
    quotient, rest = new(f"sdiv i64 {a.text}, {safe}"), new(f"srem i64 {a.text}, {safe}")
    # The processor rounds towards zero: subtract 1 if the signs differ and the remainder is not 0.
    differs = new(f"icmp slt i64 {new(f'xor i64 {rest}, {safe}')}, 0")
    is_low = new(f"and i1 {differs}, {new(f'icmp ne i64 {rest}, 0')}")
    if operator is ast.Mod:
        result = new(f"select i1 {is_low}, i64 {new(f'add i64 {rest}, {safe}')}, i64 {rest}")
    else:
        result = new(f"select i1 {is_low}, i64 {new(f'sub i64 {quotient}, 1')}, i64 {quotient}")
        if safe != b.text:
            result = new(f"select i1 {one}, i64 {new(f'sub i64 0, {a.text}')}, i64 {result}")
    if safe != b.text:
        result = new(f"select i1 {zero}, i64 0, i64 {result}")
    return Value(INT, result)


def _unary(node: ast.UnaryOp, scope: Scope) -> Value:
    function = scope.function
    if isinstance(node.op, ast.Not):
        return Value(BOOL, function.new(f"xor i1 {truth(node.operand, scope).text}, true"))
    a = number(node.operand, scope)
    if isinstance(node.op, ast.USub) and a.kind.sort == "f":
        return Value(a.kind, function.new(f"fneg {a.kind.llvm} {a.text}"))
    a = function.converted(a, INT)
    if isinstance(node.op, ast.USub):
        return Value(INT, function.new(f"sub i64 0, {a.text}"))
    if isinstance(node.op, ast.Invert):
        return Value(INT, function.new(f"xor i64 {a.text}, -1"))
    raise Unknown("a unary operator other than -, ~ and not")


def _compare(node: ast.Compare, scope: Scope) -> Value:
    """Write a comparison, which gives a boolean. A chain a < b < c is the conjunction of its parts, all of which are
    evaluated.
    """
    function = scope.function
    values = [number(each, scope) for each in (node.left, *node.comparators)]
    parts = [_compared(op, a, b, scope) for op, a, b in zip(node.ops, values, values[1:], strict=False)]
    result = parts[0]
    for part in parts[1:]:
        result = Value(BOOL, function.new(f"and i1 {result.text}, {part.text}"))
    return result


def _compared(op: ast.cmpop, a: Value, b: Value, scope: Scope) -> Value:
    function = scope.function
    if type(op) not in COMPARISONS:
        raise Unknown(type(op).__name__)
    kind = common(a.kind, b.kind)
    if kind is BOOL and not isinstance(op, ast.Eq | ast.NotEq):
        kind = INT  # as a signed bit, True would be -1
    a, b = function.converted(a, kind), function.converted(b, kind)
    which = COMPARISONS[type(op)][kind.sort != "f"]
    return Value(BOOL, function.new(f"{'fcmp' if kind.sort == 'f' else 'icmp'} {which} {kind.llvm} {a.text}, {b.text}"))


def _reads(node: ast.expr, scope: Scope) -> bool:
    """Return whether an expression reads an array or passes one on.

    Such an expression must not be evaluated unless its value is needed.
    """
    # A called function may read an element that exists only if the condition holds.
    return any(
        isinstance(n, ast.Subscript) or (isinstance(n, ast.Name) and isinstance(scope.names.get(n.id), Array))
        for n in ast.walk(node)
    )


def _logic(node: ast.BoolOp, scope: Scope) -> Value:
    """Write `and` or `or`, which give a boolean. An operand that reads an array is evaluated only if it is needed."""
    function, is_and = scope.function, isinstance(node.op, ast.And)
    result = truth(node.values[0], scope)
    for each in node.values[1:]:
        if not _reads(each, scope):
            result = Value(
                BOOL, function.new(f"{'and' if is_and else 'or'} i1 {result.text}, {truth(each, scope).text}")
            )
            continue
        # Branch around a side that must not be evaluated: bitwise `and` and `or` evaluate both sides.
        place = function.place(BOOL)
        more, end = function.labels("more", "end")
        function.line(f"store i1 {result.text}, ptr {place}")
        ways = (more, end) if is_and else (end, more)
        function.line(f"br i1 {result.text}, label %{ways[0]}, label %{ways[1]}")
        function.begin(more)
        function.line(f"store i1 {truth(each, scope).text}, ptr {place}")
        function.line(f"br label %{end}")
        function.begin(end)
        result = Value(BOOL, function.new(f"load i1, ptr {place}"))
    return result


def _choice(node: ast.IfExp, scope: Scope) -> Value | Array:
    """Write `a if test else b`: a `select`, or a branch if a side reads an array."""
    condition = truth(node.test, scope)
    if _reads(node.body, scope) or _reads(node.orelse, scope):
        return _taken_apart(condition, node.body, node.orelse, scope)
    return _selected(condition, number(node.body, scope), number(node.orelse, scope), scope)


def _taken_apart(condition: Value, body: ast.expr, orelse: ast.expr, scope: Scope) -> Value | Array:
    """Write the choice `body` if `condition` else `orelse` with a branch, so that only one side is evaluated.

    Both sides are numbers, of which the common type is returned, or arrays of one type. Raise Unknown for others.
    """
    function = scope.function
    yes, no, end = function.labels("yes", "no", "end")
    function.line(f"br i1 {condition.text}, label %{yes}, label %{no}")
    # Both sides are written to separate lists, because their common type is known only after the second.
    sides, arrays = [], []
    for label, side in ((yes, body), (no, orelse)):
        with function.apart() as lines:
            function.begin(label)
            value = _single(side, scope)
            arrays += [value] if isinstance(value, Array) else []
            sides.append((lines, Value(POINTER, value.text) if isinstance(value, Array) else value))
    kinds = [value.kind for _, value in sides]
    if len(arrays) == 1 or len({array.kind for array in arrays}) > 1:
        raise Unknown("a choice between values of different types")
    kind = kinds[0] if kinds[0] is kinds[1] else common(*kinds)
    place = function.place(kind)
    for lines, value in sides:
        function.add(lines)
        function.line(f"store {kind.llvm} {function.converted(value, kind).text}, ptr {place}")
        function.line(f"br label %{end}")
    function.begin(end)
    chosen = function.new(f"load {kind.llvm}, ptr {place}")
    return Array(arrays[0].kind, chosen) if arrays else Value(kind, chosen)


def _selected(condition: Value, a: Value, b: Value, scope: Scope) -> Value:
    kind = a.kind if a.kind is b.kind else common(a.kind, b.kind)
    a, b = scope.function.converted(a, kind), scope.function.converted(b, kind)
    text = f"select i1 {condition.text}, {kind.llvm} {a.text}, {kind.llvm} {b.text}"
    return Value(kind, scope.function.new(text))


_WRITERS: dict[type, Callable[..., Value | Array]] = {
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BoolOp: _logic,
    ast.IfExp: _choice,
}


def _call(node: ast.Call, scope: Scope) -> tuple[Value | Array, ...]:
    """Write a call of a NumPy function, a built-in, a compiler function, or a helper, which is inlined; return its
    results.

    Raise Unknown for other functions and for arguments that do not fit.
    """
    if isinstance(node.func, ast.Attribute) and node.func.attr == "empty":
        return (_empty(node, scope),)
    arguments = [each for a in node.args for each in results(a, scope)]
    if isinstance(node.func, ast.Attribute):
        return (_numpy(node.func.attr, _numbers(arguments), scope),)
    if not isinstance(node.func, ast.Name):
        raise Unknown("a call of an expression that is not a name")
    if node.func.id in _BUILT_IN:
        return (_BUILT_IN[node.func.id](_numbers(arguments), scope),)
    given = meaning(node.func.id, scope.module, scope.text)
    inner = _scope_of(given, scope)
    if given.module == PANELS:
        return _of_panels(node.func.id, arguments, scope)
    if given.module == LANES_MODULE:
        return (lane_totals.total(node.func.id, arguments, scope.function),)
    if given.module == INTRINSICS:
        return (float_instructions.written(node.func.id, _numbers(arguments), scope.function),)
    if given.module == THREADS:
        return thread_instructions.written(node.func.id, arguments, scope.function)
    if given.function is not None:
        return scope.function.written_out(given.function.args, given.function.body, arguments, inner)
    if given.value is None:
        raise Unknown(f"a call of {node.func.id}")
    return _named(given.value, arguments, inner)


def _numbers(arguments: Sequence[Value | Array]) -> list[Value]:
    if any(isinstance(a, Array) for a in arguments):
        raise Unknown("an array used as a number")
    return [a for a in arguments if isinstance(a, Value)]


def _empty(node: ast.Call, scope: Scope) -> Array:
    """Write `np.empty(count, np.KIND)`: memory that is freed when the kernel returns, or when the same line runs again.

    Up to 64 elements, as a literal count, are on the stack. Raise Unknown for an unsupported element type.
    """
    count, given = node.args
    if not isinstance(given, ast.Attribute) or given.attr.removesuffix("_") not in KINDS:
        raise Unknown("np.empty with an unsupported element type")
    kind = KINDS[given.attr.removesuffix("_")]
    if isinstance(count, ast.Constant) and isinstance(count.value, int) and count.value <= MAX_STACK_ELEMENTS:
        return Array(kind, scope.function.array(kind, count.value))
    elements = scope.function.converted(number(count, scope), INT)
    size = scope.function.new(f"mul i64 {elements.text}, {max(1, kind.bits // 8)}")
    return Array(kind, scope.function.memory(size))


def _of_panels(name: str, arguments: Sequence[Value | Array], scope: Scope) -> tuple[Value, ...]:
    """Write a call of a function of `lazytensor.runtime.panels`: addresses of arrays, copies, and register tiles.

    Only "address" has a result. A tile is added to `function.tiles`.
    """
    function = scope.function
    if name == "address":
        (array,) = arguments
        return (Value(INT, function.new(f"ptrtoint ptr {array.text} to i64")),)
    numbers = [function.converted(a, INT).text for a in _numbers(arguments)]
    if name == "copied":
        source, target = (function.new(f"inttoptr i64 {a} to ptr") for a in numbers[:2])
        size = function.new(f"mul i64 {numbers[2]}, 4")
        function.declarations.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        function.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")
        return ()
    function.tiles.add(name)
    function.line(f"call void @tile_{name}({', '.join(f'i64 {a}' for a in numbers)})")
    return ()


def _numpy(name: str, arguments: list[Value], scope: Scope) -> Value:
    """Write `np.NAME(...)` or `math.NAME(...)`: a conversion, or a float64 function of the C library.

    Raise Unknown for other functions, and for arguments other than float64.
    """
    function = scope.function
    # `np.bool_` is called "bool" in `KINDS`.
    name = name.removesuffix("_")
    if name in KINDS:
        (value,) = arguments
        if value.text.startswith("0x") and KINDS[name] is SINGLE:
            return _narrow(value)
        return function.converted(value, KINDS[name])
    if any(a.kind is not DOUBLE for a in arguments):
        raise Unknown(f"{name} of {arguments[0].kind.name}")
    if name == "sqrt":
        return float_instructions.instruction("llvm.sqrt", arguments, scope.function)
    called = _c_name(name)
    function.declarations.add(f"declare double @{called}({', '.join('double' for _ in arguments)})")
    texts = ", ".join(f"double {a.text}" for a in arguments)
    return Value(DOUBLE, function.new(f"call double @{called}({texts})"))


def _c_name(name: str) -> str:
    """Return the C library's name of a function of NumPy or `math`. Raise Unknown if there is none."""
    known = {"power": "pow"} | {n: n for n in "exp expm1 log log2 log1p tanh erf sin cos tan atan2 fmod".split()}
    if name not in known:
        raise Unknown(name)
    return known[name]


def _narrow(value: Value) -> Value:
    """Return a float64 literal as a float32 literal, which needs no instruction."""
    (exact,) = struct.unpack("<d", int(value.text, 16).to_bytes(8, "little"))
    return literal(exact, SINGLE)


def _extreme(which: str) -> Callable[[list[Value], Scope], Value]:
    """Return a writer of min or max of two integers. `which` is the comparison that selects the first.

    The writer raises Unknown for floating-point numbers.
    """

    def extreme(arguments: list[Value], scope: Scope) -> Value:
        a, b = arguments
        if "f" in (a.kind.sort, b.kind.sort):
            raise Unknown("min or max of floating-point numbers")
        a, b = (scope.function.converted(v, INT) for v in (a, b))
        chosen = scope.function.new(f"icmp {which} i64 {a.text}, {b.text}")
        return _selected(Value(BOOL, chosen), a, b, scope)

    return extreme


def _size(arguments: list[Value], scope: Scope) -> Value:
    """Write `abs` of a number."""
    (a,) = arguments
    if a.kind.sort == "f":
        return float_instructions.instruction("llvm.fabs", arguments, scope.function)
    a = scope.function.converted(a, INT)
    negative = Value(INT, scope.function.new(f"sub i64 0, {a.text}"))
    is_negative = scope.function.new(f"icmp slt i64 {a.text}, 0")
    return _selected(Value(BOOL, is_negative), negative, a, scope)


_BUILT_IN: dict[str, Callable[[list[Value], Scope], Value]] = {
    "min": _extreme("slt"),
    "max": _extreme("sgt"),
    "abs": _size,
}


def _named(value: ast.expr, given_arguments: Sequence[Value | Array], scope: Scope) -> tuple[Value | Array, ...]:
    """Write a call of a function that a module defines as `inline(lambda ...)`; return its result.

    Raise Unknown if `value` is another expression, or for an array among the arguments.
    """
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name) or value.func.id != "inline":
        raise Unknown("a call of a name that is not a function")
    (function,) = value.args
    if not isinstance(function, ast.Lambda):
        raise Unknown("a call of a name that is not a function")
    return scope.function.written_out(
        function.args, [ast.Return(value=function.body)], _numbers(given_arguments), scope
    )
