"""Record the names of PyTorch's modules, where it is installed: `record_surface.py > torch_surface.txt`.

`cstorch_compat/names/torch_surface.txt` is its output; `test_torch_surface.py` follows it. A module is public if no
part of its path begins with an underscore; its names are those of __all__, or else those that torch itself defines.

`record_surface.py undocumented > torch_undocumented.txt` records the other names of all modules, also of private ones,
and the values of constants. It reads torch_surface.txt from the folder of the package.
"""

import contextlib
import importlib
import io
import pathlib
import pkgutil
import sys
import typing
import warnings
from collections.abc import Iterator
from types import ModuleType

import torch

CLASSES = ("torch.Tensor", "torch.nn.Module", "torch.optim.Optimizer")
# Of these nobody's script takes more than the module.
BARE = (
    "torch.testing",
    "torch.package",
    "torch.utils.model_dump",
    "torch.jit.mobile",
    "torch.monitor",
    "torch.contrib",
)
BARE += ("torch.nativert", "torch.headeronly", "torch.backends.xeon", "torch.utils.hipify", "torch.ao.ns")
SKIPPED = ("torch.testing._internal", "torch.utils.benchmark.examples", "torch.distributed.launch")


def is_public(path: str) -> bool:
    return not any(part.startswith("_") for part in path.split("."))


def paths() -> list[str]:
    """Public modules, and private ones directly below `torch` and `torch.utils`, which model code imports."""
    found = ["torch"]
    # `onerror`: some modules need packages that are not installed.
    for module in pkgutil.walk_packages(torch.__path__, "torch.", onerror=lambda name: None):
        outer = module.name.rpartition(".")[0]
        if is_public(module.name) or outer in ("torch", "torch.utils") or is_public(outer):
            found.append(module.name)
    return [p for p in found if not p.startswith(SKIPPED)]


def names(module: ModuleType) -> list[str]:
    """What a module offers."""
    listed = getattr(module, "__all__", None)
    if listed is not None and module is not torch:
        return sorted(listed)
    return sorted(n for n, v in vars(module).items() if not n.startswith("_") and is_own(v))


def is_own(value: object) -> bool:
    """Whether a value is torch's and no module."""
    home = getattr(value, "__module__", None) or type(value).__module__
    return not isinstance(value, ModuleType) and (home.startswith("torch") or home == "builtins")


SURFACE = pathlib.Path(__file__).parents[2] / "cstorch_compat" / "names" / "torch_surface.txt"
# The names of these are recorded where they are defined there, and of private modules below them none.
DEEP = """torch._inductor. torch._dynamo.variables torch._dynamo.polyfills torch._dynamo.backends torch._dynamo.repro
torch.ao. torch.onnx. torch.distributed. torch._numpy. torch._refs torch._meta_registrations torch._decomp.
torch._export. torch.fx. torch._native torch._vendor torch._prims. torch.package."""
# Modules whose names other modules have too.
OWNERS = ("torch.nn.", "torch.autograd.", "torch.utils.", "torch.distributions.", "torch.optim.")
MAX_CONSTANT_LENGTH = 40


def import_all() -> None:
    """Import every module of PyTorch that can be imported."""
    for module in pkgutil.walk_packages(torch.__path__, "torch.", onerror=lambda name: None):
        if module.name.startswith(("torch.testing._internal", *SKIPPED)) or module.name.endswith("__main__"):
            continue
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            try:
                importlib.import_module(module.name)
            except BaseException:
                continue


def is_recorded(path: str, name: str, value: object) -> bool:
    """Whether an undocumented name of a module is recorded."""
    place = getattr(value, "__module__", None) or type(value).__module__
    if name.startswith("__") or name == "TYPE_CHECKING" or isinstance(value, ModuleType) or not isinstance(place, str):
        return False
    if place in ("typing", "typing_extensions"):
        # Aliases of types, but not what every module imports.
        return not hasattr(typing, name) and type(value).__name__ not in ("TypeVar", "ParamSpec")
    if place in ("__future__", "collections.abc") or (path.startswith(tuple(DEEP.split())) and place != path):
        return False
    if is_public(path) or path.startswith("torch._C"):
        return True
    return place == "builtins" or f"{place}.".startswith("torch.")


def is_constant(name: str, value: object) -> bool:
    """Whether a name is a constant whose value is recorded."""
    text = repr(value)
    is_plain = type(value) in (int, bool, str, type(None)) and len(text) < MAX_CONSTANT_LENGTH
    return name.lstrip("_").isupper() and is_plain and not set(text) & set(" \\/")


def is_alias(name: str, value: object) -> bool:
    """Whether a name is an alias for annotations, such as a union of types."""
    is_generic = type(value).__module__ in ("typing", "types", "collections.abc") and hasattr(value, "__args__")
    return is_generic or (value is typing.Any and name != "Any")


def format_name(path: str, name: str, value: object, is_valued: bool) -> str:
    """An undocumented name with its value, with the module that has it, or with a mark if it is an alias of types."""
    if is_alias(name, value):
        return f"{name}~"
    if is_valued:
        return f"{name}={value!r}"
    place = getattr(value, "__module__", None)
    is_elsewhere = isinstance(place, str) and (place == "torch" or f"{place}.".startswith(OWNERS)) and place != path
    return f"{name}@{place}" if is_elsewhere and getattr(sys.modules.get(place), name, None) is value else name


def undocumented_lines() -> Iterator[str]:
    """A line for each module: its names that are not public, and its constants."""
    rows = (line.partition(":") for line in SURFACE.read_text().splitlines() if not line.startswith("#"))
    listed = {path: set(names.split()) for path, _, names in rows}
    for path, module in sorted(sys.modules.items()):
        if not f"{path}.".startswith("torch.") or path.startswith("torch.testing._internal"):
            continue
        members = {} if not isinstance(module, ModuleType) else dict(vars(module))
        if path.startswith(tuple(DEEP.split())) and not is_public(path):
            members = {}
        found = {n for n, v in members.items() if is_recorded(path, n, v)}
        constants = {
            n
            for n in found | listed.get(path, set())
            if n in members and (is_constant(n, members[n]) or is_alias(n, members[n]))
        }
        chosen = sorted(found - listed.get(path, set()) | constants)
        words = [format_name(path, n, members[n], n in constants) for n in chosen]
        if words or path not in listed:
            yield f"{path}: {' '.join(words)}".rstrip()


def main() -> None:
    if "undocumented" in sys.argv:
        import_all()
        version = torch.__version__.partition("+")[0]
        print(
            f"# Names of PyTorch {version} that are not public, and values of constants. Recorded by record_surface.py."
        )
        print(*undocumented_lines(), sep="\n")
        return
    print(f"# Public names of PyTorch {torch.__version__.partition('+')[0]}, by module. Recorded by record_surface.py.")
    # Classes stand first, beside the names of torch itself, which their names repeat: the file packs smaller.
    for path in CLASSES:
        owner, _, name = path.rpartition(".")
        kind = getattr(importlib.import_module(owner), name)
        print(f"{path}:", *sorted(n for n in dir(kind) if not n.startswith("_")))
    for path in sorted(set(paths())):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            try:
                module = importlib.import_module(path)
            except BaseException:
                continue
        is_bare = not is_public(path) or path.startswith(tuple(b + "." for b in BARE))
        print(f"{path}:", *([] if is_bare else names(module)))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
