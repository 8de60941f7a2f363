"""Architectures by name, as facts from the papers' own tables.

vaswani: Vaswani et al. 2017, table 3. bert: Devlin et al. 2018, section 3. gpt2: Radford et al. 2019, table
2. gpt3: Brown et al. 2020, table 2.1. t5: Raffel et al. 2020, section 3.1.1 and the published configs.
"""

from dataclasses import dataclass, replace

from clearhead.model.config import Activation, Config, Head, Learned, Norm, Relative, Sinusoidal


@dataclass(frozen=True)
class Architecture:
    """Facts, the published head, the longest text in training, and the size the paper prints."""

    config: Config
    printed: str
    context: int
    head: Head | None = None


VASWANI = Config(
    vocab=37000, width=512, layers=6, decoder_layers=6, heads=8, hidden=2048, positions=Sinusoidal(),
    activation=Activation.RELU, scale_embedding=True, language_head=True,
)  # fmt: skip
BERT = Config(
    vocab=30522, width=768, layers=12, heads=12, hidden=3072, positions=Learned(512), epsilon=1e-12,
    segments=2, embedding_norm=True, initial_std=0.02,
)  # fmt: skip
GPT2 = Config(
    vocab=50257, width=768, layers=12, heads=12, hidden=3072, positions=Learned(1024),
    activation=Activation.GELU_TANH, norm_first=True, initial_std=0.02, causal=True, language_head=True,
)  # fmt: skip
T5 = Config(
    vocab=32128, width=512, layers=6, decoder_layers=6, heads=8, hidden=2048, positions=Relative(32, 128),
    activation=Activation.RELU, norm=Norm.RMS, norm_first=True, epsilon=1e-6, bias=False, language_head=True,
)  # fmt: skip

POOLER = Head(labels=0)

ARCHITECTURES = {
    "transformer-base": Architecture(VASWANI, "65 M", 512),
    "transformer-big": Architecture(
        replace(VASWANI, width=1024, heads=16, hidden=4096, dropout=0.3), "213 M", 512
    ),
    "bert-base": Architecture(BERT, "110 M", 512, POOLER),
    "bert-large": Architecture(
        replace(BERT, layers=24, width=1024, heads=16, hidden=4096), "340 M", 512, POOLER
    ),
    "gpt2": Architecture(GPT2, "117 M, corrected to 124 M", 1024),
    "gpt2-xl": Architecture(replace(GPT2, layers=48, width=1600, heads=25, hidden=6400), "1.5 B", 1024),
    "gpt3-175b": Architecture(
        replace(GPT2, layers=96, width=12288, heads=96, hidden=49152, positions=Learned(2048)), "175 B", 2048
    ),
    "t5-small": Architecture(T5, "60 M", 512),
    "t5-base": Architecture(
        replace(T5, layers=12, decoder_layers=12, width=768, heads=12, hidden=3072), "220 M", 512
    ),
}
