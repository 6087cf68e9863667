"""The gauntlet: default decompositions of many models on many tables, each held against oracles of its own.

`make test` runs a few small combinations; TREEANOVA_GAUNTLET=long runs all of them.
"""
