"""`torch.nn`: the modules and functions that lazytensor does not have."""
