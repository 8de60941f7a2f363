"""Tiny published encoder–decoders for the reference's tests: saved in float32, and run in float64."""

from pathlib import Path
from unittest import mock

import numpy as np
import torch
from reference_folders import Array, Published, close

from clearhead.reference import WholeTranslator, read
from float64 import in_float64

VOCAB = 40
PAIRS = ((1, 1), (1, 9), (9, 1), (2, 7), (7, 2), (8, 8), (32, 17), (20, 32))
# The encoder–decoder of 2017, as a folder of ours says it.
FACTS = {
    "vocab": VOCAB,
    "width": 12,
    "layers": 3,
    "decoder_layers": 2,
    "heads": 3,
    "hidden": 20,
    "positions": {"kind": "sinusoidal", "halves": False},
    "activation": "relu",
    "norm_first": False,
    "epsilon": 1e-5,
    "segments": 0,
    "embedding_norm": False,
    "scale_embedding": True,
    "language_head": True,
    "causal": False,
    "scale_scores": True,
    "scale_output": False,
    "language_bias": False,
    "target_vocab": None,
    "final_dropout": 0.0,
}


class Pair(Published):
    """One published encoder–decoder, saved into a folder."""

    def exact(self) -> None:
        """Fixed positions as they are computed, not as float32 rounds them, or as other numbers."""
        with mock.patch.object(torch, "FloatTensor", torch.DoubleTensor), torch.no_grad():
            for module in self.model.modules():
                if hasattr(module, "create_weight"):
                    module.weight.copy_(module.create_weight())

    def says(  # type: ignore[override]
        self, source: list[int], target: list[int]
    ) -> tuple[Array, Array, Array | None]:
        """The memory, the decoder's vectors, and the logits, or None."""
        inputs = {"input_ids": torch.tensor([source]), "decoder_input_ids": torch.tensor([target])}
        with torch.no_grad(), in_float64(self.kind):
            found = self.model(**inputs, output_hidden_states=True, use_cache=False)
        logits = found.get("logits")
        memory = found.encoder_last_hidden_state[0].numpy()
        written = found.get("last_hidden_state", found.decoder_hidden_states[-1])[0].numpy()
        return memory, written, None if logits is None else logits[0].numpy()


def pairs(*, vocab: int = VOCAB, target_vocab: int = VOCAB) -> list[tuple[list[int], list[int]]]:
    """Sources and targets of each pair of lengths, any ids."""
    random = np.random.default_rng(1)
    return [
        (random.integers(vocab, size=one).tolist(), random.integers(target_vocab, size=two).tolist())
        for one, two in PAIRS
    ]


def translator(folder: Path) -> WholeTranslator:
    """Our reading of a folder."""
    ours = read(folder)
    assert isinstance(ours, WholeTranslator)
    return ours


def assert_translates(theirs: Pair, *, vocab: int = VOCAB, target_vocab: int = VOCAB) -> None:
    """Our reading of its folder has the same memory, the same vectors, and judges every next token alike."""
    ours = translator(theirs.folder)
    for source, target in pairs(vocab=vocab, target_vocab=target_vocab):
        memory, written, logits = theirs.says(source, target)
        assert memory.dtype == np.float64
        close(ours.encode(source), memory)
        close(ours.decode(memory, target), written)
        if logits is not None:
            assert logits.shape == (len(target), target_vocab)
            close(ours.logits(source, target), logits)
            close(ours.next_logits(memory, target), logits[-1])


def assert_sees_its_source_and_nothing_ahead(folder: Path) -> None:
    """A later token changes nothing before it; the last one of the source changes everything."""
    ours = translator(folder)
    source, target = pairs()[-1]
    whole = ours.logits(source, target)
    for cut in (1, 7, 31):
        np.testing.assert_allclose(ours.logits(source, target[:cut]), whole[:cut], rtol=0, atol=1e-12)
    changed = ours.logits([*source[:-1], (source[-1] + 1) % VOCAB], target)
    assert (np.abs(changed - whole).max(axis=1) > 1e-6).all()


def assert_same(one, two, *, target_vocab=VOCAB):
    first, second = translator(one), translator(two)
    for source, target in pairs(target_vocab=target_vocab):
        close(first.encode(source), second.encode(source))
        close(first.logits(source, target), second.logits(source, target))


def random_tensors(facts):
    """Every tensor of a plain encoder–decoder, spelled out a second time, apart from the code under test."""
    layers = {"embedding.tokens": (VOCAB, 12)}
    for stack, count in (("encoder", 3), ("decoder", 2)):
        for block in (f"{stack}.blocks.{i}" for i in range(count)):
            layers |= {
                f"{block}.attention.qkv": (36, 12),
                f"{block}.attention.output": (12, 12),
                f"{block}.attention_norm": (12,),
                f"{block}.feed_forward.expand": (20, 12),
                f"{block}.feed_forward.contract": (12, 20),
                f"{block}.feed_forward_norm": (12,),
            }
            if stack == "decoder":
                layers |= {
                    f"{block}.recall.query": (12, 12),
                    f"{block}.recall.memory": (24, 12),
                    f"{block}.recall.output": (12, 12),
                    f"{block}.recall_norm": (12,),
                }
        if facts["norm_first"]:
            layers[f"{stack}.norm"] = (12,)
    random = np.random.default_rng(0)
    tensors = {}
    for name, shape in layers.items():
        tensors[f"{name}.weight"] = random.normal(float("norm" in name), 0.3, size=shape)
        if name != "embedding.tokens":
            tensors[f"{name}.bias"] = random.normal(0.0, 0.3, size=shape[:1])
    return {name: array.astype(np.float32) for name, array in tensors.items()}
