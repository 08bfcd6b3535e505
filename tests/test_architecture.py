"""The layers of the three packages as data, and the rules that their imports keep."""

import ast
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGES = ("lazytensor", "wse_sim", "cstorch_compat")
LONGEST_FILE = 500

# Lowest layer first. A name covers the modules below it that have no entry of their own. A module imports from lower
# layers, and within its own layer only from the same entry.
LAYERS = """
    lazytensor.errors  lazytensor.config  lazytensor.pytree
    lazytensor.dtype
    lazytensor.ir
    lazytensor.runtime.backend  lazytensor.source  lazytensor.random  lazytensor.encoding
    lazytensor.lazyarray
    lazytensor.ops
    lazytensor.autograd  lazytensor.precision  lazytensor.runtime.store  lazytensor.runtime.reference
    lazytensor.kernels
    lazytensor.compiler
    lazytensor.runtime
    lazytensor.trace
    lazytensor.tensor  lazytensor.step
    lazytensor.printing  lazytensor.modes  lazytensor.gradients
    lazytensor.functions
    lazytensor.nn  lazytensor.data
    lazytensor.optim
    lazytensor.serialization
    lazytensor

    wse_sim.machine  wse_sim.timeline  wse_sim.wiring  wse_sim.fabric.program  wse_sim.fabric.rounding
    wse_sim.layout  wse_sim.report  wse_sim.packing
    wse_sim.collectives  wse_sim.phase  wse_sim.local
    wse_sim.reduction_tree
    wse_sim.move_terms
    wse_sim.fabric
    wse_sim.core_time  wse_sim.sharing
    wse_sim.cost  wse_sim.data
    wse_sim.programs
    wse_sim.recipes  wse_sim.place
    wse_sim.modes
    wse_sim.backend  wse_sim.mesh  wse_sim.viz  wse_sim.validation
    wse_sim

    cstorch_compat.builtin_errors
    cstorch_compat.releases
    cstorch_compat.manifest  cstorch_compat.script
    cstorch_compat.facade
    cstorch_compat.shim
    cstorch_compat.coverage  cstorch_compat.common.rawfile  cstorch_compat.common.treespec  cstorch_compat.common.tree
    cstorch_compat.common.lz4  cstorch_compat.common.h5layout  cstorch_compat.common.h5sink
    cstorch_compat.common.newfile  cstorch_compat.common.pickled  cstorch_compat.common.settings
    cstorch_compat.common.h5read  cstorch_compat.common.h5write  cstorch_compat.common.safetensors
    cstorch_compat.common.sniff
    cstorch_compat.common.closures  cstorch_compat.common.flags  cstorch_compat.common.progress
    cstorch_compat.common.checkpoint
    cstorch_compat.late_state  cstorch_compat.wafer_state
    cstorch_compat.session
    cstorch_compat.run
    cstorch_compat.common
    cstorch_compat.torch  cstorch_compat.torchvision  cstorch_compat.ckpt
    cstorch_compat.generations
    cstorch_compat.check
    cstorch_compat
    cstorch_compat.__main__
"""
RANKS = {name: rank for rank, line in enumerate(LAYERS.splitlines()) for name in line.split()}
WAIST = ("lazytensor.ir", "lazytensor.runtime.backend", "lazytensor.errors", "lazytensor.config", "lazytensor.dtype")
ABOVE = {"lazytensor": ("wse_sim", "cstorch_compat"), "wse_sim": ("cstorch_compat",)}

Sources = Mapping[str, str]  # module name -> text


def sources() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path.read_text(encoding="utf-8")
    return found


def imported(text: str, known: Sources) -> set[str]:
    """The modules of `known` that a text imports, wherever the import stands."""
    named = set()
    for n in ast.walk(ast.parse(text)):
        if isinstance(n, ast.Import):
            named |= {a.name for a in n.names}
        elif isinstance(n, ast.ImportFrom):
            paths = {a.name: f"{n.module}.{a.name}" for a in n.names}
            named |= {path if path in known else str(n.module) for path in paths.values()}
    return named & known.keys()


