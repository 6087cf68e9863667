"""Purification of tensors under weights, with certificates; this room knows neither models nor rows.

**Outputs come first** in this room: *values* of a term have shape ``(n_outputs, *cells)``, *weights* have shape
``cells``, and a *face* of axis i holds one number per slice along i, shape ``(n_outputs, *cells without i)``. Only
`purify` and `Purified`, which users see, have the outputs last.
"""
