"""Solvers: one file each, with one interface (`base.Solver`); `registry.SOLVERS` lists them in the order of choice.

A solver finds the faces to take out of a term, so that what is left is pure under the weights. To add one, write a file
with a class derived from `Solver` and add an instance to `registry.SOLVERS`.
"""
