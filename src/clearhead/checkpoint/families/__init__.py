"""One file per family of published models: tables, not code. `FAMILIES` is the list of what can be read."""

from clearhead.checkpoint.families import (
    bart,
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
    t5,
)
from clearhead.checkpoint.family import Family

ENCODERS = (bert.FAMILY, *roberta.FAMILIES, distilbert.FAMILY, electra.FAMILY, modernbert.FAMILY)
DECODERS = (gpt2.FAMILY, *llama.FAMILIES, *qwen.FAMILIES, gpt_neox.FAMILY)
TRANSLATORS = (t5.FAMILY, *bart.FAMILIES)
FAMILIES: dict[str, Family] = {
    family.model_type: family for family in (*ENCODERS, *DECODERS, *TRANSLATORS, native.FAMILY)
}
