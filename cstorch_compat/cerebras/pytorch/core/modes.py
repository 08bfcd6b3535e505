"""Names of run modes: `cerebras.pytorch.core.modes`."""

TRAIN, EVAL, TRAIN_AND_EVAL, INFERENCE, EVAL_ALL = "train", "eval", "train_and_eval", "inference", "eval_all"


def get_modes() -> tuple[str, ...]:
    """Return the names of all modes."""
    return TRAIN, EVAL, TRAIN_AND_EVAL, INFERENCE, EVAL_ALL


def is_valid(mode: object) -> bool:
    """Return whether `mode` is the name of a mode."""
    return mode in get_modes()
