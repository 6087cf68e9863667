"""A trained model as an exact function on bins: forests, grids and additive effects; knows no density."""
