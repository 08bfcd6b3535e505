"""Names for what a run does: `cerebras.pytorch.core.modes`."""

TRAIN, EVAL, TRAIN_AND_EVAL, INFERENCE, EVAL_ALL = "train", "eval", "train_and_eval", "inference", "eval_all"


def get_modes() -> tuple[str, ...]:
    """Every mode."""
    return TRAIN, EVAL, TRAIN_AND_EVAL, INFERENCE, EVAL_ALL


def is_valid(mode: object) -> bool:
    """Whether there is such a mode."""
    return mode in get_modes()
