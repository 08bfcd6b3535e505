"""`datasets.mnist`."""
