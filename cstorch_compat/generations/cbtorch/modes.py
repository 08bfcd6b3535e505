"""What a Session is for: `cerebras_torch.core.modes`."""

from lazytensor.core import source
from lazytensor.errors import OptionInvalid, OptionMissing

TRAIN, EVAL, TRAIN_AND_EVAL, INFERENCE = "train", "eval", "train_and_eval", "inference"


def get_modes() -> tuple[str, ...]:
    """Every mode."""
    return TRAIN, EVAL, TRAIN_AND_EVAL, INFERENCE


def is_valid(mode: object) -> bool:
    """Whether there is such a mode."""
    return mode in get_modes()


def check_mode(mode: object) -> str:
    """A mode that a Session can have. Raises OptionMissing for train_and_eval, OptionInvalid for what is no mode."""
    # It is a mode of the API, and the system refused it in these words.
    if mode == TRAIN_AND_EVAL:
        raise OptionMissing(
            "Training with Eval on CS is not currently supported.",
            where=source.where(),
            hint='Train and evaluate in two runs, with mode "train" and mode "eval".',
        )
    if not is_valid(mode):
        raise OptionInvalid(
            f"the mode of a Session is {mode!r}",
            where=source.where(),
            hint='Write cbtorch.Session(dataloader, mode="train"), or mode="eval".',
        )
    return str(mode)
