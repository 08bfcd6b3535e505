"""The public API of `cerebras.pytorch.core`."""
