"""Shares of resources: a faster resource never slows a step, shares add up, and the verdict names the largest."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.wse_sim.programs import machines, mlp, mlps
from wse_sim import RESOURCES, WSE2, Prices, plan, resource_shares, sweep
from wse_sim.host import APPLIANCE
from wse_sim.machine import NUMERIC_FIELDS
from wse_sim.planner.resource_shares import OVERLAP, ResourceShare, format_verdict

few = settings(deadline=None, max_examples=2)


@pytest.mark.slow
@few
@given(mlps(), machines(), st.sampled_from(["pipelined", "streaming"]))
def test_a_faster_resource_never_slows_a_step_and_shares_add_up_to_the_whole(program, machine, mode):
    shares = resource_shares(program, machine, mode)
    assume(shares)
    report = plan(program, machine, mode).report
    now = report.batch_size / report.samples_per_s
    assert {one.resource for one in shares} == {*RESOURCES, OVERLAP}
    assert sum(one.share for one in shares) == pytest.approx(1)
    for one in shares:
        assert 0 <= one.share <= 1
        assert one.gain >= 1
        assert one.step_seconds == pytest.approx(now / one.gain)
        # No resource is more than the whole step, so twice as much of it does not more than halve the step.
        assert one.step_seconds >= 0.45 * now


@pytest.mark.slow
def test_gain_is_that_of_a_plan_on_the_faster_machine():
    program = mlp()
    now = plan(program, WSE2, "streaming").report.samples_per_s
    faster = replace(WSE2, dsd_setup_cycles=WSE2.dsd_setup_cycles / 2, loop_cycles=WSE2.loop_cycles / 2)
    gains = {one.resource: one.gain for one in resource_shares(program, "CS-2", "streaming")}
    assert gains["vector setups"] == pytest.approx(plan(program, faster, "streaming").report.samples_per_s / now)


@pytest.mark.slow
def test_prices_of_another_edge_are_those_of_a_new_table():
    program = mlp()
    prices, faster = Prices(WSE2), replace(WSE2, edge_bits_per_s=2 * WSE2.edge_bits_per_s)
    plan(program, WSE2, "streaming", prices=prices, other=False)
    reused = plan(program, faster, "streaming", prices=prices.with_edge_of(faster), other=False).report
    assert reused == plan(program, faster, "streaming", other=False).report


@pytest.mark.slow
def test_twice_the_input_workers_double_the_rate_of_a_step_that_waits_for_them():
    slow = replace(APPLIANCE, worker_bytes_per_s=APPLIANCE.worker_bytes_per_s / 1000)
    (first, *others) = resource_shares(mlp(), WSE2, "streaming", host=slow)
    assert first.resource == "input workers"
    assert first.gain == pytest.approx(2)
    assert first.share == pytest.approx(1)
    assert all(one.share == pytest.approx(0, abs=1e-9) for one in others)


def test_every_rate_and_every_time_of_a_machine_belongs_to_one_resource():
    ends = ("_per_cycle", "_cycles", "_per_s", "_slowdown")
    wanted = sorted(name for name in NUMERIC_FIELDS if name.endswith(ends))
    named = [name for one in RESOURCES.values() for name in (*one.rates, *one.times, *one.factors)]
    assert sorted(name for name in named if name in NUMERIC_FIELDS) == wanted


def test_a_step_that_does_not_fit_has_no_shares():
    assert resource_shares(mlp((784, 512, 10)), "tiny", "pipelined") == ()


def test_the_verdict_names_the_largest_share_or_that_no_single_resource_limits():
    base = "Limited by wafer compute of fc (a.py:3): about 500 samples/s. Use a larger machine."
    setups = ResourceShare("vector setups", 0.6, 0.7, 1.4)
    alone = format_verdict((setups, ResourceShare(OVERLAP, 0.4, 1.0, 1.0)), base)
    assert alone.startswith("Limited by vector setups, 60% of the step: 40% more samples/s")
    assert alone.endswith("Slowest part: wafer compute of fc (a.py:3): about 500 samples/s.")
    assert "a larger machine" not in alone
    shared = format_verdict((replace(setups, share=0.3), ResourceShare(OVERLAP, 0.7, 1.0, 1.0)), base)
    assert shared.startswith("Limited by several resources at once, which no single one shortens: 70% of the step.")
    assert "The largest single share is vector setups, 30%" in shared


@pytest.mark.slow
def test_records_have_shares_only_if_they_are_requested():
    programs, machine = {"net": mlp((8, 4))}, "tiny"
    (plain,) = sweep(programs, [machine], ["streaming"])
    (record,) = sweep(programs, [machine], ["streaming"], has_resources=True)
    assert plain.resources == ()
    assert record.verdict.partition(",")[0].endswith(record.resources[0].resource)
    assert replace(record, resources=(), verdict=plain.verdict) == plain
    assert type(record).from_dict(record.as_dict()) == record
