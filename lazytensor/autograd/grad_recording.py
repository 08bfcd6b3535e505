"""The state of gradient recording in each thread."""

import threading


class _GradRecording(threading.local):
    """Gradient modes of each thread, as in PyTorch; in a new thread, gradients are enabled."""

    records_gradients = True
    is_inference = False


grad_recording_state = _GradRecording()


class grad_mode:
    """A context manager that enables or disables gradients in this thread."""

    __slots__ = ("_before", "_enabled")

    def __init__(self, enabled: bool):
        self._enabled = enabled

    def __enter__(self) -> None:
        self._before, grad_recording_state.records_gradients = grad_recording_state.records_gradients, self._enabled

    def __exit__(self, *error: object) -> None:
        grad_recording_state.records_gradients = self._before


def is_grad_enabled() -> bool:
    """Return whether operations of this thread record gradients.

    >>> import lazytensor as lt
    >>> lt.is_grad_enabled()
    True
    """
    return grad_recording_state.records_gradients


def set_grad_enabled(enabled: bool) -> None:
    """Enable or disable gradients in this thread until the next change."""
    grad_recording_state.records_gradients = enabled
