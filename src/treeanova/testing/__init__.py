"""Oracles and random problems for tests: slow, plain, and written without the code that they check.

`oracles` need nothing but numpy; `strategies` need hypothesis.
"""

from treeanova.testing.examples import FIGURE_1, correlated_weights, example
from treeanova.testing.oracles import brute_force, exact_interaction, exact_pair, exact_terms, mixed_weights

__all__ = [
    "FIGURE_1",
    "brute_force",
    "correlated_weights",
    "exact_interaction",
    "exact_pair",
    "exact_terms",
    "example",
    "mixed_weights",
]
