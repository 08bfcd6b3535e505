"""The public API of `cerebras.pytorch.sparse`: masks, sparsity schedules, and algorithms that keep parameters
sparse.
"""
