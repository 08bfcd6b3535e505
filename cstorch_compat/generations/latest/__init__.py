"""What the latest release, 2.10, has of its own: the code behind `cerebras.pytorch`."""
