"""The most used decoder repositories load as they are published, or are refused with the reason."""

import json
import shutil
import warnings

import pytest
import torch
from jinja2 import TemplateError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

import clearhead as ch
from clearhead.checkpoint.folder import read_folder, write_folder
from clearhead.errors import DataError, FolderError
from clearhead.model.layout import pack
from clearhead.settings import Opening
from clearhead.tasks.pieces import ids_of
from clearhead.text.chat import conversation
from clearhead.text.tokenizer import Tokenizer
from published_decoders import build, descriptions
from published_folders import assert_looked_up

ALL = descriptions()
READ = [description for description in ALL if "refused" not in description["expect"]]
REFUSED = [description for description in ALL if "refused" in description["expect"]]
CHATTING = [
    description
    for description in READ
    if "chat_template" in description["tokenizer"]["named"]["tokenizer_config.json"]
]
TEXTS = [
    "a good soup, not very warm!",
    "Good SOUP 12 345",
    "naïve café — 北京 🙂\u0301",
    "",
    "a",
    "  a   good\n\tsoup ",
    "\n\na good soup\n\n\nnot\r\n",
    "don't [a] {good} <|soup|> they'll",
]
THOUGHT = "<think>\nNot very warm.\n</think>\n\nA good soup."
TALKS = [
    ("user:Good soup?",),
    ("user:  a good soup \n", "assistant: not\n\nvery ", "user:12\n345"),
    ("system:You are a soup.", "user:a good 北京 🙂"),
    ("user:a", "assistant:" + THOUGHT, "user:good"),
    ("user:a", "assistant:" + THOUGHT),
    ("assistant:good", "user:a"),
    ("user:", "assistant:", "user:a"),
    ("user:a", "user:soup"),
]
NEAR = 5e-5


def name(description):
    return description["repository"]


def only_bin(description):
    return all(file.endswith(".bin") for file in description["weights"]["files"])


def read(description, place):
    """The folder, written and read; a .bin file is asked for where there is nothing else."""
    return read_folder(build(description, place / "folder"), Opening(allow_bin=only_bin(description)))


def talk(turns):
    return [dict(zip(("role", "content"), turn.split(":", 1), strict=True)) for turn in turns]


def away(ours, theirs):
    """The largest difference, as a share of the largest logit."""
    return float((ours - theirs).abs().max() / theirs.abs().max())


@pytest.mark.parametrize("description", ALL, ids=name)
def test_a_description_says_where_it_was_looked_up_and_what_was_not_found(description):
    assert_looked_up(description)


