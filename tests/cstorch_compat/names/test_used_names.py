"""The names of the API that published scripts and the Model Zoo use: each is there, or says why it is not."""

import importlib
import pathlib
import sys

import pytest

from cstorch_compat.names import shim
from lazytensor.errors import NameMissing

USED = (pathlib.Path(__file__).parents[2] / "golden" / "used_names.txt").read_text()
SPELLED = {
    "2.10": "cerebras.pytorch",
    "2.3": "cerebras.pytorch",
    "2.1": "cerebras_pytorch",
    "1.9": "cerebras_pytorch.experimental",
    "1.8": "cerebras_pytorch.experimental",
    "1.7": "cerebras_pytorch",
}
MISSPELLED = {"utils.dat.DataExecutor"}
INSIDE = {"backend.Backend", "backend.current_backend_impl", "backend.ltc_backend.register_after_tensor_to_cpu"}
"""Names of modules inside of the original, under a name that is a function for everybody else."""
MOST_MISSING = 16


def used(section: str) -> list[str]:
    return USED.partition(f"[{section}]\n")[2].partition("[")[0].split()


@pytest.fixture(autouse=True)
def restored():
    before = {n: m for n, m in sys.modules.items() if n.partition(".")[0] in ("torch", "torchvision")}
    yield
    shim.uninstall()
    sys.modules.update(before)


def answers(release: str, names: list[str]) -> dict[str, BaseException | None]:
    """What each name gives in a release: None if it is there."""
    shim.install(release)
    found: dict[str, BaseException | None] = {}
    for name in names:
        thing = importlib.import_module(SPELLED[release])
        try:
            for part in name.split("."):
                thing = getattr(thing, part)
            found[name] = None
        except AttributeError as e:
            found[name] = e.__cause__ or e
    shim.uninstall()
    return found


def test_every_name_that_scripts_use_is_there_or_says_why_not():
    tables = [answers(release, used("cstorch")) for release in ("2.10", "2.3", "2.1", "1.9", "1.8")]
    missing = {n: tables[0][n] for n in used("cstorch") if all(t[n] is not None for t in tables)}
    unexplained = {n for n, e in missing.items() if not isinstance(e, NameMissing) or "known but missing" not in str(e)}
    assert unexplained == MISSPELLED | INSIDE
    assert len(missing) - len(unexplained) <= MOST_MISSING


def test_every_name_of_cbtorch_that_scripts_use_is_there():
    homes = {"cm": "core.cb_model", "modes": "core.modes"}
    names = [
        ".".join([homes.get(n.partition(".")[0], n.partition(".")[0]), *n.split(".")[1:]]) for n in used("cbtorch")
    ]
    found = answers("1.7", names)
    assert {n for n, e in found.items() if e is not None} == {"core.appliance.ApplianceMode"}
    assert "known but missing" in str(found["core.appliance.ApplianceMode"])


def test_tensors_in_structures_are_visited_with_their_places(script):
    done = script(
        """
        from cerebras.pytorch.utils.nest import visit_torch_tensors
        from cerebras.pytorch.utils.call_once import call_once
        tree = {"a": [torch.ones(1), 3], "b": (torch.zeros(1),)}
        print([path for path, _ in visit_torch_tensors(tree, scope=["x"])])
        try:
            list(visit_torch_tensors(tree, strict=True))
        except ValueError as e:
            print(e.what, "|", e.hint)
        calls = []
        once = call_once()(lambda x: calls.append(x) or x)
        print(once(1), once(2), calls)
        model = nn.Sequential(nn.Linear(1, 1))
        cstorch.add_debug_name(model, "root")
        print(cstorch.get_debug_name(model[0]), cstorch.get_debug_name(nn.ReLU()))
        cstorch.backends.csx.debug.debug_args.debug_usr.limits.MergeFrom(cstorch.backends.csx.debug.ini)
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[['x', 'a', '0'], ['x', 'b', '0']]",
        "Unknown data structure: 3 | Use nested lists, tuples and dicts of tensors at a.1.",
        "1 1 [1]",
        "root.0 ReLU",
    ]
