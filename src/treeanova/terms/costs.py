"""Costs and thresholds of this room: times and sizes that choose between ways to the same or a coarser result.

Times are those of one core; they decide when compiled code pays and how much fits into `seconds`. Block sizes keep work
in a core's cache or within memory. The other numbers trade accuracy against time. `benchmarks/` measures both.
"""

from __future__ import annotations

from treeanova.core.compiled import is_worthwhile, is_worthwhile_at_rows

# Seconds that numpy takes for a step of each kind of job: these decide what compiled code does.
NUMPY_SECONDS = {
    "node_cells": 1e-7,  # a node and a feature (`leaves.py`)
    "factors": 7e-9,  # a leaf, a feature and a row (`kernels.py`)
    "products": 2e-9,  # a leaf, a term and a row
    "corners": 5e-7,  # in large forests with many pairs; of a single pair a tenth of it
    "totals": 4e-9,  # a coefficient of a polynomial (`terms.py`)
    "runs": 5e-6,  # a feature of a distinct set of features
    "shares": 1.2e-8,  # a coefficient of a polynomial
    "variances": 1e-8,  # a leaf and a subset of its features (`screening.py`)
    "coarse_leaves": 2e-6,  # a leaf and a table (`coarse.py`)
    "coarse_cells": 4e-10,  # a leaf and a cell
}


def numpy_seconds(**n_steps: float) -> float:
    """Return how long numpy takes for numbers of steps by their kind."""
    return sum(NUMPY_SECONDS[kind] * n for kind, n in n_steps.items())


def is_compiled(**n_steps: float) -> bool:
    """Whether compiled code, not numpy, does a job of so many steps of each kind; all jobs of this room ask here."""
    return is_worthwhile(numpy_seconds(**n_steps))


def is_compiled_at_rows(**n_steps: float) -> bool:
    """Whether compiled code does a job of so many steps per row, whatever the number of rows."""
    return is_worthwhile_at_rows(numpy_seconds(**n_steps))


# Layout: which terms have tables (`layout.py`).
LISTED_TERMS = 300  # above the tables, for all outputs: more are screened
LISTED_COST = 2.0**18  # products per row up to which all terms are listed
TENSOR_CELLS = 1_000_000  # of orders above 2, for all outputs: beyond, purification takes many seconds
TENSOR_TERMS = 1_000  # of orders above 2
MOST_TERMS = 200_000  # that a user may ask for
MAX_TOTALS_COST = 2.0**28  # products per row up to which orders without tables are added up, else one remainder
MERGED_BINS = (2048, 1024, 512, 256, 128, 64, 32, 16)  # limits of bins per feature that are tried in turn
BINS_PER_ROOT_OF_ROWS = 16  # bins of large tables that the rows justify
SMALL_TABLES = 2 * 10**8  # bytes: bins of smaller ones are not merged for want of rows
WORKING_TABLES = 12  # of the size of the largest term, that an estimate of its density holds at a time
WORTH_A_WORD = 10**8  # bytes of working memory that the text of a plan mentions
SECONDS_PER_TABLE = 4e-3  # of two features or more: leaves, density, purification
TABLE_BYTES_PER_SECOND = 5e7
SECONDS_PER_COUNT = 1.5e-8  # of a row and a table
SECONDS_OF_HIGH_ORDERS, SECONDS_PER_HIGH_ENTRY = 1.5, 4.5e-6  # in all, and of a leaf and a feature on its path
PLANNED_SECONDS_IN_ALL, PLANNED_SECONDS_PER_TABLE = 0.01, 2e-3  # what a plan says; limits of time are on the safe side
SHARE_FOR_TABLES = 0.5  # of a limited time
BYTES_PER_ENTRY = 75  # of a leaf and a feature on its path: sets, masses, corners, the same for compiled code
BYTES_PER_LEAF = 100
BYTES_PER_KEY = 150  # of a distinct set of features
BYTES_PER_COEFFICIENT = 24  # of a term, a leaf and an output: twice, and a place
BYTES_PER_CORRECTED = 40_000  # of a corrected term: its part in tables on coarse cells
BYTES_OF_DENSITY, DENSITY_TABLES = 12 * 10**6, 30  # to estimate pairs, at most those of so many tables of all cells
PLANNED_VERIFIED, PLANNED_CORRECTED = 100, 300  # terms that memory is planned for
SECONDS_PER_NODE = 3e-8  # and feature
SECONDS_PER_ENTRY = 3e-7
TOLERATED_TIME = 1.5  # factor of `seconds` that reading leaves may take
LEAST_SECONDS = 2.0  # shorter limits count as this

