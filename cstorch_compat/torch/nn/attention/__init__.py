"""The public API of `torch.nn.attention`."""
