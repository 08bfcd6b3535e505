"""Text that every Python has, as numbers."""

from pydoc_data.topics import topics

TEXT = "".join(c for name in sorted(topics)[:12] for c in topics[name] if c in "abcdefghijklmnopqrstuvwxyz \n")[:6000]
LETTERS = sorted(set(TEXT))
CODES = [LETTERS.index(c) for c in TEXT]


def windows(length, count):
    """`count` pieces of `length` + 1 letters, one behind the other."""
    return [CODES[i * length : i * length + length + 1] for i in range(count)]
