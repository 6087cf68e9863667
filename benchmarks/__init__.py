"""Benchmarks: speed and accuracy against other tools, side by side in one process. ``python -m benchmarks purify``."""
