"""Sizes that bound time and memory in this room; constants of the estimates stand next to their formulas."""

from __future__ import annotations

# Rows kept as a sample (`counting`)
MAX_SAMPLE_ROWS = 1 << 18  # up to here the sample is all rows, and every question is answered from it
MAX_SAMPLE_BYTES = 1 << 28  # of encoded values: tables of very many features keep fewer rows

# Cells of a joint density (`base`, `table`)
MAX_CELLS = 1 << 20  # that are enumerated or raked; larger densities are drawn from, or refused

# Pairs of smooth densities (`smooth`)
MAX_STACK_ELEMENTS = 1 << 15  # of an array over the points of all pairs of a stack: more take memory beyond the plan
ORDERED_SIZES = (16, 48, 64, 80, 96, 112, 128)  # of groups that margins are padded to: fewer sizes, fewer stacks
OTHER_SIZES = (1, 2, 4, 8, 16, 32, 64)  # the same for groups without order
MAX_PARALLEL_CELLS = 1 << 20  # of the largest stack: above, stacks are estimated in turn, to save memory

# The search for the kernels of the smooth joint density (`smooth.kernel`)
MAX_SEARCH_ROWS = 50_000  # at which kernels are compared; of more rows a sample
MAX_COMPARED_FEATURES = 24  # with more, each is compared with its most correlated partners only
N_PARTNERS = 12  # of each feature then
CELLS_AT_ONCE = 1 << 19  # of the estimates that are compared together
MAX_COMPARED_CELLS = 1 << 22  # of a table that kernels are compared by: categories of several features may give more
MAX_TRIPLES = 200  # that are tried for dependence beyond pairs

# Estimates of one number from many tables (`kinds`, `counting`)
MAX_SHRINKAGE_PAIRS = 100  # that λ of `Shrinkage` is pooled over
N_QUANTILES = 513  # of a feature that a file keeps
