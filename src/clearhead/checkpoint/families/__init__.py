"""One file per family of published models: tables, not code. `FAMILIES` is the list of what can be read."""

from clearhead.checkpoint.families import (
    bert,
    distilbert,
    electra,
    gpt2,
    gpt_neox,
    llama,
    modernbert,
    native,
    qwen,
    roberta,
)
from clearhead.checkpoint.family import Family

ENCODERS = (bert.FAMILY, *roberta.FAMILIES, distilbert.FAMILY, electra.FAMILY, modernbert.FAMILY)
DECODERS = (gpt2.FAMILY, *llama.FAMILIES, *qwen.FAMILIES, gpt_neox.FAMILY)
FAMILIES: dict[str, Family] = {family.model_type: family for family in (*ENCODERS, *DECODERS, native.FAMILY)}
