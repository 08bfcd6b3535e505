"""Optimizers whose state is loop-carried, so that a traced step can update it: the vendor's rules."""
