"""Conversations: the loss is that of the answers alone, and a model learns to give them and to end."""

import json
import os
import shutil

import pytest
import torch

import clearhead as ch
from clearhead.engine.modes import own_modes
from clearhead.errors import ClearheadError
from clearhead.infer.generate import tokens
from clearhead.learn.language import LanguageRun
from clearhead.model.layout import pack
from clearhead.settings import Generating, Language
from clearhead.text.chat import conversation

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'assistant' %}"
    "{{ message['content'] + eos_token }}{% else %}{{ '[' + message['content'] + ']' }}{% endif %}"
    "{% endfor %}"
)
DISHES = ["soup", "bread", "fish", "rice", "cake", "tea", "pie", "stew", "salad", "jam"]
SMALL = {"batch_tokens": 120, "context": 40}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A language model that knows the letters and a way to lay out a conversation."""
    place = tmp_path_factory.mktemp("base")
    (place / "a.txt").write_text("\n".join(f"[a {dish}?] a good {dish}." for dish in DISHES * 4))
    size = {"layers": 2, "width": 32, "heads": 2, "context": 40, "vocab": 300}
    for _ in ch.train("language", data=[str(place / "a.txt")], out=place / "run", max_steps=2, **size):
        pass
    (place / "run" / "chat_template.jinja").write_text(TEMPLATE)
    return place / "run"


def chats(path, rows):
    path.write_text("".join(json.dumps({"messages": row}) + "\n" for row in rows))
    return str(path)


def talk(dish):
    return [
        {"role": "user", "content": f"a {dish}?"},
        {"role": "assistant", "content": f"a good {dish}."},
        {"role": "user", "content": "more?"},
        {"role": "assistant", "content": "no."},
    ]


def run_of(base, data, out, **changes):
    return LanguageRun(Language(base=str(base), data=[data], out=str(out), **(SMALL | changes)))


def test_a_model_learns_to_answer_and_to_end(base, tmp_path):
    known = {"soup": "warm", "tea": "cold", "pie": "sweet"}
    rows = [
        [{"role": "user", "content": f"{dish}?"}, {"role": "assistant", "content": said}]
        for dish, said in known.items()
    ]
    data = chats(tmp_path / "chats.jsonl", rows)
    run = run_of(base, data, tmp_path / "run", epochs=120, learning_rate=5e-3, validation=data)
    assert (run.noun, run.ask) == ("conversation", "chat {}")
    for _ in run:
        pass
    model = ch.load(tmp_path / "run")
    prompts = [conversation(model.tokenizer, row[:1]) for row in rows]
    told = ["", "", ""]
    for token in tokens(model, prompts, settings=Generating(max_new_tokens=20)):
        told[token.text] += token.piece
        assert token.end in (None, "end")
    assert told == list(known.values())


def test_the_loss_is_that_of_the_answers(base, tmp_path):
    """By hand: −log p of each token of an answer and of its end, after all that stands before."""
    data = chats(tmp_path / "chats.jsonl", [talk(dish) for dish in DISHES])
    run = run_of(base, data, tmp_path / "run", validation=data)
    network, pieces = run.model.loaded.network, run.objective
    tokenizer, total = run.model.tokenizer, 0.0
    with own_modes():
        for dish in DISHES:
            for turns in (1, 3):
                before = conversation(tokenizer, talk(dish)[:turns])
                after = conversation(tokenizer, talk(dish)[: turns + 1], reply=False)
                logits = network.next_logits(network(pack([after])))
                spoken = logits.log_softmax(-1)[torch.arange(len(after) - 1), torch.tensor(after[1:])]
                total -= float(spoken[len(before) - 1 :].sum())
        members = list(range(len(pieces.spans)))
        loss = float(pieces.loss(network, members, drop=None))
    assert loss == pytest.approx(total, rel=1e-5)
    answers = sum(len(tokenizer.plain([f"a good {dish}.", "no."], begins=False)[0]) for dish in DISHES)
    assert pieces.counted >= answers + 20
    assert run.texts.bytes == sum(len(f"a good {dish}.no.") for dish in DISHES)


def test_what_is_too_long_is_cut_and_said(base, tmp_path):
    long = [{"role": "user", "content": "more? " * 60}, {"role": "assistant", "content": "no."}]
    data = chats(tmp_path / "chats.jsonl", [long, *(talk(dish) for dish in DISHES)])
    run = run_of(base, data, tmp_path / "run", validation=data)
    assert "1 of 11 conversations are cut to 40 tokens, 1 of them before any answer" in run.notes
    data = chats(tmp_path / "long.jsonl", [long, long])
    with pytest.raises(ClearheadError, match="no answer lies within the first 40 tokens"):
        run_of(base, data, tmp_path / "run", validation=data)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([talk("pie"), "x"], "row 2, column 'messages': holds no list of messages"),
        ([talk("pie"), [1]], "row 2, column 'messages': message 0 is no object"),
        ([talk("pie"), talk("pie")[:1]], "row 2, column 'messages': the conversation holds no answer"),
        ([talk("pie")], "one conversation cannot be learned from and chosen by"),
    ],
)
def test_rows_that_are_no_conversation_are_named(base, tmp_path, rows, said):
    with pytest.raises(ClearheadError, match=said):
        run_of(base, chats(tmp_path / "chats.jsonl", rows), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_conversation_that_the_template_fails_on_is_named(base, tmp_path):
    place = tmp_path / "base"
    shutil.copytree(base, place)
    (place / "chat_template.jinja").write_text(TEMPLATE.replace("'['", "message.name + '['"))
    named = [{"name": "x", **message} for message in talk("pie")]
    rows = [named, [{**named[0], "name": 3}, named[1]]]
    with pytest.raises(ClearheadError, match=r"row 2, column 'messages': the chat template .*TypeError"):
        run_of(place, chats(tmp_path / "chats.jsonl", rows), tmp_path / "run")
    (place / "chat_template.jinja").unlink()
    with pytest.raises(ClearheadError, match="^the model has no chat template"):
        run_of(place, chats(tmp_path / "chats.jsonl", rows), tmp_path / "run")


def test_conversations_need_a_model_with_a_template(base, tmp_path):
    data = chats(tmp_path / "chats.jsonl", [talk(dish) for dish in DISHES])
    with pytest.raises(ClearheadError, match="learned by a model with a chat template: give --from one"):
        LanguageRun(Language(data=[data], out=str(tmp_path / "run")))
    with pytest.raises(ClearheadError, match="--blocks cuts texts anywhere"):
        run_of(base, data, tmp_path / "run", blocks=True)
    (tmp_path / "a.txt").write_text("a text. " * 20)
    with pytest.raises(ClearheadError, match="--data holds conversations and --validation texts"):
        run_of(base, data, tmp_path / "run", validation=str(tmp_path / "a.txt"))


def test_a_pipe_is_read_once(tmp_path):
    """Looking for conversations must not drink the rows of a pipe."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as file:
        file.writelines(
            json.dumps({"text": f"the soup number {number} was good. "}) + "\n" for number in range(40)
        )
    small = {"layers": 1, "width": 16, "heads": 2, "context": 12, "vocab": 300}
    try:
        made = Language(data=[f"/dev/fd/{reading}"], format="jsonl", out=str(tmp_path / "run"), **small)
        assert len(LanguageRun(made).texts) == 36
    finally:
        os.close(reading)
