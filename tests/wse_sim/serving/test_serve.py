"""Plans of serving: properties that users expect, published rates, and refusals."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazytensor.errors import LazyError
from tests.wse_sim.programs import quick
from wse_sim import MACHINES, WSE2, Decoder, serve
from wse_sim.serving.report import serving_table

SMALL = Decoder(layers=4, width=1024, heads=16, kv_heads=4, hidden=2816, vocabulary=8000)
EXPERTS = replace(SMALL, experts=8, experts_per_token=2, shared_experts=1)
models = st.sampled_from([SMALL, EXPERTS])
machines = st.sampled_from(["wse2", "wse3"])
# Few values, because prices of equal extents are cached.
user_counts = st.sampled_from([1, 2, 5, 12, 60, 300])
token_counts = st.sampled_from([1, 90, 1000, 3000])
pytestmark = pytest.mark.slow


@quick
@given(models, machines, user_counts, user_counts, st.integers(1, 2))
def test_more_users_never_get_more_tokens_each(model, machine, users, others, wafers):
    few, many = (serve(model, machine, users=n, wafers=wafers) for n in sorted((users, others)))
    assert many.tokens_per_s_user <= few.tokens_per_s_user


@quick
@given(models, machines, token_counts, token_counts, token_counts, token_counts)
def test_longer_contexts_are_never_faster(model, machine, prompt, other_prompt, answer, other_answer):
    prompts, answers = sorted((prompt, other_prompt)), sorted((answer, other_answer))
    short, long = (
        serve(model, machine, prompt_tokens=p, generated_tokens=g) for p, g in zip(prompts, answers, strict=True)
    )
    assert long.tokens_per_s_user <= short.tokens_per_s_user
    assert long.max_users <= short.max_users
    assert long.cache_bytes_per_user >= short.cache_bytes_per_user


@quick
@given(models, machines, st.integers(1, 6), st.integers(1, 6))
def test_more_wafers_never_hold_fewer_users(model, machine, wafers, others):
    small, large = (serve(model, machine, wafers=n) for n in sorted((wafers, others)))
    assert large.max_users >= small.max_users


@quick
@given(models, machines)
def test_weights_of_8_bits_halve_the_bytes_and_leave_room_for_more_users(model, machine):
    wide, narrow = (serve(model, machine, weight_bits=bits) for bits in (16, 8))
    assert 2 * narrow.weight_bytes == wide.weight_bytes
    assert narrow.cache_bytes_per_user == wide.cache_bytes_per_user
    assert narrow.max_users >= wide.max_users


@quick
@given(models, machines, user_counts)
def test_plan_keeps_to_the_memory_of_a_pe_and_its_own_figures(model, machine, users):
    plan = serve(model, machine, users=users)
    assert plan.weight_bytes_per_pe + plan.cache_bytes_per_pe <= MACHINES[machine].usable_bytes_per_pe
    assert plan.max_users >= users
    assert plan.tokens_per_s == pytest.approx(users * plan.tokens_per_s_user)
    assert 1 / plan.request_tokens_per_s > 1 / plan.tokens_per_s_user - plan.first_token_s
    assert all(gain.decoding >= 1 - 1e-9 and gain.first_token > 0 for gain in plan.gains if gain.resource != "wafers")


def test_limit_is_the_resource_whose_doubling_helps_most():
    plan = serve("llama-3-8b", WSE2)
    assert plan.limit == max(plan.gains, key=lambda gain: gain.decoding).resource
    faster = replace(WSE2, hop_cycles=0.5, ramp_cycles=1)
    gain = next(gain for gain in plan.gains if gain.resource == "latency between cores")
    # The plan on the faster machine may choose another placement, which is at least as fast.
    assert serve("llama-3-8b", faster).tokens_per_s_user >= plan.tokens_per_s_user * gain.decoding * (1 - 1e-9)


def test_published_rates_of_dense_services_are_within_30_percent():
    # cerebras.ai, "Introducing Cerebras Inference", August 2024: rates of one user, without speculation.
    assert serve("llama-3-8b", "wse3").tokens_per_s_user == pytest.approx(1800, rel=0.3)
    assert serve("llama-3-70b", "wse3", wafers=4).tokens_per_s_user == pytest.approx(450, rel=0.3)


def test_figures_of_the_machines_own_energy_have_a_source():
    assert "22.8 kW" in serve(SMALL, "wse2").text()
    plan = serve(SMALL, "wse3")
    assert plan.joules_per_token is None
    assert "energy" not in plan.text()


def test_text_has_each_figure_with_its_error_band():
    plan = serve("llama-3-8b", "wse3", users=4)
    text = plan.text()
    assert re.search(r"tokens/s of a user +[\d,]+ \([\d,]+ to [\d,]+\)", text)
    assert text.count("Error band") == 3
    assert "limited by the " + plan.limit in text
    assert "Speculative decoding is not modelled" in text
    assert "<table>" in plan._repr_html_()
    assert len(serving_table([plan, plan]).cells()) == 2


def test_mixture_of_experts_has_its_own_error_band():
    text = serve(EXPERTS, "wse3").text()
    assert "mixtures of experts" in text
    assert "dense models" not in text


def test_model_that_does_not_fit_is_refused_with_the_missing_bytes_and_ways_out():
    with pytest.raises(LazyError, match=r"llama-3-70b .* does not fit on 1 wse3: 10\d GB are missing") as error:
        serve("llama-3-70b", "wse3")
    wafers = int(re.search(r"(\d+) wafers", error.value.hint).group(1))
    serve("llama-3-70b", "wse3", wafers=wafers)
    with pytest.raises(LazyError):
        serve("llama-3-70b", "wse3", wafers=wafers - 1)


def test_each_way_out_of_a_refusal_fits():
    request = {"users": 400, "wafers": 1, "prompt_tokens": 1024, "generated_tokens": 1024}
    with pytest.raises(LazyError, match="400 users of 2,048 tokens") as error:
        serve("llama-3-8b", "wse3", **request)
    hint = error.value.hint
    users = int(re.search(r"at most (\d+) users", hint).group(1))
    tokens = int(re.search(r"at most ([\d,]+) tokens", hint).group(1).replace(",", ""))
    wafers = int(re.search(r"(\d+) wafers", hint).group(1))
    for change in ({"users": users}, {"wafers": wafers}, {"prompt_tokens": tokens - 1, "generated_tokens": 1}):
        serve("llama-3-8b", "wse3", **{**request, **change})
    with pytest.raises(LazyError):
        serve("llama-3-8b", "wse3", **{**request, "users": users + 1})


@pytest.mark.parametrize(
    ("name", "value"),
    [("users", 0), ("users", 1.5), ("wafers", True), ("wafers", 10**6), ("prompt_tokens", -1), ("generated_tokens", 0)],
)
def test_counts_that_are_no_positive_whole_numbers_are_refused(name, value):
    with pytest.raises(LazyError, match=f"{name} is"):
        serve(SMALL, "wse2", **{name: value})


def test_weights_of_other_bits_are_refused():
    with pytest.raises(LazyError, match="4 bits"):
        serve(SMALL, "wse2", weight_bits=4)


def test_small_machine_serves_a_tiny_model():
    tiny = Decoder(layers=1, width=16, heads=2, kv_heads=1, hidden=32, vocabulary=20)
    assert serve(tiny, "tiny", prompt_tokens=8, generated_tokens=8).tokens_per_s_user > 0
