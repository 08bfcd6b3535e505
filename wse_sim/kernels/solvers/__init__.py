"""Stencils, a linear solver and a Fourier transform."""
