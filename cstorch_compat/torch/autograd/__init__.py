"""`torch.autograd`: what lazytensor does not have."""
