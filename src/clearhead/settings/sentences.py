"""How files of words and their tags are read."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from clearhead.settings.options import check_values, option

WORDS = "Models that tag words"


@dataclass(frozen=True, kw_only=True)
class Skipping:
    """What is done about rows that contradict themselves."""

    skip_bad_rows: Annotated[bool, Parameter(negative="")] = option(
        False, "leave out rows whose answers or tags cannot be used; their number is told"
    )


@dataclass(frozen=True, kw_only=True)
class Sentences(Skipping):
    """How files of words and their tags are read."""

    tokens_column: Annotated[str | None, Parameter(group=WORDS)] = option(
        None, "JSONL: column of the list of words; else tokens or words"
    )
    tags_column: Annotated[str | None, Parameter(group=WORDS)] = option(
        None, "JSONL: column of the list of their tags; else tags, ner_tags or labels"
    )

    def __post_init__(self) -> None:
        check_values(self)
