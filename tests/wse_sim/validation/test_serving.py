"""Published rates of serving: within their bars, recorded, and shown."""

from statistics import median

import pytest

from wse_sim.error_bands import error_factor, load_served_rates
from wse_sim.validation import load
from wse_sim.validation.command import main
from wse_sim.validation.served_rates import plan_served_rates, write_served_rates

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def planned():
    return plan_served_rates()


@pytest.fixture(scope="module")
def rates(planned):
    return planned[0]


def test_tables_of_waferllm_are_within_15_percent_in_the_median(rates):
    tests = [rate for rate in rates if rate.id.startswith("wllm") and rate.is_test]
    assert len(tests) == 16
    assert median(error_factor(rate.published, rate.planned) for rate in tests) < 1.15


def test_services_of_dense_models_are_within_30_percent(rates):
    dense = [rate for rate in rates if rate.machine == "wse3" and not rate.has_experts]
    assert {rate.published for rate in dense} == {1800, 450}
    assert all(error_factor(rate.published, rate.planned) < 1.3 for rate in dense)


def test_recorded_rates_are_those_of_the_model(rates):
    recorded = {row["id"]: row for row in load_served_rates()}
    assert list(recorded) == [rate.id for rate in rates]
    for rate in rates:
        hint = "record them with python -m wse_sim.validation --serving --record"
        assert recorded[rate.id]["planned"] == pytest.approx(rate.planned, rel=0.01), hint


def test_command_prints_every_rate_with_its_factor_and_what_is_not_predicted(planned, capsys):
    rates, others = planned
    assert main(["--serving"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in [*(rate.id for rate in rates), *(r.row.id for r in others)])
    assert "wllm_decode_LLaMA3-8B_420*" in printed


def test_rates_are_written_to_a_file(rates, tmp_path):
    write_served_rates(rates[:2], tmp_path / "rates.json")
    assert (tmp_path / "rates.json").read_text().count('"planned"') == 2


def test_services_are_rows_that_were_held_out(planned):
    rates, others = planned
    services = [rate.id for rate in rates if rate.machine == "wse3"]
    assert len(services) == 4 and len(others) == 5
    assert {row.split for row in load() if row.id in services} == {"held out"}
