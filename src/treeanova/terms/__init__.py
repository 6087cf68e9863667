"""Turn a model and a density into pure terms, as tensors and as values at rows."""
