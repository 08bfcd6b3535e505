"""The public API of `torch.backends` and of other devices, with the behaviour of a CPU build."""
