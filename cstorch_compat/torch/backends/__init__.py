"""`torch.backends` and other devices: what a build for CPUs answers."""
