"""Oracles and random problems for tests: slow, plain, and written without the code that they check.

`oracles` need nothing but numpy; `strategies` need hypothesis.
"""

from treeanova.testing.oracles import brute_force, exact_terms, mixed_weights

__all__ = ["brute_force", "exact_terms", "mixed_weights"]
