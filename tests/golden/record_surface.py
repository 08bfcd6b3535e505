"""Record the public names of PyTorch's modules, where it is installed: `record_surface.py > torch_surface.txt`.

`cstorch_compat/names/torch_surface.txt` is its output; `test_torch_surface.py` follows it. A module is public if no
part of its path begins with an underscore; its names are those of __all__, or else those that torch itself defines.
"""

import contextlib
import importlib
import io
import pkgutil
import warnings
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


def main() -> None:
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
