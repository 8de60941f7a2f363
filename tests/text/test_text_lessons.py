"""What is learned from a conversation: its answers, each to its end, and nothing else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_text_chat import CHATML, TRIMMED, contents, folder, talk, with_template  # noqa: F401

from clearhead.errors import DataError
from clearhead.text.chat import conversation, lessons

# As templates that leave out what the model thought before its earlier answers.
FORGETS = CHATML.replace(
    "message['content'] +",
    "(message['content'].split('</think>')[-1] if not loop.last else message['content']) +",
)


def ends_of(tokenizer):
    return (tokenizer.vocabulary()["<|im_end|>"],)


@settings(deadline=None, max_examples=40)
@given(st.lists(contents, min_size=2, max_size=6))
def test_all_answers_are_learned_with_their_ends_and_nothing_else_is(folder, said):  # noqa: F811
    tokenizer = with_template(folder, CHATML)
    messages = talk(*said)
    (lesson,) = lessons(tokenizer, messages, ends=ends_of(tokenizer))
    answers = [message["content"] for message in messages if message["role"] == "assistant"]
    whole = conversation(tokenizer, messages[: 2 * len(answers)], reply=False)
    assert lesson.ids == whole and len(lesson.learned) == len(whole)
    learned = [[]]
    for id, counts in zip(lesson.ids, lesson.learned, strict=True):
        if counts:
            learned[-1].append(id)
            if id in ends_of(tokenizer):
                learned.append([])
    assert [ids[-1] for ids in learned[:-1]] == list(ends_of(tokenizer)) * len(answers) and not learned[-1]
    assert [tokenizer.decode(ids) for ids in learned[:-1]] == answers


def test_an_answer_follows_on_what_the_model_is_asked_with(folder):  # noqa: F811
    tokenizer = with_template(folder, TRIMMED)
    messages = talk("hello", " there ", "user", "é🙂")
    (lesson,) = lessons(tokenizer, messages, ends=ends_of(tokenizer))
    for place in (1, 3):
        before = conversation(tokenizer, messages[:place])
        assert lesson.ids[: len(before)] == before and lesson.learned[len(before)]
        assert not lesson.learned[len(before) - 1]


def test_a_template_that_forgets_thoughts_gives_a_lesson_for_each_answer(folder):  # noqa: F811
    tokenizer = with_template(folder, FORGETS)
    messages = talk("hello", "<think>user</think>there", "hello", "<think>you</think>help")
    found = lessons(tokenizer, messages, ends=ends_of(tokenizer))
    assert len(found) == 2
    learned = [
        tokenizer.decode([id for id, counts in zip(one.ids, one.learned, strict=True) if counts])
        for one in found
    ]
    assert learned == ["<think>user</think>there", "<think>you</think>help"]


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        (talk("hello"), "holds no answer"),
        (talk("hello", "there")[1:], "message 0 is an answer to nothing"),
        ([{"role": "user", "content": ["x"]}], "message 0 has no content that is a string"),
        ([{"role": "gpt", "content": "x"}], "message 0 has role 'gpt'"),
    ],
)
def test_what_holds_no_lesson_is_refused(folder, messages, said):  # noqa: F811
    with pytest.raises(DataError, match=said):
        lessons(with_template(folder, CHATML), messages, ends=())


def test_a_template_that_puts_answers_elsewhere_is_refused(folder):  # noqa: F811
    odd = CHATML.replace("<|im_start|>assistant\n' }}{% endif %}", "<|im_start|>bot\n' }}{% endif %}")
    with pytest.raises(DataError, match="does not write message 1 where it asks for an answer"):
        lessons(with_template(folder, odd), talk("hello", "there"), ends=())
