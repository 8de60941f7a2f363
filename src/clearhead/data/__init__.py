"""Files ↔ rows: what a user's data file holds, as strings, each with the file and row it came from.

The border: this is the only place which opens a user's data files. It knows no tokens and no models. What
comes out is what the file says: a text is never trimmed, a word such as `null` or `NA` stays a word, and
what is wrong is said with its row and its fix.
"""
