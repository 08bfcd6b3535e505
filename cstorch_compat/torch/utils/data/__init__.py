"""`torch.utils.data`: what lazytensor does not have."""
