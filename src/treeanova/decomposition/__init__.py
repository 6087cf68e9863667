"""The decomposition and the questions one asks of it."""
