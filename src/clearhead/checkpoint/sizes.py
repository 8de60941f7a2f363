"""What an architecture costs, from its facts alone."""

from dataclasses import dataclass

from clearhead.model.config import Config, Head, Learned, Norm, Relative


@dataclass(frozen=True)
class Sizes:
    """What the facts cost. `operations` are multiply-adds for one token of a text of `context` tokens,
    forward; of an encoder–decoder for one that is read and one that is answered, to `context` tokens each."""

    parameters: int
    embedding: int  # parameters of the tables alone
    operations: int
    context: int

    @property
    def weight_bytes(self) -> int:
        """Bytes of the float32 weights."""
        return 4 * self.parameters

    @property
    def training_bytes(self) -> int:
        """Bytes of weights, gradients and AdamW's two moments in float32, without activations."""
        return 16 * self.parameters


def sizes(config: Config, head: Head | None = None, *, context: int = 512) -> Sizes:
    """Count parameters and operations from the facts alone, without building anything."""
    width, inner = config.width, config.heads * config.each_head
    qkv_bias, output_bias = config.biases
    norm = width * (2 if config.norm is Norm.LAYER and config.norm_bias else 1)
    projected = sum(config.projected)
    attention = width * (projected + inner) + qkv_bias * projected + output_bias * width
    recall = attention + norm
    attention += 2 * config.each_head * config.qk_norm
    matrices = 3 if config.gated else 2
    feed_forward = matrices * width * config.hidden + config.bias * ((matrices - 1) * config.hidden + width)
    block = attention + feed_forward + 2 * norm
    decoder_block = block + recall

    narrow = config.embedding_width or width
    stacks, said = 2 if config.translates else 1, config.decoder.vocab if config.translates else config.vocab
    tables = (config.vocab + config.segments + (config.target_vocab or 0) * (stacks - 1)) * narrow
    match config.positions:
        case Learned(count=count, offset=offset):
            tables += stacks * (count + offset) * narrow
        case Relative(buckets=buckets):
            tables += stacks * buckets * config.heads

    total = tables + config.layers * block + config.decoder_layers * decoder_block
    # Each stack has a norm more at its end, and may have one less at its beginning.
    total += stacks * norm * (config.norm_first and config.first_norm)
    total += stacks * norm * narrow // width * config.embedding_norm
    if config.embedding_width:
        total += (narrow + 1) * width
    operations = config.layers * block
    for layer in range(config.layers):
        window = config.window_of(layer)
        seen = context if window is None else min(context, window * (1 if config.causal else 2) + 1)
        operations += 2 * inner * seen
    operations += config.decoder_layers * (decoder_block + 4 * context * inner)
    if config.language_head:
        operations += said * width
        total += 0 if config.tied else said * width
    total += said * config.language_bias
    if fill := config.fill:
        dense, matrix = width * narrow + fill.bias * narrow, config.vocab * narrow
        operations += dense + matrix
        total += dense + norm * narrow // width + fill.output_bias * config.vocab + (not fill.tied) * matrix
    if head:
        total += (width * width + width * head.bias if head.dense else 0) + (width + 1) * head.labels
        total += norm * head.dense_norm
    return Sizes(total, tables, operations, context)
