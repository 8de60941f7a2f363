"""The most used encoder–decoder repositories load as they are published, and answer as the published code."""

import json
import warnings

import pytest
import torch
import transformers
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from clearhead.checkpoint.folder import OLD, read_folder, write_folder
from clearhead.errors import FolderError
from clearhead.settings import Opening
from clearhead.tasks.translate import side_by_side
from clearhead.text import Tokenizer
from published_folders import assert_looked_up
from published_seq2seq import build, descriptions

ALL = descriptions()
TEXTS = [
    "a good soup, not very warm!",
    "Good SOUP 12 345",
    "ein gute Suppe, nicht sehr süß.",
    "naïve café — 北京 🙂\u0301",
    "",
    "a",
    "  a   good\n\tsoup ",
    "don't [a] {good} <soup> they'll",
    ">>deu<< a good soup",
]


def name(description):
    return description["repository"]


@pytest.fixture
def folder(description, tmp_path):
    return build(description, tmp_path / "folder")


@pytest.fixture
def published(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sacremoses, which Marian's reader recommends and does not use
        return AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("description", ALL, ids=name)
def test_a_description_says_where_it_was_looked_up_and_what_was_not_found(description):
    assert_looked_up(description)


@pytest.mark.parametrize("description", ALL, ids=name)
def test_sources_and_targets_have_the_published_ids(description, folder, published):
    source, target = Tokenizer.read(folder), Tokenizer.read_target(folder)
    assert (target is None) == (description["expect"]["family"] != "marian")
    for text in TEXTS:
        assert list(source.encode([text])[0].ids) == published(text)["input_ids"], text
        found = (target or source).encode([text])[0].ids
        assert list(found) == published(text_target=text)["input_ids"], text
        said = published.decode(found, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        assert (target or source).decode(found).strip() == said.strip(), text


@pytest.mark.parametrize("description", ALL, ids=name)
def test_limits_roles_and_rows_are_those_of_the_files(description, folder, published):
    tokenizer, config = Tokenizer.read(folder), json.loads((folder / "config.json").read_text())
    assert tokenizer.limit == description["expect"]["limit"]
    assert config["vocab_size"] == tokenizer.vocab_size + description.get("extra_rows", 0)
    for role in ("eos_token", "pad_token"):
        assert tokenizer.roles[role] == config[f"{role}_id"] == getattr(published, f"{role}_id")


@pytest.mark.parametrize("description", ALL, ids=name)
def test_the_folder_is_one_that_the_published_code_loads_whole(description, folder):
    model, report = AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"] and not report["mismatched_keys"]
    unread = {
        key for key in report["unexpected_keys"] if "EncDecAttention.relative_attention_bias" not in key
    }
    assert not unread
    with torch.no_grad():
        given = torch.tensor([[3, 4, 2, model.config.eos_token_id]])
        begin = torch.tensor([[model.config.decoder_start_token_id]])
        assert model(input_ids=given, decoder_input_ids=begin).logits.isfinite().all()


PAIRS = [([5, 9, 4], [7]), ([6], [8, 5, 9, 4, 12]), ([7, 5, 8, 9], [4, 4]), ([9, 9, 5, 6, 20], [30, 3])]


@pytest.mark.parametrize("description", ALL, ids=name)
def test_it_answers_as_the_published_code_does_that_reads_the_same_folder(description, folder):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # none of them has a field that its user need think about
        loaded = read_folder(folder, Opening(allow_bin=True))
    assert loaded.family.model_type == description["expect"]["family"]
    network, theirs = loaded.network, AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    start, stated = loaded.begin.start, theirs.generation_config
    assert [start, loaded.begin.first] == [stated.decoder_start_token_id, stated.forced_bos_token_id]
    assert list(loaded.ends) == [stated.eos_token_id]
    sources, answers = [source for source, _ in PAIRS], [[start, *answer] for _, answer in PAIRS]
    source, target = side_by_side(sources, answers)
    with torch.inference_mode():
        stream = network.answering(source, target)
        for source, answer, rows in zip(sources, answers, target.layout.slices, strict=True):
            given = {"input_ids": torch.tensor([source]), "decoder_input_ids": torch.tensor([answer])}
            right = theirs(**given).logits[0]
            torch.testing.assert_close(network.next_logits(stream[rows]), right, atol=5e-5, rtol=5e-5)


CNN = [description for description in ALL if description["repository"] == "facebook/bart-large-cnn"]


@pytest.mark.parametrize("description", CNN, ids=name)
def test_a_token_without_a_row_is_let_be_only_where_it_never_occurs(folder, tmp_path):
    loaded = read_folder(folder)
    mask = loaded.tokenizer.roles["mask_token"]
    assert mask == loaded.tokenizer.vocab_size - 1 == loaded.network.config.vocab
    write_folder(tmp_path / "saved", loaded)
    assert read_folder(tmp_path / "saved").tokenizer.vocab_size == mask + 1
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({"pad_token": "<mask>"}))
    with pytest.raises(FolderError, match="has 272 tokens, the model only 271; the files belong to diff"):
        read_folder(folder)
    path.unlink()
    rules = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = rules["model"]["vocab"]  # where another token, which texts hold, is the last
    word = next(token for token, id in vocabulary.items() if id == 100)
    vocabulary[word], vocabulary["<mask>"] = mask, 100
    for token in rules["added_tokens"]:
        token["id"] = vocabulary[token["content"]]
    rules["added_tokens"].sort(key=lambda token: token["id"])
    (folder / "tokenizer.json").write_text(json.dumps(rules))
    with pytest.raises(FolderError, match="has 272 tokens, the model only 271; the files belong to diff"):
        read_folder(folder)


@pytest.mark.parametrize("stem", ["T5", "Bart", "Marian"])
def test_a_body_speaks_with_its_table_where_both_are_tied(stem, tmp_path):
    description = next(one for one in ALL if one["config"]["model_type"] == stem.lower())
    folder = build(description, tmp_path / "folder")
    getattr(transformers, f"{stem}Model").from_pretrained(folder).save_pretrained(folder)
    assert json.loads((folder / "config.json").read_text())["architectures"] == [f"{stem}Model"]
    config = read_folder(folder).network.config
    assert config.tied and config.language_head and not config.language_bias
    theirs = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(theirs | {"architectures": [f"{stem}EncoderModel"]}))
    with pytest.raises(
        FolderError, match=rf"\['{stem}EncoderModel'\] is not supported, only .* and {stem}Mod"
    ):
        read_folder(folder)


