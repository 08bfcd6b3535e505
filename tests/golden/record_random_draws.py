"""Record what PyTorch draws after `manual_seed`, once, into random_draws.json.

    python tests/golden/record_random_draws.py        # in an environment with torch

Each case is a function of the module, so that `tests/lazytensor/functional/test_random_sampling.py` can follow it.
"""

import importlib
import json
import pathlib

SEEDS = (0, 1, 1234)
CASES = {
    "bernoulli_ 0.3": lambda t: t.empty(12).bernoulli_(0.3),
    "bernoulli_ 40": lambda t: t.empty(40).bernoulli_(0.3),
    "bernoulli tensor": lambda t: t.bernoulli(t.tensor([0.1, 0.5, 0.9, 0.3, 0.6, 0.2, 0.7])),
    "bernoulli double": lambda t: t.bernoulli(t.tensor([0.1, 0.5, 0.9, 0.3, 0.6], dtype=t.float64)),
    "exponential_": lambda t: t.empty(5).exponential_(2.0),
    "exponential_ 20": lambda t: t.empty(20).exponential_(),
    "exponential_ f64": lambda t: t.empty(5, dtype=t.float64).exponential_(),
    "random_ to": lambda t: t.empty(6).random_(10),
    "random_ int64": lambda t: t.empty(3, dtype=t.int64).random_(),
    "random_ int32": lambda t: t.empty(3, dtype=t.int32).random_(),
    "random_ uint8": lambda t: t.empty(3, dtype=t.uint8).random_(),
    "random_ float": lambda t: t.empty(3).random_(),
    "random_ double": lambda t: t.empty(3, dtype=t.float64).random_(),
    "random_ half": lambda t: t.empty(3, dtype=t.float16).random_(),
    "random_ bf16": lambda t: t.empty(3, dtype=t.bfloat16).random_(),
    "random_ bool": lambda t: t.empty(8, dtype=t.bool).random_(),
    "random_ from": lambda t: t.empty(4, dtype=t.int64).random_(-5, 2**40),
    "multinomial": lambda t: t.multinomial(t.tensor([0.1, 0.2, 0.3, 0.4]), 2),
    "multinomial 1": lambda t: t.multinomial(t.tensor([[0.1, 0.2, 0.3, 0.4], [4.0, 3, 2, 1]]), 1),
    "multinomial rep": lambda t: t.multinomial(t.tensor([0.1, 0.2, 0.3, 0.4]), 8, replacement=True),
    "multinomial rep2": lambda t: t.multinomial(
        t.tensor([[0.1, 0.2, 0.3, 0.4], [4.0, 3, 2, 1]], dtype=t.float64), 5, replacement=True
    ),
    "after": lambda t: (t.empty(3).bernoulli_(0.3), t.rand(2))[1],
    "after exp": lambda t: (t.empty(3).exponential_(), t.rand(2))[1],
    "after mult": lambda t: (t.multinomial(t.tensor([0.1, 0.2, 0.3, 0.4]), 2), t.rand(2))[1],
    "after bern t": lambda t: (t.bernoulli(t.tensor([0.1, 0.5, 0.9])), t.rand(2))[1],
    "after multrep": lambda t: (t.multinomial(t.tensor([0.1, 0.2, 0.3, 0.4]), 3, replacement=True), t.rand(2))[1],
}


def state_after(t, seed):
    """Bytes 0..64 and the last 40 of the state of a generator that has drawn seven words."""
    g = t.Generator().manual_seed(seed)
    t.rand(3, generator=g)
    t.randn(1, generator=g)
    state = g.get_state().tolist()
    return state[:64] + state[-40:]


def drawn(t, case, seed):
    """The numbers of a case after a seed."""
    t.manual_seed(seed)
    return case(t).tolist()


def main():
    torch = importlib.import_module("torch")  # only here: the tests import the cases without it

    found = {name: [drawn(torch, case, s) for s in SEEDS] for name, case in CASES.items()}
    found["state"] = [state_after(torch, s) for s in SEEDS]
    text = ",\n".join(f" {json.dumps(name)}: {json.dumps(value)}" for name, value in found.items())
    path = pathlib.Path(__file__).parent / "random_draws.json"
    path.write_text(f'{{\n "torch": "{torch.__version__}",\n{text}\n}}\n')


if __name__ == "__main__":
    main()
