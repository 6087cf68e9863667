"""User tables to encoded columns of float64, and back to tables."""
