"""Draws a whole program from a seed and a number."""

import random
from dataclasses import dataclass

from tests.campaign.programs import statements, training
from tests.campaign.programs.state import Program

MAX_STATEMENTS = 18
TRAINING_SHARE = 0.2
MODULE_SHARE = 0.1


@dataclass(frozen=True)
class Drawn:
    """A program: its statements, the variables whose bits are given, and the coarsest type that a variable met."""

    statements: tuple[str, ...]
    exact: frozenset[str]
    coarsest: dict[str, str]
    uses_generator: bool

    @property
    def text(self) -> str:
        """The program as one text."""
        return "\n".join(self.statements)


def drawn(seed: int, number: int, noise: int = 0) -> Drawn:
    """Return a program; its numbers differ by `noise`, if not 0, in the last place of their types."""
    generator = random.Random(f"{seed}/{number}")
    p = Program(generator, random.Random(noise) if noise else None)
    form = generator.random()
    if form < TRAINING_SHARE:
        training.training(p)
    elif form < TRAINING_SHARE + MODULE_SHARE:
        training.module_call(p)
    statements.new_tensor(p)
    weights, draws = zip(*statements.STATEMENTS, strict=True)
    for _ in range(generator.randint(3, MAX_STATEMENTS)):
        generator.choices(draws, weights)[0](p)
    exact = frozenset(v.name for v in p.values if v.storage.is_exact)
    coarsest = {v.name: v.storage.coarsest for v in p.values}
    texts = (s.text.replace("torch.randn(", "noisy_randn(") if noise else s.text for s in p.statements)
    return Drawn(tuple(texts), exact, coarsest, p.uses_generator)
