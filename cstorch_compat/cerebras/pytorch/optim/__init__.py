"""The public API of `cerebras.pytorch.optim`: optimizers and schedules of their settings."""
