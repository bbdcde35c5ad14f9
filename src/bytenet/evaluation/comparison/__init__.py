"""Sect. 4, Table 1: what the paper states of nine models and of the one that came after it, measured."""
