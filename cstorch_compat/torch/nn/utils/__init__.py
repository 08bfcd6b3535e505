"""The public API of `torch.nn.utils`."""
