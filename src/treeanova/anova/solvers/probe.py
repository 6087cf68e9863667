"""The error of a solver, measured: a random sum of functions of fewer axes is purified along with the scores.

Nothing of such a sum may be left. What is left shows errors in directions that the weights tie so weakly that slice
means do not see them.
"""

from __future__ import annotations

import numpy as np

from treeanova.anova.slices import largest, spread, take_out
from treeanova.core.arrays import Faces, Floats


def with_probe(term: Floats) -> Floats:
    """A term with the probe as one more, last output."""
    return np.concatenate([term, _probe(term.shape[1:])])


def without_probe(faces: Faces, shape: tuple[int, ...]) -> tuple[Faces, float]:
    """Faces without those of the probe, and the largest absolute value that these leave of the probe."""
    rest = _probe(shape)
    take_out(rest, [face[-1:] for face in faces])
    return [face[:-1] for face in faces], float(largest(rest)[0])


def _probe(shape: tuple[int, ...]) -> Floats:
    """A random sum of functions of fewer axes, of largest absolute value 1; one output."""
    rng = np.random.default_rng(len(shape))
    values = np.zeros((1, *shape))
    for axis in range(len(shape)):
        values += spread(rng.standard_normal((1, *shape[:axis], *shape[axis + 1 :])), axis)
    return values / largest(values)
