"""The public API of `cerebras.pytorch.backend`."""
