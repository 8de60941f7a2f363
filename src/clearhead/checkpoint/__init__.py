"""Published folders ↔ model and tokenizer: the only folder that knows foreign formats.

A family is a table: how its config's fields become facts, and how its tensors' names become ours. Names are
read both ways and strictly: what is not in the table is an error that lists names.
"""
