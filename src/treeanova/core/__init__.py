"""Array types, threads, files, progress and labels: knows nothing of models."""
