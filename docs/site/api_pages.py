"""Pages of the Python API, made from signatures and docstrings of the imported packages."""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

import cstorch_compat
import lazytensor as lt
import lazytensor.linalg
import lazytensor.nn
import lazytensor.nn.functional as lt_functional
import lazytensor.optim
import lazytensor.special
import wse_sim

GROUPS = {
    "creation": ("Creation", "creation asarray legacy_constructors"),
    "random": ("Random numbers", "random random_sampling random_state"),
    "pointwise": ("Pointwise operations", "pointwise pointwise_ternary bitwise comparison type_promotion activation"),
    "special": ("Special functions", "pointwise_special special"),
    "reduction": ("Reduction", "reduction statistics cumulative quantile"),
    "shapes": (
        "Shapes and views",
        "views strided_views joining_and_splitting flip_and_roll padding_and_shuffles diagonals tensor_attributes",
    ),
    "indexing": ("Indexing and sorting", "indexing gather_scatter sorting"),
    "linalg": ("Linear algebra", "matmul tensor_products linalg distance spectral"),
    "autograd": ("Autograd and tracing", "grad_modes grad_recording tracing function to_onnx"),
    "types": ("Types and devices", "dtype device type_info"),
}
"""Page -> its title, and the files whose functions it shows. Functions of other files go to "functional"."""
CSTORCH_MODULES = (
    "amp experimental metrics nn optim optim.lr_scheduler optim.weight_decay_scheduler sparse utils utils.data "
    "utils.tensorboard"
).split()
MAX_VALUE_LENGTH = 100
"""Characters of a constant that a page shows."""
Entry = tuple[str, Any]


def title(page: str) -> str:
    """Return the heading of a page."""
    return page.partition("\n")[0].lstrip("# ")


def pages() -> dict[str, str]:
    """Return all pages but the first one, by path."""
    grouped: dict[str, list[Entry]] = {page: [] for page in (*GROUPS, "functional")}
    homes = {stem: page for page, (_, stems) in GROUPS.items() for stem in stems.split()}
    for name in sorted(lt.__all__):
        thing = getattr(lt, name)
        if not isinstance(thing, ModuleType) and thing is not lt.Tensor:
            stem = getattr(thing, "__module__", "dtype").rpartition(".")[2]
            page = homes.get(stem, "functional") if callable(thing) else "types"
            grouped[page].append((f"lazytensor.{name}", thing))
    texts = {page: _page(title, [("", grouped[page])]) for page, (title, _) in GROUPS.items()}
    special = _all_of("lazytensor.special", lazytensor.special)
    algebra = _all_of("lazytensor.linalg", lazytensor.linalg)
    network = _named("lazytensor.nn.functional", lt_functional, lt_functional.FUNCTION_NAMES)
    texts |= {
        "special": _page("Special functions", [("lazytensor", grouped["special"]), ("lazytensor.special", special)]),
        "linalg": _page("Linear algebra", [("lazytensor", grouped["linalg"]), ("lazytensor.linalg", algebra)]),
        "functional": _page(
            "Network functions", [("lazytensor.nn.functional", network), ("lazytensor", grouped["functional"])]
        ),
        "tensor": _tensor_page(),
        "nn": _page("lazytensor.nn", _by_file(_all_of("lazytensor.nn", lazytensor.nn))),
        "optim": _page("lazytensor.optim", [("", _all_of("lazytensor.optim", lazytensor.optim))]),
        "wse_sim": _page("wse_sim", [("", _all_of("wse_sim", wse_sim))], has_methods=True),
        "cstorch_compat": _page("cstorch_compat", [("", _all_of("cstorch_compat", cstorch_compat))], has_methods=True),
        "cstorch": _cstorch_page(),
    }
    return {f"reference/api/{page}.md": text for page, text in texts.items()}


def _named(prefix: str, module: Any, names: Iterable[str]) -> list[Entry]:
    things = ((name, getattr(module, name)) for name in sorted(names))
    return [(f"{prefix}.{name}", thing) for name, thing in things if not isinstance(thing, ModuleType)]


def _all_of(prefix: str, module: Any) -> list[Entry]:
    return _named(prefix, module, module.__all__)


def _by_file(entries: list[Entry]) -> list[tuple[str, list[Entry]]]:
    """Return the entries under the name of the file that defines each, as words."""
    files: dict[str, list[Entry]] = {}
    for name, thing in entries:
        files.setdefault(getattr(thing, "__module__", "").rpartition(".")[2], []).append((name, thing))
    return [(file.replace("_", " ").capitalize(), files[file]) for file in sorted(files)]


def _tensor_page() -> str:
    functions, in_place, rest = [], [], []
    for name in sorted(n for n in dir(lt.Tensor) if not n.startswith("_")):
        if name in lt.__all__ and callable(getattr(lt, name)) and not isinstance(getattr(lt, name), type):
            functions.append(name)
        elif name.endswith("_") and hasattr(lt.Tensor, name[:-1]):
            in_place.append(name)
        else:
            rest.append((f"lazytensor.Tensor.{name}", getattr(lt.Tensor, name)))
    entries = "\n\n".join(_entry(name, thing) for name, thing in rest)
    return (
        f"# Tensor\n\n{_text(lt.Tensor.__doc__)}\n\n"
        f"## Methods that are functions too\n\n`x.name(...)` is `lazytensor.name(x, ...)`: {_codes(functions)}.\n\n"
        f"## In-place methods\n\n`x.name_(...)` writes the result of `x.name(...)` into `x`: {_codes(in_place)}.\n\n"
        f"## Other methods and attributes\n\n{entries}\n"
    )


