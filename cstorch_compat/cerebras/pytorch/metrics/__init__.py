"""The public API of `cerebras.pytorch.metrics`: metrics whose state is on the device and is updated in each step."""
