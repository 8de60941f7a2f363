"""What published folders have in common: words for activations, checks, classifiers over single tokens."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from clearhead.errors import FolderError
from clearhead.reference.layers import Activation, Array, gelu, gelu_tanh, relu, silu
from clearhead.reference.stored import Shape, Tensors, affine, choice, field, two
from clearhead.reference.whole import Fill, Head

ACTIVATIONS: dict[str, Activation] = {
    "gelu": gelu,
    "gelu_new": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "relu": relu,
    "silu": silu,
    "swish": silu,
}
# Classes with a head over single tokens, and the layer that is all of it.
OVER_TOKENS = {"ForTokenClassification": "classifier", "ForQuestionAnswering": "qa_outputs"}


# Classes with a head that says which token stands behind a mask.
FILLING = ("ForMaskedLM", "BertForPreTraining")


class FillNames(NamedTuple):
    """Where a family stores that head. Where the matrix is not the embedding's, some publish its bias beside
    it, as `own_bias`."""

    dense: str
    norm: str
    matrix: str
    bias: str
    own_bias: str = ""

    def there(self, config: Mapping[str, Any], tensors: Tensors) -> bool:
        """Whether a folder has it."""
        named = any(name.endswith(FILLING) for name in config.get("architectures") or [])
        return named and f"{self.dense}.weight" in tensors

    def shapes(
        self, config: Mapping[str, Any], tensors: Tensors, *, sizes: Shape, biases: tuple[bool, bool, bool]
    ) -> dict[str, Shape]:
        """Every tensor of the head, if there is one; `sizes` are vocabulary, width of the matrix, width of
        the stream, `biases` those of the layer, of the norm and of the matrix."""
        if not self.there(config, tensors):
            return {}
        vocab, narrow, width = sizes
        found = two(self.dense, narrow, width, bias=biases[0]) | two(self.norm, narrow, bias=biases[1])
        if optional(config, "tie_word_embeddings", default=True):
            return found | ({self.bias: (vocab,)} if biases[2] else {})
        bias = self.own_bias if self.own_bias in tensors else self.bias
        return found | {self.matrix: (vocab, narrow)} | ({bias: (vocab,)} if biases[2] else {})

    def fill(self, arrays: Mapping[str, Array], tokens: Array, *, activation: Activation) -> Fill | None:
        """The head from its tensors, if they are there; `tokens` is the embedding's matrix."""
        if f"{self.dense}.weight" not in arrays:
            return None
        return Fill(
            dense=affine(arrays, self.dense),
            norm=affine(arrays, self.norm),
            matrix=arrays.get(self.matrix, tokens),
            bias=arrays.get(self.own_bias, arrays.get(self.bias)),
            activation=activation,
        )


def activation(config: Mapping[str, Any], name: str, *, default: str = "gelu") -> Activation:
    """The function a config's word stands for; without the field it is the published default."""
    return choice(name, config.get(name, default), choices=ACTIVATIONS)


def shared_heads(width: int, heads: int) -> int:
    if heads < 1 or width % heads:
        raise FolderError(f"config.json has width {width} and {heads} heads; heads must divide the width")
    return heads


def paired_heads(width: int, heads: int) -> int:
    """As `shared_heads`, for heads whose columns turn in pairs."""
    if shared_heads(width, heads) and width // heads % 2:
        raise FolderError(
            f"config.json has width {width} and {heads} heads; "
            f"heads of width {width // heads} cannot be turned in pairs"
        )
    return heads


def over_tokens(config: Mapping[str, Any]) -> str | None:
    """The layer of a head over single tokens, where the folder's own class has one."""
    stated = config.get("architectures") or []
    return next((layer for end, layer in OVER_TOKENS.items() if any(n.endswith(end) for n in stated)), None)


def output_shapes(tensors: Tensors, name: str | None, *, width: int) -> dict[str, Shape]:
    """The tensors of a last layer, as many labels wide as it is; none where it has no name."""
    return {} if name is None else two(name, tensors.shape(f"{name}.weight")[0], width)


def tokens_head(arrays: Mapping[str, Array], name: str) -> Head:
    """A head over single tokens: one layer."""
    return Head(pooling=None, dense=None, output=affine(arrays, name))


def refuse_decoders(config: Mapping[str, Any]) -> None:
    """Refuse fields that make an encoder something else."""
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise FolderError(
            f"config.json has position_embedding_type={config['position_embedding_type']!r}; "
            "only 'absolute' is computed here"
        )
    if config.get("is_decoder", False):
        raise FolderError("config.json has is_decoder=true; only encoders are computed here")


def optional(config: Mapping[str, Any], name: str, *, default: Any) -> Any:
    """A field of the default's own kind, or the default where config.json lacks it."""
    return field({name: default, **config}, name, kind=type(default))


def refuse_other(config: Mapping[str, Any], plain: Mapping[str, Any]) -> None:
    """Refuse fields that change the arithmetic, unless they are absent or have the value that does not."""
    for name, value in plain.items():
        if config.get(name, value) != value:
            raise FolderError(
                f"config.json has {name}={config[name]!r}; only {name}={value!r} is computed here"
            )
