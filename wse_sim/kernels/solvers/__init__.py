"""Stencils, a linear solver, a Fourier transform."""
