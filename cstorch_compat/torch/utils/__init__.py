"""`torch.utils`: what lazytensor does not have."""
