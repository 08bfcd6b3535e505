"""The layers of the three packages as data, and the rules that their imports keep."""

import ast
import functools
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGES = ("lazytensor", "wse_sim", "cstorch_compat")

# Lowest layer first; a backslash continues a layer. A name covers the modules below it that have no entry of their
# own. A module imports from lower layers, and within its own layer only from the same entry.
LAYERS = """
    lazytensor.core  lazytensor.autograd  lazytensor.display  lazytensor.system
    lazytensor.errors  lazytensor.config  lazytensor.system.moved_modules  lazytensor.core.pytree \
        lazytensor.display.table  lazytensor.core.tensor_members  lazytensor.core.tensor_methods
    lazytensor.system.positioned_files
    lazytensor.system.atomic_files  lazytensor.system.signals  lazytensor.system.plain_files \
        lazytensor.system.terminal
    lazytensor.system.threads
    lazytensor.system.command_line  lazytensor.system.output_files
    lazytensor.system.private_files  lazytensor.docstrings
    lazytensor.llvm
    lazytensor.core.dtype
    lazytensor.core.pytorch_release
    lazytensor.display.html
    lazytensor.ir
    lazytensor.runtime.backend  lazytensor.runtime.aligned_arrays  lazytensor.core.source \
        lazytensor.core.element_bytes
    lazytensor.core.file_array  lazytensor.core.life_cycle  lazytensor.cirh
    lazytensor.hlo
    lazytensor.ops
    lazytensor.autograd.gradient_graph  lazytensor.core.autocast  lazytensor.runtime.state_store \
        lazytensor.runtime.reference
    lazytensor.kernels
    lazytensor.compiler
    lazytensor.exchange
    lazytensor.runtime
    lazytensor.core.shared_memory  lazytensor.autograd.grad_recording  lazytensor.core.number_protocol
    lazytensor.core.storage_versions
    lazytensor.core.storage
    lazytensor.core.captured_storages  lazytensor.autograd.saved_tensors  lazytensor.core.device \
        lazytensor.core.flat_buffers
    lazytensor.core.overlapping_views  lazytensor.autograd.shared_histories
    lazytensor.core.allocation  lazytensor.core.shared_memory_views
    lazytensor.core.immediate_writes
    lazytensor.core.capture
    lazytensor.core.tensor  lazytensor.core.step
    lazytensor.autograd.hooks
    lazytensor.core.abstract_step  lazytensor.display.printing  lazytensor.autograd.grad_modes \
        lazytensor.autograd.function  lazytensor.random
    lazytensor.core.tracing  lazytensor.testing
    lazytensor.exchange.to_onnx
    lazytensor.functional
    lazytensor.nn  lazytensor.data  lazytensor.linalg  lazytensor.special
    lazytensor.optim
    lazytensor.serialization
    lazytensor

    wse_sim.machine_code
    wse_sim.machine  wse_sim.floor_drawing  wse_sim.number_format
    wse_sim.layout  wse_sim.isa  wse_sim.host  wse_sim.error_bands
    wse_sim.phase  wse_sim.reference.core_reference  wse_sim.cost_model.collectives  wse_sim.floorplanning
    wse_sim.cost_model.reduction_tree
    wse_sim.fabric
    wse_sim.cost_model
    wse_sim.reference
    wse_sim.kernels
    wse_sim.pipeline
    wse_sim.planner  wse_sim.serving
    wse_sim.backends  wse_sim.viz  wse_sim.validation  wse_sim.sweeps
    wse_sim.contest  wse_sim.testing
    wse_sim

    cstorch_compat.names
    cstorch_compat.files
    cstorch_compat.profiling.progress  cstorch_compat.profiling.spans
    cstorch_compat.run
    cstorch_compat.summaries  cstorch_compat.profiling  cstorch_compat.cerebras.pytorch.nn
    cstorch_compat.cerebras.pytorch.utils.step_ranges
    cstorch_compat.cerebras.pytorch.utils.data  cstorch_compat.cerebras.pytorch.metrics
    cstorch_compat.cerebras.pytorch.amp.skipped_steps
    cstorch_compat.cerebras.pytorch.optim  cstorch_compat.cerebras.pytorch.amp.grad_scaler
    cstorch_compat.cerebras.pytorch.sparse
    cstorch_compat.torch  cstorch_compat.ckpt
    cstorch_compat.torchvision
    cstorch_compat.cerebras
    cstorch_compat.generations
    cstorch_compat.html_report
    cstorch_compat.check
    cstorch_compat.planning
    cstorch_compat
    cstorch_compat.__main__
"""
RANKS = {name: rank for rank, line in enumerate(LAYERS.splitlines()) for name in line.split()}
WAIST = (
    "lazytensor.ir",
    "lazytensor.runtime.backend",
    "lazytensor.errors",
    "lazytensor.config",
    "lazytensor.core.dtype",
    "lazytensor.display.table",
    "lazytensor.system.moved_modules",
    "lazytensor.system.private_files",
    "lazytensor.system.plain_files",
    "lazytensor.system.positioned_files",
    "lazytensor.system.command_line",
    "lazytensor.system.terminal",
    "lazytensor.system.threads",
    "lazytensor.system.output_files",
)
ABOVE = {"lazytensor": ("wse_sim", "cstorch_compat"), "wse_sim": ("cstorch_compat",)}

