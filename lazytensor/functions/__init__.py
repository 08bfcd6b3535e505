"""Operations on tensors, each written once: as a function, and through `methods` as a method and in place."""

from lazytensor.functions import creation, indexing, matrix, methods, pointwise, promotion, reductions, shapes

__all__ = ["creation", "indexing", "matrix", "methods", "pointwise", "promotion", "reductions", "shapes"]
