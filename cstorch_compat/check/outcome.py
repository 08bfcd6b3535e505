"""How a check ended: what was traced, how far the script was followed, and whether it crashed."""

from dataclasses import dataclass, field

from cstorch_compat.check.findings import Findings
from cstorch_compat.check.missing_names import MissingName
from cstorch_compat.check.trace_counts import TraceSummary
from cstorch_compat.run.file_journal import FileJournal

STATUS_REFUSED, STATUS_CLEAN, STATUS_CRASHED = 1, 0, 2
UNCHECKED_ASPECTS = (
    "code that the first step does not reach",
    "the bodies of closures",
    "placement and memory of the cluster's compile",
)


@dataclass
class CheckOutcome:
    """The end of a check. `stopped` says why the script was not followed to its end.

    `missing` are the names that it uses and does not get, read before it ran. `journal` lists the files that it changed
    before the check left it.
    """

    script: str
    summary: TraceSummary = field(default_factory=TraceSummary)
    stopped: str = ""
    crash: str = ""
    missing: list[MissingName] = field(default_factory=list)
    journal: FileJournal = field(default_factory=FileJournal)

    def status(self, findings: Findings) -> int:
        """The exit status: 2 if the script itself crashed, 1 if something is refused, else 0."""
        # A script that does not run says nothing of its step, whatever was found on the way.
        if self.crash:
            return STATUS_CRASHED
        return STATUS_REFUSED if findings.count("refused") else STATUS_CLEAN

    def list_unchecked_aspects(self) -> list[str]:
        """What the check has not looked at."""
        return [*UNCHECKED_ASPECTS, *([self.stopped] if self.stopped else [])]
