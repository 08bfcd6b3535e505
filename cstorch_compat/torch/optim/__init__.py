"""`torch.optim`: what lazytensor does not have."""
