"""Config fields as two-way tables."""

import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from clearhead.checkpoint.labels import tokens_head
from clearhead.errors import FolderError
from clearhead.model.config import Activation, Config, Fill, Head, Over

# Fields of published configs that change no number we compute.
HARMLESS = frozenset(
    """
    _attn_implementation_autoset _name_or_path _num_labels add_cross_attention architectures bad_words_ids
    bos_token_id classif_dropout classifier_dropout cls_token_id decoder_layerdrop decoder_start_token_id
    directionality dtype early_stopping encoder_layerdrop eos_token_id eos_token_ids extra_pos_embeddings
    finetuning_task force_bos_token_to_be_generated forced_bos_token_id forced_eos_token_id
    gradient_checkpointing id2label length_penalty max_length min_length no_repeat_ngram_size
    null_score_diff_threshold num_beams prefix
    save_step task_specific_params total_flos
    initializer_range is_encoder_decoder label2id language model_type name_or_path num_labels
    output_attentions output_hidden_states output_past pad_token_id pooler_fc_size
    pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type problem_type
    return_dict sep_token_id tie_word_embeddings torch_dtype transformers.js_config transformers_version
    use_cache
    """.split()
)


# Names of activations as the published code spells them.
ACTIVATIONS = {
    "gelu": Activation.GELU,
    "gelu_new": Activation.GELU_TANH,
    "gelu_pytorch_tanh": Activation.GELU_TANH,
    "relu": Activation.RELU,
    "silu": Activation.SILU,
    "swish": Activation.SILU,
}
SPELLED = {kind: name for name, kind in reversed(ACTIVATIONS.items())} | {Activation.GELU_TANH: "gelu_new"}
OLD_NORMS = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


