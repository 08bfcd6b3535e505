"""Functions of tensors for models: what the families of `lazytensor.functions` offer under this name."""

from lazytensor.functions import (
    activations,
    attention,
    convolution,
    ctc,
    interpolation,
    lookup,
    losses,
    margins,
    matrix,
    normalization,
    pooling,
    resampling,
)
from lazytensor.functions.widening import published

FAMILIES = (
    activations,
    attention,
    convolution,
    ctc,
    interpolation,
    losses,
    margins,
    normalization,
    pooling,
    resampling,
)
"""Each says by itself which of its functions belong here."""

linear = matrix.linear
embedding, embedding_bag, one_hot = lookup.embedding, lookup.embedding_bag, lookup.one_hot
silu = activations.silu
NAMES = ["linear", "embedding", "embedding_bag", "one_hot"]
NAMES += [name for family in FAMILIES for name in family.FUNCTIONAL.split()]
globals().update(
    {name: published(name, getattr(family, name)) for family in FAMILIES for name in family.FUNCTIONAL.split()}
)
