"""Losses and solvers, which know nothing of privacy, and the algorithms, one theorem each."""