MARIAN = [description for description in ALL if description["expect"]["family"] == "marian"]


@pytest.mark.parametrize("description", MARIAN, ids=name)
def test_a_saved_folder_has_both_tokenizers_and_a_fingerprint_of_them(description, folder, tmp_path):
    loaded, place = read_folder(folder, Opening(allow_bin=True)), tmp_path / "saved"
    place.mkdir()
    (place / "target_vocab.json").write_text("{}")  # of the model before
    write_folder(place, loaded, instead=OLD)
    names = {path.name for path in place.iterdir()}
    assert {"source.spm", "target.spm", "vocab.json", "fingerprint.json"} <= names
    assert not names & {"tokenizer.json", "target_vocab.json"}
    again = read_folder(place)
    assert again.tokenizer.same(loaded.tokenizer) and again.target.same(loaded.target)
    (place / "source.spm").write_bytes((place / "target.spm").read_bytes())
    with pytest.raises(FolderError, match=r"changed since: source.spm \(tokenizer\)"):
        read_folder(place)


@pytest.mark.parametrize("description", ALL, ids=name)
def test_a_folder_written_again_has_the_published_ids(description, folder, published, tmp_path):
    source, target = Tokenizer.read(folder), Tokenizer.read_target(folder)
    source.write(tmp_path / "again")
    if target:
        target.write(tmp_path / "again", part="target")
    (tmp_path / "again" / "config.json").write_bytes((folder / "config.json").read_bytes())
    again = AutoTokenizer.from_pretrained(tmp_path / "again")
    for text in TEXTS:
        assert again(text)["input_ids"] == published(text)["input_ids"], text
        assert again(text_target=text)["input_ids"] == published(text_target=text)["input_ids"], text
