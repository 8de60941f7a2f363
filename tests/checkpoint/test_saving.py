"""Saving loses nothing that somebody has; reading never mixes two models; absurd sizes are refused."""

import json
import threading
from dataclasses import replace

import pytest
import torch
from test_folders import edit_config

import clearhead as ch
from clearhead.checkpoint import folder as module
from clearhead.checkpoint.families import FAMILIES
from clearhead.checkpoint.files import MANIFEST, NEXT, finish_move, leftovers
from clearhead.checkpoint.folder import CONFIG, read_folder, write_folder
from clearhead.checkpoint.lock import locked
from clearhead.errors import FolderError, SettingError
from decoders import tiny_folder
from tiny import tiny_bert

TEXTS = ["a good soup", "fine"]


@pytest.mark.parametrize("given", [None, "", 3, "a\0b"])
def test_what_is_no_path_is_refused_by_what_it_is_for(bert_folder, given):
    model = ch.load(bert_folder)
    for ask in (model.save, ch.load, ch.get):
        with pytest.raises(SettingError, match="is no path and no name"):
            ask(given)


def test_save_replaces_nothing_unless_asked_and_then_only_a_model(bert_folder, tmp_path):
    model, notes = ch.load(bert_folder), tmp_path / "notes"
    notes.mkdir()
    (notes / "diary.txt").write_text("dear")
    for folder, asked, message in (
        (notes, False, "is not empty; give another folder"),
        (bert_folder, False, "overwrite=True to replace the model in it"),
        (notes, True, "holds no model to replace"),
        (notes / "diary.txt", True, "is a file"),
    ):
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        with pytest.raises(SettingError, match=message):
            model.save(folder, overwrite=asked)
        assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_save_waits_for_no_run_that_goes_on_in_the_folder(bert_folder, tmp_path):
    with locked(tmp_path / "run"), pytest.raises(SettingError, match="a run is going on"):
        ch.load(bert_folder).save(tmp_path / "run", overwrite=True)


def test_files_of_the_model_before_leave_with_it(bert_folder, tmp_path):
    model = ch.load(bert_folder)
    extra = {"additional_special_tokens": ["[NEW]"]}
    (bert_folder / "special_tokens_map.json").write_text(json.dumps(extra))
    (bert_folder / "generation_config.json").write_text('{"eos_token_id": 7}')
    (bert_folder / "mine.md").write_text("kept")
    model.save(bert_folder, overwrite=True)
    assert ch.load(bert_folder).predict(TEXTS) == model.predict(TEXTS)
    model.save(tmp_path / "new")
    names = {path.name for path in (tmp_path / "new").iterdir()}
    assert {path.name for path in bert_folder.iterdir()} == names | {"mine.md"}


def test_a_file_that_came_after_the_decision_does_not_leave(bert_folder, tmp_path):
    """A slow reader that finishes a move meets a file of the save after it."""
    waiting = bert_folder / NEXT
    waiting.mkdir()
    (waiting / MANIFEST).write_text('{"files": [], "gone": {"added_tokens.json": [1, 2, 3]}}')
    (bert_folder / "added_tokens.json").write_text("{}")
    finish_move(bert_folder)
    assert (bert_folder / "added_tokens.json").exists() and not waiting.exists()


@pytest.mark.parametrize(
    "manifest", [None, "{bad", "[]", '{"files": 3, "gone": {}}', '{"files": ["../x"], "gone": {}}']
)
def test_a_folder_of_the_same_name_that_is_not_ours_stays(bert_folder, manifest):
    for name in (NEXT, ".next"):
        (bert_folder / name).mkdir()
        (bert_folder / name / "config.json").write_text("mine")
    if manifest:
        (bert_folder / NEXT / MANIFEST).write_text(manifest)
    before = {path: path.read_bytes() for path in bert_folder.rglob("*") if path.is_file()}
    ch.load(bert_folder)
    assert before == {path: path.read_bytes() for path in bert_folder.rglob("*") if path.is_file()}


