"""The decomposition, and the questions that users ask of it."""
