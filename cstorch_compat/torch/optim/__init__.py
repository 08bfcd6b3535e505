"""The parts of `torch.optim` that `lazytensor` does not define."""
