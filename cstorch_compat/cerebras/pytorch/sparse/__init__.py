"""Sparsity: masks, their schedules, and the algorithms that keep parameters sparse."""
