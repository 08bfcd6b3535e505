"""The public API of `cerebras.pytorch.utils`."""
