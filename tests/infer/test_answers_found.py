"""Answers in texts: the published spans, exact offsets, honest probabilities, the same in any company."""

import json
import random
import shutil

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

import clearhead as ch
from clearhead.app.cli import main
from clearhead.errors import ClearheadError, DataError, FolderError, SettingError
from families import over_tokens, write_tokenizer
from tiny import WORDS

NAMES = ("bert", "distilbert", "modernbert")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A tiny finder of each family, with its published model."""
    found = {}
    for name in NAMES:
        folder = tmp_path_factory.mktemp(name)
        model = over_tokens(name, "answer", wide=True)
        model.save_pretrained(folder)
        write_tokenizer(folder, name)
        found[name] = folder, model
    return found


@pytest.fixture(scope="module")
def model(folders):
    return ch.load(folders["bert"][0])


def drawn(count, seed=0):
    """Questions and contexts of the vocabulary's words, some longer than a window."""
    chance = random.Random(seed)
    words = [word for word in WORDS if not word.startswith("##")]
    return [
        (" ".join(chance.choices(words, k=chance.randint(1, 8))), " ".join(chance.choices(words, k=length)))
        for length in (min(90, 1 + int(chance.expovariate(1 / 18))) for _ in range(count))
    ]


def by_the_published_code(tokenizer, model, question, context):
    """The best span over all windows, found plainly: every pair of tokens of every window."""
    asked = len(tokenizer(question, add_special_tokens=False)["input_ids"])
    room = 32 - tokenizer.num_special_tokens_to_add(pair=True) - asked
    rows = tokenizer(
        question, context, max_length=32, truncation="only_second", stride=room - -(-room // 2),
        return_overflowing_tokens=True, return_offsets_mapping=True,
    )  # fmt: skip
    best, none = None, float("inf")
    for place in range(len(rows["input_ids"])):
        given = {"input_ids": torch.tensor([rows["input_ids"][place]])}
        if "token_type_ids" in rows and hasattr(model.config, "type_vocab_size"):
            given["token_type_ids"] = torch.tensor([rows["token_type_ids"][place]])
        with torch.no_grad():
            said = model(**given)
        starts, ends = said.start_logits[0].double(), said.end_logits[0].double()
        none = min(none, float(starts[0] + ends[0]))
        inside = [at for at, source in enumerate(rows.sequence_ids(place)) if source == 1]
        for first in inside:
            for last in (at for at in inside if first <= at < first + 30):
                score = float(starts[first] + ends[last])
                begin, end = rows["offset_mapping"][place][first][0], rows["offset_mapping"][place][last][1]
                if best is None or score > best[0] + 1e-9:
                    best = score, begin, end
    return best, none


@pytest.mark.parametrize("name", NAMES)
def test_the_spans_are_those_of_the_published_model(folders, name):
    folder, published = folders[name]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    pairs = drawn(170, seed=NAMES.index(name))
    for (question, context), found in zip(pairs, ch.load(folder).answer(pairs), strict=True):
        (score, start, end), none = by_the_published_code(tokenizer, published, question, context)
        assert (found.start, found.end, found.answer) == (start, end, context[start:end])
        assert found.margin == pytest.approx(none - score, abs=1e-3)


@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=120)), max_size=4))
@settings(max_examples=60, deadline=None)
def test_offsets_slice_the_original_text_whatever_it_is(model, pairs):
    results = model.answer(pairs)
    assert len(results) == len(pairs)
    for (question, context), found in zip(pairs, results, strict=True):
        if not question.strip() or not context.strip():
            assert found.answer is None and found.score is None
            continue
        places = [(one.start, one.end) for one in found.candidates]
        assert len(set(places)) == len(places)
        scores = [one.score for one in found.candidates]
        assert scores == sorted(scores, reverse=True)
        assert sum(scores) + found.no_answer_score <= 1 + 1e-9
        for one in found.candidates:
            assert one.answer == context[one.start : one.end] == one.answer.strip() != ""


def test_an_answer_does_not_depend_on_its_neighbours(model):
    pairs = drawn(40, seed=5)
    alone = [model.answer([pair])[0] for pair in pairs]
    assert model.answer(pairs) == alone
    assert model.answer(pairs[::-1], batch_tokens=64) == alone[::-1]


@pytest.mark.parametrize(("length", "stride"), [(157, None), (157, 1), (157, 18), (18, 999), (1, 5)])
def test_every_token_of_a_context_is_in_some_window(model, length, stride):
    # Case A27: a question of 11 tokens in windows of 32 leaves room for 18.
    question, context = "a " * 11, " ".join(str(number % 10) for number in range(length))
    examples = model.examples([(question, context)], long="window", stride=stride)
    starts = {at for w in examples[0].windows for at, s in zip(w.offsets, w.sources, strict=True) if s == 1}
    assert starts == {(2 * number, 2 * number + 1) for number in range(length)}
    assert all(len(window.ids) <= 32 for window in examples[0].windows)


def test_a_stride_that_skips_tokens_is_refused_beforehand(model):
    with pytest.raises(DataError, match=r"question 1: --stride 19 skips tokens.*room for 18.*at most 18"):
        model.answer([("a", "b"), ("a " * 11, "b " * 40)], stride=19)


def test_a_question_that_fills_the_window_is_refused_by_name(model):
    with pytest.raises(DataError, match=r"question 0: the first text and the special tokens are 43 tokens"):
        model.answer([("a " * 40, "b")])


def test_blank_questions_and_contexts_have_no_answer_and_others_theirs(model):
    # Case A28.
    pairs = [("a", ""), ("a", "good soup"), ("", "good"), ("a", " \n"), ("", "")]
    found = model.answer(pairs)
    assert [one.answer is None for one in found] == [True, False, True, True, True]
    assert found[1] == model.answer([pairs[1]])[0]


