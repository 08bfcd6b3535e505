"""Numbers at the edges of units, and the value that a text such as `120M` or `3.53 ns` shows."""

import random
import re

PREFIXES = {"p": 1e-12, "n": 1e-9, "µ": 1e-6, "u": 1e-6, "m": 1e-3, "": 1.0}
PREFIXES |= {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
NUMBER = r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
SHOWN = re.compile(rf"({NUMBER})(?: ?([{''.join(PREFIXES)}]?)(?:s|J|B| %|%|))")
EDGES = [
    *(0.0, 1.0, 9.0, 9.995, 10.0, 99.0, 99.95, 99.96, 100.0, 120.0, 340.0, 500.0, 999.0, 999.4, 999.5, 999.96, 1e3),
    *(1010.0, 1200.0, 9.995e3, 9_999.0, 9_999.5, 1e4, 34e3, 100e3, 340e3, 999_499.0, 999.5e3, 999.95e3, 999_999.0, 1e6),
    *(1.2e6, 9_999_999.0, 10e6, 100e6, 120.3e6, 999.4e6, 999.5e6, 999_999_999.0, 1e9, 20e9, 300e9, 999.96e9, 1e12),
    *(500e12, 999.96e12, 1e15, 40e15, 7e17, 1e18, 5e19, 0.5, 0.1, 0.0999, 0.01, 0.00345, 0.00099996, 0.00010004),
    *(1e-4, 9.99e-5, 1e-5, 9.9996e-7, 3.53e-9, 1e-9, 2e-12),
]


def numbers_of_all_sizes():
    """The edges, and as many drawn numbers, half of them within a percent of a power of ten; all with both signs."""
    draw = random.Random(5)
    near = [10.0 ** draw.randint(-9, 18) * (1 + draw.uniform(-0.01, 0.01)) for _ in EDGES]
    values = [*EDGES, *near, *(10 ** draw.uniform(-9, 19) for _ in EDGES)]
    return [*values, *(-v for v in values if v)]


def value_of(text):
    """The value that a text shows."""
    found = SHOWN.fullmatch(text)
    assert found, text
    return float(found[1].replace(",", "")) * PREFIXES[found[2]]


def misleading(values, texts, rounding):
    """The values whose texts are off by more than a share of them, and those other than 0 that are shown as 0."""
    pairs = list(zip(values, texts, strict=True))
    return [(v, t) for v, t in pairs if abs(value_of(t) - v) > (rounding + 1e-9) * abs(v)]
