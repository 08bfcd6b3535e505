"""Small nets of the Model Zoo, forward and backward once: a script for either stack.

Prints the loss and the norm of all gradients for each, as JSON lines. Needs `cerebras.modelzoo` on PYTHONPATH.
Names as arguments choose some of the nets.
"""

import importlib
import inspect
import json
import math
import sys
import traceback

import cerebras.pytorch as cstorch
import modelzoo_dino
import torch

B, S, V, H = 2, 12, 61, 32
"""Batch, sequence, vocabulary, hidden size."""

NLP, VISION = "cerebras.modelzoo.models.nlp.", "cerebras.modelzoo.models.vision."
MULTIMODAL = "cerebras.modelzoo.models.multimodal."
SIZES = {"vocab_size": V, "hidden_size": H, "num_hidden_layers": 2, "num_heads": 4, "filter_size": 48}
STILL = {"dropout_rate": 0.0, "attention_dropout_rate": 0.0}
DECODER = {**SIZES, **STILL, "embedding_dropout_rate": 0.0, "max_position_embeddings": S}
PLAIN = {"use_projection_bias_in_attention": False, "use_ffn_bias_in_attention": False, "use_ffn_bias": False}
ROTARY = {"position_embedding_type": "rotary", "rotary_dim": 8}
LLAMA = {
    **DECODER,
    **PLAIN,
    **ROTARY,
    "norm_type": "rmsnorm",
    "nonlinearity": "swiglu",
    "share_embedding_weights": False,
    "use_bias_in_output": False,
}
MQA = {"attention_module": "multiquery_attention", "extra_attention_params": {"num_kv_groups": 2}}
MOE = {"moe": {"num_experts": 4, "top_k": 2, "load_balancing_loss_coef": 0.01}}
# BERT's family names the dropout of embeddings alike, and has no lengths by default.
ENCODER = {**SIZES, **STILL, "embedding_dropout_rate": 0.0, "max_position_embeddings": S}
VIT = {
    "hidden_size": H,
    "num_hidden_layers": 2,
    "num_heads": 4,
    "filter_size": 48,
    "image_size": [16, 16],
    "patch_size": [8, 8],
    "num_channels": 3,
    "embedding_dropout_rate": 0.0,
    **STILL,
}


def integers(high, *shape, low=0):
    """Numbers of the default generator, which both stacks draw alike."""
    return torch.randint(low, high, shape).to(torch.int32)


def ones(*shape):
    """A mask that leaves nothing out."""
    return torch.ones(shape, dtype=torch.int32)


def language():
    """Tokens, of which the model is to say the next ones."""
    return {"input_ids": integers(V, B, S), "attention_mask": ones(B, S), "labels": integers(V, B, S)}


def masked():
    """Tokens with some masked, and a second segment."""
    return {
        "input_ids": integers(V, B, S),
        "attention_mask": ones(B, S),
        "token_type_ids": integers(2, B, S),
        "labels": integers(V, B, 3),
        "masked_lm_positions": integers(S, B, 3),
        "masked_lm_mask": ones(B, 3),
        "next_sentence_label": integers(2, B, 1),
        "mlm_loss_scale": torch.full((B, 1), 0.25),
    }


def classified(classes, *shape):
    """Tokens with a label each, or one for all."""
    data = {"input_ids": integers(V, B, S), "attention_mask": ones(B, S), "token_type_ids": integers(2, B, S)}
    return {**data, "labels": integers(classes, *shape)}


def summarized():
    """Tokens, and which sentences of them belong into a summary."""
    data = classified(2, B, 4)
    return {**data, "cls_indices": integers(S, B, 4), "cls_weights": ones(B, 4)}


def paired():
    """Questions and their answers."""
    fields = ("input_ids", "attention_mask", "token_type_ids")
    makers = (lambda *shape: integers(V, *shape), ones, lambda *shape: integers(2, *shape))
    sides = (("questions", (B, S)), ("ctx", (B, 2, S)))
    data = {f"{side}_{k}": make(*shape) for side, shape in sides for k, make in zip(fields, makers, strict=True)}
    return {**data, "labels": torch.arange(0, 2 * B, 2), "context_labels": torch.arange(B)}


