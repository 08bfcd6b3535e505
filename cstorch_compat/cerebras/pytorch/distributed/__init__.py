"""The public API of `cerebras.pytorch.distributed`."""
