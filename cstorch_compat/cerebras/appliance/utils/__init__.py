"""`cerebras.appliance.utils`."""
