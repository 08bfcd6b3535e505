"""`lazywafer example NAME`: writes an example script to begin with."""

import argparse
import ast
import pathlib
import sys

_PACKAGE = pathlib.Path(__file__).parents[1]
FOLDERS = (_PACKAGE / "examples", _PACKAGE.parent / "notebooks" / "scripts")
"""Where the examples lie: in what was installed, or in the repository that it is built from."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    writer = commands.add_parser("example", help="write an example script into this folder; without a name, list them")
    writer.add_argument("name", nargs="?", metavar="NAME", help="the example, such as mnist")
    writer.set_defaults(execute=lambda options: write_example(options.name))


def examples() -> dict[str, pathlib.Path]:
    """The example scripts by name."""
    folder = next((f for f in FOLDERS if f.is_dir()), None)
    return {path.stem: path for path in sorted(folder.glob("*.py"))} if folder is not None else {}


def write_example(name: str | None) -> int:
    """Write an example beside the user, or list all. Returns the exit status: 2 if there is none, or a file already."""
    known = examples()
    if name is None:
        for each, path in known.items():
            print(f"{each:8} {_first_line(path)}")
        return 0
    if name not in known:
        print(f"lazywafer: there is no example {name!r}; there are {', '.join(known) or 'none'}", file=sys.stderr)
        return 2
    target = pathlib.Path(f"{name}.py")
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(known[name].read_text(encoding="utf-8"))
    except FileExistsError:
        print(f"lazywafer: {target} is there already: move it away, or go to another folder", file=sys.stderr)
        return 2
    except OSError as e:
        print(f"lazywafer: {target} cannot be written: {e.strerror}", file=sys.stderr)
        return 2
    print(f"wrote {target}: lazywafer run --html {name}.html {target}")
    return 0


def _first_line(path: pathlib.Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
