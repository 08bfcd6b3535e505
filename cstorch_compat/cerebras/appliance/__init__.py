"""The public API of `cerebras.appliance` (formerly `cerebras_appliance`). There is no cluster to connect to."""
