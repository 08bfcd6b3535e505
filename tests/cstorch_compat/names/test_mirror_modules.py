"""The public modules as Python sees them: every row stands for something, and imports, pickles and questions work."""

import dataclasses
import importlib
import inspect
import operator
import pickle
from types import ModuleType

import pytest

from cstorch_compat import names
from cstorch_compat.names import mirror_table, shim
from cstorch_compat.names.mirror_modules import get_mirror


@pytest.fixture
def installed():
    """The shim, for one test."""
    shim.install()
    yield
    shim.uninstall()


WORDS = [line.split(":")[0] for line in mirror_table.TABLE_PATH.read_text().splitlines() if line[:1].isalpha()]
"""The heads of the table: a module each, or all of PyTorch's modules from one on down."""
DATACLASSES = {"TreeSpec", "GetAttrKey", "MappingKey", "SequenceKey", "LeafSpec", "Measurement"}
"""Those of PyTorch that are."""


def paths():
    """Return the path of each module of the table."""
    return [word.removesuffix(mirror_table.ALL_BELOW) for word in WORDS]


def test_every_name_of_the_table_stands_for_something():
    for path in paths():
        module = get_mirror(path)
        assert {name: getattr(module, name) for name in module.__all__}.keys() == set(module.__all__), path
        assert [name for name in mirror_table.list_names(path) if not hasattr(module, name)] == [], path
        assert module.__doc__, path
        assert module.__doc__.endswith("."), path


def test_no_name_stands_twice_below_a_module():
    assert len(WORDS) == len(set(WORDS))
    assert {w for w in WORDS if not w.endswith(mirror_table.ALL_BELOW)} <= mirror_table.entries().keys()


def test_no_class_is_a_dataclass_unless_the_original_is():
    """`dataclasses.asdict` takes a dataclass apart, pydantic looks at its fields."""
    for path in (path for path in paths() if path.startswith("torch")):
        module = get_mirror(path)
        found = {name for name in module.__all__ if dataclasses.is_dataclass(getattr(module, name))}
        assert found <= DATACLASSES, path


@pytest.mark.parametrize("name", ["Tensor", "dtype", "device", "Size"])
def test_a_class_of_the_original_that_has_no_python_source_has_none(name, installed):
    """Pydantic and other tools ask for it, and go on without where it is an OSError."""
    with pytest.raises(OSError, match="could not find class definition"):
        inspect.getsource(getattr(importlib.import_module("torch"), name))


@pytest.mark.parametrize("path", ["torch", "torch.nn.functional", "cerebras.pytorch", "cerebras.pytorch.optim"])
def test_a_star_import_gives_what_dir_shows(path, installed):
    names: dict[str, object] = {}
    exec(f"from {path} import *", names)
    names.pop("__builtins__")
    assert names.keys() == {n for n in dir(importlib.import_module(path)) if not n.startswith("_")}


@pytest.mark.parametrize("path", ["torch", "torch.utils.data", "cerebras.pytorch.sparse.utils", "cerebras_torch"])
def test_a_mirror_is_a_module_with_a_place(path, installed):
    module = importlib.import_module(path)
    assert isinstance(module, ModuleType) and module.__name__ == path == module.__spec__.name
    assert module.__file__ == names.__file__ and path in repr(module)
    assert importlib.import_module(path) is module is get_mirror(path)


def test_every_way_to_import_gives_the_same_module(installed):
    names: dict[str, object] = {}
    exec(
        "import torch.nn.functional as a\nfrom torch.nn import functional as b\nimport torch\nc = torch.nn.functional",
        names,
    )
    assert names["a"] is names["b"] is names["c"]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("cerebras.pytorch.nn", "Parameter"),
        ("cerebras.pytorch.distributed", "ClusterConfig"),
        ("cerebras_torch.optim", "AdamW"),
        ("cerebras_torch.optim.lr_scheduler", "MultiStep"),
    ],
)
def test_a_class_written_for_a_mirror_lives_there_and_is_pickled_by_that_name(path, name, installed):
    kind = getattr(importlib.import_module(path), name)
    assert kind.__module__ == path and inspect.getmodule(kind) is importlib.import_module(path)
    assert pickle.loads(pickle.dumps(kind)) is kind


def test_a_name_is_looked_up_once_and_can_be_replaced():
    module = get_mirror("torch.linalg")
    original = module.det
    assert vars(module)["det"] is original
    module.det = "mine"
    try:
        assert module.det == "mine" and "det" in dir(module)
    finally:
        module.det = original


def test_a_module_without_such_a_name_says_so(installed):
    for path in ("torch.nn.init", "cerebras.pytorch.sparse.gmp", "torchvision.transforms"):
        with pytest.raises(AttributeError, match=r"the name is unknown|is not documented"):
            operator.attrgetter("no_such_name")(importlib.import_module(path))
        with pytest.raises(AttributeError, match="has no attribute '__wrapped__'"):
            operator.attrgetter("__wrapped__")(importlib.import_module(path))
