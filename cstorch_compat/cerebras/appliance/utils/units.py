"""Numbers of bytes and seconds in the unit that suits them."""

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
"""How many seconds each unit of time has; of a year as many as the original counts."""


def _bytes_per_unit(unit: str, what: str) -> int:
    if unit in BINARY_UNITS:
        return int(1024 ** BINARY_UNITS.index(unit))
    if unit in DECIMAL_UNITS:
        return int(1000 ** DECIMAL_UNITS.index(unit))
    raise ValueError(f"Invalid `{what}`: {unit}")


def bytes_to_human(num: int, /, fmt: str = "{value:.1f}{unit}", log_base: int = 2) -> str:
    """A number of bytes in the largest unit of which there is at least one.

    Raises ValueError unless the base is 2, for units of 1024, or 10, for units of 1000.
    """
    if log_base not in (2, 10):
        raise ValueError(f"Invalid `log_base`: {log_base}")
    base, units = (1024, BINARY_UNITS) if log_base == 2 else (1000, DECIMAL_UNITS)
    # By division and not by a logarithm, which rounds at the borders between units.
    value, place = float(num), 0
    while abs(value) >= base and place < len(units) - 1:
        value, place = value / base, place + 1
    return fmt.format(value=value, unit=units[place])


def convert_byte_unit(num: int, tgt_unit: str, /, src_unit: str = "B", precision: int = 0) -> int | float:
    """A number of one unit of bytes in another, rounded to `precision` digits."""
    return _round(num * _bytes_per_unit(src_unit, "src_unit") / _bytes_per_unit(tgt_unit, "tgt_unit"), precision)


def convert_time_unit(num: Any, src_unit: str, tgt_unit: str, precision: int | None = None) -> int | float:
    """A number of one unit of time in another, rounded to `precision` digits if that is given."""
    for what, unit in (("src_unit", src_unit), ("tgt_unit", tgt_unit)):
        if unit not in SECONDS_PER_UNIT:
            raise ValueError(f"Invalid `{what}`: {unit}")
    value = num * SECONDS_PER_UNIT[src_unit] / SECONDS_PER_UNIT[tgt_unit]
    return value if precision is None else _round(value, precision)


def time_to_human(num: Number, src_unit: str, fmt: str = "{value:.1f}{unit}") -> str:
    """A time in the largest unit of which there is at least one."""
    seconds = convert_time_unit(num, src_unit, "s")
    # From the smallest unit up, so the last one that fits is the largest; of no time at all it is none.
    fitting = [unit for unit, size in SECONDS_PER_UNIT.items() if abs(seconds) >= size] or ["ns"]
    return fmt.format(value=seconds / SECONDS_PER_UNIT[fitting[-1]], unit=fitting[-1])


def _round(value: float, digits: int) -> int | float:
    # Without digits behind the point a whole number, as `round` gives it.
    return round(value, digits) if digits else round(value)
