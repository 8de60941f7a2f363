"""Asking a model that fills masks: N texts, N answers, as the published code's; bad input is named."""

import json

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

import clearhead as ch
from clearhead.app.cli import main
from clearhead.errors import ClearheadError
from families import filler, tiny_folder, write_tokenizer

TEXTS = ["a good [MASK] .", "[MASK]", "the [MASK] was not so [MASK] and cold"]


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "filler"
    place.mkdir()
    filler("bert", wide=True).save_pretrained(place)
    write_tokenizer(place, "bert")
    return place


def test_answers_are_the_published_ones(folder):
    model = ch.load(folder)
    published, tokenizer = AutoModelForMaskedLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    found = model.fill(TEXTS, candidates=3)
    assert [len(filled.masks) for filled in found] == [1, 1, 2]
    for text, filled in zip(TEXTS, found, strict=True):
        ids = tokenizer(text, return_tensors="pt").input_ids
        with torch.no_grad():
            shares = published.eval()(input_ids=ids).logits[0].softmax(-1)
        assert filled.tokens == ids.shape[1]
        for place, mask in zip((ids[0] == tokenizer.mask_token_id).nonzero(), filled.masks, strict=True):
            best = shares[place].squeeze(0).topk(3)
            assert [one.token for one in mask] == best.indices.tolist()
            assert [one.score for one in mask] == pytest.approx(best.values.tolist(), abs=1e-5)


def test_a_neighbour_changes_no_bit(folder):
    model = ch.load(folder)
    alone = [model.fill([text])[0] for text in TEXTS]
    assert model.fill(TEXTS * 3, batch_tokens=9) == alone * 3
    assert model.fill([]) == []


def test_what_cannot_be_filled_is_named(folder, tmp_path):
    model = ch.load(folder)
    with pytest.raises(ClearheadError, match=r"text 1: the text has no mask; write \[MASK\] where"):
        model.fill(["a [MASK]", "nothing"])
    with pytest.raises(ClearheadError, match="text 0: the text has 43 tokens, the model takes 32"):
        model.fill(["good " * 40 + "[MASK]"])
    with pytest.raises(ClearheadError, match="text 0 is a pair of texts"):
        model.fill([("a [MASK]", "b")])
    with pytest.raises(ClearheadError, match="one string was given"):
        model.fill("a [MASK]")
    with pytest.raises(ClearheadError, match="--candidates 0 must be at least 1"):
        model.fill(["a [MASK]"], candidates=0)
    with pytest.raises(ClearheadError, match="fills masks and gives no labels"):
        model.predict(["a [MASK]"])
    body = ch.load(tiny_folder(tmp_path / "body", "bert"))
    with pytest.raises(ClearheadError, match="has no head for masked tokens.*clearhead train fill"):
        body.fill(["a [MASK]"])


def asked(capsys, *words):
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        main([str(word) for word in words])
    seen = capsys.readouterr()
    return left.value.code, seen.out, seen.err


def test_predict_answers_rows_in_order(folder, tmp_path, capsys):
    path = tmp_path / "texts.csv"
    path.write_text("text,place\na good [MASK],here\n\n the [MASK] was [MASK],there\n")
    status, out, _ = asked(capsys, "predict", folder, path, "--candidates", "2", "--empty", "skip")
    lines = [json.loads(line) for line in out.splitlines()]
    assert status == 0 and [len(line["masks"]) for line in lines] == [1, 2]
    assert [line["place"] for line in lines] == ["here", "there"]
    assert all(len(mask) == 2 for line in lines for mask in line["masks"])
    assert lines[0]["masks"][0][0].keys() == {"score", "token", "token_str"}
    path.write_text("text\na good [MASK]\nno gap\n")
    status, out, err = asked(capsys, "predict", folder, path)
    assert status == 2 and not out and "texts.csv, row 2: the text has no mask" in err
    for flag, kind in (("--temperature=0.5", "language models"), ("--abstain-below=0.5", "labels")):
        status, _, err = asked(capsys, "predict", folder, "--text", "[MASK]", flag)
        assert status == 2 and f"is for {kind}" in err
    other = tiny_folder(tmp_path / "other", "bert", ("a", "b"))
    status, _, err = asked(capsys, "predict", other, "--text", "a", "--candidates", "2")
    assert status == 2 and "--candidates is for models that fill masks" in err


def test_evaluate_hides_the_same_tokens_by_seed(folder, tmp_path, capsys):
    path = tmp_path / "texts.txt"
    path.write_text("the soup was good and the bread was not so warm\n" * 9)
    told = [asked(capsys, "evaluate", folder, "--data", path, "--documents", "line")[1] for _ in range(2)]
    first, second = ({k: v for k, v in json.loads(one).items() if k != "seconds"} for one in told)
    assert first == second and first["texts"] == 9 and first["masked"] == 9 * round(0.15 * 11)
    model = ch.load(folder)
    again = ch.evaluate(model, path, documents="line", batch_tokens=13).metrics
    assert again.loss == pytest.approx(first["loss"], rel=1e-12)
    assert ch.evaluate(model, path, mask_seed=1).metrics.loss != first["loss"]
    assert ch.evaluate(model, path, mask_share=0.5).metrics.masked > first["masked"]
    with pytest.raises(ClearheadError, match="--stride is for language models"):
        ch.evaluate(model, path, stride=3)
    with pytest.raises(ClearheadError, match="--context 99 is more than"):
        ch.evaluate(model, path, context=99)


def test_a_table_in_a_terminal_shows_each_mask(folder, capsys, monkeypatch):
    from clearhead.app import show
    from clearhead.data.rows import Row

    monkeypatch.setattr(show, "plain", lambda as_json: False)
    filled = ch.load(folder).fill(TEXTS)
    rows = [Row(text, None, "--text", 1, {}) for text in TEXTS]
    show.results(list(zip(rows, filled, strict=True)), as_json=False)
    seen = capsys.readouterr().out
    assert "%" in seen and "answer" in seen and "; " in seen


def test_numbers_that_are_not_finite_are_said_of_the_text(folder, tmp_path, capsys):
    """One word whose vector overflows: the text that holds it is named, in Python, in files, in scores."""
    model = ch.load(folder)
    word = model.tokenizer.vocabulary()["soup"]
    with torch.no_grad():
        model.loaded.network.embedding.tokens.weight[word] = 3e38
    with pytest.raises(ClearheadError, match="not finite"):
        model.fill(["a good [MASK]", "the soup was [MASK]"])
    (tmp_path / "texts.txt").write_text("the soup was good and the soup was cold\n" * 4)
    with pytest.raises(ClearheadError, match="not finite"):
        ch.evaluate(model, tmp_path / "texts.txt")


def test_bytes_that_are_no_text_can_be_replaced_in_evaluation(folder, tmp_path, capsys):
    (tmp_path / "texts.txt").write_bytes(b"the soup was \xff good and cold\n" * 4)
    with pytest.raises(ClearheadError, match="--errors replace"):
        ch.evaluate(ch.load(folder), tmp_path / "texts.txt")
    assert ch.evaluate(ch.load(folder), tmp_path / "texts.txt", errors="ignore").metrics.masked