class Fields:
    """A published config, read field by field: what was not read in the end is named once."""

    def __init__(self, values: Mapping[str, Any], source: str):
        self.values, self.source = values, source
        self.seen: set[str] = set()
        self.last = ""  # the field that was asked for last, to name where facts do not fit
        self.spelled: dict[str, str] = {}  # our facts: the fields that they are read from

    def __call__(self, name: str, default: Any = ...) -> Any:
        """A field's value; without a default it must be there."""
        self.seen.add(name)
        self.last = name
        if name not in self.values:
            if default is ...:
                raise FolderError(f"{self.source}: the field {name!r} is missing")
            return default
        value = self.values[name]
        if isinstance(default, bool) and not isinstance(value, bool):
            raise FolderError(f"{self.source}: {name}={value!r} must be true or false")
        return value

    def fact(self, fact: str, name: str, *, default: Any = ...) -> Any:
        """A field's value that becomes one of our facts: messages about the fact then name the field."""
        self.spelled[fact] = name
        return self(name, default)

    def worded(self, message: str) -> str:
        """A message about facts, in the words of the fields that they were read from."""
        if not self.spelled:
            return message
        facts = "|".join(map(re.escape, sorted(self.spelled, key=len, reverse=True)))
        pattern = rf"(?<![\w.])({facts})(?![\w.])"
        return re.sub(pattern, lambda found: self.spelled[found[0]], message)

    def choice(self, name: str, choices: Mapping[str, Any], *, default: Any = ...) -> Any:
        """A field whose value is one of a few names."""
        value = self(name, default)
        if not isinstance(value, str) or value not in choices:
            known = ", ".join(choices)
            raise FolderError(f"{self.source}: {name}={value!r} is not supported; supported: {known}")
        return choices[value]

    def require(self, **expected: Any) -> None:
        """Refuse any other value of fields that would change the arithmetic."""
        for name, value in expected.items():
            if self(name, None) not in (value, None):
                raise FolderError(
                    f"{self.source}: {name}={self.values[name]!r} is not supported, only {value!r}"
                )

    def whole(self, name: str, default: int, *, least: int, other: str = "") -> int:
        """A field that is a whole number of at least so much; `other` says what it might be else."""
        value = self(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise FolderError(
                f"{self.source}: {name}={value!r} must be a whole number of at least {least}{other}"
            )
        return value

    def aliases(self, **others: str) -> None:
        """Refuse a field whose other published name says something else: the published code takes either."""
        for name, other in others.items():
            said, again = self(name, None), self(other, None)
            if again is not None and said != again:
                raise FolderError(
                    f"{self.source}: {name}={said!r} and {other}={again!r} are one field and contradict each "
                    f"other; keep the one that is true, as {name}"
                )

    def skip(self, *names: str) -> None:
        """Fields that change no number here."""
        self.seen.update(names)

    def warn_unread(self) -> None:
        """Name the fields that nothing has read."""
        unread = sorted(set(self.values) - self.seen - HARMLESS)
        if unread:
            warnings.warn(f"{self.source}: fields not known and not used: {', '.join(unread)}", stacklevel=3)


Plain = Mapping[str, tuple[str, Any]]  # a published field: our fact, the published default (...: none)


def read_plain(fields: Fields, table: Plain) -> dict[str, Any]:
    """The facts that stand in a config as they are."""
    return {fact: fields.fact(fact, name, default=default) for name, (fact, default) in table.items()}


def write_plain(facts: Config | Head | Fill, table: Plain) -> dict[str, Any]:
    """The fields of such facts."""
    return {name: getattr(facts, fact) for name, (fact, _) in table.items()}


def windows(fields: Fields) -> dict[str, Any]:
    """How far blocks with a window see, and which have none."""
    window = fields.whole("local_attention", 128, least=2) // 2
    fields.require(sliding_window=window)
    return {"window": window, "global_every": global_every(fields)}


def global_every(fields: Fields) -> int:
    """Each so-many-th block, from the first, sees the whole text: from layer_types or its older field."""
    every = fields.fact("global_every", "global_attn_every_n_layers", default=3)
    kinds = fields("layer_types", None)
    if kinds is None:
        return every
    if not isinstance(kinds, list) or len(kinds) != fields("num_hidden_layers"):
        raise FolderError(f"{fields.source}: layer_types={kinds!r} must name num_hidden_layers kinds")
    whole = [place for place, kind in enumerate(kinds) if kind == "full_attention"]
    every = whole[1] if len(whole) > 1 else max(1, len(kinds))
    if kinds != ["sliding_attention" if place % every else "full_attention" for place in range(len(kinds))]:
        raise FolderError(
            f"{fields.source}: layer_types={kinds} has no regular pattern from the first block on"
        )
    return every


def label_count(fields: Fields) -> int:
    """How many outputs a published classification head has."""
    labels = fields("id2label", None)
    # Cross-encoders may put a function over the published score; only "as it is" is what we answer.
    plain = "torch.nn.modules.linear.Identity"
    fields.require(sbert_ce_default_activation_function=plain)
    newer = fields("sentence_transformers", None)
    if isinstance(newer, dict) and newer.get("activation_fn", plain) != plain:
        raise FolderError(
            f"{fields.source}: activation_fn={newer['activation_fn']!r} is not supported, only {plain!r}"
        )
    return len(labels) if labels else fields("num_labels", 2)


# How the published classes with a head over texts or tokens end.
CLASSES = {
    Over.TEXTS: "ForSequenceClassification",
    Over.TOKENS: "ForTokenClassification",
    Over.SPANS: "ForQuestionAnswering",
}


def published_class(stem: str, config: Config, *, head: Head | None) -> list[str]:
    """The class of the published code that has these heads, as `architectures` names it."""
    labelled = CLASSES[head.over] if head and head.labels else "Model"
    return [stem + ("ForMaskedLM" if config.fill else labelled)]


TIED: Plain = {"tie_word_embeddings": ("tied", True)}


def read_fill(fields: Fields, *, activation: str | None = None, table: Plain | None = None) -> Fill:
    """The head for masked tokens: its activation stands in a field, or is GELU."""
    kind = fields.choice(activation, ACTIVATIONS, default="gelu") if activation else Activation.GELU
    return Fill(kind, **read_plain(fields, TIED), **read_plain(fields, table or {}))


def write_fill(
    fill: Fill | None, *, activation: str | None = None, table: Plain | None = None
) -> dict[str, Any]:
    """The fields of such a head, where there is one."""
    if fill is None:
        return {}
    said = {activation: SPELLED[fill.activation]} if activation else {}
    return said | write_plain(fill, TIED) | write_plain(fill, table or {})


def classifier(
    fields: Fields,
    names: set[str],
    *,
    new: Head,
    marker: str,
    stem: str,
    spans: str = "qa_outputs.weight",
) -> Head | None:
    """The published head where a folder holds it, told by its class: over texts `new` with its labels and the
    tensor `marker`; over tokens; of spans with the tensor `spans`. Any other is refused by name."""
    markers = {Over.TEXTS: marker, Over.TOKENS: "classifier.weight", Over.SPANS: spans}
    if not any(name.startswith(("classifier.", "qa_outputs.")) for name in names):
        return None
    stated = fields("architectures", None) or []
    for over, marker in markers.items():
        if stem + CLASSES[over] in stated and marker in names:
            count = label_count(fields)
            if over is Over.SPANS and count != 2:
                raise FolderError(f"{fields.source}: num_labels={count} is not supported for spans, only 2")
            return replace(new, labels=count) if over is Over.TEXTS else tokens_head(new, over, labels=count)
    known = ", ".join(stem + CLASSES[over] for over in markers)
    raise FolderError(f"{fields.source}: the head of {stated} is not supported, only {known}")


def all_blocks(fields: Fields, kind: str) -> None:
    """Refuse blocks whose attention is of another kind than all the others'."""
    kinds = fields("layer_types", None)
    if kinds is not None and (not isinstance(kinds, list) or any(one != kind for one in kinds)):
        raise FolderError(f"{fields.source}: layer_types={kinds} is not supported, only {kind!r}")


def speaks(fields: Fields, *, speaker: str, body: str) -> bool:
    """Whether a decoder has its language head; any other head is refused by name."""
    fields.require(add_cross_attention=False, is_encoder_decoder=False)
    stated = fields("architectures", None) or [speaker]
    if stated not in ([speaker], [body]):
        raise FolderError(
            f"{fields.source}: the head of {stated} is not supported, only {speaker} and {body}"
        )
    return bool(stated == [speaker])


def gated_activation(fields: Fields, name: str) -> tuple[Activation, bool]:
    """T5's field for an activation and whether it gates: relu, gated-silu; gated-gelu is gelu_new there."""
    kind = fields(name, "relu")
    gated, bare = str(kind).startswith("gated-"), str(kind).removeprefix("gated-")
    stated = "gelu_new" if kind == "gated-gelu" else bare
    fields.require(is_gated_act=gated, dense_act_fn=stated)
    return Fields({name: stated}, fields.source).choice(name, ACTIVATIONS), gated


def spelled_gated(config: Config) -> str:
    """That field of a model."""
    spelled = SPELLED[config.activation]
    if not config.gated:
        return spelled
    return "gated-gelu" if spelled == "gelu_new" else f"gated-{spelled}"


def translates(fields: Fields, stated: str, *, body: str) -> None:
    """Refuse any head of an encoder–decoder but the one that says what comes next, by name. A body has it,
    too, where it is tied: bart-base is published so."""
    fields.require(is_encoder_decoder=True, is_decoder=False)
    named = fields("architectures", None) or [stated]
    if named not in ([stated], [body]):
        raise FolderError(f"{fields.source}: the head of {named} is not supported, only {stated} and {body}")


def alike(fields: Fields, value: int, *names: str) -> None:
    """Refuse sizes of one side that are not those of the other."""
    for name in names:
        if (other := fields(name, value)) not in (value, None):
            said = f"{fields.source}: {name}={other!r} is not supported beside {names[0]}={value!r}"
            raise FolderError(f"{said}, only the same")


def refuse_packed(fields: Fields) -> None:
    """Weights in few bits (GPTQ, AWQ, bitsandbytes, FP8) are no weights by name."""
    packed = fields("quantization_config", None)
    if packed is not None:
        method = packed.get("quant_method") if isinstance(packed, dict) else packed
        raise FolderError(
            f"{fields.source}: quantization_config is not supported (quant_method {method!r}): the weights "
            "are packed; take the model that they were made from"
        )
