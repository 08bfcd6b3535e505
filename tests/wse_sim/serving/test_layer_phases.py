"""Phases of a layer: longer contexts, more tokens and larger models are never faster."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.wse_sim.programs import quick
from wse_sim import WSE2, WSE3
from wse_sim.cost_model.cost import cost
from wse_sim.serving.decoder import PRESETS
from wse_sim.serving.layer_phases import LayerMesh, decode_layer, decode_token, prefill, prefill_layer

presets = st.sampled_from(["llama-3-8b", "llama-2-13b", "mixtral-8x7b"])
sides = st.integers(100, 700)


def cycles(phase, machine=WSE2):
    return cost(phase, machine).cycles


@quick
@given(presets, sides, sides, st.integers(100, 4000), st.integers(1, 4000))
def test_longer_contexts_are_never_faster(preset, width, height, tokens, more):
    mesh = LayerMesh(PRESETS[preset][0], width, height, WSE2)
    for program in (decode_token, prefill):
        assert cycles(program(mesh, tokens)) <= cycles(program(mesh, tokens + more))


@quick
@given(presets, sides, sides, st.integers(1, 50), st.integers(1, 50))
def test_users_together_are_slower_than_one_and_faster_than_one_after_the_other(preset, width, height, users, more):
    mesh = LayerMesh(PRESETS[preset][0], width, height, WSE3)
    few, many = (cycles(decode_layer(mesh, 1000, n), WSE3) for n in (users, users + more))
    assert few <= many
    # Rounding up to whole cycles may add one for each operation.
    assert many <= (users + more) * cycles(decode_layer(mesh, 1000), WSE3)


@quick
@given(presets, sides, sides)
def test_narrow_weights_halve_the_bytes_and_take_longer_to_read(preset, width, height):
    wide = LayerMesh(PRESETS[preset][0], width, height, WSE2)
    narrow = replace(wide, weight_bits=8)
    assert 2 * narrow.layer_bytes == wide.layer_bytes
    assert cycles(decode_layer(narrow, 1000)) >= cycles(decode_layer(wide, 1000))


@quick
@given(presets, st.integers(20, 400), st.integers(20, 400))
def test_rectangle_and_its_transpose_take_equally_long_to_prefill(preset, width, height):
    model = replace(PRESETS[preset][0], hidden=4096, kv_heads=PRESETS[preset][0].heads)
    wide, tall = (LayerMesh(model, *sides, WSE2) for sides in ((width, height), (height, width)))
    # Elementwise work is distributed differently, so only the order of magnitude is equal.
    assert cycles(prefill_layer(wide, 4096)) < 1.5 * cycles(prefill_layer(tall, 4096))


def test_model_with_two_experts_for_a_token_does_the_work_of_twice_the_channels():
    dense = replace(PRESETS["llama-3-8b"][0], hidden=7168)
    experts = replace(dense, experts=8, experts_per_token=2)
    mesh = LayerMesh(dense, 256, 256, WSE2)
    twice = cycles(decode_layer(replace(mesh, model=replace(dense, hidden=14336)), 1000))
    routed = cycles(decode_layer(replace(mesh, model=experts), 1000))
    assert cycles(decode_layer(mesh, 1000)) < routed < 1.2 * twice
