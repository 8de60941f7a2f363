"""`verify` passes for good models, and each promise is seen to fail when its fault is planted."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import clearhead as ch
from clearhead.check import verify as laws
from clearhead.check.finding import Verdict
from clearhead.checkpoint import translate
from clearhead.checkpoint.families import FAMILIES
from clearhead.infer.model import Model
from clearhead.model.config import Activation, Pooling
from clearhead.model.kernels import grouped
from clearhead.model.layout import Layout
from clearhead.reference.families import native, published
from clearhead.text.tokenizer import Tokenizer
from families import NAMES, tiny_folder


def failed(model):
    return [finding.law for finding in ch.verify(model) if finding.verdict is Verdict.FAIL]


EQUATIONS = "the model equals the equations in NumPy, read from the folder on their own (float64)"


@pytest.fixture
def model(bert_folder):
    return ch.load(bert_folder)


def test_a_good_model_keeps_every_promise(model):
    findings = ch.verify(model)
    assert not [finding for finding in findings if finding.verdict is Verdict.FAIL]
    assert len(findings) == 10
    assert [f.law for f in findings if f.verdict is Verdict.NOT_PROMISED] == [
        "decoding gives the text back, character for character"
    ]


def test_a_body_without_labels_can_be_verified(body_folder):
    assert failed(ch.load(body_folder)) == []


def test_a_neighbour_that_moves_a_text_is_seen(model):
    norm = model.loaded.network.encoder.blocks[1].attention_norm
    # Statistics of the whole batch, as batch norm has them.
    norm.register_forward_hook(lambda module, inputs, x: x + 1e-6 * inputs[0].mean(0))
    assert "a neighbour changes no bit (float32, CPU)" in failed(model)


def test_one_row_too_few_is_seen(model, monkeypatch):
    def short(layout, *, queries, keys, values, sight, drop=None, spans=None):
        groups = tuple(
            replace(group, texts=group.texts - 1) if group.texts > 1 else group for group in layout.groups
        )
        whole = grouped(layout, queries=queries, keys=keys, values=values, sight=sight, drop=drop)
        for group, less in zip(layout.groups, groups, strict=True):
            whole[group.start + less.texts * less.length : group.start + group.texts * group.length] = 0
        return whole

    monkeypatch.setattr("clearhead.model.kernels.kernel_for", lambda device: short)
    found = failed(model)
    assert "a neighbour changes no bit (float32, CPU)" in found
    assert "the packed kernel equals the textbook's attention (float64)" in found


def test_a_shifted_position_is_seen(model, monkeypatch):
    plain = Layout.of

    def shifted(lengths, **options):
        layout = plain(lengths, **options)
        return replace(layout, positions=(layout.positions + 1).clamp(max=31))

    monkeypatch.setattr(Layout, "of", shifted)
    assert EQUATIONS in failed(model)


def test_a_swapped_name_is_seen(bert_folder, monkeypatch):
    family = FAMILIES["bert"]
    rules = []
    for rule in family.rules:
        if rule.ours.endswith("attention.qkv.{p}"):
            query, key, value = rule.published
            rule = replace(rule, published=(query, value, key))
        rules.append(rule)
    monkeypatch.setitem(FAMILIES, "bert", replace(family, rules=tuple(rules)))
    assert EQUATIONS in failed(ch.load(bert_folder))


def test_a_field_read_wrongly_is_seen(bert_folder, monkeypatch):
    family = FAMILIES["bert"]

    def config(fields):
        return replace(family.config(fields), epsilon=1e-5)

    monkeypatch.setitem(FAMILIES, "bert", replace(family, config=config))
    assert "the model equals the equations in NumPy, read from the folder on their own (float64)" in failed(
        ch.load(bert_folder)
    )


def test_a_wrong_activation_is_seen(model):
    for block in model.loaded.network.encoder.blocks:
        block.feed_forward.expand.activation = Activation.GELU_TANH
    assert "the model equals the equations in NumPy, read from the folder on their own (float64)" in failed(
        model
    )


def test_a_tensor_lost_in_saving_is_seen(model, monkeypatch):
    plain = laws.load

    def forgetful(folder, **opening):
        again = plain(folder, **opening)
        with torch.no_grad():
            again.loaded.network.head.output.bias += 1e-3
        return again

    monkeypatch.setattr(laws, "load", forgetful)
    assert failed(model) == ["saved and loaded, the model is the same to the bit"]


def test_labels_lost_in_saving_are_seen(model, monkeypatch):
    plain = laws.load

    def forgetful(folder, **opening):
        return Model(replace(plain(folder, **opening).loaded, labels=("good", "fine", "bad")))

    monkeypatch.setattr(laws, "load", forgetful)
    assert failed(model) == ["saved and loaded, the model is the same to the bit"]


def test_ids_moved_in_saving_are_seen(model, monkeypatch):
    plain = Tokenizer.write

    def forgetful(self, folder):
        plain(self, folder)
        path = Path(folder) / "tokenizer.json"
        rules = json.loads(path.read_text())
        vocabulary = rules["model"]["vocab"]
        vocabulary["good"], vocabulary["bad"] = vocabulary["bad"], vocabulary["good"]
        path.write_text(json.dumps(rules))

    monkeypatch.setattr(Tokenizer, "write", forgetful)
    assert failed(model) == ["saved and loaded, the tokenizer gives the same ids"]


def wrong_encodings(monkeypatch, change):
    plain = Tokenizer.encode
    monkeypatch.setattr(
        Tokenizer, "encode", lambda self, texts, **more: [change(e) for e in plain(self, texts, **more)]
    )


def test_offsets_outside_the_text_are_seen(model, monkeypatch):
    wrong_encodings(monkeypatch, lambda e: replace(e, offsets=tuple((a + 9, b + 9) for a, b in e.offsets)))
    assert failed(model) == ["offsets lie in the original text and never go back"]


def test_a_control_token_from_text_is_seen(model, monkeypatch):
    control = min(model.tokenizer.control_ids)

    def change(encoding):
        ids = [
            number if special else control
            for number, special in zip(encoding.ids, encoding.special, strict=True)
        ]
        return replace(encoding, ids=tuple(ids))

    wrong_encodings(monkeypatch, change)
    assert "text that looks like a control token stays text" in failed(model)


def test_a_lost_result_is_seen(model, monkeypatch):
    plain = Model.predict
    monkeypatch.setattr(Model, "predict", lambda self, texts: plain(self, texts)[:-1])
    assert "N texts give N results, no text gives none" in failed(model)


def test_a_lossless_tokenizer_that_loses_text_is_seen(reviews, tmp_path, monkeypatch):
    from clearhead.learn.run import Run
    from clearhead.settings import Training

    small = {"epochs": 1, "layers": 1, "width": 16, "heads": 2, "hidden": 16, "vocab": 300}
    run = Training(data=str(reviews), base="new", out=str(tmp_path / "run"), lowercase=False, **small)
    list(Run(run))
    model = ch.load(tmp_path / "run")
    assert failed(model) == []
    plain = Tokenizer.decode
    monkeypatch.setattr(Tokenizer, "decode", lambda self, ids: plain(self, ids).replace(" ,", ","))
    assert failed(model) == ["decoding gives the text back, character for character"]


LAW = "predict answers what the equations answer, label by label (float32, within 2e-5)"


def test_answers_in_the_wrong_order_are_seen(model, monkeypatch):
    plain = Model.logits
    monkeypatch.setattr(Model, "logits", lambda self, given, **more: plain(self, given, **more).roll(1, 0))
    assert LAW in failed(model)


def test_labels_put_into_the_wrong_words_are_seen(bert_folder, monkeypatch):
    monkeypatch.setattr("clearhead.checkpoint.folder.label_names", lambda *a, **k: ("good", "fine", "bad"))
    assert LAW in failed(ch.load(bert_folder))


def test_labels_are_held_to_their_names_without_space_and_as_texts_say_them(bert_folder):
    path = bert_folder / "config.json"
    values = json.loads(path.read_text()) | {"id2label": {"0": " bad", "1": True, "2": "good "}}
    path.write_text(json.dumps(values))
    model = ch.load(bert_folder)
    assert model.loaded.labels == ("bad", "true", "good")
    assert [finding.verdict for finding in laws.served(model)] == [Verdict.PASS]


def test_a_text_cut_at_the_wrong_end_is_seen(model, monkeypatch):
    plain = Tokenizer.encode

    def backwards(self, texts, *, limit=None, long="truncate"):
        found = plain(self, texts)
        if limit is None:
            return found
        return [
            replace(e, ids=e.ids[-limit:], segments=e.segments[-limit:], dropped=max(0, len(e.ids) - limit))
            for e in found
        ]

    monkeypatch.setattr(Tokenizer, "encode", backwards)
    assert LAW in failed(model)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_folder_may_say_at_which_end_texts_are_cut(side, bert_folder):
    path = bert_folder / "tokenizer_config.json"
    config = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**config, "truncation_side": side}))
    model = ch.load(bert_folder)
    assert [finding.verdict for finding in laws.served(model)] == [Verdict.PASS]


def test_segments_that_are_ignored_are_seen(model, monkeypatch):
    segments = model.loaded.network.embedding.segments
    segments.forward = lambda kinds: torch.nn.functional.embedding(torch.zeros_like(kinds), segments.weight)
    found = failed(model)
    assert "the model equals the equations in NumPy, read from the folder on their own (float64)" in found


def test_a_kernel_that_is_wrong_for_long_texts_only_is_seen(model, monkeypatch):
    def wrong(layout, *, queries, keys, values, sight, drop=None, spans=None):
        whole = grouped(layout, queries=queries, keys=keys, values=values, sight=sight, drop=drop)
        for rows, length in zip(layout.slices, layout.lengths, strict=True):
            if length > 31:
                whole[rows] *= 1.001
        return whole

    monkeypatch.setattr("clearhead.model.kernels.kernel_for", lambda device: wrong)
    assert "the packed kernel equals the textbook's attention (float64)" in failed(model)


@pytest.mark.shows("verify")
@pytest.mark.parametrize("labels", [(), ("a", "b", "c")], ids=["body", "head"])
@pytest.mark.parametrize("name", NAMES)
def test_every_published_family_keeps_its_promises(tmp_path, name, labels):
    assert not failed(ch.load(tiny_folder(tmp_path, name, labels)))


def test_the_twin_knows_every_word_for_an_activation_that_a_folder_may_say():
    assert published.ACTIVATIONS.keys() == translate.ACTIVATIONS.keys()
    assert native.ACTIVATIONS.keys() == set(Activation)
    assert native.POOLINGS.keys() == set(Pooling)
