"""Translate the text of a kernel in Python syntax to a function in LLVM IR.

Every variable is a stack slot, which LLVM turns into a register. Library functions are inlined at each call. Both sides
of a conditional expression are evaluated, because they have no side effects, and `select` chooses one; if a side reads
an array there is a branch. Arithmetic is strict, except in `sum_f4`.
"""

import ast
import re
from collections.abc import Callable, Sequence

from lazytensor.llvm import expressions
from lazytensor.llvm.function_builder import Function, Scope
from lazytensor.llvm.number_types import BOOL, INT, KINDS, Array, Unknown, Value
from lazytensor.llvm.register_tiles import tiles_text

SHORT, LONG = 16, 2048
"""SHORT: loops with at most this many iterations may be unrolled; unrolling long ones would cost a second of compile
time.

LONG: the minimum number of iterations for more interleaving, whose remainder loop is computed without vectors.
"""
LANE = "lane"
"""The variable name that marks loops over the partial sums of a reduction."""
_SIGNATURE = re.compile(r"(\w+)\((.*)\)")


def kernel_text(source: str, name: str, kernel: str = "kernel") -> tuple[str, tuple[str, ...]]:
    """Return the LLVM text of the function `kernel` of a module text, under the new name `name`, and its types (result,
    arguments).

    A type that ends in `*` is the address of an array. The function takes the address of a table with eight bytes per
    argument. Raise Unknown for what the kernel language does not support, and if there is no function `kernel`.
    """
    definition = _kernel(source, kernel)
    result, *kinds = _signature(definition)
    function = Function(_written_out)
    scope = Scope(function, f"<{name}>", source)
    for k, (argument, kind) in enumerate(zip(definition.args.args, kinds, strict=True)):
        given = KINDS.get(kind)
        place = function.new(f"getelementptr inbounds i64, ptr %table, i64 {k}")
        value = function.new(f"load {given.llvm if given else 'ptr'}, ptr {place}")
        if given is None:
            scope.names[argument.arg] = Array(KINDS[kind[:-1]], value)
        else:
            scope.store(argument.arg, Value(given, value))
    _Body(scope, result).run(definition.body)
    if result == "void":
        function.end("void")
    else:
        function.line("unreachable")
    text = function.module(name, "void" if result == "void" else "i1")
    declared = {line.split("@")[1].split("(")[0] for line in function.declarations}
    for line in tiles_text(function.tiles).splitlines(keepends=True):
        # A tile and the kernel may both declare an intrinsic, but LLVM allows only one declaration.
        if not line.startswith("declare") or line.split('@"')[1].split('"')[0] not in declared:
            text += line
    return text, (result, *kinds)


def _kernel(source: str, name: str) -> ast.FunctionDef:
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    raise Unknown(f"a text without the function {name}")


def _signature(definition: ast.FunctionDef) -> tuple[str, ...]:
    """Return the types of the result and of the arguments, from the decorator, such as ("void", "int64", "float32*").

    Raise Unknown if it is not valid.
    """
    (decorator,) = definition.decorator_list
    if not isinstance(decorator, ast.Call) or not isinstance(decorator.args[0], ast.Constant):
        raise Unknown("a function without a signature")
    match = _SIGNATURE.fullmatch(str(decorator.args[0].value))
    if match is None or match[1] not in ("void", "boolean"):
        raise Unknown("a result type other than void and boolean")
    kinds = tuple(k.strip().replace("boolean", "bool").replace("[::1]", "*") for k in match[2].split(", "))
    if any(kind.rstrip("*") not in KINDS for kind in kinds):
        raise Unknown(f"arguments of the types {kinds}")
    return match[1].replace("boolean", "bool"), *kinds


