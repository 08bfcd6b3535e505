"""The steps of the published training runs, recorded from the scripts in `notebooks/scripts/published`."""

from cstorch_compat.names import examples
from cstorch_compat.planning.recording import record_script
from lazytensor.core.abstract_step import StepFamily

SCRIPTS = examples.SCRIPTS / "published"
SHARED_FILE = "training.py"
"""The file among them that is no run: what the others have in common."""
PLACED_FILE = "resnet18.py"
"""The net among them of which no run is published: it is placed."""


def record_run(name: str, args: tuple[str, ...] = ()) -> StepFamily:
    """Return the step that the script `name` records when it is run with `args`."""
    return record_script(str(SCRIPTS / name), list(args))
