"""Tell the training step of a plain script from the code around it, such as the preparation of the next batch."""

import sys
from dataclasses import dataclass
from types import CodeType

from lazytensor.core import source


@dataclass(frozen=True)
class StepFrame:
    """The function, or module, that called the model first, and the line of the call.

    The step is the code from that line on, and everything that it calls.
    """

    code: CodeType
    first_line: int

    @classmethod
    def running(cls) -> "StepFrame":
        """Return the StepFrame for the user's line that is running."""
        frame = source.user_frame()
        return cls(frame.f_code, frame.f_lineno)

    def is_active(self) -> bool:
        """Return whether the running code belongs to the step."""
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code is self.code:
                return frame.f_lineno >= self.first_line
            frame = frame.f_back  # type: ignore[assignment]
        return False
