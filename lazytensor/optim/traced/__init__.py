"""The vendor's optimizers. Their state is loop-carried, so that a traced step can update it."""
