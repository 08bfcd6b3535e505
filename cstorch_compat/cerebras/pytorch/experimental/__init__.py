"""The public API of `cerebras.pytorch.experimental`."""
