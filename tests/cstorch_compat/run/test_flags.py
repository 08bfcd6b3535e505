"""The tree of backend settings keeps what fits and refuses the rest."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cstorch_compat.generations.early.cs_config import CSConfig
from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.run import process
from cstorch_compat.run.flags import CSX_SETTINGS, FlagGroup
from cstorch_compat.run.precision_level import current_pol, pol
from lazytensor.errors import StateError

csx = get_mirror("cerebras.pytorch.backends").csx


def tree(locked=False):
    return FlagGroup("csx", CSX_SETTINGS, lambda: locked)


@given(st.integers(1, 10**6))
def test_a_positive_batch_is_kept(size):
    flags = tree()
    flags.performance.micro_batch_size = size
    assert flags.performance.micro_batch_size == size


@given(st.integers(-(10**6), 10**6))
def test_levels_are_zero_to_two(level):
    flags = tree()
    if 0 <= level <= 2:
        flags.precision.optimization_level = level
        assert flags.precision.optimization_level == level
    else:
        with pytest.raises(ValueError, match="optimization_level"):
            flags.precision.optimization_level = level


@pytest.mark.parametrize(("value", "error"), [("none", TypeError), (0, ValueError), (-1, ValueError)])
def test_a_bad_batch_is_refused(value, error):
    with pytest.raises(error, match="micro_batch_size"):
        tree().performance.micro_batch_size = value


def test_bounds_count_as_explore():
    flags = tree()
    flags.performance.micro_batch_size = {"explore": {"min": 1, "max": 4}}
    assert flags.performance.micro_batch_size == "explore"


def test_an_unknown_flag_is_refused():
    with pytest.raises(AttributeError, match="'nope'"):
        tree().debug.nope = 1


def test_nothing_changes_during_a_run():
    with pytest.raises(RuntimeError, match="during a run"):
        tree(locked=True).debug.drop_data = True


def test_outside_functions_the_level_is_the_flag(monkeypatch):
    monkeypatch.setattr(process.RUN, "flags", FlagGroup("csx", CSX_SETTINGS, lambda: False))
    process.RUN.flags.precision.optimization_level = 0
    assert current_pol() == 0


def test_the_level_holds_inside_the_function_only():
    assert (pol(2)(current_pol)(), current_pol()) == (2, 1)
    with pytest.raises(ValueError, match="forward level 5"):
        pol(5)


def test_the_precision_level_of_older_configurations_is_the_flag_of_later_ones():
    before = csx.precision.optimization_level
    owner = SimpleNamespace(loops=[], cluster_config=None)
    try:
        CSConfig(precision_opt_level=2).take_effect(owner)
        assert csx.precision.optimization_level == 2
        CSConfig().take_effect(owner)
        assert csx.precision.optimization_level == 2
    finally:
        csx.precision.optimization_level = before
    assert isinstance(owner.cluster_config, CSConfig)


@pytest.mark.parametrize("first", [None, CSConfig()])
def test_a_configuration_of_another_number_of_systems_is_refused_after_an_execution(first):
    owner = SimpleNamespace(loops=[object()], cluster_config=first)
    with pytest.raises(StateError, match="num_csx is 2, but the first execution had"):
        CSConfig(num_csx=2).take_effect(owner)
