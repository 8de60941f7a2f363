"""The engines that are compared, behind one seam: a batch of ids → logits, float32, one row a text.

Each reads the same model folder (`shapes.make_folder`) or what `convert` made of it, and runs with the best
settings that its documentation gives for a CPU. Only the engine asked for is imported.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from clearhead.text.tokenizer import Encoding

Logits = NDArray[np.float32]
Score = Callable[[Sequence[Sequence[int]]], Logits]


BATCH_TOKENS = 2048  # the library's own default


class Engine(Protocol):
    """Loads a folder for a number of threads."""

    def __call__(self, folder: Path, *, cores: int) -> Score: ...


def clearhead(folder: Path, *, cores: int) -> Score:
    """This library. A call may hold any number of texts; `Model.logits` makes its batches."""
    import torch

    import clearhead as ch

    torch.set_num_threads(cores)
    model = ch.load(folder)
    return lambda batch: model.logits(encodings_of(batch)).numpy()


def encodings_of(batch: Sequence[Sequence[int]]) -> list["Encoding"]:
    """Lists of ids as clearhead takes them."""
    from clearhead.text.tokenizer import Encoding

    def encoding(ids: Sequence[int]) -> Encoding:
        length = len(ids)
        return Encoding(tuple(ids), (0,) * length, ((0, 0),) * length, (False,) * length, 0)

    return [encoding(ids) for ids in batch]


def packed_rows(batch: Sequence[Sequence[int]]) -> int:
    """Tokens that clearhead computes for these texts in one call: each of its batches is rounded up to 8."""
    from clearhead.infer.batches import batches_of

    return sum(packed.layout.tokens for _, packed in batches_of(encodings_of(batch), BATCH_TOKENS))


def transformers(folder: Path, *, cores: int, attention: str = "sdpa", int8: bool = False) -> Score:
    """The published code, padded on the right to the longest of the batch, in inference mode.

    int8: torch's dynamic quantisation of all linear layers.
    """
    import torch
    from transformers import BertForSequenceClassification

    torch.set_num_threads(cores)
    model = BertForSequenceClassification.from_pretrained(folder, attn_implementation=attention).eval()
    if int8:
        quantize = torch.ao.quantization.quantize_dynamic
        model = quantize(model, {torch.nn.Linear}, dtype=torch.qint8)

    def score(batch: Sequence[Sequence[int]]) -> Logits:
        ids, mask = (torch.from_numpy(part) for part in padded(batch))
        with torch.inference_mode():
            return model(input_ids=ids, attention_mask=mask).logits.numpy()

    return score


def ctranslate2(folder: Path, *, cores: int, compute_type: str = "float32") -> Score:
    """CTranslate2's Encoder up to the pooler; the two outputs of the head are added in NumPy, as its guide
    does with torch.

    Each row is summed by itself, so that whatever changes with the neighbours comes from the engine.
    """
    import ctranslate2
    from safetensors.numpy import load_file

    model = ctranslate2.Encoder(
        str(folder / "ctranslate2"), "cpu", compute_type=compute_type, inter_threads=1, intra_threads=cores
    )
    head = load_file(folder / "model.safetensors")
    weight, bias = head["classifier.weight"], head["classifier.bias"]

    def score(batch: Sequence[Sequence[int]]) -> Logits:
        pooled = np.array(model.forward_batch([list(ids) for ids in batch]).pooler_output)
        return (pooled[:, None, :] * weight).sum(-1) + bias

    return score


def onnxruntime(folder: Path, *, cores: int, file: str = "model.onnx") -> Score:
    """ONNX Runtime with all graph optimisations, on the graph that its own optimiser for BERT has fused."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = cores, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(folder / file, options, providers=["CPUExecutionProvider"])

    def score(batch: Sequence[Sequence[int]]) -> Logits:
        ids, mask = padded(batch)
        return session.run(None, {"input_ids": ids, "attention_mask": mask})[0]

    return score


def padded(batch: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A rectangle of ids and its mask (1 = keep)."""
    longest = max(map(len, batch))
    ids = np.zeros((len(batch), longest), dtype=np.int64)
    mask = np.zeros((len(batch), longest), dtype=np.int64)
    for row, text in enumerate(batch):
        ids[row, : len(text)] = text
        mask[row, : len(text)] = 1
    return ids, mask


def convert_ctranslate2(folder: Path) -> None:
    """The folder for CTranslate2, in `folder/ctranslate2`."""
    from ctranslate2.converters import TransformersConverter

    TransformersConverter(str(folder)).convert(str(folder / "ctranslate2"), force=True)


def convert_onnxruntime(folder: Path, *, int8: bool = False) -> None:
    """The folder as model.onnx: exported, fused by ONNX Runtime's tool for BERT; int8: also quantised.

    The export is of explicit attention, whose pattern the tool knows and fuses; the fused operator is the one
    that runs.
    """
    import onnx
    import torch
    from onnxruntime.quantization import quantize_dynamic
    from onnxruntime.transformers.optimizer import optimize_model
    from transformers import BertForSequenceClassification

    model = BertForSequenceClassification.from_pretrained(folder, attn_implementation="eager").eval()
    model.config.return_dict = False
    ids, mask = (torch.from_numpy(part) for part in padded([[2, 5, 6, 3], [2, 7, 3]]))
    names, sizes = ["input_ids", "attention_mask"], {0: "texts", 1: "longest"}
    torch.onnx.export(
        model,
        (ids, mask),
        str(folder / "exported.onnx"),
        input_names=names,
        output_names=["logits"],
        dynamic_axes=dict.fromkeys(names, sizes) | {"logits": {0: "texts"}},
        opset_version=17,
        dynamo=False,
    )
    facts = model.config
    heads, width = facts.num_attention_heads, facts.hidden_size
    fused = optimize_model(
        str(folder / "exported.onnx"), model_type="bert", num_heads=heads, hidden_size=width
    )
    found = fused.get_fused_operator_statistics()["Attention"]
    if found != facts.num_hidden_layers:
        raise RuntimeError(f"ONNX Runtime fused {found} of {facts.num_hidden_layers} attentions")
    fused.save_model_to_file(str(folder / "model.onnx"))
    (folder / "exported.onnx").unlink()
    if int8:
        # Behind its own fused operators the tool cannot tell a type by itself; it asks to be told.
        told = {"DefaultTensorType": onnx.TensorProto.FLOAT}
        quantize_dynamic(folder / "model.onnx", folder / "model-int8.onnx", extra_options=told)