Sources = Mapping[str, str]  # module name -> text


@functools.cache
def sources() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path.read_text(encoding="utf-8")
    return found


@functools.cache
def imports(text: str) -> list[ast.Import | ast.ImportFrom]:
    """Return the import statements of a text, also those in functions and branches."""
    return [n for n in statements(ast.parse(text).body) if isinstance(n, ast.Import | ast.ImportFrom)]


def statements(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Return all statements, but no expressions, of which a file has ten times as many."""
    for node in body:
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(node, field, []))


def imported(text: str, known: Sources) -> set[str]:
    """The modules of `known` that a text imports, wherever the import stands."""
    named = set()
    for n in imports(text):
        if isinstance(n, ast.Import):
            named |= {a.name for a in n.names}
        else:
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
    """Relative imports and star imports, whose modules the other rules do not see."""
    for module, text in known.items():
        for n in imports(text):
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
        (upward, {"lazytensor.core.dtype": "from lazytensor.ir import graph", "lazytensor.ir.graph": ""}),
        (
            upward,
            {"lazytensor.autograd.gradient_graph": "import lazytensor.core.autocast", "lazytensor.core.autocast": ""},
        ),
        (
            across,
            {"wse_sim.cost_model.cost": "from lazytensor.core.tensor import Tensor", "lazytensor.core.tensor": ""},
        ),
        (across, {"lazytensor.core.step": "from wse_sim.cost_model import cost", "wse_sim.cost_model.cost": ""}),
        (hidden, {"wse_sim.cost_model.cost": "from math import *"}),
        (hidden, {"wse_sim.cost_model.cost": "from .machine import WSE2"}),
        (
            cycles,
            {"wse_sim.cost_model.cost": "import wse_sim.phase", "wse_sim.phase": "from wse_sim.cost_model import cost"},
        ),
    ],
)
def test_rule_notices(rule, broken):
    assert len(list(rule(broken))) == 1


def test_layers_name_only_what_exists():
    known = sources()
    assert [name for name in RANKS if not any(is_below(m, (name,)) for m in known)] == []


@pytest.mark.process
def test_importing_lazytensor_loads_neither_compiler_nor_upper_packages():
    script = "import sys, lazytensor; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "numpy" in loaded
    assert loaded.isdisjoint({"numba", "llvmlite", "h5py", "matplotlib", "torch", "wse_sim", "cstorch_compat"})


@pytest.mark.process
def test_a_run_on_the_cpu_loads_no_simulator():
    script = (
        "import sys, cstorch_compat; cstorch_compat.install()\n"
        "import cerebras.pytorch as cstorch; cstorch.backend('CPU'); print('wse_sim' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
