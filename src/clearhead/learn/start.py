"""What a run starts from: a model by name or folder, or a new one made to fit the texts."""

from collections.abc import Sequence
from dataclasses import replace

from clearhead.checkpoint.catalog import locate
from clearhead.checkpoint.families import FAMILIES
from clearhead.checkpoint.folder import Loaded, read_folder
from clearhead.data.rows import Row
from clearhead.model.config import Activation, Config, Head, Pooling, Sinusoidal
from clearhead.model.transformer import new_transformer, with_head
from clearhead.settings import Making, Training
from clearhead.text.train import train_tokenizer


def starting_model(settings: Training, rows: Sequence[Row], *, labels: tuple[str, ...]) -> Loaded:
    """The model before its first step, with a head for these labels.

    A head that already has exactly these labels, in order, is kept; any other is made new from the seed.
    """
    if settings.base == "new":
        return new_model(settings, rows, labels=labels, pooling=settings.pooling, seed=settings.seed)
    loaded = read_folder(locate(settings.base), settings)
    network = loaded.network
    facts = network.head_facts or loaded.new_head
    if settings.pooling:
        pooling = Pooling(settings.pooling)
        facts = replace(facts, pooling=pooling, dense=facts.dense and pooling is Pooling.CLS)
    if labels != loaded.labels or facts != network.head_facts:
        with_head(network, replace(facts, labels=len(labels)), seed=settings.seed)
    return replace(loaded, labels=labels)


def new_model(
    making: Making, rows: Sequence[Row], *, labels: tuple[str, ...], pooling: str | None, seed: int
) -> Loaded:
    """The encoder as it was first drawn (Vaswani et al. 2017): norm after, ReLU, sinusoids; a tokenizer of
    its own."""
    tokenizer = train_tokenizer((row.text for row in rows), vocab=making.vocab, lowercase=making.lowercase)
    config = Config(
        vocab=tokenizer.vocab_size,
        width=making.width,
        layers=making.layers,
        heads=making.heads,
        hidden=making.hidden,
        positions=Sinusoidal(),
        activation=Activation.RELU,
        scale_embedding=True,
    )
    family = FAMILIES["clearhead"]
    head = Head(len(labels), Pooling(pooling or "mean"), dense=False)
    return Loaded(new_transformer(config, head, seed=seed), tokenizer, labels, family, None)


def usual_rate(settings: Training, config: Config) -> float:
    """The peak learning rate: as asked for, or by what is trained (new, narrow, wide)."""
    if settings.learning_rate is not None:
        return settings.learning_rate
    if settings.base == "new":
        return 1e-3
    return 1e-4 if config.width < 512 else 3e-5
