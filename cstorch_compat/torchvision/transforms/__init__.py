"""`transforms.transforms`."""
