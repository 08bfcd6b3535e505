"""The public API of `cerebras.pytorch.amp`: mixed precision and loss scaling."""
