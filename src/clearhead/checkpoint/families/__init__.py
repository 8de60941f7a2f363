"""One file per family of published models: tables, not code. `FAMILIES` is the list of what can be read."""

from clearhead.checkpoint.families import bert, distilbert, electra, modernbert, native, roberta
from clearhead.checkpoint.translate import Family

PUBLISHED = (bert.FAMILY, *roberta.FAMILIES, distilbert.FAMILY, electra.FAMILY, modernbert.FAMILY)
FAMILIES: dict[str, Family] = {family.model_type: family for family in (*PUBLISHED, native.FAMILY)}
