"""Read from the source text of a file which names of other modules it uses, without running it.

Only unconditional uses count. Names tested by `hasattr()`, names in a `try` that catches their absence, and names under
`if TYPE_CHECKING:` do not count.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from lazytensor.ir.types import Where

OPTIONAL_NAME_ERRORS = frozenset("ImportError ModuleNotFoundError AttributeError Exception BaseException".split())
"""Exceptions that a missing name can raise. A `try` with a handler for one of them does not require the name."""
ScopeNode = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


@dataclass(frozen=True)
class NameUse:
    """A use of a dotted name at a line.

    `name` is a module, a name inside a module, or ".attribute" for an attribute of a value. `is_import` is True if an
    import statement uses it.
    """

    name: str
    place: Where
    is_import: bool = False


@dataclass
class FileNames:
    """The names of one file.

    uses: names that the file requires
    imports: modules and names that it imports, optional ones included
    defined: functions, classes and attributes that it defines
    asked: names that it tests with `hasattr()` or `getattr()`, with the module's path before the last dot, if known
    calls: the calls of names that begin at an import
    """

    uses: list[NameUse] = field(default_factory=list)
    imports: list[NameUse] = field(default_factory=list)
    defined: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    calls: list[NameUse] = field(default_factory=list)


def read_used_names(text: str, path: str, package: str = "") -> FileNames:
    """Return the names that the source `text` uses. `path` is its file, used in the places of the result.

    `package` is the package that relative imports refer to. Raises SyntaxError if the text does not parse.
    """
    tree = ast.parse(text, path)
    reader = _NameVisitor(path, package)
    reader.enter(tree, tree.body)
    return reader.names


class _NameVisitor(ast.NodeVisitor):
    """A syntax tree visitor that resolves names to dotted paths of imports and fills `names`."""

    def __init__(self, path: str, package: str):
        self.path, self.package, self.names = path, package, FileNames()
        # The value of a name is a dotted path, an expression of names, or None for other values.
        self._scopes: list[dict[str, str | ast.expr | None]] = []
        self._minded = 0

    def enter(self, scope: ScopeNode, body: list[ast.stmt] | list[ast.expr]) -> None:
        """Visit the statements of a scope. All its names are bound first, since a function may use a later import."""
        names: dict[str, str | ast.expr | None] = {}
        for name, meaning in self._bindings(scope, body):
            # A name with two bindings is unknown (None), unless one of them is an import.
            names[name] = None if name in names and not isinstance(meaning, str) else meaning
        self._scopes.append(names)
        for statement in body:
            self.visit(statement)
        self._scopes.pop()

    def _bindings(
        self, scope: ScopeNode, body: list[ast.stmt] | list[ast.expr]
    ) -> Iterator[tuple[str, str | ast.expr | None]]:
        """Yield the names that a scope binds and what each stands for: a dotted path, an expression of names, or None.

        Imports come last, so that they win over other assignments of the same name.
        """
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            a = scope.args
            yield from ((n.arg, None) for n in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if n)
        imported, plain = dict[str, str](), set[ast.AST]()
        for n in _walk_scope(body):
            if isinstance(n, ast.Import | ast.ImportFrom):
                imported |= self._aliases(n)
            elif isinstance(n, ast.Assign) and len(n.targets) == 1 and isinstance(n.targets[0], ast.Name):
                plain.add(n.targets[0])
                yield n.targets[0].id, n.value if _is_path(n.value) else None
            elif isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n not in plain:
                yield n.id, None
        # Imports are last: after `try: import x` with `except ImportError: x = None`, x counts as the module.
        yield from imported.items()

    def _aliases(self, n: ast.Import | ast.ImportFrom) -> dict[str, str]:
        """Return the names that an import statement binds, with their dotted paths."""
        if isinstance(n, ast.Import):
            # `import a.b` binds a, `import a.b as c` binds the inner one.
            return {
                a.asname or a.name.partition(".")[0]: a.name if a.asname else a.name.partition(".")[0] for a in n.names
            }
        module = self.absolute(n)
        return {a.asname or a.name: f"{module}.{a.name}" for a in n.names if a.name != "*"}

    def absolute(self, n: ast.ImportFrom) -> str:
        """Return the absolute module name of a `from` import. Relative imports are resolved against `package`."""
        if not n.level:
            return n.module or ""
        above = self.package.split(".")[: len(self.package.split(".")) - n.level + 1]
        return ".".join([*above, *([n.module] if n.module else [])])

    def _where(self, n: ast.expr | ast.stmt) -> Where:
        return Where(self.path, n.lineno)

    def _note(self, name: str, n: ast.expr | ast.stmt, is_import: bool = False) -> None:
        """Record a use of `name`, unless the code handles its absence."""
        # Names whose absence is handled are not required.
        if not self._minded:
            self.names.uses.append(NameUse(name, self._where(n), is_import))

    def visit_Import(self, n: ast.Import) -> None:
        """Record the modules as used and as imported."""
        for a in n.names:
            self._note(a.name, n, is_import=True)
            self.names.imports.append(NameUse(a.name, self._where(n), True))

    def visit_ImportFrom(self, n: ast.ImportFrom) -> None:
        """Record each imported name and its module."""
        module = self.absolute(n)
        self.names.imports.append(NameUse(module, self._where(n), True))
        for a in n.names:
            self._note(module if a.name == "*" else f"{module}.{a.name}", n, is_import=True)
            if a.name != "*":
                self.names.imports.append(NameUse(f"{module}.{a.name}", self._where(n), True))

    def visit_Attribute(self, n: ast.Attribute) -> None:
        """Record a chain of attributes as one dotted name if it begins at an import.

        Otherwise record its last attribute as ".name". An assigned attribute is recorded as defined.
        """
        path = self._path(n)
        if path is not None:
            self._note(path, n)
            return
        if isinstance(n.ctx, ast.Load):
            self._note(f".{n.attr}", n)
        else:
            self.names.defined.add(n.attr)
        self.visit(n.value)

    def _path(self, e: ast.expr, depth: int = 0) -> str | None:
        """Return the dotted path that an expression refers to, or None if it does not begin at an import.

        Follows assignments such as `nn = torch.nn`, at most 9 times to stop at circular ones.
        """
        if isinstance(e, ast.Attribute):
            inner = self._path(e.value, depth)
            return None if inner is None else f"{inner}.{e.attr}"
        if not isinstance(e, ast.Name):
            return None
        for scope in reversed(self._scopes):
            if e.id in scope:
                meaning = scope[e.id]
                # Follow `nn = torch.nn`. The depth limit ends circular bindings.
                return (
                    self._path(meaning, depth + 1) if isinstance(meaning, ast.expr) and depth < 9 else _as_path(meaning)
                )
        return None

    def visit_Call(self, n: ast.Call) -> None:
        """Record the name of a called function, and the name that `hasattr()` or `getattr()` tests."""
        path = self._path(n.func)
        if path is not None:
            self.names.calls.append(NameUse(path, self._where(n)))
        is_question = isinstance(n.func, ast.Name) and n.func.id in ("hasattr", "getattr") and len(n.args) > 1
        name = n.args[1].value if is_question and isinstance(n.args[1], ast.Constant) else None
        if isinstance(name, str):
            self.names.asked.add(f"{self._path(n.args[0]) or ''}.{name}")
        self.generic_visit(n)

    def visit_Try(self, n: ast.Try) -> None:
        """Visit a `try`. If a handler catches missing names, names in its body and handlers do not count."""
        minds = any(h.type is None or _find_last_names(h.type) & OPTIONAL_NAME_ERRORS for h in n.handlers)
        self._minded += minds
        # Handlers run only if the name is missing, so their names do not count either.
        for part in (*n.body, *n.handlers):
            self.visit(part)
        self._minded -= minds
        for part in (*n.orelse, *n.finalbody):
            self.visit(part)

    def visit_If(self, n: ast.If) -> None:
        """Visit an `if`. Names under `if TYPE_CHECKING:` do not count."""
        is_for_types = "TYPE_CHECKING" in _find_last_names(n.test)
        self.visit(n.test)
        self._minded += is_for_types
        for statement in n.body:
            self.visit(statement)
        self._minded -= is_for_types
        for statement in n.orelse:
            self.visit(statement)

    def _visit_scope(self, n: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        """Visit a function or class: decorators, defaults and bases in the outer scope, then the body.

        Annotations are skipped.
        """
        self.names.defined.add(n.name)
        # Decorators, defaults and bases are evaluated in the outer scope. Annotations may be strings and are skipped.
        outer: list[ast.expr] = [*n.decorator_list]
        outer += n.bases if isinstance(n, ast.ClassDef) else [d for d in (*n.args.defaults, *n.args.kw_defaults) if d]
        for e in outer:
            self.visit(e)
        self.enter(n, n.body)

    def visit_FunctionDef(self, n: ast.FunctionDef) -> None:
        """Visit a function."""
        self._visit_scope(n)

    def visit_AsyncFunctionDef(self, n: ast.AsyncFunctionDef) -> None:
        """Visit an async function."""
        self._visit_scope(n)

    def visit_ClassDef(self, n: ast.ClassDef) -> None:
        """Visit a class."""
        self._visit_scope(n)

    def visit_Lambda(self, n: ast.Lambda) -> None:
        """Visit the expression of a lambda."""
        self.enter(n, [n.body])

    def visit_AnnAssign(self, n: ast.AnnAssign) -> None:
        """Visit the target and value of an annotated assignment. The annotation is skipped."""
        self.visit(n.target)
        if n.value is not None:
            self.visit(n.value)


def _walk_scope(body: list[ast.stmt] | list[ast.expr]) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, without those of the scopes nested in it."""
    stack: list[ast.AST] = list(body)
    while stack:
        n = stack.pop()
        yield n
        if not isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            stack += ast.iter_child_nodes(n)


def _is_path(e: ast.expr) -> bool:
    """Return whether an expression is a name or a chain of attributes of a name."""
    while isinstance(e, ast.Attribute):
        e = e.value
    return isinstance(e, ast.Name)


def _as_path(meaning: str | ast.expr | None) -> str | None:
    return meaning if isinstance(meaning, str) else None


def _find_last_names(e: ast.expr) -> set[str]:
    """Return the last parts of all names in an expression: "b" for `a.b`."""
    return {n.id if isinstance(n, ast.Name) else n.attr for n in ast.walk(e) if isinstance(n, ast.Name | ast.Attribute)}