def translated():
    """A source and a target."""
    return {
        "input_ids": integers(V, B, S),
        "attention_mask": ones(B, S),
        "decoder_input_ids": integers(V, B, S),
        "decoder_attention_mask": ones(B, S),
        "labels": integers(V, B, S),
        "loss_weight": torch.full((B, 1), 0.5),
    }


def preferred():
    """Two answers, of which the first is to be preferred."""
    data = {"chosen": language(), "rejected": language()}
    return {f"{side}_{name}": value for side, part in data.items() for name, value in part.items()}


def pictures(classes=10):
    """Images with labels."""
    return torch.rand(B, 3, 16, 16), integers(classes, B)


def diffused():
    """Latent images, noise and the time of it."""
    return {
        "input": torch.randn(B, 4, 8, 8),
        "label": integers(10, B),
        "diffusion_noise": torch.randn(B, 4, 8, 8),
        "timestep": integers(10, B, low=1),
    }


def described():
    """Images, and text that follows them."""
    return {
        "image_data": torch.rand(B, 3, 16, 16),
        "text_input_ids": integers(V, B, S),
        "labels": integers(V, B, S),
        "loss_mask": ones(B, S),
        "key_padding_mask": torch.zeros(B, S, dtype=torch.int32),
    }


NETS = {
    "fc_mnist": (
        VISION + "fc_mnist.model",
        "MNISTModel",
        {"name": "fc_mnist", "depth": 2, "hidden_size": 16, "activation_fn": "relu"},
        lambda: (torch.rand(4, 1, 28, 28), integers(10, 4).long()),
    ),
    "gpt2": (NLP + "gpt2.model", "Gpt2Model", {"name": "gpt2", **DECODER}, language),
    "gpt2_relative": (
        NLP + "gpt2.model",
        "Gpt2Model",
        {"name": "gpt2", **DECODER, "position_embedding_type": "relative", "nonlinearity": "relu"},
        language,
    ),
    "gpt3": (
        NLP + "gpt3.model",
        "GPT3Model",
        {"name": "gpt3", **DECODER, "loss_scaling": "batch_size", "loss_weight": 0.1},
        language,
    ),
    "gptj": (
        NLP + "gptj.model",
        "GptjModel",
        {
            "name": "gptj",
            **DECODER,
            "rotary_dim": 4,
            "use_ffn_bias": True,
            "use_projection_bias_in_attention": False,
            "use_ffn_bias_in_attention": False,
            "share_embedding_weights": False,
        },
        language,
    ),
    "gpt-neox": (
        NLP + "gptj.model",
        "GPTNeoXModel",
        {
            "name": "gpt-neox",
            **DECODER,
            "rotary_dim": 4,
            "use_untied_layer_norm": True,
            "share_embedding_weights": False,
        },
        language,
    ),
    "llama": (NLP + "llama.model", "LlamaModel", {"name": "llama", **LLAMA}, language),
    "llama3": (
        NLP + "llama.model",
        "LlamaModel",
        {
            "name": "llama",
            **LLAMA,
            **MQA,
            "rope_theta": 500000.0,
            "pos_scaling_type": "llama3",
            "pos_scaling_factor": 8.0,
            "pos_scaling_extra_args": {
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8,
            },
        },
        language,
    ),
    "mistral": (
        NLP + "mistral.model",
        "MistralModel",
        {"name": "mistral", **LLAMA, **MQA, "attention_sliding_window_length": 5},
        language,
    ),
    "mixtral": (NLP + "mixtral.model", "MixtralModel", {"name": "mixtral", **LLAMA, **MQA, **MOE}, language),
    "falcon": (
        NLP + "falcon.model",
        "FalconModel",
        {"name": "falcon", **DECODER, **PLAIN, **MQA, "rotary_dim": 8},
        language,
    ),
    "bloom": (
        NLP + "bloom.model",
        "BloomModel",
        {"name": "bloom", **DECODER, "position_embedding_type": "alibi", "embedding_layer_norm": True},
        language,
    ),
    "btlm": (
        NLP + "btlm.model",
        "BTLMModel",
        {
            "name": "btlm",
            **DECODER,
            "position_embedding_type": "alibi",
            "nonlinearity": "swiglu",
            "mup_base_hidden_size": 16.0,
            "mup_base_filter_size": 24.0,
            "embeddings_scale": 2.0,
            "output_logits_alpha": 0.5,
            "scale_qk_dot_by_d": True,
        },
        language,
    ),
    "jais": (
        NLP + "jais.model",
        "JAISModel",
        {
            "name": "jais",
            **DECODER,
            "position_embedding_type": "alibi",
            "nonlinearity": "swiglu",
            "alibi_trainable_slopes": True,
        },
        language,
    ),
    "santacoder": (NLP + "santacoder.model", "SantaCoderModel", {"name": "santacoder", **DECODER, **MQA}, language),
    "starcoder": (
        NLP + "starcoder.model",
        "StarCoderModel",
        {
            "name": "starcoder",
            **DECODER,
            "attention_module": "multiquery_attention",
            "extra_attention_params": {"num_kv_groups": 1},
        },
        language,
    ),
    "gemma2": (
        NLP + "gemma2.model",
        "Gemma2Model",
        {
            "name": "gemma2",
            **LLAMA,
            **MQA,
            "nonlinearity": "geglu",
            "share_embedding_weights": True,
            "attention_sliding_window_length": 5,
            "norm_first_sandwich": True,
            "sliding_window_every_other_decoder_layer": True,
            "attention_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0,
            "embeddings_scale": 5.6,
        },
        language,
    ),
    "dpo": (
        NLP + "dpo.model",
        "DPOModel",
        {"name": "dpo", "dpo": {"beta": 0.1}, "policy_model": {"name": "gpt2", **DECODER}},
        preferred,
    ),
    "bert": (
        NLP + "bert.model",
        "BertForPreTrainingModel",
        {"name": "bert", **ENCODER, "num_segments": 2, "mlm_nonlinearity": "gelu"},
        masked,
    ),
    "bert_classifier": (
        NLP + "bert.classifier.model",
        "BertForSequenceClassificationModel",
        {
            "name": "bert/classifier",
            **ENCODER,
            "num_labels": 3,
            "problem_type": "single_label_classification",
            "task_dropout": 0.0,
        },
        lambda: classified(3, B),
    ),
    "bert_token_classifier": (
        NLP + "bert.token_classifier.model",
        "BertForTokenClassificationModel",
        {
            "name": "bert/token_classifier",
            **ENCODER,
            "num_classes": 5,
            "encoder_output_dropout_rate": 0.0,
            "num_segments": 2,
        },
        lambda: {**classified(5, B, S), "loss_mask": ones(B, S)},
    ),
    "bert_summarization": (
        NLP + "bert.extractive_summarization.model",
        "BertSummarizationModel",
        {"name": "bert/extractive_summarization", **ENCODER, "num_segments": 2},
        summarized,
    ),
    "dpr": (
        NLP + "dpr.model",
        "DPRWrapperModel",
        {
            "name": "dpr",
            "q_encoder": {"name": "bert_model", **ENCODER, "num_segments": 2},
            "ctx_encoder": {"name": "bert_model", **ENCODER, "num_segments": 2},
            "mutual_information": True,
        },
        paired,
    ),
    "esm2": (
        NLP + "esm2.model",
        "Esm2ForPreTrainingModel",
        {
            "name": "esm2",
            **ENCODER,
            "position_embedding_type": "rotary",
            "rotary_dim": 8,
            "disable_nsp": True,
            "mlm_nonlinearity": "gelu",
            "token_dropout": True,
            "mask_token_id": 3,
        },
        masked,
    ),
    "t5": (
        NLP + "t5.model",
        "T5ForConditionalGenerationModel",
        {
            "name": "t5",
            "src_vocab_size": V,
            "d_model": H,
            "d_kv": 8,
            "d_ff": 48,
            "encoder_num_hidden_layers": 2,
            "decoder_num_hidden_layers": 2,
            "num_heads": 4,
            "dropout_rate": 0.0,
            "src_max_position_embeddings": S,
            "tgt_max_position_embeddings": S,
        },
        translated,
    ),
    "transformer": (
        NLP + "transformer.model",
        "TransformerModel",
        {
            "name": "transformer",
            "src_vocab_size": V,
            "d_model": H,
            "d_kv": 8,
            "d_ff": 48,
            "encoder_num_hidden_layers": 2,
            "decoder_num_hidden_layers": 2,
            "num_heads": 4,
            "dropout_rate": 0.0,
            "norm_type": "layernorm",
            "position_embedding_type": "fixed",
            "src_max_position_embeddings": S,
            "tgt_max_position_embeddings": S,
            "use_transformer_initialization": True,
        },
        translated,
    ),
    "vit": (
        VISION + "vision_transformer.model",
        "ViTClassificationWrapperModel",
        {"name": "vision_transformer", **VIT, "num_classes": 10},
        pictures,
    ),
    "dit": (
        VISION + "dit.model",
        "DiTModel",
        {
            "name": "dit",
            "hidden_size": H,
            "num_hidden_layers": 2,
            "num_heads": 4,
            "filter_size": 48,
            "latent_size": [8, 8],
            "latent_channels": 4,
            "patch_size": [2, 2],
            "num_classes": 10,
            "embedding_dropout_rate": 0.0,
            "label_dropout_rate": 0.0,
            "num_diffusion_steps": 100,
            "frequency_embedding_size": 16,
            "position_embedding_type": "fixed",
            "use_conv_patchified_embedding": True,
        },
        diffused,
    ),
    "dino": (VISION + "dino.model", "DinoModel", modelzoo_dino.CONFIG, modelzoo_dino.views),
    "dino_koleo": (VISION + "dino.model", "DinoModel", modelzoo_dino.SPREAD_OUT, modelzoo_dino.views),
    "llava": (
        MULTIMODAL + "llava.model",
        "LlavaModel",
        {
            "name": "llava",
            "image_model": {"name": "ViTModel", **VIT, "nonlinearity": "quick_gelu"},
            "text_model": {"name": "LlamaModel", **LLAMA, "max_position_embeddings": 2 * S},
            "projector": {
                "image_model": {
                    "name": "FeedForwardNetwork",
                    "input_unit": H,
                    "layers_units": [H, H],
                    "layers_activation": ["gelu", None],
                    "use_bias": True,
                }
            },
            "image_feature_select_layer_idx": -1,
            "image_start_idx": 1,
            "image_feature_select_mode": "patch",
            "freeze": [],
        },
        described,
    ),
}


