"""Oracles, examples and strategies for tests: slow, plain, and written without the code that they check."""
