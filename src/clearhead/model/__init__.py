"""ids → vectors: the transformer itself.

A batch is one row of tokens (`layout.py`), described to every layer by one frozen `Context`. An architecture
is a set of facts (`config.py`), never a family name. This folder knows no files, strings, families, losses
or HTTP; whoever calls it brings ids and takes vectors.
"""