def test_two_savers_into_one_folder_leave_one_model_whole(tmp_path):
    models = [
        ch.load(tiny_bert(tmp_path / n, labels=(n, "b"), intermediate_size=w))
        for n, w in (("x", 24), ("y", 48))
    ]
    out, failed = tmp_path / "out", []
    models[0].save(out)

    def save(model):
        for _ in range(8):
            try:
                model.save(out, overwrite=True)
            except Exception as error:
                failed.append(error)

    threads = [threading.Thread(target=save, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    found = ch.load(out)
    assert found.predict(TEXTS) == next(m for m in models if m.loaded.labels == found.loaded.labels).predict(
        TEXTS
    )
    assert not [path for path in out.iterdir() if path.name.startswith(".")]


def test_a_folder_that_only_looks_like_a_model_is_not_replaced(bert_folder, tmp_path):
    model, place = ch.load(bert_folder), tmp_path / "project"
    place.mkdir()
    (place / "config.json").write_text('{"app": "mine"}')
    (place / "vocab.txt").write_text("mine")
    for asked, message in (
        (True, "holds no model to replace"),
        ("no", "overwrite='no' is not True or False"),
    ):
        with pytest.raises(SettingError, match=message):
            model.save(place, overwrite=asked)
    (place / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(SettingError, match="holds no model to replace"):
        model.save(place, overwrite=True)
    assert (place / "vocab.txt").read_text() == "mine"


def test_the_folder_of_a_run_is_not_replaced_by_hand(bert_folder, reviews, tmp_path):
    out = tmp_path / "run"
    for _ in ch.train(
        "classify", data=reviews, base="new", layers=1, width=16, heads=2, out=out, max_steps=1
    ):
        pass
    with pytest.raises(SettingError, match="is the folder of a run"):
        ch.load(bert_folder).save(out, overwrite=True)


@pytest.mark.parametrize("place", ["file/x", "x" * 300, "/proc/x", "\ud800x"])
def test_places_that_cannot_be_are_named(bert_folder, tmp_path, place):
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError):
        ch.load(bert_folder).save(tmp_path / place)
    with pytest.raises(ch.ClearheadError):
        ch.load("a" * 5000)


def test_vectors_can_be_learned_from(bert_folder):
    found = ch.load(bert_folder).embed(TEXTS)
    torch.nn.Linear(found.shape[1], 1)(found).sum().backward()
    found.add_(1).requires_grad_(True)


def test_threads_leave_the_default_dtype_alone(bert_folder):
    model = ch.load(bert_folder)
    torch.set_default_dtype(torch.float64)
    try:
        threads = [
            threading.Thread(target=lambda: [model.predict(TEXTS) for _ in range(20)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert torch.get_default_dtype() is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_reader_meets_one_model_whole_while_another_is_written(tmp_path):
    """Two models of different labels and widths take turns in a folder that is read all the while."""
    out, stop = tmp_path / "out", threading.Event()
    models = []
    for name, width in (("first", 24), ("second", 48)):
        models.append(ch.load(tiny_bert(tmp_path / name, labels=(name, "b"), intermediate_size=width)))
    models[0].save(out)
    right = {model.loaded.labels: model.predict(TEXTS) for model in models}

    def write():
        while not stop.is_set():
            for model in models[::-1]:
                model.save(out, overwrite=True)
                stop.wait(0.1)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(12):
            found = ch.load(out)
            assert found.predict(TEXTS) == right[found.loaded.labels]
    finally:
        stop.set()
        writer.join()


def test_a_file_that_appears_between_files_makes_the_reader_begin_again(bert_folder, monkeypatch):
    right, done, tensors = ch.load(bert_folder), [], module.read_tensors

    def read(folder, **given):
        if not done:
            done.append(edit_config(bert_folder, id2label=dict(enumerate("xyz"))))
        return tensors(folder, **given)

    monkeypatch.setattr(module, "read_tensors", read)
    assert read_folder(bert_folder).labels == ("x", "y", "z") != right.loaded.labels


def test_only_what_our_writers_leave_counts_as_left(tmp_path):
    for name in (".settings.json.123.part", ".part-ab_c1234", ".part-state-10", ".part-run-before"):
        (tmp_path / name).touch()
    ours = set(tmp_path.iterdir())
    for name in (".movie.mp4.1.part", ".part-two", ".notes.part", "x.part", ".part-mine-and-yours"):
        (tmp_path / name).touch()
    assert set(leftovers(tmp_path)) == ours


SIZES = (
    "vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size max_position_embeddings "
    "type_vocab_size"
).split()


@pytest.mark.parametrize("field", SIZES)
def test_absurd_sizes_are_refused_by_the_name_of_their_field(bert_folder, field):
    edit_config(bert_folder, **{field: 10**30})
    with pytest.raises(FolderError, match=rf"config.json: {field}=1000+ is beyond any model"):
        ch.load(bert_folder)
    edit_config(bert_folder, **{field: 2**28})
    with pytest.raises(FolderError):
        ch.load(bert_folder)


def test_a_number_beyond_float32_is_refused(bert_folder):
    edit_config(bert_folder, layer_norm_eps=10**400)
    with pytest.raises(FolderError, match="layer_norm_eps=1000"):
        ch.load(bert_folder)


@pytest.mark.parametrize("value", [1, "yes", [], {}])
def test_switches_of_our_own_folder_are_true_or_false(bert_folder, tmp_path, value):
    model = ch.load(bert_folder)
    write_folder(tmp_path / "ours", replace(model.loaded, family=FAMILIES["clearhead"]))
    said = json.loads((tmp_path / "ours" / CONFIG).read_text())
    for fact in ("norm_first", "gated", "language_head", "qkv_bias"):
        facts = said["facts"] | {fact: value}
        (tmp_path / "ours" / CONFIG).write_text(json.dumps(said | {"facts": facts}))
        with pytest.raises(FolderError, match=f"{fact}=.* must be true or false"):
            ch.load(tmp_path / "ours", fingerprint=False)


def test_a_byte_order_mark_is_read_over_in_every_file(bert_folder):
    right = ch.load(bert_folder).predict(TEXTS)
    for name in (CONFIG, "tokenizer_config.json"):
        path = bert_folder / name
        path.write_text("\ufeff" + path.read_text(encoding="utf-8"), encoding="utf-8")
    assert ch.load(bert_folder).predict(TEXTS) == right


def test_asking_with_a_name_says_how_to_load_it(bert_folder):
    for ask in (
        lambda: ch.verify(str(bert_folder)),
        lambda: ch.evaluate(bert_folder, "x.csv"),
        lambda: list(ch.generate(str(bert_folder), ["x"])),
    ):
        with pytest.raises(SettingError, match=r"a loaded model is needed; load it first: clearhead.load\("):
            ask()
    with pytest.raises(SettingError, match="pooling='middle' is not one of cls, mean, max"):
        ch.load(bert_folder).embed(TEXTS, pooling="middle")


def test_torch_modes_of_the_caller_change_no_bit_of_a_saved_model(bert_folder, tmp_path):
    model = ch.load(bert_folder)
    model.save(tmp_path / "plain")
    with torch.autocast("cpu", torch.bfloat16), torch.device("meta"):
        ch.load(bert_folder).save(tmp_path / "odd")
        assert ch.load(bert_folder).predict(TEXTS) == model.predict(TEXTS)
    files = [
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("plain", "odd")
    ]
    assert files[0] == files[1]


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama-tied"])
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float64])
def test_a_model_held_in_another_kind_is_saved_as_one_that_loads(tmp_path, family, kind):
    bert = tiny_bert(tmp_path / "bert", labels=("bad", "good"))
    model, out = ch.load(bert if family == "bert" else tiny_folder(tmp_path / family, family)), tmp_path / "o"
    model.save(out)
    model.loaded.network.to(kind)
    model.save(out, overwrite=True)
    kept = model.loaded.network.state_dict()
    for name, tensor in ch.load(out).loaded.network.state_dict().items():
        assert kept[name].dtype == kind and torch.equal(tensor, kept[name].float())
