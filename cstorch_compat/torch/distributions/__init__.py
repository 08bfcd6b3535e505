"""The public API of `torch.distributions`: probability distributions whose samples match PyTorch's random numbers."""
