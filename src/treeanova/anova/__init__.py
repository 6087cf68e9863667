"""Purification of tensors under weights, with certificates: knows nothing of models or rows."""
