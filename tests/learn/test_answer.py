"""`train answer`: a plain loop's first losses, a folder of the same family, and what is refused."""

import json

import pytest
import torch

import clearhead as ch
from clearhead.check.finding import Verdict
from clearhead.errors import ClearheadError, DataError, SettingError
from clearhead.infer.answer import encode_questions
from clearhead.learn.run import train
from clearhead.settings import Asking
from families import NAMES, over_tokens, tiny_folder, write_tokenizer

WORDS = "good bad fine soup bread table film story cold warm slow kind place food end".split()


def rows(count=24):
    """Questions about a word that stands once in its context, some long; some have no answer."""
    found = []
    for number in range(count):
        context = " ".join(WORDS[(number + place) % len(WORDS)] for place in range(6 + number % 3))
        context += " . 1 2 3" * (number % 4 * 3)
        word = WORDS[(number + 2) % len(WORDS)]
        start = context.index(word)
        row = {"question": f"is it {word} ?", "context": context, "answer": word, "start": start}
        found.append(row if number % 5 else row | {"answer": "", "start": None})
    return found


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    return path


@pytest.mark.shows("train")
@pytest.mark.parametrize("over", ["answer"])
@pytest.mark.parametrize("name", NAMES)
def test_a_family_learns_answers_and_comes_back(tmp_path, data, name, over):
    base = tiny_folder(tmp_path / "base", name)
    for _ in train(over, data=str(data), base=str(base), out=str(tmp_path / "run"), epochs=1):
        pass
    model = ch.load(tmp_path / "run")
    assert model.answers and model.loaded.family.model_type == ch.load(base).loaded.family.model_type
    assert model.loaded.no_answer_above == 0.0  # some questions had no answer
    assert len(model.answer([("is it good ?", "good soup"), ("is it ?", "")])) == 2
    scores = ch.evaluate(model, data)
    assert scores.metrics.texts == 24 and scores.metrics.no_answer == 5 and scores.windowed > 0


@pytest.mark.shows("verify")
@pytest.mark.parametrize("over", ["answer"])
@pytest.mark.parametrize("name", NAMES)
def test_a_finder_of_answers_keeps_its_promises(tmp_path, name, over):
    over_tokens(name, over, wide=True).save_pretrained(tmp_path)
    write_tokenizer(tmp_path, name)
    findings = ch.verify(ch.load(tmp_path))
    assert [found.law for found in findings if found.verdict is Verdict.FAIL] == []
    assert any("what the equations answer" in found.law for found in findings)


@pytest.mark.parametrize("name", ["bert", "modernbert"])
def test_the_first_losses_are_those_of_a_plain_loop(tmp_path, data, name):
    base = tmp_path / "base"
    model = over_tokens(name, "answer")
    model.save_pretrained(base)
    write_tokenizer(base, name)
    run = train(
        "answer", data=str(data), base=str(base), out=str(tmp_path / "run"), validation=str(data),
        epochs=3, batch_tokens=128, dropout=0.0, warmup=0, schedule="constant", learning_rate=1e-3,
    )  # fmt: skip
    theirs = torch.optim.AdamW(
        [
            {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.01},
            {"params": [p for p in model.parameters() if p.ndim == 1], "weight_decay": 0.0},
        ],
        lr=1e-3,
    )
    model.train()
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    losses = []
    for _, _, batches in run.trainer.steps[:20]:
        members = [index for batch in batches for index in batch]
        total = 0.0
        for index in members:
            window, (start, end) = run.objective.windows[index], run.objective.targets[index].tolist()
            given = {"input_ids": torch.tensor([window.ids])}
            if name == "bert":
                given["token_type_ids"] = torch.tensor([window.segments])
            said = model(**given, start_positions=torch.tensor([start]), end_positions=torch.tensor([end]))
            (said.loss / len(members)).backward()
            total += said.loss.item() / len(members)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        theirs.step()
        theirs.zero_grad()
        losses.append(total)
    ours = [progress.step.loss for progress in run][: len(losses)]
    assert ours == pytest.approx(losses, abs=1e-4)


def test_an_interrupted_run_ends_with_the_same_bits(tmp_path, data):
    base = tiny_folder(tmp_path / "base", "bert")
    options = {"data": str(data), "base": str(base), "epochs": 2, "batch_tokens": 128}
    whole = train("answer", out=str(tmp_path / "whole"), **options)
    for _ in whole:
        pass
    stopped = train("answer", out=str(tmp_path / "run"), **options)
    stopped.stop()
    with pytest.raises(ClearheadError, match="stopped after step 1"):
        list(stopped)
    for _ in train("answer", out=str(tmp_path / "run"), resume=True, **options):
        pass
    first, second = (ch.load(tmp_path / place).loaded.network.state_dict() for place in ("whole", "run"))
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_questions_about_one_context_stay_together(tmp_path, data):
    base = tiny_folder(tmp_path / "base", "bert")
    run = train("answer", data=str(data), base=str(base), out=str(tmp_path / "run"))
    sides = [{question.context for question in side} for side in (run.questions, run.chosen_by)]
    assert not sides[0] & sides[1] and all(sides)


def test_contexts_are_read_alike_in_training_and_when_asked(tmp_path, data):
    base = tiny_folder(tmp_path / "base", "bert")
    run = train("answer", data=str(data), base=str(base), out=str(tmp_path / "run"), stride=5)
    asked = encode_questions(
        run.questions, run.model.tokenizer, limit=run.model.limit, asking=Asking(stride=5)
    )
    assert [window for example in asked for window in example.windows] == run.objective.windows


def test_what_cannot_be_learned_from_is_refused(tmp_path, data):
    base = str(tiny_folder(tmp_path / "base", "bert"))

    def refused(*, error=DataError, rows, **options):
        path = tmp_path / "bad.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        with pytest.raises(error) as caught:
            train("answer", data=str(path), base=base, out=str(tmp_path / "no"), **options)
        return str(caught.value)

    one = {"question": "is it ?", "context": "good soup", "answer": "soup", "start": 5}
    assert "all questions are about one context; give --validation" in refused(rows=[one, one])
    assert "row 2: the question holds no text" in refused(rows=[one, one | {"question": " "}])
    assert "row 1: at answer_start 4" in refused(rows=[one | {"start": 4}])
    with pytest.raises(SettingError, match="--from new: where an answer stands"):
        train("answer", data=str(data), base="new", out=str(tmp_path / "no"))


def test_an_answer_that_no_window_holds_is_told_and_outer_space_loses_none(tmp_path):
    path, spaced = tmp_path / "q.jsonl", rows(12)
    for row in spaced:
        if row["answer"]:
            row |= {"answer": f" {row['answer']} ", "start": row["start"] - 1}
    lost = {"question": "is it ?", "context": "good " * 60, "answer": "good " * 60, "start": 0}
    path.write_text("".join(json.dumps(row) + "\n" for row in [*spaced, lost]))
    base = tiny_folder(tmp_path / "base", "bert")
    run = train("answer", data=str(path), validation=str(path), base=str(base), out=str(tmp_path / "run"))
    assert run.objective.lost == 1
    said = "1 of 13 questions have an answer that no window holds whole, and are learned as if they had none"
    assert said in run.notes
    assert sum(bool(start) for start, _ in run.objective.targets.tolist()) >= 9
