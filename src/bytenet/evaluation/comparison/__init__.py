"""Sect. 4, Table 1: what the paper states of nine models and of the one that came after it, measured."""

from typing import Any

Results = dict[str, Any]
"""What is known so far: what results.json holds, or a part of it."""
