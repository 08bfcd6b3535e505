"""A small stand-in for torchvision: handwritten digits and the transforms that scripts apply to them."""

from cstorch_compat.torchvision import datasets, transforms

__all__ = ["datasets", "transforms"]
