"""Conversion of LazyError to the built-in exceptions that the original raises."""

from lazytensor.errors import LazyError

BUILTIN_ERRORS = (
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
"""The built-in exceptions in the order in which they are tried. Subclasses come before their base classes."""


class reraise_as_builtin:
    """A context manager that raises a LazyError from its block as the built-in exception that the error derives from.

    The LazyError is the cause of the built-in exception. Scripts that test the exact type of an exception thus see the
    same type as on the system. A LazyError that derives from no built-in exception is not changed.
    """

    __slots__ = ()

    def __enter__(self) -> None: ...

    def __exit__(self, of: object, e: BaseException | None, trace: object) -> None:
        if not isinstance(e, LazyError):
            return
        # A LazyError may derive from several built-in exceptions. The original raises the first that fits.
        kind = next((k for k in BUILTIN_ERRORS if isinstance(e, k)), None)
        if kind is None:
            return
        plain = kind(str(e)).with_traceback(e.__traceback__)
        # Copy the notes, which say where a name came from.
        for note in getattr(e, "__notes__", ()):
            plain.add_note(note)
        raise plain from e