class _Body:
    """Translates statements one after the other into the function of a scope."""

    def __init__(self, scope: Scope, result: str = ""):
        self.scope, self.function, self.result = scope, scope.function, result
        self.depth = 0  # of loops and conditions

    def run(self, body: Sequence[ast.stmt]) -> None:
        """Translate statements in order. An Unknown error gets the line of the innermost statement."""
        for statement in body:
            write: Callable[[ast.stmt], None] | None = getattr(self, f"_{type(statement).__name__.lower()}", None)
            try:
                if write is None:
                    raise Unknown(f"the statement {type(statement).__name__}")
                write(statement)
            except Unknown as error:
                # Report the innermost statement.
                first = ast.unparse(statement).splitlines()[0]
                error.statement = error.statement or f", in line {statement.lineno}: {first}"
                raise

    def _expr(self, statement: ast.Expr) -> None:
        if not isinstance(statement.value, ast.Constant):  # a docstring
            expressions.results(statement.value, self.scope)

    def _pass(self, statement: ast.Pass) -> None:
        pass

    def _annassign(self, statement: ast.AnnAssign) -> None:
        if statement.value is None:
            raise Unknown("a declaration without a value")
        self._put(statement.target, expressions.results(statement.value, self.scope)[0])

    def _return(self, statement: ast.Return) -> None:
        if not self.result:
            raise Unknown("an inlined function with more than one return")
        value = expressions.truth(statement.value, self.scope).text if statement.value else ""
        self.function.end(f"i1 {value}" if value else "void")
        # Code after the return is unreachable, and LLVM removes it.
        self.function.begin(*self.function.labels("behind"))

    def _continue(self, statement: ast.Continue) -> None:
        self.function.line(f"br label %{self.function.nexts[-1]}")
        self.function.begin(*self.function.labels("behind"))

    def _break(self, statement: ast.Break) -> None:
        self.function.line(f"br label %{self.function.ends[-1]}")
        self.function.begin(*self.function.labels("behind"))

    def _assign(self, statement: ast.Assign) -> None:
        (target,) = statement.targets
        value = expressions.results(statement.value, self.scope)
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        for place, number in zip(targets, value, strict=True):
            self._put(place, number)

    def _augassign(self, statement: ast.AugAssign) -> None:
        target = statement.target
        operation = ast.BinOp(left=target, op=statement.op, right=statement.value)
        self._put(target, expressions.number(operation, self.scope))

    def _put(self, target: ast.expr, value: Value | Array) -> None:
        """Write the assignment of a value to a name or to an array element, converted to the array's type.

        Raise Unknown for another target, and for a name whose type changes inside a loop or condition.
        """
        if isinstance(target, ast.Name):
            self.scope.store(target.id, value, may_change=not self.depth)
        elif isinstance(target, ast.Subscript) and isinstance(value, Value):
            array, pointer = expressions.element(target, self.scope)
            value = self.function.converted(value, array.kind)
            if array.kind is BOOL:
                value = Value(KINDS["uint8"], self.function.new(f"zext i1 {value.text} to i8"))
            self.function.line(f"store {array.kind.stored} {value.text}, ptr {pointer}")
        else:
            raise Unknown("an assignment to something other than a name or an array element")

    def _if(self, statement: ast.If) -> None:
        function = self.function
        condition = expressions.truth(statement.test, self.scope)
        yes, no, end = function.labels("then", "else", "end")
        function.line(f"br i1 {condition.text}, label %{yes}, label %{no}")
        for label, body in ((yes, statement.body), (no, statement.orelse)):
            function.begin(label)
            self._inside(body)
            function.line(f"br label %{end}")
        function.begin(end)

    def _inside(self, body: Sequence[ast.stmt]) -> None:
        self.depth += 1
        self.run(body)
        self.depth -= 1

    def _looped(self, body: Sequence[ast.stmt], following: str, end: str) -> None:
        """Write the body of a loop: `continue` jumps to the label `following`, and `break` to `end`."""
        self.function.nexts.append(following)
        self.function.ends.append(end)
        self._inside(body)
        self.function.nexts.pop()
        self.function.ends.pop()

    def _while(self, statement: ast.While) -> None:
        function = self.function
        head, inside, end = function.labels("head", "body", "end")
        function.line(f"br label %{head}")
        function.begin(head)
        condition = expressions.truth(statement.test, self.scope)
        function.line(f"br i1 {condition.text}, label %{inside}, label %{end}")
        function.begin(inside)
        self._looped(statement.body, head, end)
        function.line(f"br label %{head}{function.kept_a_loop()}")
        function.begin(end)

    def _for(self, statement: ast.For) -> None:
        function, scope, call = self.function, self.scope, statement.iter
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "range"):
            raise Unknown("a loop over something other than range()")
        numbers = [function.converted(expressions.number(a, scope), INT) for a in call.args]
        first = numbers[0] if len(numbers) > 1 else Value(INT, "0")
        last, step = numbers[min(1, len(numbers) - 1)], numbers[2] if len(numbers) > 2 else Value(INT, "1")
        if not isinstance(statement.target, ast.Name):
            raise Unknown("a loop with several loop variables")
        self._counted(statement.target.id, first, last, step, statement.body)

    def _counted(self, name: str, first: Value, last: Value, step: Value, body: Sequence[ast.stmt]) -> None:
        """Write a `for` loop over range(first, last, step). The step may be negative.

        Long loops get metadata that keeps LLVM from unrolling them. A loop over the name `lane` becomes vectors.
        """
        function = self.function
        counter = function.place(INT)
        head, inside, after, end = function.labels("head", "body", "next", "end")
        function.line(f"store i64 {first.text}, ptr {counter}")
        function.line(f"br label %{head}")
        function.begin(head)
        k = Value(INT, function.new(f"load i64, ptr {counter}"))
        goes_on = function.new(f"icmp slt i64 {k.text}, {last.text}")
        if not step.text.isdigit():
            is_down, above = (
                function.new(f"icmp slt i64 {step.text}, 0"),
                function.new(f"icmp sgt i64 {k.text}, {last.text}"),
            )
            goes_on = function.new(f"select i1 {is_down}, i1 {above}, i1 {goes_on}")
        function.line(f"br i1 {goes_on}, label %{inside}, label %{end}")
        function.begin(inside)
        start = function.position()
        self.scope.store(name, k)
        self._looped(body, after, end)
        function.line(f"br label %{after}")
        function.begin(after)
        # `nsw`: the counter cannot overflow, because loop bounds are array sizes.
        following = function.new(f"add nsw i64 {k.text}, {step.text}")
        function.line(f"store i64 {following}, ptr {counter}")
        steps = int(last.text) if last.text.isdigit() else LONG
        if name == LANE and steps > SHORT:
            mark = function.all_lanes(steps)
        else:
            mark = function.kept_a_loop(start if steps >= LONG else None) if steps > SHORT else ""
        function.line(f"br label %{head}{mark}")
        function.begin(end)


def _written_out(
    parameters: ast.arguments, body: Sequence[ast.stmt], arguments: Sequence[Value | Array], scope: Scope
) -> tuple[Value | Array, ...]:
    """Inline a library function at its call: write its body into `scope`, and return its results.

    Without a return at the end of the body, the results are ().
    """
    for parameter, value in zip(parameters.args, arguments, strict=True):
        scope.store(parameter.arg, value)
    *lines, last = body
    writer = _Body(scope)
    if not isinstance(last, ast.Return):
        writer.run(body)
        return ()
    writer.run(lines)
    return expressions.results(last.value, scope) if last.value is not None else ()
