"""Purification of tensors under weights, with certificates; this room knows neither models nor rows.

**Outputs come first** in this room: *values* of a term have shape ``(n_outputs, *cells)``, *weights* have shape
``cells``. What makes a term pure is taken out as *projections*: that of axis i is a function of all other axes, one
number per slice along i, shape ``(n_outputs, *cells without i)``; together they are the projection of the term on the
functions of fewer features. Only `purify` and `Purified`, which users see, have the outputs last.
"""
