"""The parts of `torch.utils.data` that `lazytensor` does not define."""
