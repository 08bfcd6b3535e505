"""The outcome of a check: what was traced, where following the script ended, and whether it crashed."""

from dataclasses import dataclass, field

from cstorch_compat.check.findings import Findings
from cstorch_compat.check.missing_names import MissingName
from cstorch_compat.check.trace_counts import TraceSummary
from cstorch_compat.run.file_journal import FileJournal

STATUS_REFUSED, STATUS_CLEAN, STATUS_CRASHED = 1, 0, 2
UNCHECKED_ASPECTS = (
    "code that the first step does not reach",
    "what closures do with the values of later steps",
    "the client's code after step 2, such as a second torch.save under the same name",
    "placement and memory in the compilation on the cluster",
)
"""What no check covers."""


@dataclass
class CheckOutcome:
    """The outcome of a check.

    script: path of the script
    summary: what was traced
    stopped: why the script was not followed to its end; "" if it was
    crash: traceback of the script's own error; "" if there was none
    missing: names that the script uses and that do not exist here, read before it ran
    journal: the files that it changed during the check
    """

    script: str
    summary: TraceSummary = field(default_factory=TraceSummary)
    stopped: str = ""
    crash: str = ""
    missing: list[MissingName] = field(default_factory=list)
    journal: FileJournal = field(default_factory=FileJournal)

    def status(self, findings: Findings) -> int:
        """Return the exit status: 2 if the script crashed, 1 if something is refused, 2 if no step was found, else 0.

        A script without a step must not pass for one that was checked.
        """
        # Findings of a script that crashed are incomplete, so the crash takes precedence.
        if self.crash:
            return STATUS_CRASHED
        if findings.count("refused"):
            return STATUS_REFUSED
        return STATUS_CLEAN if self.summary.loops else STATUS_CRASHED

    def list_unchecked_aspects(self) -> list[str]:
        """Return what the check did not cover, including the reason why it stopped early."""
        return [*UNCHECKED_ASPECTS, *([self.stopped] if self.stopped else [])]
