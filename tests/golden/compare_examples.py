"""Print where PyTorch answers an example of a docstring otherwise, where PyTorch is installed.

Run `PYTHONPATH=. python tests/golden/compare_examples.py` with PyTorch 2.13.0. Names that PyTorch does not have are
left out. Three answers differ by design: `seed` (its `fork_rng` is in `torch.random`), `topk` (another record), and
`NAdam` (the one of cerebras_pytorch 2.10.0).
"""

import doctest
import inspect
import operator
import sys

import torch

import lazytensor
from lazytensor import nn, optim

NAMES = [
    *lazytensor.PUBLIC,
    *(f"nn.{name}" for name in nn.__all__),
    *(f"nn.functional.{name}" for name in nn.functional.FUNCTION_NAMES),
    *(f"optim.{name}" for name in optim.__all__),
]


def is_provided(name: str) -> bool:
    try:
        operator.attrgetter(name)(torch)
    except AttributeError:
        return False
    return True


if __name__ == "__main__":
    texts = {name: inspect.getdoc(operator.attrgetter(name)(lazytensor)) or "" for name in filter(is_provided, NAMES)}
    sys.modules["lazytensor"] = torch
    run = doctest.DocTestRunner(verbose=False)
    for name, text in texts.items():
        torch.manual_seed(0)
        run.run(doctest.DocTestParser().get_doctest(text, {}, name, None, None))
    print(run.summarize(verbose=False))