def entry_of(module: str) -> str:
    """The longest entry of the table that covers a module. Raises KeyError if there is none but its package."""
    entry = module
    while entry not in RANKS:
        entry = entry.rpartition(".")[0]
    if "." not in entry and module != entry:
        raise KeyError(module)
    return entry


def is_below(module: str, prefixes: tuple[str, ...]) -> bool:
    return any(module == p or module.startswith(p + ".") for p in prefixes)


def unranked(known: Sources) -> Iterator[str]:
    for module in known:
        try:
            entry_of(module)
        except KeyError:
            yield f"{module} has no place in LAYERS"


def upward(known: Sources) -> Iterator[str]:
    for module, text in known.items():
        mine = entry_of(module)
        for other in imported(text, known) - {module}:
            theirs = entry_of(other)
            if RANKS[theirs] > RANKS[mine] or (RANKS[theirs] == RANKS[mine] and theirs != mine):
                yield f"{module} imports {other}"


def across(known: Sources) -> Iterator[str]:
    """Imports that bypass the waist or look up to a package above."""
    for module, text in known.items():
        package = module.partition(".")[0]
        for other in imported(text, known):
            around = package == "wse_sim" and is_below(other, ("lazytensor",)) and not is_below(other, WAIST)
            if around or is_below(other, ABOVE.get(package, ())):
                yield f"{module} imports {other}"


def hidden(known: Sources) -> Iterator[str]:
    """Imports inside functions, relative imports and star imports."""
    for module, text in known.items():
        tree = ast.parse(text)
        for f in ast.walk(tree):
            if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                inside = (n for n in ast.walk(f) if isinstance(n, ast.Import | ast.ImportFrom))
                yield from (f"{module}:{n.lineno} imports inside a function" for n in inside)
        for n in ast.walk(tree):
            if isinstance(n, ast.ImportFrom) and (n.level or any(a.name == "*" for a in n.names)):
                yield f"{module}:{n.lineno} imports by star or relatively"


def cycles(known: Sources) -> Iterator[str]:
    try:
        TopologicalSorter({m: imported(t, known) - {m} for m, t in known.items()}).prepare()
    except CycleError as e:
        yield " <- ".join(e.args[1])


RULES = (unranked, upward, across, hidden, cycles)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_packages_keep_the_rule(rule):
    assert list(rule(sources())) == []


@pytest.mark.parametrize(
    "rule, broken",
    [
        (unranked, {"lazytensor.novelty": ""}),
        (upward, {"lazytensor.dtype": "from lazytensor.ir import graph", "lazytensor.ir.graph": ""}),
        (upward, {"lazytensor.autograd": "import lazytensor.precision", "lazytensor.precision": ""}),
        (across, {"wse_sim.cost": "from lazytensor.tensor import Tensor", "lazytensor.tensor": ""}),
        (across, {"lazytensor.step": "from wse_sim import cost", "wse_sim.cost": ""}),
        (hidden, {"wse_sim.cost": "def f():\n    import numpy"}),
        (hidden, {"wse_sim.cost": "from math import *"}),
        (hidden, {"wse_sim.cost": "from .machine import WSE2"}),
        (cycles, {"wse_sim.cost": "import wse_sim.phase", "wse_sim.phase": "from wse_sim import cost"}),
    ],
)
def test_rule_notices(rule, broken):
    assert len(list(rule(broken))) == 1


def test_layers_name_only_what_exists():
    known = sources()
    assert [name for name in RANKS if not any(is_below(m, (name,)) for m in known)] == []


@pytest.mark.parametrize("folder", [*PACKAGES, "tests", "notebooks"])
def test_files_are_short(folder):
    lengths = {p: p.read_text(encoding="utf-8").count("\n") for p in (ROOT / folder).rglob("*.py")}
    assert {str(p.relative_to(ROOT)): n for p, n in lengths.items() if n > LONGEST_FILE} == {}


def test_importing_lazytensor_loads_neither_compiler_nor_upper_packages():
    script = "import sys, lazytensor; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "numpy" in loaded
    assert loaded.isdisjoint({"numba", "llvmlite", "h5py", "matplotlib", "torch", "wse_sim", "cstorch_compat"})
