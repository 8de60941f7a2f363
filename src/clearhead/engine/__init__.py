"""Products of matrices: which kernel multiplies, and what must stay true of every row; in which
modes a thread computes, and who watches.

This folder knows tensors, threads and processors; no layer, no architecture, no text.
"""
