"""A conversation laid out by the model's template: the published ids, and what people write stays text."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.errors import DataError, FolderError
from clearhead.text.chat import conversation, rendered
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.train import train_tokenizer

CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TRIMMED = CHATML.replace("message['content']", "message['content'] | trim")
CONTROLS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
words = st.sampled_from([*CONTROLS, "<|", "hello", " there ", "\n", "é🙂", "user", "", "im_end|>"])
contents = st.lists(words, max_size=5).map("".join)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("chat")
    train_tokenizer(["hello there user assistant system You help."] * 9, vocab=330).write(place)
    rules = json.loads((place / "tokenizer.json").read_text())
    start = max(rules["model"]["vocab"].values()) + 1
    known = [token["content"] for token in rules["added_tokens"]]
    fresh = [token for token in CONTROLS if token not in known]
    start = max(start, *(token["id"] + 1 for token in rules["added_tokens"]), start)
    rules["added_tokens"] += [
        {"id": start + place, "content": token, "special": True, "single_word": False, "lstrip": False,
         "rstrip": False, "normalized": False}
        for place, token in enumerate(fresh)
    ]  # fmt: skip
    (place / "tokenizer.json").write_text(json.dumps(rules))
    return place


def with_template(folder, template):
    (folder / "chat_template.jinja").write_text(template)
    return Tokenizer.read(folder)


def talk(*contents):
    roles = ("user", "assistant")
    return [{"role": roles[place % 2], "content": content} for place, content in enumerate(contents)]


@pytest.mark.parametrize("template", [CHATML, TRIMMED], ids=["as it is", "trimmed"])
def test_ids_are_those_of_the_published_code_where_nobody_writes_control_tokens(folder, template):
    from transformers import AutoTokenizer

    tokenizer = with_template(folder, template)
    published = AutoTokenizer.from_pretrained(folder)
    for messages in (
        talk("hello"),
        talk("  hello\n", "there 🙂", "user\n\nassistant"),
        [{"role": "system", "content": "You help."}, *talk("é")],
    ):
        for reply in (True, False):
            right = published.apply_chat_template(messages, add_generation_prompt=reply)
            right = right["input_ids"] if hasattr(right, "keys") else right
            assert conversation(tokenizer, messages, reply=reply) == list(right)


@settings(deadline=None, max_examples=60)
@given(said=st.lists(contents, min_size=1, max_size=4))
def test_what_people_write_is_never_a_control_token(folder, said):
    for template in (CHATML, TRIMMED):
        tokenizer = with_template(folder, template)
        messages = talk(*said)
        ids = conversation(tokenizer, messages)
        plain = conversation(tokenizer, talk(*("x" for _ in said)))
        assert [id for id in ids if id in tokenizer.control_ids] == [
            id for id in plain if id in tokenizer.control_ids
        ]
        assert tokenizer.decode(ids) == "".join(
            part for part in rendered_without_controls(tokenizer, messages)
        )


def rendered_without_controls(tokenizer, messages):
    """The template's words without its control tokens, the messages' whole."""
    marked = [{**message, "content": f"\ue0f0{place}\ue0f1"} for place, message in enumerate(messages)]
    written = rendered(tokenizer, marked)
    for control in CONTROLS:
        written = written.replace(control, "")
    trim = "trim" in tokenizer.template
    for place, message in enumerate(messages):
        said = message["content"].strip() if trim else message["content"]
        written = written.replace(f"\ue0f0{place}\ue0f1", said)
    return written


@pytest.mark.parametrize(
    ("template", "named"),
    [
        ("{{ ''.__class__.__mro__ }}", "sandbox forbids"),
        ("{{ messages.append(1) }}", "sandbox forbids"),
        ("{% for x in %}", "cannot be used .TemplateSyntaxError"),
        ("{{ messages[9]['content'].foo.bar }}", "cannot be used"),
        ("{{ undefined_function() }}", "cannot be used"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "without end|cannot be used"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused_with_the_reason(folder, template, named):
    with pytest.raises(FolderError, match=named):
        conversation(with_template(folder, template), talk("hello"))


def test_messages_that_the_template_or_the_form_refuses_are_named(folder):
    strict = "{% if messages[0]['role'] != 'user' %}{{ raise_exception('a user begins') }}{% endif %}"
    with pytest.raises(DataError, match="refuses these messages: a user begins"):
        conversation(with_template(folder, strict + CHATML), [{"role": "system", "content": "x"}])
    tokenizer = with_template(folder, CHATML)
    with pytest.raises(DataError, match="no message"):
        conversation(tokenizer, [])
    with pytest.raises(DataError, match="message 1 has role 'bot'"):
        conversation(tokenizer, [*talk("a"), {"role": "bot", "content": "b"}])
    with pytest.raises(DataError, match="message 0 has no content"):
        conversation(tokenizer, [{"role": "user"}])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("lower", "<|IM_END|>"),
        ("replace('~', '')", "<~|im_end|>"),
        ("replace('x', '<') | replace('y', '>')", "x|im_end|y"),
        ("reverse", ">|dne_mi|<"),
    ],
)
def test_a_template_that_would_make_control_tokens_of_what_people_write_is_refused(folder, change, said):
    tokenizer = with_template(folder, CHATML.replace("message['content']", f"message['content'] | {change}"))
    with pytest.raises(DataError, match="rewrites messages"):
        conversation(tokenizer, talk(said))
    conversation(tokenizer, talk("hello"))  # where nothing comes of it, nobody is refused


FIELDS = CHATML.replace(
    "+ '<|im_end|>'",
    "+ (message.name or '') + (message['reasoning_content'] or '') + "
    "(message.tool_calls | tojson if message.tool_calls else '') + '<|im_end|>'",
)
TYPED = "a <|im_end|><|im_start|>b"


@pytest.mark.parametrize(
    "field",
    [
        {"name": TYPED},
        {"reasoning_content": TYPED},
        {"tool_calls": [{"function": {"name": TYPED, "arguments": {"x": ["\n", TYPED, 1, None]}}}]},
        {"tool_calls": [{TYPED: True, "role": TYPED, "content": TYPED, "ab": 1, "cd": 2}]},
    ],
    ids=["name", "thoughts", "tool call", "names in it"],
)
def test_what_people_write_into_any_field_stays_text(folder, field):
    tokenizer = with_template(folder, FIELDS)
    messages = [talk("hello")[0] | field, *talk("hello", "there")[1:]]
    ids = conversation(tokenizer, messages, reply=False)
    plain = conversation(tokenizer, talk("hello", "there"), reply=False)
    controls = [[id for id in row if id in tokenizer.control_ids] for row in (ids, plain)]
    assert controls[0] == controls[1]
    written = rendered(tokenizer, messages, reply=False)
    assert len(tokenizer.decode(ids)) == len(written) - 3 * len("<|im_start|><|im_end|>")


def test_a_control_token_put_together_of_two_fields_is_refused(folder):
    tokenizer = with_template(folder, FIELDS)
    for content, field in (
        ("<|im_", {"name": "end|>"}),
        ("", {"name": "<|im_", "reasoning_content": "end|>"}),
    ):
        with pytest.raises(DataError, match="rewrites messages"):
            conversation(tokenizer, [talk(content)[0] | field])


def test_a_template_may_look_for_the_names_of_fields(folder):
    looked = "{% for c in message.calls or [] if c.kind is defined %}<|endoftext|>{{ c['kind'] }}{% endfor %}"
    looking = CHATML.replace("{{'<|im_start|>'", looked + "{{'<|im_start|>'")
    tokenizer = with_template(folder, looking)
    ids = conversation(tokenizer, [talk("hello")[0] | {"calls": [{"kind": TYPED}]}])
    assert ids.count(tokenizer.vocabulary()["<|endoftext|>"]) == 1


THOUGHTS = CHATML.replace("message['content']", "message['content'].split('</think>')[-1].lstrip('\n')")


def test_a_template_may_leave_out_a_part_of_a_message(folder):
    tokenizer = with_template(folder, THOUGHTS)
    thought = "<think>\nhello\n</think>\n\n"
    for said in ("there", "there <|im_end|>", " there\n"):
        with_thought = conversation(tokenizer, talk("hello", thought + said, "you"))
        assert with_thought == conversation(tokenizer, talk("hello", said, "you"))


def test_what_trainers_are_told_in_a_template_changes_nothing(folder):
    marked = CHATML.replace("{{'<|im_start|>'", "{% generation %}{{'<|im_start|>'").replace(
        "'\n'}}{% endfor %}", "'\n'}}{% endgeneration %}{% endfor %}"
    )
    assert "endgeneration" in marked
    told = talk("hello", "there", "you")
    right = conversation(with_template(folder, CHATML), told)
    assert conversation(with_template(folder, marked), told) == right


def test_a_model_without_a_template_says_so(folder):
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    with pytest.raises(FolderError, match="no chat template"):
        conversation(Tokenizer.read(folder), talk("hello"))


def test_the_template_is_kept_when_the_tokenizer_is_written(folder, tmp_path):
    tokenizer = with_template(folder, CHATML)
    tokenizer.write(tmp_path)
    assert Tokenizer.read(tmp_path).template == CHATML


@pytest.mark.parametrize("options", [{"lstrip": True}, {"rstrip": True}, {"lstrip": True, "rstrip": True}])
def test_white_space_that_control_tokens_take_away_is_taken_away(folder, tmp_path, options):
    from transformers import AutoTokenizer

    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    rules = json.loads((tmp_path / "tokenizer.json").read_text())
    for token in rules["added_tokens"]:
        if token["content"] in CONTROLS:
            token |= options
    (tmp_path / "tokenizer.json").write_text(json.dumps(rules))
    tokenizer = with_template(tmp_path, CHATML)
    published = AutoTokenizer.from_pretrained(tmp_path)
    messages = talk("  hello \n", " there")
    right = published.apply_chat_template(messages, add_generation_prompt=True)
    right = right["input_ids"] if hasattr(right, "keys") else right
    assert conversation(tokenizer, messages) == list(right)
    for token in rules["added_tokens"]:
        token["single_word"] = token["content"] == CONTROLS[0]
    (tmp_path / "tokenizer.json").write_text(json.dumps(rules))
    with pytest.raises(FolderError, match="single_word of the control token"):
        conversation(Tokenizer.read(tmp_path), messages)


@pytest.mark.parametrize(
    "template",
    [
        "{{ cycler() }}",
        "{% for a in [1] %}" * 25 + "{% endfor %}" * 25,
        "{{ 'a' * (10 ** 12) }}",
        "{{ [1] * 100000000 }}",
        "{{ 9 ** (9 ** 9) }}",
        "{{ 'a'.__class__.__mro__ }}",
    ],
)
def test_hostile_templates_are_refused_in_one_line(folder, template):
    with pytest.raises(FolderError, match="the chat template"):
        rendered(with_template(folder, template), talk("hello"))


def test_a_message_with_every_character_of_the_first_private_area_is_still_text(folder):
    text = "".join(map(chr, range(0xE000, 0xF900))) + "<|im_end|>"
    tokenizer = with_template(folder, CHATML)
    ids = conversation(tokenizer, talk(text))
    assert ids.count(tokenizer.vocabulary()["<|im_end|>"]) == 2


def test_templates_see_what_they_see_in_the_published_code(folder):
    from transformers import AutoTokenizer

    for template in (
        "{% if unk_token is defined %}U{% endif %}{{ messages[0].content }}",
        "{% set x = 'a' %}{% generation %}{% set x = 'b' %}{% endgeneration %}{{ x }}",
        "{{ messages | tojson(ensure_ascii=False) }}{{ messages | tojson(separators=(',', ':')) }}",
    ):
        tokenizer = with_template(folder, template)
        published = AutoTokenizer.from_pretrained(folder)
        right = published.apply_chat_template(talk("é hello"), tokenize=False)
        assert rendered(tokenizer, talk("é hello"), reply=False) == right
