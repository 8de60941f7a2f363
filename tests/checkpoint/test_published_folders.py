"""The most used encoder repositories load as they are published, or are refused with the reason."""

import shutil
import warnings

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

from clearhead.checkpoint.folder import read_folder
from clearhead.checkpoint.labels import PROBLEMS, Problem
from clearhead.errors import FolderError
from clearhead.infer.batches import packed
from clearhead.infer.model import Model
from clearhead.model.kernels import Context
from clearhead.model.layout import pack
from clearhead.settings import Opening
from clearhead.text.masks import with_masks
from clearhead.text.tokenizer import Tokenizer
from float64 import in_float64
from published_folders import assert_looked_up, build, descriptions

ALL = descriptions()
READ = [description for description in ALL if "refused" not in description["expect"]]
REFUSED = [description for description in ALL if "refused" in description["expect"]]
# Those with a tokenizer; the published code finds the right one by the model_type.
SPELLED = [
    description
    for description in ALL
    if description["tokenizer"]["kind"] != "none" and "model_type" in description["config"]
]
TEXTS = [
    "a good soup, not very warm!",
    "Good SOUP 12",
    "naïve café — 北京",
    "",
    "a",
    "  a   good\n\tsoup ",
    "so very good , and not a slow film it was end left right story food place warm fine bad the of",
]
PAIRS = [("a good soup", "not very warm"), ("Good", "café !")]


def name(description):
    return description["repository"]


def only_bin(description):
    return description["weights"]["file"].endswith(".bin")


def read(description, place):
    """The folder, written and read; a .bin file is asked for where there is nothing else."""
    return read_folder(build(description, place / "folder"), Opening(allow_bin=only_bin(description)))


def rectangle(rows):
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])


@pytest.mark.parametrize("description", ALL, ids=name)
def test_a_description_says_where_it_was_looked_up_and_what_was_not_found(description):
    assert_looked_up(description)


