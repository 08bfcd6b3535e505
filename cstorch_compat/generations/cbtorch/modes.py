"""The modes of a Session: `cerebras_torch.core.modes`."""

from lazytensor.core import source
from lazytensor.errors import OptionInvalid, OptionMissing

TRAIN, EVAL, TRAIN_AND_EVAL, INFERENCE = "train", "eval", "train_and_eval", "inference"


def get_modes() -> tuple[str, ...]:
    """Return the names of all modes."""
    return TRAIN, EVAL, TRAIN_AND_EVAL, INFERENCE


def is_valid(mode: object) -> bool:
    """Return whether `mode` is the name of a mode."""
    return mode in get_modes()


def check_mode(mode: object) -> str:
    """Return `mode` if a Session supports it.

    Raises OptionMissing for "train_and_eval" and OptionInvalid for other values.
    """
    # The system refuses this mode with the same message.
    if mode == TRAIN_AND_EVAL:
        raise OptionMissing(
            "Training with Eval on CS is not currently supported.",
            where=source.where(),
            hint='Train and evaluate in two runs, with mode "train" and mode "eval".',
        )
    if not is_valid(mode):
        raise OptionInvalid(
            f"a Session cannot have the mode {mode!r}",
            where=source.where(),
            hint='Use cbtorch.Session(dataloader, mode="train") or mode="eval".',
        )
    return str(mode)