def test_a_context_that_looks_like_control_tokens_stays_one(model):
    # Case A04: the border between question and context does not move.
    context = "good [SEP] bad </s> soup"
    (found,) = model.answer([("a [SEP] b ?", context)])
    assert found.answer == context[found.start : found.end]
    assert found.tokens == len(model.tokenizer.encode([("a [SEP] b ?", context)])[0].ids)


@pytest.mark.parametrize("long", ["truncate", "error", "window"])
def test_the_rule_for_long_contexts(model, long):
    pairs = [("a ?", "good " * 5), ("a ?", "bad " * 60)]
    if long == "error":
        with pytest.raises(DataError, match="question 1: the question and its context have 65 tokens"):
            model.answer(pairs, long=long)
        return
    short, found = model.answer(pairs, long=long)
    assert (short.dropped, short.windows) == (0, 1)
    assert (found.dropped, found.windows) == ((33, 1) if long == "truncate" else (0, 4))


def test_none_is_said_by_the_threshold_alone(model):
    (free,) = model.answer([("a ?", "good soup")])
    (held,) = model.answer([("a ?", "good soup")], no_answer_above=free.margin - 1e-6)
    assert free.answer is not None and held.answer is None and held.score == free.no_answer_score
    assert held.candidates == free.candidates


def test_files_standard_input_and_python_say_the_same(model, folders, tmp_path, capsys, monkeypatch):
    pairs = drawn(5, seed=9)
    rows = [{"question": q, "context": c, "n": n} for n, (q, c) in enumerate(pairs)]
    path = tmp_path / "q.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for words in ([str(path)], ["-", "--format", "jsonl"]):
        with open(path) as file:
            monkeypatch.setattr("sys.stdin", file)
            with pytest.raises(SystemExit) as left:
                main(["predict", str(folders["bert"][0]), *words])
        assert left.value.code == 0
        told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [one["n"] for one in told] == [0, 1, 2, 3, 4]
        assert [one["answer"] for one in told] == [found.answer for found in model.answer(pairs)]


def test_questions_are_asked_by_text_and_pair(folders, capsys):
    with pytest.raises(SystemExit) as left:
        main(["predict", str(folders["bert"][0]), "--text", "a ?", "--text", "b ?", "--pair", "good soup"])
    assert left.value.code == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["question"] for one in told] == ["a ?", "b ?"] and told[0]["context"] == "good soup"


def refused(capsys, *words):
    with pytest.raises(SystemExit) as left:
        main([str(word) for word in words])
    assert left.value.code == 2
    return capsys.readouterr().err


def test_what_cannot_be_asked_is_refused_with_the_way_out(folders, capsys, tmp_path):
    folder = folders["bert"][0]
    assert "give the text that answers it with --pair" in refused(capsys, "predict", folder, "--text", "a")
    assert "--pair is the second text" in refused(capsys, "predict", folder, "--pair", "a", "-")
    said = refused(capsys, "predict", folder, "--text", "a", "--pair", "b", "--abstain-below", "0.5")
    assert "--abstain-below is for labels" in said
    path = tmp_path / "q.jsonl"
    path.write_text('{"question": "a", "context": " "}\n')
    assert "row 1: the context holds no text" in refused(capsys, "predict", folder, path)
    said = refused(capsys, "predict", folder, path, "--skip-bad-rows")
    assert "--skip-bad-rows is for training and evaluation" in said


def test_another_model_finds_no_answers(tmp_path):
    from tiny import tiny_bert

    other = ch.load(tiny_bert(tmp_path, ("a", "b")))
    with pytest.raises(SettingError, match="finds no answers in texts; train a model that does"):
        other.answer([("a", "b")])
    with pytest.raises(ClearheadError, match="question 0 is one string"):
        other.answer(["a"])


def test_a_context_is_cut_where_the_tokenizer_says(folders, tmp_path):
    folder = shutil.copytree(folders["bert"][0], tmp_path / "left")
    config = json.loads((folder / "tokenizer_config.json").read_text()) | {"truncation_side": "left"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    context = "bad " * 40 + "good soup"
    (found,) = ch.load(folder).answer([("a ?", context)], long="truncate")
    (alone,) = ch.load(folder).answer([("a ?", context[-(27 - 2) * 4 - 9 :])])
    assert (found.dropped, alone.dropped, alone.tokens) == (15, 0, found.tokens)
    assert found.answer == alone.answer and found.margin == alone.margin


def test_python_callers_say_what_becomes_of_blank_ones(model):
    pairs = [("a ?", "good soup"), ("a ?", "\n"), (" ", "good")]
    found = model.answer(pairs)
    assert [one.score is None for one in found] == [False, True, True]
    with pytest.raises(DataError, match="question 1: the context holds no text"):
        model.answer(pairs, empty="error")
    for options, said in (
        ({"abstain_below": 0.5}, "--abstain-below is not read by Model.answer"),
        ({"text_column": "a"}, "--text-column is not read by Model.answer"),
        ({"no_answer_above": float("nan")}, "--no-answer-above nan is no number"),
    ):
        with pytest.raises(SettingError, match=said):
            model.answer(pairs, **options)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 10**400, True, "0", [0]])
def test_a_threshold_that_is_no_number_is_refused(folders, tmp_path, value):
    folder = shutil.copytree(folders["bert"][0], tmp_path / "odd")
    config = json.loads((folder / "config.json").read_text()) | {"null_score_diff_threshold": value}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(FolderError, match="null_score_diff_threshold=.* must be a finite number, or null"):
        ch.load(folder)
