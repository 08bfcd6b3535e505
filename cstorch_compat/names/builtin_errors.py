"""Our errors as the built-in ones that the original raises in the same place."""

from collections.abc import Iterator
from contextlib import contextmanager

from lazytensor.errors import LazyError

KINDS = (
    FileNotFoundError,
    FileExistsError,
    KeyError,
    AttributeError,
    AssertionError,
    TypeError,
    ValueError,
    NotImplementedError,
    RuntimeError,
)
"""In the order in which they are tried: a kind comes before the ones that it derives from."""


@contextmanager
def as_builtin() -> Iterator[None]:
    """Raise what the block raises of ours as the built-in error that it derives from, with ours as the cause.

    Scripts and tests that look at the type of an error see the one they see on the system.
    """
    try:
        yield
    except LazyError as e:
        # Our errors derive from several kinds, of which the first that fits is the one the original raises.
        kind = next((k for k in KINDS if isinstance(e, k)), None)
        if kind is None:
            raise
        plain = kind(str(e)).with_traceback(e.__traceback__)
        # Notes say where a name came from; they would be lost with the first error.
        for note in getattr(e, "__notes__", ()):
            plain.add_note(note)
        raise plain from e
