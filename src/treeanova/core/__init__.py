"""Array types, labels of terms, whole files, memos, progress and compiled kernels: nothing here knows models."""
