"""The steps of the published training runs, recorded from their scripts in a checkout."""

import pathlib

from cstorch_compat.planning.recording import record_script
from lazytensor.abstract import StepFamily
from lazytensor.errors import LazyError

SCRIPTS = pathlib.Path(__file__).parents[2] / "notebooks" / "scripts" / "published"
SHARED = "training.py"
"""The file among them that is no run: what the others have in common."""
PLACED = "resnet18.py"
"""The net among them of which no run is published: it is placed."""


def recorded_run(name: str, args: tuple[str, ...] = ()) -> StepFamily:
    """The step of one of the scripts. Raises LazyError where the package stands without its notebooks."""
    path = SCRIPTS / name
    if not path.is_file():
        hint = "Run in a checkout of the sources, or take `--recorded`, the figures of the last plan."
        raise LazyError(f"there is no script {path}", hint=hint)
    return record_script(str(path), list(args))