def figures(name):
    """The loss of a net on its batch, and the norm of all gradients."""
    place, kind_name, config, batch = NETS[name]
    module = importlib.import_module(place)
    # What a net logs beside its loss needs a Trainer around it.
    for part in [
        m for n, m in sys.modules.items() if n.startswith("cerebras.modelzoo.") and "summarize_scalar" in vars(m)
    ]:
        part.summarize_scalar = lambda *_: None
    kind = getattr(module, kind_name)
    settings = inspect.signature(kind.__init__).parameters["config"].annotation
    # Some nets cast to the half type by themselves, and without a Trainer's casts meet weights of float32.
    cstorch.amp.get_half_dtype = lambda: torch.float32
    torch.manual_seed(0)
    net = kind(settings(**config))
    torch.manual_seed(1)
    loss = net(batch())
    loss.backward()
    squares = [float((p.grad.double() ** 2).sum()) for p in net.parameters() if p.grad is not None]
    return {"loss": float(loss), "norm": math.sqrt(math.fsum(squares)), "gradients": len(squares)}


if __name__ == "__main__":
    for wanted in sys.argv[1:] or NETS:
        try:
            print(json.dumps({"net": wanted, **figures(wanted)}), flush=True)
        except Exception as e:  # one net that fails is a line of its own
            traceback.print_exc()
            print(json.dumps({"net": wanted, "error": f"{type(e).__name__}: {e}"}), flush=True)
