"""The public API of `cerebras.pytorch.sparse`: masks, sparsity schedules and sparsity algorithms."""
