"""Conversion of byte counts and times between units, and their formatting in a suitable unit."""

from numbers import Number
from typing import Any

DECIMAL_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
SECONDS_PER_UNIT = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
    "y": 31540000.0,
}
"""The length of each time unit in seconds. The value for a year is that of the original package."""


def _bytes_per_unit(unit: str, what: str) -> int:
    if unit in BINARY_UNITS:
        return int(1024 ** BINARY_UNITS.index(unit))
    if unit in DECIMAL_UNITS:
        return int(1000 ** DECIMAL_UNITS.index(unit))
    raise ValueError(f'Invalid `{what}`: {unit}\n  Use one of the units of this module, such as "MB".')


def bytes_to_human(num: int, /, fmt: str = "{value:.1f}{unit}", log_base: int = 2) -> str:
    """Return `num` bytes as text in the largest unit that gives at least 1, such as "1.5KiB".

    Smaller numbers are given in bytes, and a negative number in the unit of its absolute value. `fmt` is a format
    string with the fields `value` (a float) and `unit`. `log_base` selects units of 1024 (2: KiB) or 1000 (10: KB);
    other values raise ValueError.
    """
    if log_base not in (2, 10):
        raise ValueError(f"Invalid `log_base`: {log_base}\n  Pass log_base=2 or log_base=10.")
    base, units = (1024, BINARY_UNITS) if log_base == 2 else (1000, DECIMAL_UNITS)
    # Division is exact at the borders between units, where a logarithm would round.
    value, place = float(num), 0
    while abs(value) >= base and place < len(units) - 1:
        value, place = value / base, place + 1
    return fmt.format(value=value, unit=units[place])


def convert_byte_unit(num: int, tgt_unit: str, /, src_unit: str = "B", precision: int = 0) -> int | float:
    """Return `num` in `src_unit` converted to `tgt_unit` and rounded to `precision` decimal digits.

    The result is an int if `precision` is 0. Units are B, KB to PB (powers of 1000) and KiB to PiB (powers of 1024).
    Raises ValueError for other units.
    """
    return _round(num * _bytes_per_unit(src_unit, "src_unit") / _bytes_per_unit(tgt_unit, "tgt_unit"), precision)


def convert_time_unit(num: Any, src_unit: str, tgt_unit: str, precision: int | None = None) -> int | float:
    """Return `num` in `src_unit` converted to `tgt_unit`, rounded to `precision` decimal digits if that is given.

    Units are the keys of `SECONDS_PER_UNIT`: ns, us, ms, s, m, h, d, w and y. Raises ValueError for other units.
    """
    for what, unit in (("src_unit", src_unit), ("tgt_unit", tgt_unit)):
        if unit not in SECONDS_PER_UNIT:
            raise ValueError(f'Invalid `{what}`: {unit}\n  Use one of the units of this module, such as "ms".')
    value = num * SECONDS_PER_UNIT[src_unit] / SECONDS_PER_UNIT[tgt_unit]
    return value if precision is None else _round(value, precision)


def time_to_human(num: Number, src_unit: str, fmt: str = "{value:.1f}{unit}") -> str:
    """Return the time `num`, given in `src_unit`, as text such as "1.5h".

    The unit is the largest in which the absolute value is at least 1, or ns if there is none, as for 0. `fmt`
    is a format string with the fields `value` and `unit`.
    """
    seconds = convert_time_unit(num, src_unit, "s")
    # Units are in ascending order, so the last one that fits is the largest.
    fitting = [unit for unit, size in SECONDS_PER_UNIT.items() if abs(seconds) >= size] or ["ns"]
    return fmt.format(value=seconds / SECONDS_PER_UNIT[fitting[-1]], unit=fitting[-1])


def _round(value: float, digits: int) -> int | float:
    # round() returns an int only if it gets no number of digits.
    return round(value, digits) if digits else round(value)
