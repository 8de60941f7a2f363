"""Rows of a file → encoded texts, with one rule for what is too long."""

from collections.abc import Sequence

from clearhead.data.rows import Row
from clearhead.errors import DataError
from clearhead.settings import Long
from clearhead.text.tokenizer import Encoding, Tokenizer


def encode_rows(
    rows: Sequence[Row], tokenizer: Tokenizer, *, limit: int | None, long: Long
) -> list[Encoding]:
    """Ids of each row's text within `limit` tokens, special ones included.

    Raises `DataError` naming file, row and both lengths where a text is longer and `long` is "error".
    """
    encodings = tokenizer.encode([row.asked for row in rows], limit=limit)
    if long == "error":
        for row, encoding in zip(rows, encodings, strict=True):
            if encoding.dropped:
                raise DataError(
                    f"{row.file}, row {row.row}: the text has {len(encoding.ids) + encoding.dropped} tokens, "
                    f"the model takes {limit}; shorten it, or cut it with --long truncate"
                )
    return encodings