# Leaf sets (`leaves.py`).
NODE_CELLS = 1 << 23  # nodes times features at a time: 80 MB
MAX_PLACES = 1 << 25  # leaves times features whose positions are remembered: 256 MB

# Sums over leaves at rows (`kernels.py`, `terms.py`).
KERNEL_ROWS = 256  # what compiled code holds for each fits into a core's cache; fewer repeat the cost of a leaf
SUM_ROWS = 2048  # of a task of numpy
SUM_CELLS, SUM_LEAVES = 1 << 17, 1 << 15  # leaves times rows, and leaves, at once
MAX_CORNERS = 8  # of a set of bins; sets of many categories have more and are multiplied as sparse matrices
CORNER_LEAVES = 1 << 18  # at once
TOTALS_CELLS, TOTALS_ROWS = 1 << 14, 256  # leaves times rows whose polynomials fit into a core's cache, and rows
LEAVES_OF_A_TASK = 4096  # fixed, so that sums have the same digits for any number of rows and threads
BLOCKS_OF_A_TASK = LEAVES_OF_A_TASK * TOTALS_ROWS // TOTALS_CELLS
SHARES_ROWS = 64  # of numpy: products of the leading features fit into a core's cache

# Terms against references (`anchored.py`).
POOLED_REFERENCES = 5  # fewer are taken in turn: estimated from times with 1 and with 200 references (adult, one model)
PATTERN_CELLS, PATTERN_ROWS = 1 << 20, 256  # leaves times rows at once, and rows: 8 MB
PATTERN_PAIRS = 1 << 20  # of patterns that are compared at once
PATTERN_BITS = 40  # features of a leaf: a number of 63 bits has these and the leaf

# Closed form (`closed_form.py`).
NO_MASS = 1e-15  # masses of sets below it are rounding
OUTER_CELLS, OUTER_LEAVES = 1 << 22, 1 << 15  # leaves times bins, and leaves, of an outer product at once
FEW_KEYS = 16  # terms at rows that are summed one by one
SMALL_GROUP = 1_000  # leaves
SMALL_PRODUCT = 1 << 22  # leaves times cells of a pair up to which dense matrices are faster than sparse ones
SMALL_SUM = 1 << 14  # the same for one feature
SMALL_MATRIX = 1 << 21  # leaves times bins: 16 MB
SMALL_MATRICES = 1 << 25  # of all features: 256 MB
REMEMBERED_SUMS = 2  # sets of terms whose coefficients are remembered for the next rows
MOST_COEFFICIENTS = 1 << 23  # of terms at rows at a time: 64 MB, and copies of them
MANY_GROUPS = 50  # per key: then calls for each group cost more than products computed twice

# Screening: which terms carry weight (`screening.py`).
REPORTED_SHARE = 5e-4  # of the score's variance
MAX_REPORTED = 300
MAX_VERIFIED, VERIFIED_ROWS = 300, (30, 2_000)  # terms whose share is verified, and limits of the rows for it
VERIFIED_STEPS = 2.0**30  # leaves times rows
VERIFIED_STEPS_PER_SECOND = 5e7
SCREENED_PRODUCTS = 2.0**29  # leaves times subsets of their features
PRODUCTS_PER_SECOND = 1e8
SCREEN_CELLS = 1 << 18  # leaves times subsets at once
ALWAYS_CORRECTED = 100  # terms, however small the share that the others hold
MOST_SUBSETS = 1 << 22  # of the sets of features of leaves: about 200 bytes each, and 8 for each output
MOST_RANKED = 1 << 23  # sets of as many features, times outputs: 64 MB
MOST_LISTED = 10_000  # of the terms that are ranked

