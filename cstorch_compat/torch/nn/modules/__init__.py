"""`torch.nn.modules`: layers that lazytensor does not have."""
