"""Array types, BLAS threads, whole files, progress bars and labels of terms: knows nothing of models."""
