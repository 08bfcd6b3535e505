"""Checks for values of settings.

Each returns the value to keep, or raises as release 2.10 does, with the user's line.
"""

import os
import pathlib
import re
from collections.abc import Callable, Iterable
from typing import Any

from cstorch_compat.run.compiler_settings import DebugArgs
from lazytensor.core import source
from lazytensor.errors import ArgumentInvalid, LazyError, OptionInvalid

Check = Callable[[str, Any], Any]
"""A function of a setting's name and value that returns the value to keep. It raises TypeError or ValueError."""

_TYPE_NAMES = {type(None): "NoneType"}
NUM_LEVELS = 3
"""Number of precision optimization levels: 0, 1 and 2."""
MAX_TRANSFER_BYTES = 2147482624
"""Maximum message size of release 2.10, in bytes."""
PRIORITIES = {"p1": 2, "p2": 3, "p3": 4}
"""Job priorities by name, with the numbers that release 2.10 returns for them."""
LABEL_PATTERN = "^([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$"
"""The pattern of release 2.10 for the key and the value of a job label."""


class StepsInvalid(LazyError, RuntimeError):
    """The error for a number of steps below the minimum. Release 2.10 raises RuntimeError."""


def make_value_error(name: str, value: Any, message: str, hint: str) -> OptionInvalid:
    """Return a ValueError for the invalid `value` of the setting `name`.

    Its text is `message`, as release 2.10 words it, then the name and the value, the user's line, and `hint`.
    """
    return OptionInvalid(f"{name} is {value!r}", where=source.where(), hint=hint, lead=message)


def make_type_error(name: str, value: Any, message: str, hint: str) -> ArgumentInvalid:
    """Return the error for a value of an invalid type. Its text begins with release 2.10's `message`."""
    return ArgumentInvalid(f"{name} is {value!r}", where=source.where(), hint=hint, lead=message)


def make_type_check(*kinds: type) -> Check:
    """Return a check that accepts values of the types `kinds` and raises TypeError for others.

    A bool is accepted as an int, as by `isinstance`.
    """
    names = [_TYPE_NAMES.get(k, k.__name__) for k in kinds]
    wanted = names[0] if len(names) == 1 else f"one of {', '.join(names)}"

    def check(name: str, value: Any) -> Any:
        if not isinstance(value, kinds):
            message = f"Expected {wanted} for `{name}`. Got {type(value)}: {value}"
            raise make_type_error(name, value, message, f"Pass a value of type {' or '.join(names)}.")
        return value

    return check


def check_positive(name: str, value: Any) -> int:
    """Return `value` if it is an int of at least 1. Otherwise raise TypeError or ValueError for the setting `name`."""
    number: int = make_type_check(int)(name, value)
    if number < 1:
        message = f"{name} must be a positive integer, got {value}"
        raise make_value_error(name, value, message, "Use an integer of at least 1.")
    return number


def check_transfer_bytes(name: str, value: Any) -> int:
    """Return `value` if it is an int from 0 to MAX_TRANSFER_BYTES. Otherwise raise TypeError or ValueError."""
    number: int = make_type_check(int)(name, value)
    if not 0 <= number <= MAX_TRANSFER_BYTES:
        message = f"{name} must be a positive integer less than {MAX_TRANSFER_BYTES}, got {value}"
        raise make_value_error(name, value, message, f"Use fewer than {MAX_TRANSFER_BYTES} bytes.")
    return number


def check_level(name: str, value: Any) -> int:
    """Return `value` if it is a precision optimization level: 0, 1 or 2. Otherwise raise TypeError or ValueError."""
    number: int = make_type_check(int)(name, value)
    if not 0 <= number < NUM_LEVELS:
        message = f"{name} must be an integer in range [0, {NUM_LEVELS}). Got {value}"
        raise make_value_error(name, value, message, "Use 0, 1 or 2.")
    return number


def check_fabrics(name: str, value: Any) -> list[str] | None:
    """Return `value` if it is None or a list of the fabric types "cs2" and "cs3". Otherwise raise TypeError."""
    if value is not None and (not isinstance(value, list) or any(v not in ("cs2", "cs3") for v in value)):
        message = f'Expected one of list of one of "cs2", "cs3", NoneType for `{name}`. Got {type(value)}: {value}'
        raise make_type_error(name, value, message, 'Pass a list of "cs2" and "cs3", or None.')
    return value


class ExploredSizes(str):
    """The value "explore" of micro_batch_size with the bounds of the search. `most` is None without an upper bound."""

    least: int
    most: int | None

    def __new__(cls, least: int = 1, most: int | None = None) -> "ExploredSizes":
        value = super().__new__(cls, "explore")
        value.least, value.most = least, most
        return value


