"""Recorded answers of the original's GradScaler and metrics (release 2.10, CPU backend)."""

SCALES = {
    # kwargs, steps whose gradient overflows, the scale before each step and after the last
    "default": ({}, {2, 5, 6, 7}, [32768.0] * 3 + [16384.0] * 3 + [8192.0, 4096.0] + [2048.0] * 5),
    "floor": (
        {"init_scale": 16.0, "min_loss_scale": 2.0, "steps_per_increase": 5},
        set(range(2, 10)),
        [16.0] * 3 + [8.0, 4.0] + [2.0] * 11 + [4.0] * 5,
    ),
    "tolerance": (
        {"init_scale": 64.0, "overflow_tolerance": 0.3, "steps_per_increase": 8},
        {3, 6, 7, 12},
        [64.0] * 8 + [32.0] * 9 + [64.0] * 8,
    ),
}
LABELS = ((1, 0, 0, 0, 1, 0, 0, 2), (2, 2, 0, 1, 3, 1, 2, 3))
PREDICTIONS = ((1, 1, 1, 0, 1, 2, 0, 3), (2, 0, 2, 1, 3, 1, 2, 3))
"""Two batches of four classes."""
VALUES = {
    "dice": (0.309523821, 0.63611114),
    "miou": (0.224999994, 0.488095284),
    "mpca": (0.349999994, 0.708333373),
    "fbeta_micro": (0.5, 0.625),
    "fbeta_macro": (0.309523821, 0.63611114),
    "fbeta2_macro": (0.321969688, 0.672138095),
}
"""Values of metrics after each of the batches."""
