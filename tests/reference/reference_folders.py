"""Tiny published models for the reference's tests: saved in float32, and run in float64 by their own code."""

import json
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from clearhead.reference import read
from float64 import in_float64

VOCAB = 40
LENGTHS = (1, 2, 7, 8, 9, 16, 32)
Array = NDArray[np.float64]


class Published:
    """One published model, saved into a folder."""

    def __init__(self, folder: Path, kind: type, config: object, *, wide: bool = True):
        """`wide`: standard deviation 0.3 everywhere, which shows small mistakes."""
        torch.manual_seed(0)
        self.kind, self.folder = kind, folder
        with in_float64(kind):
            self.model = kind(config).eval()
            if wide:
                with torch.no_grad():
                    for name, parameter in self.model.named_parameters():
                        parameter.normal_(mean=float(parameter.ndim == 1 and "weight" in name), std=0.3)
                    for name, buffer in self.model.named_buffers():
                        if name == "final_logits_bias":
                            buffer.normal_(std=0.3)
            self.exact()
            self.model.save_pretrained(folder)
            self.model.set_attn_implementation("eager")
            self.model.double()
            self.exact()

    def exact(self) -> None:
        """Put back what the published code computes once, and float32 or random numbers have changed."""

    def says(self, ids: list[int], segments: list[int] | None = None) -> tuple[Array, Array | None]:
        """Hidden vectors, and the logits, or the pooled vector, or None."""
        inputs = {"input_ids": torch.tensor([ids])}
        if segments is not None:
            inputs["token_type_ids"] = torch.tensor([segments])
        with torch.no_grad(), in_float64(self.kind):
            found = self.model(**inputs, output_hidden_states=True)
        top = found.get("logits", found.get("pooler_output"))
        hidden = found.get("last_hidden_state", found.hidden_states[-1])
        return hidden[0].numpy(), None if top is None else top[0].numpy()


def texts(*, first: int = 3) -> list[list[int]]:
    """One text of each length, without special ids."""
    random = np.random.default_rng(1)
    return [random.integers(first, VOCAB, size=length).tolist() for length in LENGTHS]


def assert_agrees(theirs: Published, *, segments: bool = False) -> None:
    """Our reading of its folder says the same about a text of each length."""
    ours = read(theirs.folder)
    for ids in texts():
        kinds = [place % 2 for place in range(len(ids))] if segments else None
        hidden, top = theirs.says(ids, kinds)
        assert hidden.dtype == np.float64
        close(ours.hidden(ids, kinds), hidden)
        if top is not None:
            has_logits = ours.head is not None and ours.head.output is not None
            close(ours.logits(ids, kinds) if has_logits else ours.pooled(ids, kinds), top)


def assert_speaks(theirs: Published) -> None:
    """Our reading of its folder has the same hidden vectors and judges every next token alike."""
    ours = read(theirs.folder)
    for ids in texts():
        hidden, logits = theirs.says(ids)
        close(ours.hidden(ids), hidden)
        if logits is not None:
            assert logits.shape == (len(ids), VOCAB) and logits.dtype == np.float64
            close(ours.language_logits(ids), logits)
            close(ours.next_logits(ids), logits[-1])


def close(found: Array, expected: Array) -> None:
    """To 1e-10 of the largest number, or of 1."""
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * max(1.0, np.abs(expected).max()))


def edit_config(folder: Path, **fields: object) -> None:
    """Change fields of config.json; `...` takes one away."""
    file = folder / "config.json"
    config = {**json.loads(file.read_text()), **fields}
    file.write_text(json.dumps({name: value for name, value in config.items() if value is not ...}))


def rename_tensors(folder: Path, old: str, new: str) -> None:
    """Another spelling of all names."""
    file = folder / "model.safetensors"
    save_file({name.replace(old, new): value for name, value in load_file(file).items()}, file)


def add_tensors(folder: Path, tensors: dict[str, Array]) -> None:
    """More tensors in model.safetensors."""
    file = folder / "model.safetensors"
    save_file({**load_file(file), **tensors}, file)


def write(folder: Path, facts: dict, head: dict | None, tensors: dict[str, Array]) -> Path:
    """A folder of ours with these facts and tensors."""
    folder.mkdir()
    save_file(
        {name: np.ascontiguousarray(array) for name, array in tensors.items()}, folder / "model.safetensors"
    )
    config = {"model_type": "clearhead", "facts": facts, "head": head}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def renamed(tensors: dict[str, Array], table: dict[str, str]) -> dict[str, Array]:
    """Every tensor whose name starts as in the table, under the name it has there."""
    return {
        new + name.removeprefix(old): array
        for name, array in tensors.items()
        for old, new in table.items()
        if name.startswith(old)
    }
