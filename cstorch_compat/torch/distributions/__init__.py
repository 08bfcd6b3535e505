"""`torch.distributions`: families of probability distributions over tensors, with PyTorch's draws."""
