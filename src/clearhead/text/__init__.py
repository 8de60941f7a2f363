"""Strings ↔ ids: text goes in, token ids come out, and every id knows which characters it stands for.

A thin layer over the `tokenizers` library that adds the promises a user relies on: text that looks like a
control token is text, offsets point into the original string, truncation is counted, and one `Tokenizer` may
be used from many threads at once.

The border: no tensors and no torch (`model` turns ids into vectors), no files of texts (`data` reads those),
no tasks (`tasks` decides what to do with a text that is too long).
"""

from clearhead.text.encoding import Encoding
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.train import train_tokenizer

__all__ = ["Encoding", "Tokenizer", "train_tokenizer"]
