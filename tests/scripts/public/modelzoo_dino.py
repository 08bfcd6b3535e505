"""The Model Zoo's DINO v2 in small: two trunks and two heads, a teacher that follows its student, and both losses.

A script's module as modelzoo_nets.py is, for either stack; its form is that of the vendor's configurations.
"""

import torch

HIDDEN, PROTOTYPES, PATCHES = 32, 24, 16
TRUNCATED = {"name": "truncated_normal", "std": 0.02, "a": -2.0, "b": 2.0}
TRUNK = {
    "name": "MultiImageViTModel",
    "hidden_size": HIDDEN,
    "num_hidden_layers": 2,
    "num_heads": 4,
    "filter_size": 48,
    "image_size": [16, 16],
    "patch_size": [4, 4],
    "num_channels": 3,
    "embedding_dropout_rate": 0.0,
    "dropout_rate": 0.0,
    "attention_dropout_rate": 0.0,
    "layer_norm_epsilon": 1e-6,
    "layerscale_value": 0.01,
    "position_embedding_type": "learned",
    "interpolate_position_embedding": {
        "antialias": False,
        "interpolate_offset": 0.1,
        "local_patch_dims": [2, 2],
    },
    "projection_initializer": {"name": "kaiming_uniform", "a": 5**0.5},
    "position_embedding_initializer": TRUNCATED,
    "cls_token_initializer": {"name": "normal", "std": 1e-6},
    "default_initializer": TRUNCATED,
    "use_masked_patches": True,
}
DROPPING = {
    "stochastic_depth_drop_prob": 0.3,
    "stochastic_depth_mode": "row",
    "stochastic_depth_drop_prob_schedule": "constant",
}
HEAD = {
    "name": "DinoHead",
    "input_size": HIDDEN,
    "hidden_size": 48,
    "output_size": PROTOTYPES,
    "bottleneck_size": 16,
    "num_layers": 3,
    # Wider than the vendor's 0.02: over so few units the gradient of `normalize` would outgrow all others.
    "initializer": {"name": "truncated_normal", "std": 0.2},
}
TEMPERATURES = {
    "input_size": PROTOTYPES,
    "warmup_teacher_temp": 0.04,
    "teacher_temp": 0.07,
    "warmup_teacher_temp_steps": 30,
    "total_steps": 100,
    "student_temp": 0.1,
    "center_momentum": 0.9,
    "teacher_temp_scheduler": "linear_cosine",
}
FOLLOWING = {
    "scheduler_name": "cosine",
    "scheduler_params": {"ema_decay_start": 0.992, "ema_decay_end": 1.0, "total_steps": 100},
}
PARTS = ("image_model_trunks", "heads")
GLOBAL, LOCAL, MASKS = (f"ssl_transform.output('{name}')" for name in ("global_view", "local_view", "collated_masks"))
CONFIG = {
    "name": "dino",
    "image_model_trunks": [
        {"image_model": TRUNK, "forward_args": [[GLOBAL, None, None]], "stop_grad": True},
        {
            "image_model": {**TRUNK, **DROPPING},
            "forward_args": [[GLOBAL, None, MASKS], [LOCAL, None, None]],
            "stop_grad": False,
        },
    ],
    "heads": [
        {
            "head_model": HEAD,
            "forward_args": [[f"image_model_trunks.output({place})"] for place in ("0,0,1", "0,0,0")],
            "stop_grad": True,
        },
        {
            "head_model": HEAD,
            "forward_args": [[f"image_model_trunks.output({place})"] for place in ("1,0,1", "1,1,1", "1,0,0")],
            "stop_grad": False,
        },
    ],
    "losses": [
        {
            "loss": {"name": "DinoDistillationLoss", **TEMPERATURES},
            "forward_args": [["heads.output(1,0,0)", "heads.output(0,0,0)", "heads.output(1,1,0)"]],
        },
        {
            "loss": {"name": "iBOTPatchLoss", **TEMPERATURES},
            "forward_args": [["heads.output(0,1,0)", "heads.output(1,2,0)", MASKS]],
        },
    ],
    "copy_init_weights": [{"source": f"{part}.model(0)", "target": f"{part}.model(1)"} for part in PARTS],
    "ema": [{"source": f"{part}.model(1)", "target": f"{part}.model(0)", **FOLLOWING} for part in PARTS],
    "freeze": [f"{part}.model.0.*" for part in PARTS],
}
# Its gradient is thousands of times the others', so it has a net of its own.
KOLEO = {"loss": {"name": "KoLeoLoss"}, "loss_weight": 0.1, "forward_args": [["image_model_trunks.output(1,0,1)"]]}
SPREAD_OUT = {**CONFIG, "losses": [*CONFIG["losses"], KOLEO]}


def views():
    """Two whole and three small views of two images, and which patches the student does not see."""
    return {
        "global_view": torch.rand(2, 2, 3, 16, 16),
        "local_view": torch.rand(2, 3, 3, 8, 8),
        "collated_masks": torch.rand(2, 2, PATCHES) < 0.5,
    }
