"""The parts of `torch.autograd` that `lazytensor` does not define."""
