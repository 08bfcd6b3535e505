"""Format numbers as text for reports.

The whole part of a number keeps all its digits. Only an exact zero is printed as 0.
"""

_SI_PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"))
_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_MIN_ABBREVIATED = 10_000_000
"""The smallest absolute value that `format_short` abbreviates. Smaller numbers fit a column of ten characters."""


def format_number(value: float, digits: int = 4) -> str:
    """Return `value` with thousands separators, all digits of its whole part and at least `digits` significant digits.

    Trailing zeros of a fraction are omitted. Nonzero numbers below 0.0001 are written with an exponent.

    >>> format_number(1184669.4), format_number(999.96), format_number(0.43251), format_number(3.0)
    ('1,184,669', '1,000', '0.4325', '3')
    """
    # The format `g` would write 12,345 as 1.234e+04.
    return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:,.{digits}g}"


def format_short(value: float) -> str:
    """Return `value` as `format_number` does; from ten million on, with four significant digits and an SI prefix.

    The prefixes are M, G, T, P and E. The prefix is chosen after rounding to four digits: 999,960,000 becomes "1G".

    >>> format_short(9_999_999), format_short(120_300_000), format_short(999_960_000)
    ('9,999,999', '120.3M', '1G')
    """
    if abs(value) < _MIN_ABBREVIATED:
        return format_number(value)
    # By the rounded number: 999,960,000 has four digits as 1G, not as 1,000M.
    size, prefix = next(unit for unit in _SI_PREFIXES if abs(_round_to_digits(value, 4)) >= unit[0])
    return format_number(value / size) + prefix


def format_estimate(value: float, factor: float = 1.0) -> str:
    """Return `value` rounded to three significant digits, which is as much as a prediction is worth.

    `factor` is the median factor between predictions and measurements. A factor above 1 adds the range from
    `value / factor` to `value * factor` in parentheses.

    >>> format_estimate(479188.6), format_estimate(0.43251)
    ('479,000', '0.433')
    >>> format_estimate(479188.6, 1.32)
    '479,000 (363,000 to 633,000)'
    """
    shown = format_number(_round_to_digits(value, 3))
    if factor <= 1:
        return shown
    low, high = (format_number(_round_to_digits(v, 3)) for v in (value / factor, value * factor))
    return f"{shown} ({low} to {high})"


def format_percent(share: float) -> str:
    """Return the fraction `share` (1 is 100 %) as a percentage with at least three significant digits.

    >>> format_percent(0.1234), format_percent(0.0000222), format_percent(1)
    ('12.3%', '0.00222%', '100%')
    """
    return f"{format_number(100 * share, 3)}%"


def format_duration(seconds: float) -> str:
    """Return `seconds` with four significant digits in s, ms, us or ns.

    The unit is the largest one in which the rounded number is at least 1. Shorter times are given in ns. Zero is "0 s".

    >>> format_duration(1.2094e-6), format_duration(0.99999), format_duration(0)
    ('1.209 us', '1 s', '0 s')
    """
    if not seconds:
        return "0 s"
    size, unit = next((u for u in _TIME_UNITS if abs(_round_to_digits(seconds, 4)) >= u[0]), _TIME_UNITS[-1])
    return f"{format_number(seconds / size)} {unit}"


def _round_to_digits(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")
