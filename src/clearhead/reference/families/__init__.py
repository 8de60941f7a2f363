"""Published folders and ours, one file per family: which fields mean what, and which tensors must be there.

The tables of names repeat on purpose what `clearhead.checkpoint` knows: a mistake there must not be made
here as well.
"""
