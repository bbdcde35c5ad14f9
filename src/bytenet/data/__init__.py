"""Corpora, sentence pairs, batches."""
