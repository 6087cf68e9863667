"""The five SNP generators of Wright et al.: pure terms in rational arithmetic, and what random forests recover."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

import treeanova
from treeanova.core.arrays import Floats

# Coefficients of SNP1, SNP2 and SNP1 × SNP2: Table 1; then Table 2 as printed.
GENERATORS = {
    "Interaction only": (0, 0, 1),
    "Modifier SNP": (0, 1, 1),
    "No interaction": (1, 1, 0),
    "Redundant": (1, 1, -1),
    "Synergistic": (1, 1, 1),
}
PRINTED = {
    "Interaction only": (0.5, 0.5, 0.25),
    "Modifier SNP": (0.5, 1.5, 0.25),
    "No interaction": (1, 1, 0),
    "Redundant": (0.5, 0.5, -0.25),
    "Synergistic": (1.5, 1.5, 0.25),
}
N_SNPS, N_ROWS, N_TREES, NOISE = 10, 500, 100, 6.0  # noise in standard deviations of the interaction


class Locus(NamedTuple):
    """A SNP's values 0, 1, … and their probabilities."""

    probabilities: tuple[Fraction, ...]

    @property
    def mean(self) -> Fraction:
        """E[X]."""
        return sum((value * p for value, p in enumerate(self.probabilities)), Fraction(0))

    @property
    def variance(self) -> Fraction:
        """Var(X), which is also the standard deviation of (X1 − μ)(X2 − μ)."""
        return sum(((value - self.mean) ** 2 * p for value, p in enumerate(self.probabilities)), Fraction(0))


def hardy_weinberg(q: Fraction) -> Locus:
    """Minor alleles 0, 1, 2 with allele frequency q."""
    return Locus(((1 - q) ** 2, 2 * q * (1 - q), q**2))


BOOLEAN = Locus((Fraction(1, 2), Fraction(1, 2)))
FREQUENCIES = (Fraction(1, 2), Fraction(2, 5), Fraction(1, 5))  # the last two are those of Wright et al.
LOCI = {"0/1, fair": BOOLEAN} | {f"0/1/2, q = {q}": hardy_weinberg(q) for q in FREQUENCIES}


def scores(name: str, locus: Locus) -> list[list[Fraction]]:
    """The generator's value at each pair of values."""
    b, c, d = GENERATORS[name]
    values = range(len(locus.probabilities))
    return [[Fraction(b * x + c * y + d * x * y) for y in values] for x in values]


def pure_terms(name: str, locus: Locus) -> tuple[list[Fraction], list[Fraction], list[list[Fraction]]]:
    """Main effects and interaction in rational arithmetic: conditional means, the SNPs being independent."""
    table, p = scores(name, locus), locus.probabilities
    rows = [sum((w * value for w, value in zip(p, row, strict=True)), Fraction(0)) for row in table]
    columns = [sum((w * row[j] for w, row in zip(p, table, strict=True)), Fraction(0)) for j in range(len(p))]
    mean = sum((w * row for w, row in zip(p, rows, strict=True)), Fraction(0))
    pair = [[table[i][j] - rows[i] - columns[j] + mean for j in range(len(p))] for i in range(len(p))]
    return [row - mean for row in rows], [column - mean for column in columns], pair


def pure_coefficients(name: str, locus: Locus) -> tuple[Fraction, Fraction, Fraction]:
    """Coefficients of X1 − μ, X2 − μ and (X1 − μ)(X2 − μ) in the pure terms, which are linear in them."""
    first, second, pair = pure_terms(name, locus)
    return first[1] - first[0], second[1] - second[0], pair[1][1] - pair[0][1] - pair[1][0] + pair[0][0]


def xor_coefficient(name: str) -> Fraction:
    """Coefficient in the pure interaction of fair 0/1 SNPs of the centred XOR: +1 where they differ, −1 where not."""
    return pure_terms(name, BOOLEAN)[2][0][1]


def main_strength(name: str, locus: Locus) -> float:
    """Standard deviation of both pure main effects together, over that of (X1 − μ)(X2 − μ)."""
    first, second, _ = pure_coefficients(name, locus)
    return float(np.sqrt(float(first**2 + second**2) / float(locus.variance)))


def purify_gap() -> float:
    """The largest difference of `treeanova.purify` to rational arithmetic, over all generators and loci."""
    gaps = []
    for locus in LOCI.values():
        p = np.array(locus.probabilities, dtype=float)
        for name in GENERATORS:
            found = treeanova.purify(np.array(scores(name, locus), dtype=float), np.outer(p, p)).terms
            for key, expected in zip(((0,), (1,), (0, 1)), pure_terms(name, locus), strict=True):
                gaps.append(np.abs(found[key] - np.array(expected, dtype=float)).max())
    return float(max(gaps))


def recover(name: str, locus: Locus, n_repeats: int, max_depth: int | None, n_fresh: int = 4_000) -> Floats:
    """The coefficient of (X1 − μ)(X2 − μ) in forests, over repeats: a projection over fresh draws of the ten SNPs.

    SNPs are independent, so that this is the coefficient in the forest's pure SNP1 × SNP2.
    """
    found = []
    for seed in range(n_repeats):
        forest = _forest(seed, max_depth).fit(*_draws(name, locus, seed))
        fresh = _snps(locus, np.random.default_rng((seed, 1)), n_fresh)
        product = (fresh[:, :2] - float(locus.mean)).prod(axis=1)
        predicted = forest.predict(fresh)
        found.append((predicted - predicted.mean()) @ product / (product @ product))
    return np.array(found)


def strongest(name: str, locus: Locus, n_repeats: int) -> tuple[float, float]:
    """How often SNP1 × SNP2 is the strongest pair of forests of depth 2: purified, and in the raw trees."""
    found = []
    for seed in range(n_repeats):
        X, y = _draws(name, locus, seed)
        names = [f"SNP{k + 1}" for k in range(N_SNPS)]
        fx = treeanova.decompose(_forest(seed, 2).fit(X, y), X, density="independent", feature_names=names)
        found.append((_is_first(fx), _is_first(fx.raw)))
    pure, raw = np.mean(found, axis=0)
    return float(pure), float(raw)


def _snps(locus: Locus, rng: np.random.Generator, n_rows: int) -> Floats:
    p = np.array(locus.probabilities, dtype=float)
    return rng.choice(len(p), p=p, size=(n_rows, N_SNPS)).astype(float)


def _draws(name: str, locus: Locus, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    X = _snps(locus, rng, N_ROWS)
    signal = np.array(scores(name, locus), dtype=float)[X[:, 0].astype(int), X[:, 1].astype(int)]
    return X, signal + NOISE * float(locus.variance) * rng.normal(size=N_ROWS)


def _forest(seed: int, max_depth: int | None) -> Any:
    from sklearn.ensemble import RandomForestRegressor  # noqa: PLC0415

    return RandomForestRegressor(N_TREES, max_depth=max_depth, max_features=1 / 3, random_state=seed)


def _is_first(fx: Any) -> bool:
    """Whether SNP1 × SNP2 has the largest variance of all pairs."""
    table = fx.importance()
    pairs = table[table["order"] == 2]
    return bool(len(pairs)) and pairs.loc[pairs["variance"].idxmax(), "term"] == "SNP1 × SNP2"
