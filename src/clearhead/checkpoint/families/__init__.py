"""One file per family of published models: tables, not code. `FAMILIES` is the list of what can be read."""

from clearhead.checkpoint.families import bert, native
from clearhead.checkpoint.translate import Family

FAMILIES: dict[str, Family] = {family.model_type: family for family in (bert.FAMILY, native.FAMILY)}
