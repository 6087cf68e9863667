"""treelite: checkpoints of version 4, as files or in memory, as a Forest.

The facts that the reader relies on, as treelite's own predictor (treelite.gtil) computes them:

- Rows are cast to the type of the model, float32 or float64, which is also that of thresholds. The left child is taken
  where x < t, x <= t, x > t or x >= t holds; x == t is refused. NaN goes to the default child.
- A category is a number without sign whose fraction is cut off; negative numbers and those beyond 2^24 (float32) or
  2^32 - 1 are in no set. A set leads to the left child, or to the right one where the node says so.
- Absent entries of sparse matrices are missing.
- A tree adds its leaf to one target and one class, or a vector to all of them; sums or means over trees, and base
  scores after that.
- The score is the sum before the postprocessor, which is the link.

The score is that of treelite's predictor. Where treelite has misread the model of another library, so does this reader:
read that library's own model where you have it. Files are read here; treelite is not needed.
"""

from __future__ import annotations

from treeanova.readers.treelite.reader import read, read_file

__all__ = ["read", "read_file"]
