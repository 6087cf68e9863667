"""A decomposition to one file and back."""
