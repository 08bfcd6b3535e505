"""Reads in the text of a file which names of other modules it uses, without running it.

A name counts where it is used for certain: what a script asks for by hasattr(), imports inside a `try` that minds its
absence, or needs for type checkers alone is no use of it.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from lazytensor.ir.types import Where

OPTIONAL_NAME_ERRORS = frozenset("ImportError ModuleNotFoundError AttributeError Exception BaseException".split())
"""Exceptions by whose handlers a script shows that it can do without a name."""
ScopeNode = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


@dataclass(frozen=True)
class NameUse:
    """A dotted name at a line: of a module that is imported, of what is in one, or of a method (".name")."""

    name: str
    place: Where
    is_import: bool = False


@dataclass
class FileNames:
    """What one file uses, and what it defines and asks for itself."""

    uses: list[NameUse] = field(default_factory=list)
    imports: list[NameUse] = field(default_factory=list)
    defined: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)


def read_used_names(text: str, path: str, package: str = "") -> FileNames:
    """The names that a file uses. `package` is the one in which relative imports begin. Raises SyntaxError."""
    tree = ast.parse(text, path)
    reader = _NameVisitor(path, package)
    reader.enter(tree, tree.body)
    return reader.names


class _NameVisitor(ast.NodeVisitor):
    def __init__(self, path: str, package: str):
        self.path, self.package, self.names = path, package, FileNames()
        # A name means a path, an expression that has one, or None where a scope uses it for something of its own.
        self._scopes: list[dict[str, str | ast.expr | None]] = []
        self._minded = 0

    def enter(self, scope: ScopeNode, body: list[ast.stmt] | list[ast.expr]) -> None:
        """Read what stands in a scope; its names are bound first, since a function may use what is imported below."""
        names: dict[str, str | ast.expr | None] = {}
        for name, meaning in self._bindings(scope, body):
            # What is bound twice may be either of the two; an import is bound last, and wins.
            names[name] = None if name in names and not isinstance(meaning, str) else meaning
        self._scopes.append(names)
        for statement in body:
            self.visit(statement)
        self._scopes.pop()

    def _bindings(
        self, scope: ScopeNode, body: list[ast.stmt] | list[ast.expr]
    ) -> Iterator[tuple[str, str | ast.expr | None]]:
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
        # Last: `try: import x`, then `except ImportError: x = None` is still the module where it is used.
        yield from imported.items()

    def _aliases(self, n: ast.Import | ast.ImportFrom) -> dict[str, str]:
        if isinstance(n, ast.Import):
            # `import a.b` binds a, `import a.b as c` binds the inner one.
            return {
                a.asname or a.name.partition(".")[0]: a.name if a.asname else a.name.partition(".")[0] for a in n.names
            }
        module = self.absolute(n)
        return {a.asname or a.name: f"{module}.{a.name}" for a in n.names if a.name != "*"}

    def absolute(self, n: ast.ImportFrom) -> str:
        """The module that a `from` import names, with the package that a relative one begins in."""
        if not n.level:
            return n.module or ""
        above = self.package.split(".")[: len(self.package.split(".")) - n.level + 1]
        return ".".join([*above, *([n.module] if n.module else [])])

    def _where(self, n: ast.expr | ast.stmt) -> Where:
        return Where(self.path, n.lineno)

    def _note(self, name: str, n: ast.expr | ast.stmt, is_import: bool = False) -> None:
        # Inside of what minds the absence of a name, the name may be absent.
        if not self._minded:
            self.names.uses.append(NameUse(name, self._where(n), is_import))

    def visit_Import(self, n: ast.Import) -> None:
        """Note the modules, and that they are to be read too."""
        for a in n.names:
            self._note(a.name, n, is_import=True)
            self.names.imports.append(NameUse(a.name, self._where(n), True))

    def visit_ImportFrom(self, n: ast.ImportFrom) -> None:
        """Note what is taken from a module."""
        module = self.absolute(n)
        self.names.imports.append(NameUse(module, self._where(n), True))
        for a in n.names:
            self._note(module if a.name == "*" else f"{module}.{a.name}", n, is_import=True)
            if a.name != "*":
                self.names.imports.append(NameUse(f"{module}.{a.name}", self._where(n), True))

    def visit_Attribute(self, n: ast.Attribute) -> None:
        """Note a whole chain of attributes once, if it begins at an import; else its last part as that of a value."""
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
        """The path that an expression means; None if it does not begin at an import."""
        if isinstance(e, ast.Attribute):
            inner = self._path(e.value, depth)
            return None if inner is None else f"{inner}.{e.attr}"
        if not isinstance(e, ast.Name):
            return None
        for scope in reversed(self._scopes):
            if e.id in scope:
                meaning = scope[e.id]
                # `nn = torch.nn` goes on from there; a name bound to itself in a circle means nothing.
                return (
                    self._path(meaning, depth + 1) if isinstance(meaning, ast.expr) and depth < 9 else _as_path(meaning)
                )
        return None

    def visit_Call(self, n: ast.Call) -> None:
        """Remember what hasattr() and getattr() ask for."""
        is_question = isinstance(n.func, ast.Name) and n.func.id in ("hasattr", "getattr") and len(n.args) > 1
        name = n.args[1].value if is_question and isinstance(n.args[1], ast.Constant) else None
        if isinstance(name, str):
            self.names.asked.add(f"{self._path(n.args[0]) or ''}.{name}")
        self.generic_visit(n)

    def visit_Try(self, n: ast.Try) -> None:
        """Pass over what a `try` minds."""
        minds = any(h.type is None or _find_last_names(h.type) & OPTIONAL_NAME_ERRORS for h in n.handlers)
        self._minded += minds
        # Handlers too: they run only where the other way is not there.
        for part in (*n.body, *n.handlers):
            self.visit(part)
        self._minded -= minds
        for part in (*n.orelse, *n.finalbody):
            self.visit(part)

    def visit_If(self, n: ast.If) -> None:
        """Pass over what only type checkers read."""
        is_for_types = "TYPE_CHECKING" in _find_last_names(n.test)
        self.visit(n.test)
        self._minded += is_for_types
        for statement in n.body:
            self.visit(statement)
        self._minded -= is_for_types
        for statement in n.orelse:
            self.visit(statement)

    def _visit_scope(self, n: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self.names.defined.add(n.name)
        # Decorators, defaults and bases belong to the scope around; annotations may be text and are left alone.
        outer: list[ast.expr] = [*n.decorator_list]
        outer += n.bases if isinstance(n, ast.ClassDef) else [d for d in (*n.args.defaults, *n.args.kw_defaults) if d]
        for e in outer:
            self.visit(e)
        self.enter(n, n.body)

    def visit_FunctionDef(self, n: ast.FunctionDef) -> None:
        """Read a function."""
        self._visit_scope(n)

    def visit_AsyncFunctionDef(self, n: ast.AsyncFunctionDef) -> None:
        """Read a function that waits."""
        self._visit_scope(n)

    def visit_ClassDef(self, n: ast.ClassDef) -> None:
        """Read a class."""
        self._visit_scope(n)

    def visit_Lambda(self, n: ast.Lambda) -> None:
        """Read its one expression."""
        self.enter(n, [n.body])

    def visit_AnnAssign(self, n: ast.AnnAssign) -> None:
        """Read the value; an annotation asks for nothing at run time that matters."""
        self.visit(n.target)
        if n.value is not None:
            self.visit(n.value)


def _walk_scope(body: list[ast.stmt] | list[ast.expr]) -> Iterator[ast.AST]:
    """The nodes of a scope, without those of the scopes inside."""
    stack: list[ast.AST] = list(body)
    while stack:
        n = stack.pop()
        yield n
        if not isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            stack += ast.iter_child_nodes(n)


def _is_path(e: ast.expr) -> bool:
    """Whether an expression is a name, or attributes of one."""
    while isinstance(e, ast.Attribute):
        e = e.value
    return isinstance(e, ast.Name)


def _as_path(meaning: str | ast.expr | None) -> str | None:
    return meaning if isinstance(meaning, str) else None


def _find_last_names(e: ast.expr) -> set[str]:
    """The last parts of all names in an expression."""
    return {n.id if isinstance(n, ast.Name) else n.attr for n in ast.walk(e) if isinstance(n, ast.Name | ast.Attribute)}
