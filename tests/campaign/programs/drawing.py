"""Draws a whole program from a seed and a number."""

import random
import re
from dataclasses import dataclass, field

from tests.campaign.programs import arrangements, statements, training
from tests.campaign.programs.state import Program

MAX_STATEMENTS = 18
TRAINING_SHARE = 0.2
MODULE_SHARE = 0.1
NOISY = re.compile(r"torch\.(randn|linspace)\(")
"""Factories whose numbers may differ in their last place."""
NAME = re.compile(r"\b[a-z]+\d+\b")
TARGETS = re.compile(r"^\s*((?:[a-z]+\d+(?:, )?)+)", re.MULTILINE)


@dataclass(frozen=True)
class Drawn:
    """A program.

    statements: its statements.
    exact: the variables whose bits are given.
    coarsest: the coarsest type that a variable met.
    uses_generator: whether the default generator draws numbers.
    storages: a number for each variable, the same for those that show the same elements.
    """

    statements: tuple[str, ...]
    exact: frozenset[str]
    coarsest: dict[str, str]
    uses_generator: bool
    storages: dict[str, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The program as one text."""
        return "\n".join(self.statements)

    def aliases(self, names: set[str]) -> set[str]:
        """Return the variables that share elements with some of these, and these."""
        shared = {self.storages[n] for n in names if n in self.storages}
        return names | {n for n, storage in self.storages.items() if storage in shared}

    def computed_from(self, names: set[str]) -> set[str]:
        """Return the variables whose values may depend on these, and these."""
        reached = self.aliases(names)
        for statement in self.statements:
            if reached & set(NAME.findall(statement)):
                # What a line begins with is given a value, or changed in place.
                reached = self.aliases(reached | {n for line in TARGETS.findall(statement) for n in NAME.findall(line)})
        return reached


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
    weights, draws = zip(*statements.STATEMENTS, *arrangements.STATEMENTS, strict=True)
    for _ in range(generator.randint(3, MAX_STATEMENTS)):
        generator.choices(draws, weights)[0](p)
    exact = frozenset(v.name for v in p.values if v.storage.is_exact)
    coarsest = {v.name: v.storage.coarsest for v in p.values}
    storages = {v.name: id(v.storage) for v in p.values}
    texts = (NOISY.sub(rf"noisy({noise}, torch.\1, ", s.text) if noise else s.text for s in p.statements)
    return Drawn(tuple(texts), exact, coarsest, p.uses_generator, storages)