@pytest.mark.parametrize("description", READ, ids=name)
def test_a_published_folder_loads_with_its_facts(description, tmp_path):
    expected = description["expect"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # none of them has a field that its user need think about
        loaded = read(description, tmp_path)
    assert loaded.family.model_type == expected["family"]
    assert list(loaded.labels) == expected.get("labels", [])
    head = loaded.network.head_facts
    kind = "labels" if head and head.labels else "vector" if head else "none"
    assert kind == expected.get("head", "labels")
    stated = description["config"].get("architectures", [""])[0]
    assert bool(loaded.network.config.fill) == stated.endswith("ForMaskedLM")
    assert loaded.problem == expected.get("problem", "single_label_classification")
    assert Model(loaded).limit == expected["limit"]


@pytest.mark.parametrize("description", SPELLED, ids=name)
def test_a_published_folder_gives_the_published_ids(description, tmp_path):
    folder = build(description, tmp_path / "folder")
    ours, theirs = Tokenizer.read(folder), AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        assert list(ours.encode([text])[0].ids) == theirs(text)["input_ids"]
    for first, second in PAIRS:
        assert list(ours.encode([(first, second)])[0].ids) == theirs(first, second)["input_ids"]
    if theirs.mask_token:
        masked = f"a good {theirs.mask_token}, not very{theirs.mask_token} \n{theirs.mask_token} soup"
        mine = with_masks(ours, masked, name="")
        assert list(mine.ids) == theirs(masked)["input_ids"]


@pytest.mark.parametrize("description", SPELLED, ids=name)
def test_a_tokenizer_that_we_save_gives_the_published_code_the_same_ids(description, tmp_path):
    folder = build(description, tmp_path / "folder")
    Tokenizer.read(folder).write(tmp_path / "ours")
    shutil.copy(folder / "config.json", tmp_path / "ours")
    before, after = (AutoTokenizer.from_pretrained(place) for place in (folder, tmp_path / "ours"))
    assert [after(text)["input_ids"] for text in TEXTS] == [before(text)["input_ids"] for text in TEXTS]
    assert [after(*pair)["input_ids"] for pair in PAIRS] == [before(*pair)["input_ids"] for pair in PAIRS]


AUTO = dict.fromkeys(PROBLEMS, AutoModelForSequenceClassification)
AUTO |= {Problem.TAGS: AutoModelForTokenClassification}


@pytest.mark.parametrize("description", READ, ids=name)
def test_a_published_folder_gives_the_published_vectors_and_logits(description, tmp_path):
    model = Model(read(description, tmp_path))
    network = model.loaded.network.double()
    rows = model.encode(TEXTS)
    batch = packed(rows)
    context = Context.of(batch.layout)
    fields = {"input_ids": rectangle([row.ids for row in rows])}
    fields["attention_mask"] = rectangle([[1] * len(row.ids) for row in rows])
    if network.config.segments:
        fields["token_type_ids"] = rectangle([row.segments for row in rows])
    kind = AUTO[model.loaded.problem] if model.loaded.labels else AutoModel
    folder = tmp_path / "folder"
    code = kind._model_mapping[type(AutoConfig.from_pretrained(folder))]
    with torch.no_grad(), in_float64(code):
        stream = network(batch, context)
        answer = network.head(stream, context) if network.head else None
        if model.loaded.problem is Problem.TAGS:  # each token's, of a rectangle the rows without padding
            answer = torch.cat([answer[rows] for rows in batch.layout.slices])
        published = code.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
        right = published(**fields, output_hidden_states=True)
    # Behind a head the published code tells of the stream by its list of hidden vectors only.
    hidden = right.hidden_states[-1] if model.loaded.labels else right.last_hidden_state
    near = {"atol": 1e-10, "rtol": 1e-10}
    for place, row in enumerate(rows):
        ours, theirs = stream[batch.layout.slices[place]], hidden[place]
        torch.testing.assert_close(ours, theirs[: len(row.ids)], **near)
    # Published bodies without labels show the vector of BERT's pooler alone.
    expected = right.logits if model.loaded.labels else right.get("pooler_output")
    if model.loaded.problem is Problem.TAGS:
        expected = torch.cat([row[: len(text.ids)] for row, text in zip(expected, rows, strict=True)])
    if answer is not None and expected is not None:
        torch.testing.assert_close(answer, expected, **near)


FILLING = [d for d in READ if d["config"].get("architectures", [""])[0].endswith("ForMaskedLM")]


@pytest.mark.parametrize("description", FILLING, ids=name)
def test_a_published_head_for_masked_tokens_gives_the_published_logits(description, tmp_path):
    network = read(description, tmp_path).network.double()
    code = AutoModelForMaskedLM._model_mapping[type(AutoConfig.from_pretrained(tmp_path / "folder"))]
    ids = list(range(2, 14))
    with torch.no_grad(), in_float64(code):
        published = code.from_pretrained(tmp_path / "folder", dtype=torch.float64).eval()
        right = published(input_ids=torch.tensor([ids])).logits[0]
        ours = network.fill_logits(network(pack([ids]))[: len(ids)])
    torch.testing.assert_close(ours, right, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("description", [each for each in READ if only_bin(each)], ids=name)
def test_a_published_folder_with_nothing_but_a_bin_file_is_refused_unless_asked_for(description, tmp_path):
    folder = build(description, tmp_path / "folder")
    with pytest.raises(FolderError, match="--allow-bin"):
        read_folder(folder)


@pytest.mark.parametrize("sigmoid", [True, False], ids=["sigmoid", "identity"])
@pytest.mark.parametrize("newer", [True, False], ids=["newer", "older"])
def test_a_cross_encoder_whose_published_score_is_not_its_output_is_refused(sigmoid, newer, tmp_path):
    description = next(each for each in READ if each["repository"].startswith("cross-encoder"))
    function = "torch.nn.modules." + ("activation.Sigmoid" if sigmoid else "linear.Identity")
    older = "sbert_ce_default_activation_function"
    stated = (
        {"sentence_transformers": {"activation_fn": function}, older: None} if newer else {older: function}
    )
    changed = description | {"config": description["config"] | stated}
    if not sigmoid:
        assert read(changed, tmp_path).problem == "regression"
        return
    with pytest.raises(FolderError, match="activation.Sigmoid.* is not supported"):
        read(changed, tmp_path)


@pytest.mark.parametrize("description", REFUSED, ids=name)
def test_a_published_folder_that_is_not_supported_is_refused_with_the_reason(description, tmp_path):
    folder = build(description, tmp_path / "folder")
    with pytest.raises(FolderError, match=description["expect"]["refused"]):
        read_folder(folder)
