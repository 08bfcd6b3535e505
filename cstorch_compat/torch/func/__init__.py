"""The public API of `torch.func`."""
