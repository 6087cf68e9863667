"""Labels of a classifier's classes."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt


def plain_labels(classes: npt.ArrayLike) -> tuple[Hashable, ...]:
    """Labels as plain Python values, which can be saved: text, numbers and booleans unchanged, all others as text.

    >>> plain_labels(np.array(["no", "yes"])), plain_labels(np.array([0, 1]))
    (('no', 'yes'), (0, 1))
    """
    labels = np.asarray(classes).tolist()
    return tuple(label if isinstance(label, (str, bool, int, float)) else str(label) for label in labels)
