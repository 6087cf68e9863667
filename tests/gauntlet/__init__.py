"""The gauntlet: default decompositions of many models on many tables, each held against oracles of its own.

`make test` runs a few small combinations; TREEANOVA_GAUNTLET=long about a third of all, with fewer
trees where defaults take long; TREEANOVA_GAUNTLET=all runs all of them.
"""