@pytest.mark.parametrize("description", READ, ids=name)
def test_a_published_decoder_loads_with_its_facts(description, tmp_path):
    expected = description["expect"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # none of them has a field that its user need think about
        loaded = read(description, tmp_path)
    config = loaded.network.config
    assert loaded.family.model_type == expected["family"]
    assert config.language_head and config.causal and loaded.network.head is None
    assert config.tied == expected["tied"]
    window = expected.get("window")
    assert config.window == (None if window is None else window - 1)
    assert [loaded.tokenizer.name(id) for id in loaded.ends] == expected["ends"]


@pytest.mark.parametrize("description", READ, ids=name)
def test_a_published_decoder_ends_where_the_published_code_does(description, tmp_path):
    ends = read(description, tmp_path).ends
    kind = GenerationConfig if "generation" in description else AutoConfig
    stated = kind.from_pretrained(tmp_path / "folder").eos_token_id
    assert list(ends) == (stated if isinstance(stated, list) else [stated])


@pytest.mark.parametrize("description", READ, ids=name)
def test_a_published_decoder_gives_the_published_ids(description, tmp_path):
    folder = build(description, tmp_path / "folder")
    ours, theirs = Tokenizer.read(folder), AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        assert list(ours.encode([text])[0].ids) == theirs(text)["input_ids"], text


@pytest.mark.parametrize("description", READ, ids=name)
def test_a_document_is_learned_after_the_tokens_that_a_prompt_begins_with(description, tmp_path):
    tokenizer = Tokenizer.read(build(description, tmp_path / "folder"))
    end = tokenizer.roles["eos_token"]
    for text in TEXTS:
        (learned,) = ids_of(tokenizer, [text])
        assert learned == [*tokenizer.encode([text])[0].ids, end], text


@pytest.mark.parametrize("description", READ, ids=name)
def test_a_tokenizer_that_we_save_gives_the_published_code_the_same_ids(description, tmp_path):
    folder = build(description, tmp_path / "folder")
    Tokenizer.read(folder).write(tmp_path / "ours")
    shutil.copy(folder / "config.json", tmp_path / "ours")
    before, after = (AutoTokenizer.from_pretrained(place) for place in (folder, tmp_path / "ours"))
    assert [after(text)["input_ids"] for text in TEXTS] == [before(text)["input_ids"] for text in TEXTS]
    again = Tokenizer.read(tmp_path / "ours")
    assert [list(again.encode([text])[0].ids) for text in TEXTS] == [
        before(text)["input_ids"] for text in TEXTS
    ]


@pytest.mark.parametrize("description", READ, ids=name)
def test_a_published_decoder_gives_the_published_logits_and_so_does_what_we_save(description, tmp_path):
    loaded = read(description, tmp_path)
    write_folder(tmp_path / "ours", loaded)
    rows = [list(row.ids) for row in loaded.tokenizer.encode(TEXTS, limit=60)]
    rows = [row for row in rows if row]
    options = {"dtype": torch.float32, "attn_implementation": "eager"}
    theirs, notes = AutoModelForCausalLM.from_pretrained(
        tmp_path / "folder", output_loading_info=True, **options
    )
    assert not notes["missing_keys"]
    saved = AutoModelForCausalLM.from_pretrained(tmp_path / "ours", **options)
    batch = pack(rows)
    with torch.inference_mode():
        stream = loaded.network(batch)
        for places, row in zip(batch.layout.slices, rows, strict=True):
            ours = loaded.network.next_logits(stream[places])
            ids = torch.tensor([row])
            assert away(ours, theirs.eval()(input_ids=ids).logits[0]) <= NEAR
            assert away(ours, saved.eval()(input_ids=ids).logits[0]) <= NEAR


@pytest.mark.parametrize("description", READ, ids=name)
def test_a_published_decoder_keeps_every_promise_and_the_numpy_twin_agrees(description, tmp_path):
    folder = build(description, tmp_path / "folder")
    findings = ch.verify(ch.load(folder, allow_bin=only_bin(description)))
    assert any("NumPy" in finding.law for finding in findings)
    assert not [finding for finding in findings if finding.verdict == "fail"]


@pytest.mark.parametrize("turns", TALKS, ids=lambda turns: turns[-1][:18])
@pytest.mark.parametrize("description", CHATTING, ids=name)
def test_a_published_template_gives_the_published_ids(description, turns, tmp_path):
    folder = build(description, tmp_path / "folder")
    ours, theirs = Tokenizer.read(folder), AutoTokenizer.from_pretrained(folder)
    messages = talk(turns)
    for reply in (True, False):
        options = {"add_generation_prompt": reply, "return_dict": False}
        try:
            right = theirs.apply_chat_template(messages, **options)
        except TemplateError as error:
            with pytest.raises(DataError, match=f"refuses these messages: {str(error)[:20]}"):
                conversation(ours, messages, reply=reply)
            continue
        assert conversation(ours, messages, reply=reply) == list(right)


@pytest.mark.parametrize("description", CHATTING, ids=name)
def test_a_template_in_a_file_of_its_own_gives_the_same_ids(description, tmp_path):
    folder = build(description, tmp_path / "folder")
    before = conversation(Tokenizer.read(folder), talk(TALKS[1]))
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    (folder / "chat_template.jinja").write_text(config.pop("chat_template"), encoding="utf-8")
    path.write_text(json.dumps(config), encoding="utf-8")
    assert conversation(Tokenizer.read(folder), talk(TALKS[1])) == before


@pytest.mark.parametrize("description", CHATTING, ids=name)
def test_a_person_who_writes_control_tokens_moves_none(description, tmp_path):
    tokenizer = Tokenizer.read(build(description, tmp_path / "folder"))
    names = sorted(tokenizer.name(id) for id in tokenizer.control_ids)
    typed = "a " + " ".join(names) + " " + "".join(names) + " soup"
    turns = [(f"user:{typed}", f"assistant:{typed}", f"user:{typed}"), (f"user:{typed}",)]
    for mine, plain in zip(turns, [("user:a", "assistant:a", "user:a"), ("user:a",)], strict=True):
        found, right = (conversation(tokenizer, talk(told)) for told in (mine, plain))
        assert [id for id in found if id in tokenizer.control_ids] == [
            id for id in right if id in tokenizer.control_ids
        ]


def test_digits_are_cut_as_tokenizer_json_says_under_a_class_that_does_not_cut_them(tmp_path):
    """SmolLM2 was trained so; the published class joins the line breaks before a digit otherwise."""
    description = next(each for each in READ if "SmolLM2" in each["repository"])
    folder = build(description, tmp_path / "folder")
    told = [tuple(row.ids) for row in Tokenizer.read(folder).encode(["a\n\n12", "a  1", "12 3"])]
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8")) | {"tokenizer_class": "PreTrainedTokenizerFast"}
    path.write_text(json.dumps(config), encoding="utf-8")
    followed = AutoTokenizer.from_pretrained(folder)
    assert told == [tuple(followed(text)["input_ids"]) for text in ("a\n\n12", "a  1", "12 3")]


@pytest.mark.parametrize("description", [each for each in READ if only_bin(each)], ids=name)
def test_a_published_decoder_with_nothing_but_a_bin_file_is_refused_unless_asked_for(description, tmp_path):
    folder = build(description, tmp_path / "folder")
    with pytest.raises(FolderError, match="--allow-bin"):
        read_folder(folder)


@pytest.mark.parametrize("description", REFUSED, ids=name)
def test_a_published_decoder_that_is_not_supported_is_refused_with_the_reason(description, tmp_path):
    folder = build(description, tmp_path / "folder")
    with pytest.raises(FolderError, match=description["expect"]["refused"]) as refused:
        read_folder(folder)
    assert "\n" not in str(refused.value)
