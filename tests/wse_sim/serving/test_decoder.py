"""Extents of decoder-only models: presets, Hugging Face's configurations, and refusals."""

import json

import pytest

from lazytensor.errors import LazyError
from wse_sim import Decoder, serve
from wse_sim.serving.decoder import PRESETS, decoder_from_config, find_decoder

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}
MIXTRAL = {
    **LLAMA,
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 32000,
}
GPT2 = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "n_inner": None,
    "vocab_size": 50257,
}


# The numbers of parameters in the names of the models, or in their papers, in billions.
@pytest.mark.parametrize(
    ("preset", "billions"),
    [
        ("gpt2", 0.124),
        ("llama-2-7b", 6.74),
        ("llama-2-13b", 13.0),
        ("llama-3-8b", 8.03),
        ("llama-3-70b", 70.6),
        ("llama-3.1-405b", 405.9),
        ("codellama-34b", 33.7),
        ("qwen2-72b", 72.7),
        ("mixtral-8x7b", 46.7),
        ("gpt-oss-120b", 116.8),
    ],
)
def test_preset_has_the_published_number_of_parameters(preset, billions):
    assert PRESETS[preset][0].parameters / 1e9 == pytest.approx(billions, rel=0.015)


def test_glm_counts_its_three_dense_layers_as_layers_with_experts():
    # They are 2 % of the published 355 billion parameters.
    assert PRESETS["glm-4.7"][0].parameters / 1e9 == pytest.approx(355, rel=0.03)


@pytest.mark.parametrize(("config", "preset"), [(LLAMA, "llama-3-8b"), (MIXTRAL, "mixtral-8x7b"), (GPT2, "gpt2")])
def test_configuration_equals_the_preset(config, preset):
    assert decoder_from_config(config) == PRESETS[preset][0]


def test_configuration_with_shared_experts():
    glm = {
        "model_type": "glm4_moe",
        "hidden_size": 5120,
        "intermediate_size": 12288,
        "moe_intermediate_size": 1536,
        "num_hidden_layers": 92,
        "num_attention_heads": 96,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "n_routed_experts": 160,
        "num_experts_per_tok": 8,
        "n_shared_experts": 1,
        "vocab_size": 151552,
    }
    assert decoder_from_config(glm) == PRESETS["glm-4.7"][0]
    qwen = {**glm, "model_type": "qwen2_moe", "n_shared_experts": None, "shared_expert_intermediate_size": 6144}
    assert decoder_from_config(qwen).shared_experts == 4


def test_config_file_gives_the_plan_of_its_preset(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA))
    for model in (str(file), file, LLAMA, "Llama-3-8B"):
        assert serve(model, "wse3").tokens_per_s_user == serve("llama-3-8b", "wse3").tokens_per_s_user


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_attention_heads": 33}, "33 heads do not divide a width of 4096"),
        ({"num_key_value_heads": 5}, "5 heads of keys and values do not divide 32"),
        ({"num_hidden_layers": -1}, "layers = -1"),
        ({"hidden_size": "4096"}, "width = '4096'"),
        ({"vocab_size": 1.5}, "vocabulary = 1.5"),
        ({"num_hidden_layers": None}, "no num_hidden_layers"),
        ({"num_local_experts": 4, "num_experts_per_tok": 5}, "5 of 4 experts"),
        ({"kv_lora_rank": 512}, "multi-head latent attention is not modelled"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "does not generate text"),
        ({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, "not a decoder-only model"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "not a decoder-only model"),
    ],
)
def test_wrong_configuration_is_refused_with_a_hint(change, message):
    with pytest.raises(LazyError, match=message) as error:
        decoder_from_config({**LLAMA, **change})
    assert error.value.hint


def test_unknown_preset_is_refused_with_the_presets():
    with pytest.raises(LazyError, match="'llama-9' is unknown") as error:
        find_decoder("llama-9")
    assert "llama-3-8b" in error.value.hint


@pytest.mark.parametrize("content", ["", "{", "[1]", "[" * 100_000, '{"model_type": "llama"}'])
def test_invalid_config_file_is_refused(tmp_path, content):
    file = tmp_path / "config.json"
    file.write_text(content)
    with pytest.raises(LazyError, match=r"config\.json"):
        find_decoder(file)


@pytest.mark.parametrize("extents", [{"kv_heads": 3}, {"heads": 0}, {"width": -64}, {"hidden": True}, {"heads": 5}])
def test_extents_that_no_model_has_are_refused(extents):
    with pytest.raises(LazyError):
        Decoder(**{"layers": 2, "width": 64, "heads": 4, "kv_heads": 2, "hidden": 96, "vocabulary": 50, **extents})
