"""The walk beside the vendor's package, as far as it goes without that package: its probes and its verdicts."""

from tests.scripts.public import walk, walk_cases


def test_every_probe_is_a_script():
    surface = {"cerebras.pytorch.optim": {"SGD": {"parameters": [["params", True], ["lr", False]]}}}
    probes = walk.calls(surface) | walk_cases.probes(walk.BACKENDS)
    for name, text in probes.items():
        compile(text, name, "exec")
    assert "cstorch.optim.SGD(lr=-1) CPU" in probes and "file.path_object CSX" in probes


def test_a_difference_has_a_kind_and_addresses_are_none():
    raised, other = {"raises": "TypeError", "message": "x"}, {"raises": "ValueError", "message": "x"}
    given, moved = {"returns": "<f at 0x1f>"}, {"returns": "<f at 0x2e>"}
    theirs = {"a": raised, "b": raised, "c": given, "d": given, "e": raised}
    mine = {"a": given, "b": other, "c": raised, "d": moved, "e": raised}
    kinds = walk.differences(mine, theirs)
    assert {kind[0]: [name for name, _ in rows] for kind, rows in kinds.items()} == {"1": ["a"], "2": ["b"], "0": ["c"]}


def test_signatures_are_compared_by_names_and_defaults():
    row = {"name": "f", "signature": "(a, b=1)", "doc": True}
    theirs = {"m": {"f": row | {"signature": "(a: int, b: float = 1) -> None"}, "g": row}}
    kinds = walk.surface_differences({"m": {"f": row}}, theirs)
    assert {kind[0] for kind in kinds} == {"b"}
