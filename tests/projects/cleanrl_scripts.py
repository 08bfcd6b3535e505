"""Run cleanrl's dqn.py and ppo.py on CartPole.

Source: github.com/vwxyzjn/cleanrl, in the folder cleanrl; packages: gymnasium, farama-notifications, cloudpickle.
"""

import contextlib
import io
import os
import pathlib
import runpy
import sys
import types

import torch

FOLDER = pathlib.Path(os.environ["PROJECTS"], "cleanrl", "cleanrl")


class Writer:
    """A writer of summaries that keeps the values of one tag."""

    values: list[float] = []
    tag = ""

    def __init__(self, folder):
        pass

    def add_scalar(self, tag, value, step):
        if tag == self.tag:
            self.values.append(float(value))

    def add_text(self, *args):
        pass

    close = add_text


def run_script(name, tag, **settings):
    """Return the first five values of the summary `tag` that the script writes."""
    Writer.values, Writer.tag = [], tag
    # The scripts read their settings with tyro and write summaries with tensorboard. Both are optional packages.
    sys.modules["tyro"] = types.ModuleType("tyro")
    sys.modules["tyro"].cli = lambda kind: kind(**settings)
    summaries = types.ModuleType("torch.utils.tensorboard")
    summaries.SummaryWriter = Writer
    sys.modules["torch.utils.tensorboard"] = summaries
    torch.utils.tensorboard = summaries
    torch.manual_seed(0)
    with contextlib.redirect_stdout(io.StringIO()):
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    return Writer.values[:5]


def main():
    values = run_script(
        "dqn", "losses/td_loss", total_timesteps=1500, learning_starts=900, buffer_size=1000, train_frequency=4
    )
    others = run_script("ppo", "losses/value_loss", total_timesteps=5 * 64, num_envs=2, num_steps=32)
    for pair in zip(values, others, strict=True):
        print(sum(pair))


main()
