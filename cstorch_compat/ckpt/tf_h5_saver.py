"""`cerebras_tensorflow.saver.tf_h5_saver`: the conversions of `tensorflow-to-h5` and `h5-to-tensorflow` as functions.

The original names of the functions are not documented. The page on checkpoints imports the module and says that it can
write parts of a checkpoint by the names of their weights.
"""

import os
from collections.abc import Iterable

from cstorch_compat.ckpt import tf_saver


def saver_to_h5(saver_path: str | os.PathLike[str], h5_path: str | os.PathLike[str]) -> list[str]:
    """Write a checkpoint of TensorFlow's saver to a new H5 file. Return the names of variables without numbers.

    `saver_path` has no suffix, as in "model.ckpt-100". Raises OptionMissing without TensorFlow, CheckpointMissing if
    there is no checkpoint, and CheckpointExists if `h5_path` exists.
    """
    return tf_saver.saver_to_h5(tf_saver.TensorFlowSaver(), os.fspath(saver_path), os.fspath(h5_path))


def h5_to_saver(
    h5_path: str | os.PathLike[str], saver_path: str | os.PathLike[str], names: Iterable[str] | None = None
) -> None:
    """Write an H5 checkpoint to a new checkpoint of TensorFlow's saver.

    `names` selects weights, so that a large checkpoint can be written in parts; None stands for all. Raises
    OptionMissing without TensorFlow, CheckpointError for a name that the file does not have, and CheckpointExists if
    there is a checkpoint at `saver_path`.
    """
    tf_saver.h5_to_saver(tf_saver.TensorFlowSaver(), os.fspath(h5_path), os.fspath(saver_path), names)