def _codes(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _cstorch_page() -> str:
    """Document what `import cerebras.pytorch as cstorch` gives, as release 2.10 has it."""
    cstorch_compat.install()
    try:
        import cerebras.pytorch as cstorch  # noqa: PLC0415  (found only after `install`)

        modules = {"cstorch": cstorch} | {f"cstorch.{path}": _attribute(cstorch, path) for path in CSTORCH_MODULES}
        seen: set[int] = set()
        sections = []
        for name, module in modules.items():
            if module is not None and (entries := list(_new(_named(name, module, _public(module)), seen))):
                sections.append((name, entries))
        return _page("cerebras.pytorch", sections, has_methods=True, intro="`import cerebras.pytorch as cstorch`")
    finally:
        cstorch_compat.uninstall()


def _attribute(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part, None)
    return module


def _public(module: Any) -> list[str]:
    names = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
    return [n for n in names if callable(getattr(module, n, None)) and _is_ours(getattr(module, n))]


def _is_ours(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).startswith(("cstorch_compat", "cerebras", "lazytensor"))


def _new(entries: list[Entry], seen: set[int]) -> Iterator[Entry]:
    for name, thing in entries:
        if id(thing) not in seen:
            seen.add(id(thing))
            yield name, thing


def _page(title: str, sections: list[tuple[str, list[Entry]]], has_methods: bool = False, intro: str = "") -> str:
    parts = [f"# {title}", intro]
    for heading, entries in sections:
        parts.append(f"## {heading}" if heading else "")
        parts += [_entry(name, thing, has_methods) for name, thing in entries]
    return "\n\n".join(filter(None, parts)) + "\n"


def _entry(name: str, thing: Any, has_methods: bool = False) -> str:
    """Return the heading with its anchor, the docstring and, with `has_methods`, the methods of a class."""
    short = name.rpartition(".")[2]
    heading = f"#### {_escape(short + _signature(thing))} {{ #{name} data-toc-label='{short}' }}"
    parts = [heading, _text(_docstring(thing)) or _value(thing)]
    if has_methods and isinstance(thing, type):
        methods = [(n, m) for n, m in vars(thing).items() if not n.startswith("_") and _docstring(m)]
        parts += [f"**`.{n}{_signature(_plain_function(m))}`** {_text(_docstring(m))}" for n, m in methods]
    return "\n\n".join(filter(None, parts))


def _value(thing: Any) -> str:
    """Return what a page shows for a constant: the keys of a mapping, or the value if it is short."""
    if callable(thing) or isinstance(thing, property):
        return ""
    if isinstance(thing, Mapping):
        return f"A mapping with the keys {_codes(list(map(str, thing)))}."
    text = repr(thing)
    return f"`{text}`" if len(text) < MAX_VALUE_LENGTH else f"A value of the class `{type(thing).__name__}`."


def _plain_function(member: Any) -> Any:
    return getattr(member, "__func__", member)


def _docstring(thing: Any) -> str:
    """Return the docstring of the thing itself; a value, such as a number, has none."""
    if not (callable(thing) or isinstance(thing, property | classmethod | staticmethod)):
        return ""
    return inspect.cleandoc(getattr(thing, "__doc__", None) or "")


def _signature(thing: Any) -> str:
    if not callable(thing):
        return ""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (ValueError, TypeError):
        return "(...)"
    shown: list[str] = []
    for p in parameters:
        if p.name == "self":
            continue
        if p.kind is p.KEYWORD_ONLY and not any(s.startswith("*") for s in shown):
            shown.append("*")
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        shown.append(mark + p.name + ("" if p.default is p.empty else f"={_default(p.default)}"))
    return f"({', '.join(shown)})"


def _default(value: Any) -> str:
    text = repr(value) if not callable(value) else getattr(value, "__name__", "...")
    return text if len(text) <= 30 and " at 0x" not in text and "<" not in text else "..."


def _text(docstring: str | None) -> str:
    """Return a docstring as Markdown: paragraphs, lists and examples; its other characters mean themselves."""
    blocks: list[str] = []
    text = inspect.cleandoc(docstring or "").strip()
    for block in re.split(r"\n\s*\n", text) if text else ():
        lines = block.split("\n")
        start = next((i for i, line in enumerate(lines) if line.lstrip().startswith(">>> ")), len(lines))
        if start:
            blocks.append(_prose(lines[:start]))
        if start < len(lines):
            blocks.append("```pycon\n" + inspect.cleandoc("\n".join(lines[start:])) + "\n```")
    return "\n\n".join(filter(None, blocks))


def _prose(lines: list[str]) -> str:
    if all(line.startswith("    ") or not line.strip() for line in lines):
        return "```text\n" + inspect.cleandoc("\n".join(lines)) + "\n```"
    items = [re.match(r"(\s*)[-*] (.*)", line) for line in lines]
    shown = [f"{m[1]}- {_escape(m[2])}" if m else _escape(line) for m, line in zip(items, lines, strict=True)]
    first = next((i for i, m in enumerate(items) if m), len(lines))
    # Python-Markdown needs an empty line before a list.
    return "\n".join([*shown[:first], *([""] if 0 < first < len(lines) else []), *shown[first:]])


def _escape(text: str) -> str:
    """Escape what Markdown would read as markup outside of code."""
    pieces = text.split("`")
    escaped = (re.sub(r"([*_\[\]{}#])", r"\\\1", piece).replace("<", "&lt;") for piece in pieces)
    return "`".join(piece if i % 2 else safe for i, (piece, safe) in enumerate(zip(pieces, escaped, strict=True)))
