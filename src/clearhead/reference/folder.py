"""A model folder becomes a whole model, by reading config.json and the safetensors on its own."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from clearhead.reference.families.bart import read_bart
from clearhead.reference.families.bert import read_bert
from clearhead.reference.families.distilbert import read_distilbert
from clearhead.reference.families.electra import read_electra
from clearhead.reference.families.gpt2 import read_gpt2
from clearhead.reference.families.gpt_neox import read_gpt_neox
from clearhead.reference.families.llama import read_llama, read_mistral, read_qwen2, read_qwen3
from clearhead.reference.families.marian import read_marian
from clearhead.reference.families.modernbert import read_modernbert
from clearhead.reference.families.native_translator import read_ours
from clearhead.reference.families.roberta import read_roberta
from clearhead.reference.families.t5 import read_t5
from clearhead.reference.stored import choice, read_config
from clearhead.reference.translator import WholeTranslator
from clearhead.reference.whole import WholeModel

Reader = Callable[[Path, Mapping[str, Any]], WholeModel | WholeTranslator]
READERS: dict[str, Reader] = {
    "bart": read_bart,
    "bert": read_bert,
    "camembert": read_roberta,
    "clearhead": read_ours,
    "distilbert": read_distilbert,
    "electra": read_electra,
    "gpt2": read_gpt2,
    "gpt_neox": read_gpt_neox,
    "llama": read_llama,
    "marian": read_marian,
    "mistral": read_mistral,
    "modernbert": read_modernbert,
    "qwen2": read_qwen2,
    "qwen3": read_qwen3,
    "roberta": read_roberta,
    "t5": read_t5,
    "xlm-roberta": read_roberta,
}


def read(folder: str | os.PathLike[str]) -> WholeModel | WholeTranslator:
    """Read a whole model from a folder with config.json and safetensors, all in float64: an encoder or a
    decoder, or both as a WholeTranslator.

    Raises FolderError if a file, field or tensor is missing, unknown or does not fit, or if `model_type` is
    none of READERS. Source of the names: the published folders of each family; ours.
    """
    path = Path(folder)
    config = read_config(path)
    reader = choice("model_type", config.get("model_type"), choices=READERS)
    return reader(path, config)
