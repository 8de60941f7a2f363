"""Products of matrices: which kernel multiplies, and what must stay true of every row.

This folder knows tensors, threads and processors; no layer, no architecture, no text.
"""