# Correction of high orders for dependence (`coarse.py`, `correction.py`).
COARSE_BINS = 16  # per feature at most
SHARED_CELLS = 1 << 14  # of one table for all features
COMPILED_CELLS = 1 << 16  # of a table: what fits into the cache
COARSE_LEAVES, COMPILED_LEAVES = 1 << 14, 1 << 12  # at once: by numpy, and by compiled code in threads that take turns
CORRECTED_CELLS, ALL_CORRECTED_CELLS = 1 << 16, 1 << 26  # of a term, and of all terms and outputs
CORRECTED_STEPS = 2.0**33  # leaves times cells
CELLS_AT_ONCE = 1 << 14  # more do not stay in the cache
KEYS_TO_TRY = 3  # terms of an order by which its bins are chosen
DRAWS_PER_SLICE = 4  # of a smooth density
COARSE_TOLERANCE = 1e-2  # of what is to be taken out: halving the bins changes more
TOLERANCE_OF_ALL_BINS = 1e-4  # the same if no bins are merged
MAX_CORRECTED, MAX_CORRECTED_OF_FEW = 300, 3000  # terms: if some are screened, and if all are listed
CORRECTED_SHARE = 0.99  # of the sizes of terms of high order
CORRECTION_DRAWS, LEAST_DRAWS = (20_000, 100_000), 1_000  # rows of a density, and at least of them in a limited time
SCORED_STEPS = 2.0**23  # rows times trees: the same with and without compiled code, as tables depend on it
SCALE_ROWS = 2000  # by which the spread of the score is measured
SECONDS_PER_CORRECTED_TERM = 1e-2
SECONDS_PER_CORRECTED_LEAF = 3e-7  # and output
SECONDS_PER_DRAW = 8e-7  # and feature

# Low orders left in terms that are not listed (`correction.py`).
LEFTOVER_BINS: dict[int, tuple[int, ...]] = {
    1: (64, 16),
    2: (32, 16, 8, 4),
}  # per feature, that are tried for tables of each order
LEFTOVER_STEPS = 2.0**27  # rows times terms times outputs
LEFTOVER_TERMS = 6_000
LEFTOVER_ERRORS = 6.0  # standard errors of what noise alone would show
SECONDS_PER_LEFTOVER = 1e-3, 1e-7  # for a table, and for a row, table and output

# Shares of a limited time for the steps of a tree model (`tree_model.py`).
SHARE_OF_TIME = 0.7  # for terms of high order, of what tables leave
SHARE_TO_SCREEN, SHARE_TO_CORRECT, SHARE_TO_DRAW, SHARE_FOR_LEFTOVER = 0.25, 0.6, 0.1, 0.3

# What is measured on terms of high order (`measuring.py`).
MEASURED_TERMS, MEASURED_TERMS_OF_ORDER = 12, 6  # the largest of all, and of each order
MEASURED_ROWS, MEASURED_STEPS = (400, 20_000), 2.0**24  # limits of rows; leaves times rows that decide between them
MAX_MEASURED_STEPS = 2.0**28  # leaves times rows of all terms: of larger forests fewer terms are measured
MEASURED_STEPS_PER_SECOND = 2.0**25
MEASURED_BINS = 4  # per feature, of slices
SIZE_ROWS, SIZE_STEPS = (20, 100), 2.0**29  # rows that show which terms are largest; products that decide their number
DRAWN_FACTOR = 2.0  # draws miss rare cells: without it one estimate in eight was below the true error
ERROR_CELLS, ERROR_TABLES = 1 << 12, 300  # of a table; tables, those that most leaves have
MEAN_STEPS, MEAN_PRODUCTS = 2.0**27, 2.0**30  # rows times trees, rows times features of leaves: beyond, no exact mean
MEAN_CELLS = 1 << 18  # leaves times rows at once

# Moments (`moments.py`) and extremes of steps (`extremes.py`).
MOMENT_ROWS, MOMENT_CELLS = 1 << 16, 1 << 22  # rows at once; rows times terms and outputs at once: 32 MB
MOMENT_DRAWS = 20_000  # for covariances that have no closed form
STEP_ROUNDING = 1e-12  # of the size of the whole model: steps below it are rounding
SEARCH_NODES, NODES_ONCE_DECIDED = 1_000, 12  # products of sets that a search tries, and once the sign is known
