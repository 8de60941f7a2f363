"""One rule for texts that are longer than a model takes: cut, refused, or read in windows, in every task."""

import json
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import clearhead as ch
from clearhead.app.cli import main
from clearhead.errors import DataError, SettingError
from clearhead.infer.evidence import sentences
from families import filler, write_tokenizer
from tiny import tiny_bert

LONG = "good soup . " * 12 + "a bad film"
PAIR = ("a fine place", "warm bread , " * 15 + "cold soup")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return ch.load(tiny_bert(tmp_path_factory.mktemp("reviews"), ("bad", "good", "mixed"), wide=True))


@pytest.fixture(scope="module")
def filling(tmp_path_factory):
    folder = tmp_path_factory.mktemp("masks")
    filler("bert", wide=True).save_pretrained(folder)
    write_tokenizer(folder, "bert")
    return ch.load(folder)


@pytest.mark.parametrize("text", [LONG, PAIR, "good", ""])
@pytest.mark.parametrize("stride", [None, 1, 7])
def test_windows_hold_every_token_and_their_mean_is_the_answer(model, text, stride):
    (example,) = model.examples([text], long="window", stride=stride)
    whole = model.tokenizer.encode([text])[0]
    last = max(whole.sources, default=0)
    held = {o for w in example.windows for o, s in zip(w.offsets, w.sources, strict=True) if s == last}
    assert held == {o for o, s in zip(whole.offsets, whole.sources, strict=True) if s == last}
    assert all(len(window.ids) <= 32 for window in example.windows)
    (found,) = model.predict([text], long="window", stride=stride)
    logits = model.logits(example.windows)
    shares = logits.double().mean(0).softmax(-1).tolist()
    assert list(found.scores.values()) == pytest.approx(shares, abs=1e-6)
    assert (found.windows, found.dropped) == (len(example.windows), 0)
    assert found.tokens == sum(len(window.ids) for window in example.windows)


def test_a_text_that_fits_is_the_same_to_the_bit_under_every_rule(model):
    rules = [model.predict(["good soup ."], long=long)[0] for long in ("truncate", "error", "window")]
    assert rules[0] == rules[1] == rules[2]


def test_neighbours_change_nothing_in_windows(model):
    texts = [LONG, "good", PAIR[1], "bad film"]
    alone = [model.predict([text], long="window")[0] for text in texts]
    assert model.predict(texts, long="window", batch_tokens=40) == alone


def test_the_same_rule_in_training_evaluation_and_prediction(model, tmp_path, capsys):
    path = tmp_path / "reviews.csv"
    rows = [(LONG, "good"), ("bad film", "bad"), ("so so " * 30, "mixed"), ("fine", "good")] * 3
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    run = ch.train(
        "classify", data=str(path), validation=str(path), base=str(model.loaded.folder), epochs=1,
        out=str(tmp_path / "run"), long="window", stride=9, dropout=0.0,
    )  # fmt: skip
    assert any("are read in windows" in note for note in run.notes)
    asked = [
        w for text, _ in rows for e in run.model.examples([text], long="window", stride=9) for w in e.windows
    ]
    assert run.objective.windows == asked
    # The loss of a step is that of the joined logits.
    members = list(range(len(rows)))
    examples = [run.model.examples([text], long="window", stride=9)[0] for text, _ in rows]
    assert run.objective.windows == [window for example in examples for window in example.windows]
    logits = torch.stack([run.model.logits(example.windows).mean(0) for example in examples])
    expected = run.task.loss(logits, run.objective.targets)
    loss = run.objective.loss(run.model.loaded.network, members, drop=None)
    assert float(loss.detach()) == pytest.approx(float(expected), rel=1e-5)
    for _ in run:
        pass
    found = ch.evaluate(ch.load(tmp_path / "run"), path, long="window", stride=9)
    assert found.windowed == 6 and found.truncated == 0
    with pytest.raises(SystemExit):
        main(["predict", str(tmp_path / "run"), str(path), "--long", "window", "--stride", "9"])
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["windows"] > 1 for one in told[:4]] == [True, False, True, False]


def test_a_stride_without_windows_is_refused(model):
    with pytest.raises(SettingError, match="--stride 3 is for --long window"):
        model.predict(["good"], stride=3)


