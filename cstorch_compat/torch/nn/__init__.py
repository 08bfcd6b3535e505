"""The parts of `torch.nn` that `lazytensor` does not define."""
