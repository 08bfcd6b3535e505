"""The parts of `torch.utils` that `lazytensor` does not define."""