def test_a_task_that_reads_a_text_in_one_says_so(tmp_path, capsys):
    from decoders import tiny_folder

    folder = tiny_folder(tmp_path, "gpt2")
    with pytest.raises(SystemExit):
        main(["predict", str(folder), "--text", "a", "--long", "window", "--max-new-tokens", "4"])
    assert "--long window is for labels, tags, answers, vectors and masks" in capsys.readouterr().err


def test_each_mask_is_looked_at_where_most_stands_around_it(filling):
    words = ["good", "bad", "soup", "film"] * 12
    words[1] = words[25] = words[47] = "[MASK]"
    (found,) = filling.fill([" ".join(words)], long="window", candidates=1)
    assert found.windows == 3 and found.dropped == 0 and len(found.masks) == 3
    # 48 tokens in windows of 30 that begin at 0, 15 and 30: of the middle one most stands around 25.
    for at, begin in ((1, 0), (25, 15), (47, 30)):
        other = words[begin : begin + 30]
        (alone,) = filling.fill([" ".join(other)], candidates=1)
        place = other[: at - begin].count("[MASK]")
        assert alone.masks[place] == found.masks[(1, 25, 47).index(at)]


def test_a_mask_is_never_cut_off_in_silence(filling):
    text = "good " * 40 + "[MASK]"
    with pytest.raises(DataError, match=r"text 0: the text has 43 tokens, the model takes 32.*--long window"):
        filling.fill([text])
    with pytest.raises(DataError, match="1 of its masks would be cut"):
        filling.fill([text], long="truncate")
    (kept,) = filling.fill(["[MASK] " + "good " * 40], long="truncate")
    assert kept.dropped == 11 and len(kept.masks) == 1


def test_the_sentence_that_weighs_most_is_a_part_of_the_text(model, capsys):
    text = "Good soup. Bad film! So so"
    folder = str(model.loaded.folder)
    with pytest.raises(SystemExit):
        main(["predict", folder, "--text", text, "--text", "a place", "--pair", text, "--evidence"])
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for one in told:
        evidence = one["evidence"]
        assert evidence["text"] == text[evidence["start"] : evidence["end"]]
        rest = {text[:a] + text[b:].lstrip(): (a, b) for a, b in sentences(text)}
        pairs = [(one["text"], other.strip()) for other in rest]
        label = one["label"]
        falls = [one["score"] - result.scores[label] for result in model.predict(pairs)]
        assert evidence["weight"] == pytest.approx(max(falls), abs=1e-6)
    with pytest.raises(SystemExit):
        main(["predict", folder, "--text", text])
    assert "evidence" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("  \n ", []),
        ("One", ["One"]),
        (' He said "Stop!" Then… left.  ', ['He said "Stop!"', "Then…", "left."]),
        ("3.5 of 4. Yes?!", ["3.5 of 4.", "Yes?!"]),
    ],
)
def test_sentences_end_at_their_signs(text, parts):
    assert [text[start:end] for start, end in sentences(text)] == parts


@given(st.text(alphabet="a .!\n\"')", max_size=14))
def test_sentences_are_those_of_the_plain_rule(text):
    rule = re.compile(r"\S.*?(?:[.!?…]+[\"'”’»)\]]*(?=\s)|\s*$)", re.DOTALL)
    right = [(found.start(), found.start() + len(found[0].rstrip())) for found in rule.finditer(text)]
    assert sentences(text) == right


@pytest.mark.parametrize("sign", [".", " ", '"', ". ", '."'])
def test_a_long_run_of_signs_is_read_at_once(sign):
    """By the plain rule, some of these take hours."""
    assert sentences(f"Fine. {sign * 300_000}x")[0] == (0, 5)


def test_masks_are_kept_where_the_tokenizer_cuts_the_beginning(filling, monkeypatch):
    monkeypatch.setitem(filling.tokenizer._config, "truncation_side", "left")
    (found,) = filling.fill(["bad " * 40 + "good [MASK]"], long="truncate")
    assert found.dropped == 12 and len(found.masks) == 1
    with pytest.raises(DataError, match="1 of its masks would be cut"):
        filling.fill(["[MASK] " + "good " * 40], long="truncate")
