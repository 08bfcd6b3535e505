"""Text for errors that lists the names most similar to an unknown one."""

import difflib
from collections.abc import Iterable


def near_names(name: str, known: Iterable[str]) -> str:
    """Return up to three of the `known` names that are similar to `name`, joined by "or".

    If none is similar, return all of them.
    """
    listed = list(known)
    near = difflib.get_close_matches(name, listed, 3, 0.4)
    return " or ".join(near) if near else f"one of {', '.join(listed)}" if len(listed) > 1 else "".join(listed)
