"""Random numbers inside a step on CSX: new ones in each step, within their bounds."""

import json

import pytest

SCRIPT = """
import json
import torch
import cerebras.pytorch as cstorch

backend = cstorch.backend("CSX")
model = torch.nn.Linear(2, 2)
compiled = cstorch.compile(model, backend)
DRAWS = {
    "uniform_": lambda like: torch.empty_like(like).uniform_(3, 5),
    "normal_": lambda like: torch.empty_like(like).normal_(100, 1),
    "normal": lambda like: torch.normal(100.0, 1.0, (64,), device=like.device),
    "randint": lambda like: torch.randint(3, 5, (64,), device=like.device),
    "randint_like": lambda like: torch.randint_like(like.int(), 3, 5),
    "multinomial": lambda like: torch.multinomial(like.abs() + 1, 16),
    "bernoulli_": lambda like: torch.zeros_like(like).bernoulli_(0.5),
}


@cstorch.trace
def step(x):
    used = compiled(x).sum()
    return [(draw(x.reshape(-1)[:64]).float() + 0 * used.float()) for draw in DRAWS.values()]


@cstorch.step_closure
def show(*drawn):
    print(json.dumps({name: values.flatten().tolist() for name, values in zip(DRAWS, drawn)}))


loader = cstorch.utils.data.DataLoader(lambda: [(torch.ones(64, 2),)] * 3)
for batch in cstorch.utils.data.DataExecutor(loader, num_steps=3):
    show(*step(*batch))
"""
BOUNDS = {
    "uniform_": (3, 5),
    "normal_": (90, 110),
    "normal": (90, 110),
    "randint": (3, 4),
    "randint_like": (3, 4),
    "multinomial": (0, 63),
    "bernoulli_": (0, 1),
}


@pytest.mark.slow
def test_each_step_draws_new_numbers_within_their_bounds(script):
    done = script(SCRIPT, preamble="")
    assert done.returncode == 0, done.stderr
    steps = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(steps) == 3
    for name, (low, high) in BOUNDS.items():
        first, *later = (drawn[name] for drawn in steps)
        assert all(low <= v <= high for v in first), name
        assert len(set(first)) > 1 and all(values != first for values in later), name
