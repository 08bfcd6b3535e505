"""Whether operations of a thread record what gradients need."""

import threading


class _GradRecording(threading.local):
    """What each thread switches for itself, as in PyTorch; a new thread begins with recording on."""

    records_gradients = True
    is_inference = False


grad_recording_state = _GradRecording()


class grad_mode:
    """A block in which the recording of gradients is switched on or off, in this thread."""

    __slots__ = ("_before", "_enabled")

    def __init__(self, enabled: bool):
        self._enabled = enabled

    def __enter__(self) -> None:
        self._before, grad_recording_state.records_gradients = grad_recording_state.records_gradients, self._enabled

    def __exit__(self, *error: object) -> None:
        grad_recording_state.records_gradients = self._before


def is_grad_enabled() -> bool:
    """Whether operations record gradients now.

    >>> import lazytensor as lt
    >>> lt.is_grad_enabled()
    True
    """
    return grad_recording_state.records_gradients


def set_grad_enabled(enabled: bool) -> None:
    """Switch the recording of gradients on or off for good, in this thread."""
    grad_recording_state.records_gradients = enabled
