"""Record what PyTorch prints for the examples of public names, where it is installed: `record_examples.py`.

`lazytensor/examples.txt` is written anew: lines behind >>> stay, what stands below them is PyTorch's.
`tests/test_doctests.py` follows it. A name that PyTorch does not have, or answers otherwise, has no place there.
"""

import contextlib
import doctest
import io
import pathlib

import torch

TABLE = pathlib.Path(__file__).parents[2] / "lazytensor" / "examples.txt"


def answered(block: str) -> str:
    """A block as PyTorch answers it."""
    name, _, typed = block.partition("\n")
    space = {"lt": torch}
    lines = [name]
    for example in doctest.DocTestParser().get_examples(typed):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(example.source, name, "single"), space)
        source = example.source.rstrip("\n").split("\n")
        lines += [
            f"    {mark} {line}".rstrip()
            for mark, line in zip([">>>", *["..."] * (len(source) - 1)], source, strict=True)
        ]
        lines += [f"    {line}".rstrip() for line in printed.getvalue().splitlines()]
    return "\n".join(lines)


if __name__ == "__main__":
    head, *blocks = TABLE.read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    torch.manual_seed(0)
    TABLE.write_text("\n\n".join([head, *map(answered, blocks)]) + "\n", encoding="utf-8")
