"""The boxes of the algebra as vectorised kernels, one module per kind."""
