"""The boxes of the algebra as vectorised kernels, one module for each kind."""
