"""Folders of sentence-transformers: read as they are, written back, refused by name where they cannot be."""

import json

import pytest
import torch

import clearhead as ch
from clearhead.check.finding import Verdict
from clearhead.checkpoint.embedding import FILES, Embedding, read_embedding, write_embedding
from clearhead.errors import FolderError
from clearhead.model.config import Pooling
from families import NAMES
from sentences import plain_vectors, sentence_files, sentence_folder
from tiny import tiny_bert

TEXTS = ["good soup", "", "the bread was warm , and the soup was not ! " * 3]


def change(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.shows("save")
@pytest.mark.parametrize("embeds", [True])
@pytest.mark.parametrize("name", NAMES)
def test_a_saved_folder_gives_the_same_vectors_here_and_to_the_published_code(tmp_path, name, embeds):
    model = ch.load(sentence_folder(tmp_path / "theirs", name, pooling="cls"))
    model.save(tmp_path / "ours")
    again = ch.load(tmp_path / "ours")
    assert again.loaded.embedding == model.loaded.embedding and again.embeds
    assert torch.equal(again.embed(TEXTS), model.embed(TEXTS))
    right = plain_vectors(tmp_path / "ours", TEXTS, pooling="cls", normalise=True, limit=20)
    assert abs(again.embed(TEXTS).numpy() - right).max() < 2e-5


EVERY = [
    Embedding(),
    Embedding(pooling=Pooling.LAST, normalise=True, limit=9, lowercase=True),
    Embedding(pooling=Pooling.MAX, prompts={"query": "q: ", "é": ""}, default="é", included=False),
    Embedding(pooling=Pooling.CLS, similarity="euclidean", dimensions=7),
]


@pytest.mark.parametrize("facts", EVERY)
def test_what_is_written_is_read(tmp_path, facts):
    write_embedding(tmp_path, facts, width=24)
    assert read_embedding(tmp_path, width=24) == facts
    modules = json.loads((tmp_path / "modules.json").read_text())
    assert [module["type"].rpartition(".")[2] for module in modules][: 2 + facts.normalise]


def test_newer_spellings_are_read(tmp_path):
    """As sentence-transformers 6 writes them."""
    folder = sentence_folder(tmp_path)
    modules = json.loads((folder / "modules.json").read_text())
    for module, kind in zip(
        modules, ("base.modules.transformer", "modules.pooling", "base.modules.normalize"), strict=True
    ):
        module["type"] = f"sentence_transformers.{kind}.{module['type'].rpartition('.')[2]}"
    (folder / "modules.json").write_text(json.dumps(modules))
    said = {"embedding_dimension": 24, "pooling_mode": "lasttoken", "include_prompt": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(said))
    (folder / "2_Normalize").mkdir()
    keys = {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}
    (folder / "2_Normalize" / "config.json").write_text(json.dumps(keys))
    inner = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
    whole = {"transformer_task": "feature-extraction", "modality_config": inner}
    whole["module_output_name"] = "token_embeddings"
    (folder / "sentence_bert_config.json").write_text(json.dumps(whole))
    facts = {"model_type": "SentenceTransformer", "prompts": {"query": "", "document": ""}}
    facts |= {"default_prompt_name": None, "similarity_fn_name": "dot", "__version__": {}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(facts))
    found = ch.load(folder).loaded.embedding
    assert (found.pooling, found.normalise, found.similarity) == (Pooling.LAST, True, "dot")
    assert found.limit is None and found.prompts == {"query": "", "document": ""}


def with_module(folder, **values):
    modules = json.loads((folder / "modules.json").read_text())
    modules[2] |= values
    (folder / "modules.json").write_text(json.dumps(modules))


DENSE = {"type": "sentence_transformers.models.Dense", "path": "2_Dense"}
POOLING, READING, FACTS = (
    "1_Pooling/config.json", "sentence_bert_config.json", "config_sentence_transformers.json"
)  # fmt: skip
REFUSED = [
    (lambda f: with_module(f, **DENSE), r"module 2 \(sentence_transformers.models.Dense\) cannot be"),
    (lambda f: (f / "modules.json").write_text("[]"), "the modules none cannot be reproduced"),
    (lambda f: (f / "modules.json").write_text("{}"), "holds no list of JSON objects"),
    (lambda f: (f / "modules.json").write_text("["), "is not valid JSON"),
    (lambda f: (f / POOLING).unlink(), "has no config.json"),
    (lambda f: change(f / POOLING, pooling_mode_max_tokens=True), r"mean \+ max is not supported"),
    (lambda f: change(f / POOLING, pooling_mode="weightedmean"), "weightedmean is not supported"),
    (lambda f: change(f / POOLING, word_embedding_dimension=7), "7, and the model is 24 wide"),
    (lambda f: change(f / POOLING, include_prompt=3), "include_prompt=3 is not true or false"),
    (lambda f: change(f / POOLING, layers=3), "layers=3 is not known"),
    (lambda f: change(f / READING, max_seq_length=0), "max_seq_length=0 must be"),
    (lambda f: change(f / READING, do_lower_case="x"), "do_lower_case='x' is not"),
    (lambda f: change(f / READING, query_length=8), "query_length=8 is not supported"),
    (lambda f: change(f / FACTS, similarity_fn_name="maxsim"), "'maxsim' is not one"),
    (lambda f: change(f / FACTS, prompts=["a"]), "must give texts their names"),
    (lambda f: change(f / FACTS, default_prompt_name="a"), "'a' is none of none"),
    (lambda f: with_module(f, path="a\0b"), "module 2 .* at path"),
    (lambda f: change(f / POOLING, pooling_mode=[["mean"]]), r"pooling_mode \['mean'\] is not supported"),
    (lambda f: change(f / POOLING, pooling_mode={"a": 1}), r"pooling_mode \{'a': 1\} is not supported"),
    (lambda f: change(f / POOLING, pooling_mode=0), "pooling_mode 0 is not supported"),
    (lambda f: change(f / POOLING, pooling_mode_cls_token="true"), "cls_token='true' is not true or false"),
    (lambda f: change(f / POOLING, pooling_mode_mean_tokens=1), "mean_tokens=1 is not true or false"),
    (lambda f: change(f / READING, max_seq_length=10**400), "max_seq_length=1000.* must be a whole number"),
    (lambda f: change(f / FACTS, similarity_fn_name=["dot"]), r"similarity_fn_name=\['dot'\] is not one of"),
    (lambda f: change(f / FACTS, similarity_fn_name=0), "similarity_fn_name=0 is not one of"),
    (lambda f: change(f / FACTS, prompts=0), "prompts=0 must give texts their names"),
    (lambda f: change(f / FACTS, prompts={"a": "\ud800"}), "prompts hold half a character"),
    (lambda f: change(f / FACTS, prompts={"a": ""}, default_prompt_name=["a"]), r"name=\['a'\] is none of a"),
    (lambda f: change(f / FACTS, truncate_dim=0), "truncate_dim=0 must be a whole number above 0, or null"),
    (lambda f: change(f / FACTS, truncate_dim="7"), "truncate_dim='7' must be a whole number above 0"),
    (lambda f: change(f / FACTS, whitening=True), "whitening=True is not known; remove it if it is idle"),
    (lambda f: change(f / FACTS, model_type="SparseEncoder"), "model_type='SparseEncoder' is not supported"),
]


@pytest.mark.parametrize(("damage", "said"), REFUSED)
def test_what_cannot_be_reproduced_is_refused_by_name(tmp_path, damage, said):
    folder = sentence_folder(tmp_path)
    damage(folder)
    with pytest.raises(FolderError, match=said):
        ch.load(folder)


def test_a_module_elsewhere_is_refused(tmp_path):
    folder = sentence_folder(tmp_path / "model")
    sentence_files(tmp_path)  # beside the folder
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["path"] = "../1_Pooling"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(FolderError, match="at path '../1_Pooling' cannot be reproduced"):
        ch.load(folder)
    modules[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(FolderError, match=r"module 0 \(sentence_transformers.models.Transformer\)"):
        ch.load(folder)


@pytest.mark.parametrize("normalise", [True, False])
def test_a_folders_own_cut_comes_behind_its_norm(tmp_path, normalise):
    """As sentence-transformers has it, which writes `truncate_dim`; what is asked for takes its place."""
    whole = ch.load(sentence_folder(tmp_path / "whole", normalise=normalise)).embed(TEXTS)
    folder = sentence_folder(tmp_path / "cut", normalise=normalise, facts={"truncate_dim": 7})
    model = ch.load(folder)
    assert torch.equal(model.embed(TEXTS), whole[:, :7])
    for options in ({"dimensions": 5}, {"dimensions": 9, "normalise": True}):
        assert model.embed(TEXTS, **options).shape == (3, options["dimensions"])
    assert torch.allclose(model.embed(TEXTS, normalise=True).norm(dim=1), torch.ones(3))
    model.save(tmp_path / "ours")
    assert torch.equal(ch.load(tmp_path / "ours").embed(TEXTS), whole[:, :7])
    assert not [found for found in ch.verify(model) if found.verdict is Verdict.FAIL]


def test_texts_are_lowered_sign_by_sign(tmp_path):
    """As the published tokenizers do it: a last sigma is one like others."""
    from clearhead.infer.embed import ready

    assert ready("ΟΔΟΣ İ", "Q: ", lowercase=True) == "q: οδοσ i̇"
    assert ready(("Σ", "ΑΣ"), "", lowercase=True) == ("σ", "ασ")


@pytest.mark.parametrize("file", FILES)
def test_a_fingerprint_knows_how_vectors_are_made(tmp_path, file):
    ch.load(sentence_folder(tmp_path / "theirs")).save(tmp_path / "ours")
    path = tmp_path / "ours" / file
    path.write_text(path.read_text().replace("false", "true") + " ")
    with pytest.raises(FolderError, match=rf"changed since: {file} \(how a text becomes a vector\)"):
        ch.load(tmp_path / "ours")


def test_files_that_are_added_to_a_saved_model_are_seen(tmp_path):
    ch.load(tiny_bert(tmp_path / "theirs")).save(tmp_path / "ours")
    sentence_files(tmp_path / "ours")
    with pytest.raises(FolderError, match=r"changed since: modules.json"):
        ch.load(tmp_path / "ours")


def test_a_model_that_replaces_another_takes_its_files_away(tmp_path):
    ch.load(sentence_folder(tmp_path / "sentences")).save(tmp_path / "out")
    ch.load(tiny_bert(tmp_path / "plain")).save(tmp_path / "out", overwrite=True)
    assert ch.load(tmp_path / "out").loaded.embedding is None
    assert not any((tmp_path / "out" / file).exists() for file in (*FILES, "1_Pooling"))


def test_texts_are_lower_cased_where_the_folder_says_so(tmp_path):
    folder = sentence_folder(tmp_path, "roberta")
    model = ch.load(folder)
    change(folder / "sentence_bert_config.json", do_lower_case=True)
    lowered = ch.load(folder)
    assert torch.equal(lowered.embed(["GOOD Soup"]), model.embed(["good soup"]))


def test_the_folders_limit_holds_beside_the_models(tmp_path):
    folder = sentence_folder(tmp_path, limit=400)
    change(folder / "tokenizer_config.json", model_max_length=10)
    _, (read,) = ch.load(folder).vectors(["soup " * 99])
    assert read.tokens == 32  # of the positions; the tokenizer's own number gives way, as published
