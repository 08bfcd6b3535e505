"""Our errors as the built-in ones that the original raises in the same place."""

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
"""In the order in which they are tried: a kind comes before the ones that it derives from."""


class reraise_as_builtin:
    """A block that raises what it raises of ours as the built-in error that it derives from, with ours as the cause.

    Scripts and tests that look at the type of an error see the one they see on the system.
    """

    __slots__ = ()

    def __enter__(self) -> None: ...

    def __exit__(self, of: object, e: BaseException | None, trace: object) -> None:
        if not isinstance(e, LazyError):
            return
        # Our errors derive from several kinds, of which the first that fits is the one the original raises.
        kind = next((k for k in BUILTIN_ERRORS if isinstance(e, k)), None)
        if kind is None:
            return
        plain = kind(str(e)).with_traceback(e.__traceback__)
        # Notes say where a name came from; they would be lost with the first error.
        for note in getattr(e, "__notes__", ()):
            plain.add_note(note)
        raise plain from e
