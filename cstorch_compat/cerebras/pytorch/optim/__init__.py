"""The cstorch optimizers, their schedules and loss scaling."""
