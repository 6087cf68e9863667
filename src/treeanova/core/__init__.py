"""Array types, labels of terms, whole files, memos, progress, threads, compiled kernels: nothing here knows models."""
