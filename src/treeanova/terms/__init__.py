"""A model and a density to pure terms, as tensors and as values at rows."""
