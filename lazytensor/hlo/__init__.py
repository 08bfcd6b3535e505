"""The stage in HLO: wrap ATen operations in custom calls of XLA and unwrap them, and print and parse such modules."""
