"""The steps of published training runs, recorded from the scripts in `notebooks/scripts/published`."""

from cstorch_compat.names import examples
from cstorch_compat.planning.recording import record_script
from lazytensor.core.abstract_step import StepFamily

SCRIPTS = examples.SCRIPTS / "published"
"""The folder of the scripts."""
SHARED_FILE = "training.py"
"""The file in the folder that is no run but contains code shared by the others."""
PLACED_FILE = "resnet18.py"
"""The script in the folder without a published run. It is used for placement."""


def record_run(name: str, args: tuple[str, ...] = ()) -> StepFamily:
    """Return the step of the script `name` with the command-line arguments `args`."""
    return record_script(str(SCRIPTS / name), list(args))