_MICRO_BATCH_SIZES = (
    '\t"auto": Automatically choose an optimal micro batch size.\n\t"explore": Search for an optimal micro batch size '
    'and return.\n\t{"explore": {"min": Optional[<positive_int>], "max": Optional[<positive_int>]}}: The same, between '
    "bounds.\n\t<positive_int>: Use this size.\n\tNone: Do not split the batch."
)
_MICRO_BATCH_HINT = 'Use an integer of at least 1, "auto", "explore", {"explore": {"min": 1, "max": 8}}, or None.'


def check_micro_batch_size(name: str, value: Any) -> Any:
    """Return the value to keep for `micro_batch_size`: None, a positive int, "auto", or an `ExploredSizes`.

    "explore" and bounds such as {"explore": {"min": 1, "max": 8}} become an `ExploredSizes`. Raises TypeError for other
    types and for bounds that are no ints. Raises ValueError for ints below 1 and for bounds below 1 or in the wrong
    order.
    """
    if value is None or (isinstance(value, int) and value > 0) or (isinstance(value, str) and value == "auto"):
        return value
    if isinstance(value, str) and value == "explore":
        return value if isinstance(value, ExploredSizes) else ExploredSizes()
    if isinstance(value, dict) and _are_bounds(value):
        if list(value) == ["explore"] and set(value["explore"]) <= {"min", "max"}:
            least, most = value["explore"].get("min", 1), value["explore"].get("max")
            if least >= 1 and (most is None or least <= most):
                return ExploredSizes(least, most)
    elif not isinstance(value, int):
        message = (
            'Expected one of NoneType, int, "explore", "auto", str to dictionary of str to int pairs pairs for '
            f"`{name}`. Got {type(value)}: {value}"
        )
        raise make_type_error(name, value, message, _MICRO_BATCH_HINT)
    message = f'Invalid value "{value}" for "{name}". Expected one of:\n{_MICRO_BATCH_SIZES}'
    raise make_value_error(name, value, message, _MICRO_BATCH_HINT)


def _are_bounds(value: dict[Any, Any]) -> bool:
    """Return whether every value of a dict is a dict from strings to ints."""
    return all(
        isinstance(bounds, dict) and all(isinstance(k, str) and isinstance(v, int) for k, v in bounds.items())
        for bounds in value.values()
    )


def make_count_check(default: int) -> Check:
    """Return a check that accepts an int of at least 0, and returns `default` for None.

    It raises ValueError otherwise.
    """

    def check(name: str, value: Any) -> int:
        if value is None:
            return default
        if not isinstance(value, int) or value < 0:
            message = f"{name} must be a non-negative integer or None. Got {value}"
            raise make_value_error(name, value, message, "Use an integer of at least 0.")
        return value

    return check


def check_seconds(name: str, value: Any) -> int | None:
    """Return `value` if it is None or an int of at least 1. Otherwise raise ValueError."""
    if value is not None and (not isinstance(value, int) or value < 1):
        message = f"{name} must be a positive integer or None. Got {value}"
        raise make_value_error(name, value, message, "Use a positive integer of seconds, or None.")
    return value


def check_address(name: str, value: Any) -> str | None:
    """Return `value` if it is None or a string of the form "name:port".

    Raises TypeError for another type, and ValueError for another string.
    """
    if value is not None and not isinstance(value, str):
        message = f"expected string or bytes-like object, got {type(value).__name__!r}"
        raise make_type_error(name, value, message, 'Pass a string such as "cluster:443".')
    if value is not None and not re.fullmatch(r".+:\d+", value):
        message = f"{name} '{value}' should be in the form of '<name>:<port>'"
        raise make_value_error(name, value, message, 'Pass a string such as "cluster:443".')
    return value


def check_priority(name: str, value: Any) -> int:
    """Return the number of a job priority, given by its name or its number. Raises ValueError for other values."""
    if isinstance(value, str) and value in PRIORITIES:
        return PRIORITIES[value]
    if isinstance(value, int) and value in PRIORITIES.values():
        return value
    message = f"Invalid job priority value: {value} (expected one of {list(PRIORITIES)})"
    raise make_value_error(name, value, message, f"Use one of {', '.join(PRIORITIES)}.")


def check_labels(name: str, value: Any) -> Any:
    """Return `value` if it is an iterable of strings "key=value", both matching LABEL_PATTERN, and [] if it is None.

    Raises TypeError for a value that is not iterable, and ValueError for an invalid label.
    """
    if not isinstance(value, Iterable | None):
        raise make_type_error(
            name, value, f"{type(value).__name__!r} object is not iterable", 'Pass a list such as ["a=b"].'
        )
    for label in value or ():
        parts = label.split("=") if isinstance(label, str) else []
        if len(parts) != 2:
            message = (
                f"{label!r} is an invalid label. Expecting the label key and the label value to be separated by a "
                "single equal sign(=) character."
            )
            raise make_value_error(name, label, message, 'Write labels as in job_labels=["team=vision"].')
        if not all(re.match(LABEL_PATTERN, part) for part in parts):
            message = (
                f"{label!r} is an invalid label. Expecting the label key and the label value to match regex "
                f"'{LABEL_PATTERN}'."
            )
            raise make_value_error(name, label, message, "Use letters, digits, '-', '_' and '.' in labels.")
    return value or []


