"""Studies that reproduce the figures, tables and theorems of the paper: ``python -m studies``."""
