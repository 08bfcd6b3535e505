"""Extents of decoder-only models: presets, and Hugging Face's configurations."""

import json
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from lazytensor.errors import LazyError

_COUNTS_THAT_MAY_BE_ZERO = ("shared_experts",)


@dataclass(frozen=True)
class Decoder:
    """Extents of a decoder-only transformer, in which all layers have the same extents.

    - `layers`: number of layers
    - `width`: channels of activations
    - `heads`, `kv_heads`: heads of queries, and of keys and values
    - `hidden`: channels inside the MLP, or inside one expert
    - `vocabulary`: number of tokens
    - `head_size`: channels of a head; 0 for `width // heads`
    - `experts`, `experts_per_token`: experts of a layer, and how many of them a token uses; 1 for a dense model
    - `shared_experts`: further experts of a layer, which all tokens use
    - `is_gated`: whether the MLP has three matrices (SwiGLU) or two
    - `is_tied`: whether the embedding and the logits share one matrix

    Raises LazyError for extents that no model has, with the value.

    >>> tiny = Decoder(layers=2, width=64, heads=4, kv_heads=2, hidden=128, vocabulary=100)
    >>> tiny.head_size, tiny.kv_width, tiny.parameters
    (16, 32, 86528)
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    vocabulary: int
    head_size: int = 0
    experts: int = 1
    experts_per_token: int = 1
    shared_experts: int = 0
    is_gated: bool = True
    is_tied: bool = False

    def __post_init__(self) -> None:
        if self.head_size == 0 and _is_whole(self.width) and _is_whole(self.heads) and self.heads > 0:
            if self.width % self.heads:
                raise LazyError(
                    f"{self.heads} heads do not divide a width of {self.width}",
                    hint="Use a number of heads that divides the width, or give head_size.",
                )
            object.__setattr__(self, "head_size", self.width // self.heads)
        for f in fields(self):
            value, least = getattr(self, f.name), 0 if f.name in _COUNTS_THAT_MAY_BE_ZERO else 1
            if not f.name.startswith("is_") and (not _is_whole(value) or value < least):
                raise LazyError(f"a decoder has {f.name} = {value!r}", hint=f"Give a whole number of at least {least}.")
        if self.heads % self.kv_heads:
            raise LazyError(
                f"{self.kv_heads} heads of keys and values do not divide {self.heads} heads of queries",
                hint="Use a number of kv_heads that divides heads; equal numbers for a model without grouped queries.",
            )
        if self.experts_per_token > self.experts:
            raise LazyError(
                f"a token uses {self.experts_per_token} of {self.experts} experts",
                hint="Use experts_per_token of at most experts.",
            )

    @property
    def query_width(self) -> int:
        """Channels of the queries of all heads."""
        return self.heads * self.head_size

    @property
    def kv_width(self) -> int:
        """Channels of the keys (and of the values) of all `kv_heads` heads."""
        return self.kv_heads * self.head_size

    @property
    def mlp_matrices(self) -> int:
        """Matrices of an MLP: 3 if it is gated, else 2."""
        return 3 if self.is_gated else 2

    @property
    def layer_matrices(self) -> tuple[tuple[int, int], ...]:
        """The matrices of a layer as (number, channels): each is between the activations and that many channels."""
        router = ((1, self.experts),) if self.experts > 1 else ()
        return (
            (2, self.query_width),
            (2, self.kv_width),
            (self.mlp_matrices * (self.experts + self.shared_experts), self.hidden),
            *router,
        )

    @property
    def parameters(self) -> int:
        """Weights of all matrices and of the embedding. Biases, normalizations and positions do not count."""
        layer = sum(number * self.width * channels for number, channels in self.layer_matrices)
        return self.layers * layer + self.width * self.vocabulary * (1 if self.is_tied else 2)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# Extents are those of `config.json` in the model's repository at huggingface.co.
PRESETS: Mapping[str, tuple[Decoder, str]] = {
    "gpt2": (
        Decoder(
            layers=12, width=768, heads=12, kv_heads=12, hidden=3072, vocabulary=50257, is_gated=False, is_tied=True
        ),
        "openai-community/gpt2",
    ),
    "llama-2-7b": (
        Decoder(layers=32, width=4096, heads=32, kv_heads=32, hidden=11008, vocabulary=32000),
        "meta-llama/Llama-2-7b-hf",
    ),
    "llama-2-13b": (
        Decoder(layers=40, width=5120, heads=40, kv_heads=40, hidden=13824, vocabulary=32000),
        "meta-llama/Llama-2-13b-hf",
    ),
    "llama-3-8b": (
        Decoder(layers=32, width=4096, heads=32, kv_heads=8, hidden=14336, vocabulary=128256),
        "meta-llama/Meta-Llama-3-8B",
    ),
    "llama-3-70b": (
        Decoder(layers=80, width=8192, heads=64, kv_heads=8, hidden=28672, vocabulary=128256),
        "meta-llama/Meta-Llama-3-70B",
    ),
    "llama-3.1-405b": (
        Decoder(layers=126, width=16384, heads=128, kv_heads=8, hidden=53248, vocabulary=128256),
        "meta-llama/Llama-3.1-405B",
    ),
    "codellama-34b": (
        Decoder(layers=48, width=8192, heads=64, kv_heads=8, hidden=22016, vocabulary=32000),
        "codellama/CodeLlama-34b-hf",
    ),
    "qwen2-72b": (
        Decoder(layers=80, width=8192, heads=64, kv_heads=8, hidden=29568, vocabulary=152064),
        "Qwen/Qwen2-72B",
    ),
    "mixtral-8x7b": (
        Decoder(
            layers=32,
            width=4096,
            heads=32,
            kv_heads=8,
            hidden=14336,
            vocabulary=32000,
            experts=8,
            experts_per_token=2,
        ),
        "mistralai/Mixtral-8x7B-v0.1",
    ),
    "gpt-oss-120b": (
        Decoder(
            layers=36,
            width=2880,
            heads=64,
            kv_heads=8,
            hidden=2880,
            vocabulary=201088,
            head_size=64,
            experts=128,
            experts_per_token=4,
        ),
        "openai/gpt-oss-120b",
    ),
    "glm-4.7": (
        Decoder(
            layers=92,
            width=5120,
            heads=96,
            kv_heads=8,
            hidden=1536,
            vocabulary=151552,
            head_size=128,
            experts=160,
            experts_per_token=8,
            shared_experts=1,
        ),
        "zai-org/GLM-4.7; its three dense layers count as layers with experts",
    ),
}
"""Name of a preset -> (its extents, their source)."""

# Fields of a configuration, under the names of the model families.
_CONFIG_NAMES: Mapping[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "width": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head"),
    "kv_heads": ("num_key_value_heads",),
    "hidden": ("moe_intermediate_size", "intermediate_size", "n_inner", "ffn_dim"),
    "vocabulary": ("vocab_size",),
    "head_size": ("head_dim",),
    "experts": ("num_local_experts", "n_routed_experts", "num_experts"),
    "experts_per_token": ("num_experts_per_tok",),
    "shared_experts": ("n_shared_experts",),
}
_FAMILIES_WITHOUT_GATES = (
    "bloom", "falcon", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj", "mpt", "opt", "phi", "starcoder2",
)  # fmt: skip
_TIED_FAMILIES = ("bloom", "falcon", "gemma", "gemma2", "gpt2", "gpt_bigcode", "gpt_neo", "mpt", "opt")
"""Families whose configurations omit `tie_word_embeddings` and mean true."""
_ENCODER_FAMILIES = (
    "albert", "bart", "bert", "camembert", "clip", "deberta", "deberta-v2", "distilbert", "electra", "mbart", "mt5",
    "roberta", "t5", "vit", "whisper", "xlm-roberta",
)  # fmt: skip


def decoder_from_config(config: Mapping[str, Any], where: str = "the configuration") -> Decoder:
    """Return the extents in a Hugging Face configuration, the content of `config.json` or `model.config.to_dict()`.

    `where` names the configuration in errors. Raises LazyError for an encoder, for latent attention (`kv_lora_rank`),
    and if an extent is missing or invalid. Sliding windows are ignored: the cache keeps all tokens.

    >>> config = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "n_inner": None, "vocab_size": 99}
    >>> decoder_from_config(config).hidden
    256
    """
    _refuse_other_models(config, where)
    found: dict[str, Any] = {
        field: next((config[name] for name in names if config.get(name) is not None), None)
        for field, names in _CONFIG_NAMES.items()
    }
    family = config.get("model_type", "")
    if found["hidden"] is None and family in _FAMILIES_WITHOUT_GATES and _is_whole(found["width"]):
        found["hidden"] = 4 * found["width"]
    if found["kv_heads"] is None:
        found["kv_heads"] = 1 if config.get("multi_query") else found["heads"]
    # Without experts `moe_intermediate_size` has no meaning.
    if not found["experts"] and config.get("intermediate_size") is not None:
        found["hidden"] = config["intermediate_size"]
    # Some families give the channels of all shared experts together.
    if config.get("shared_expert_intermediate_size") and _is_whole(found["hidden"]):
        found["shared_experts"] = config["shared_expert_intermediate_size"] // max(1, found["hidden"])
    missing = [_CONFIG_NAMES[n][0] for n in ("layers", "width", "heads", "hidden", "vocabulary") if found[n] is None]
    if missing:
        hint = f"Pass the config.json of a decoder-only model, or one of the presets {', '.join(PRESETS)}."
        raise LazyError(f"{where} has no {', '.join(missing)}", hint=hint)
    return Decoder(
        **{name: value for name, value in found.items() if value is not None},
        is_gated=family not in _FAMILIES_WITHOUT_GATES,
        is_tied=bool(config.get("tie_word_embeddings", family in _TIED_FAMILIES)),
    )


def _refuse_other_models(config: Mapping[str, Any], where: str) -> None:
    """Raise LazyError if the configuration is not that of a decoder-only model with ordinary attention."""
    family, classes = config.get("model_type", ""), config.get("architectures") or ()
    causal = any("CausalLM" in name or "LMHead" in name or name.startswith("GPT") for name in classes)
    if config.get("is_encoder_decoder") or (family in _ENCODER_FAMILIES and not config.get("is_decoder")):
        raise LazyError(
            f"{where} is that of {family or 'an encoder-decoder'}, which is not a decoder-only model",
            hint="Serve a decoder-only model, such as Llama or GPT-2. Without --serve any model can be planned.",
        )
    if classes and not causal:
        raise LazyError(
            f"{where} is that of {', '.join(classes)}, which does not generate text",
            hint="Use the configuration of a model for causal language modelling (...ForCausalLM).",
        )
    if config.get("kv_lora_rank"):
        raise LazyError(
            f"{where} has kv_lora_rank = {config['kv_lora_rank']}: multi-head latent attention is not modelled",
            hint="Use a model with grouped or multi-head attention.",
        )


def find_decoder(model: "Decoder | Mapping[str, Any] | str | pathlib.Path") -> tuple[str, Decoder]:
    """Return the name and the extents of `model`.

    `model` is a `Decoder`, a configuration, the path of a JSON file with one, or the name of a preset in any
    capitals. Raises LazyError for an unknown preset, with the presets, and for an invalid file.

    >>> find_decoder("Llama-3-8B")[0]
    'llama-3-8b'
    """
    if isinstance(model, Decoder):
        return "decoder", model
    if isinstance(model, Mapping):
        return str(model.get("_name_or_path") or model.get("model_type") or "decoder"), decoder_from_config(model)
    text = str(model)
    if text.endswith(".json"):
        return text, decoder_from_config(_read_config(text), text)
    if text.lower() not in PRESETS:
        hint = f"Use one of {', '.join(PRESETS)}, or the path of a config.json."
        raise LazyError(f"model {text!r} is unknown", hint=hint)
    return text.lower(), PRESETS[text.lower()][0]


def _read_config(path: str) -> Mapping[str, Any]:
    try:
        config = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as e:
        raise LazyError(f"{path} cannot be read: {e}", hint="Pass a Hugging Face config.json.") from e
    if not isinstance(config, dict):
        raise LazyError(f"{path} holds no JSON object", hint="Pass a Hugging Face config.json.")
    return config