def check_paths(name: str, value: Any) -> list[Any]:
    """Return `value` if it is a list of existing paths, and [] if it is None.

    Raises TypeError for another type and for items that are no paths, and ValueError for a path that does not exist.
    """
    if not isinstance(value, list | None):
        message = f"Expected a list of paths for `{name}`. Got {type(value)}: {value}"
        raise make_type_error(name, value, message, f'Pass a list, such as {name}=["data"].')
    for path in value or ():
        if not isinstance(path, str | os.PathLike):
            message = f"expected str, bytes or os.PathLike object, not {type(path).__name__}"
            raise make_type_error(name, path, message, "Pass paths as strings.")
        if not pathlib.Path(path).exists():
            message = f"{name}: {os.path.abspath(path)} does not exist"
            raise make_value_error(name, path, message, "Use an existing folder.")
    return value or []


def check_search_paths(name: str, value: Any) -> list[str]:
    """Return a list of existing paths as absolute paths, and [] for None. Raises the errors of `check_paths`."""
    return [os.path.abspath(path) for path in check_paths(name, value)]


def make_compiler_tree_check(kind: str) -> Check:
    """Return a check that accepts a DebugArgs tree, or a dict, which it converts to one. It raises TypeError otherwise.

    `kind` is the type name in the error.
    """

    def check(name: str, value: Any) -> DebugArgs:
        if isinstance(value, dict):
            return DebugArgs.from_dict(value)
        if not isinstance(value, DebugArgs):
            message = f"Expected one of {kind}, dict for `{name}`. Got {type(value)}: {value}"
            raise make_type_error(name, value, message, "Pass a dict.")
        return value

    return check


def check_notification_targets(name: str, value: Any) -> list[Any]:
    """Return an iterable of nonempty dicts as a list.

    Raises TypeError for other types, and ValueError for an empty dict.
    """
    if not isinstance(value, Iterable):
        message = f"{type(value).__name__!r} object is not iterable"
        raise make_type_error(name, value, message, 'Pass a list, such as [{"mailto": ["me@example.com"]}].')
    for target in value:
        if not isinstance(target, dict):
            message = f"Invalid notification target. Expected a dict or `NotificationTarget`. Got type {type(target)}."
            raise make_type_error(name, target, message, 'Pass dicts, such as {"mailto": ["me@example.com"]}.')
        if not target:
            message = "Empty notification target. At least one email, slack, or pagerduty target must be specified."
            raise make_value_error(name, target, message, 'Pass a target, such as {"mailto": ["me@example.com"]}.')
    return list(value)


def check_bool(name: str, value: Any) -> bool:
    """Return `value` if it is a bool, and False if it is None. Otherwise raise TypeError."""
    checked: bool | None = make_type_check(bool, type(None))(name, value)
    return bool(checked)


def check_optional_path(name: str, value: Any) -> Any:
    """Return `value` if it is a string, an os.PathLike or None. Otherwise raise TypeError."""
    if not isinstance(value, str | os.PathLike | None):
        message = f"expected str, bytes or os.PathLike object, not {type(value).__name__}"
        raise make_type_error(name, value, message, "Pass a path as a string.")
    return value


def refuse_both_stops(compile_only: Any, validate_only: Any) -> None:
    """Raise ValueError if both `compile_only` and `validate_only` are true."""
    if compile_only and validate_only:
        message = "compile_only and validate_only exclude each other"
        hint = "Set validate_only to stop after tracing, or compile_only to stop after the compile."
        raise make_value_error("compile_only", compile_only, message, hint)


def make_interval_check(least: int, kind: type[LazyError] = StepsInvalid) -> Check:
    """Return a check that accepts None or an int of at least `least` steps.

    The check raises TypeError for other types, and the error class `kind` for a smaller int.
    """

    def check(name: str, value: Any) -> int | None:
        if not isinstance(value, int | None):
            message = f'Expected {name} to be have "int" or "None" type. Got: "{type(value)}"'
            raise make_type_error(name, value, message, "Use an integer, or None.")
        if value is not None and value < least:
            message = f'Expected {name} to be an integer >= {least} or "None". Got: {value}'
            hint = f"Use at least {least} steps."
            raise kind(f"{name} is {value!r}", where=source.where(), hint=hint, lead=message)
        return value

    return check
