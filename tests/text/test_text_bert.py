"""BERT's vocab.txt is read as the published readers read it."""

import json
import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from text_folders import WORDS, bert, bert_folder
from transformers import AutoTokenizer, BertTokenizerFast
from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

from clearhead.errors import FolderError
from clearhead.text import Tokenizer

TEXTS = [
    "the cat sat on the mat",
    "The CAT, sat; on the mat!",
    "café Café naïve NAÏVE É über",
    "cafe\u0301 e\u0301 NAI\u0308VE",
    "unwanted running ½ ﬁ İx \u00a0 x\ty\nz \u200b\u0000\ufffd",
    "中文 a中b ’quoted’ don't",
    "x" * 101 + " " + "a" * 100,
    "",
    "   ",
    "emoji 🤷🏽‍♀️ end",
]
OPTIONS = [
    {"do_lower_case": lower, "strip_accents": strip, "tokenize_chinese_chars": chinese}
    for lower in (True, False)
    for strip in (None, True, False)
    for chinese in (True, False)
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("reader", [BertTokenizerFast, BertTokenizerLegacy])
def test_ids_and_segments_are_those_of_the_published_readers(options, reader, tmp_path):
    ours = bert(tmp_path, **options)
    if reader is BertTokenizerFast:
        theirs = reader(vocab={word: index for index, word in enumerate(WORDS)}, **options)
    else:
        theirs = reader(str(tmp_path / "vocab.txt"), **options)
    for text in TEXTS:
        if reader is BertTokenizerLegacy and not unicodedata.is_normalized("NFC", text):
            continue  # it composes accents first, which the published fast reader and we do not
        (found,) = ours.encode([text])
        expected = theirs(text, return_token_type_ids=True)
        assert list(found.ids) == expected["input_ids"], text
        assert list(found.segments) == expected["token_type_ids"], text
        (found,) = ours.encode([(text, TEXTS[1])])
        expected = theirs(text, TEXTS[1], return_token_type_ids=True)
        assert list(found.ids) == expected["input_ids"], text
        assert list(found.segments) == expected["token_type_ids"], text


@pytest.mark.parametrize("lower", [True, False])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(["[SEP]", "the [CLS][PAD]"]))
def test_any_text_has_the_ids_of_the_published_reader(lower, text, tmp_path):
    ours = bert(tmp_path, do_lower_case=lower)
    theirs = BertTokenizerFast(vocab={word: index for index, word in enumerate(WORDS)}, do_lower_case=lower)
    assert list(ours.encode([text])[0].ids) == theirs(text, split_special_tokens=True)["input_ids"]


@pytest.mark.parametrize(
    ("lower", "strip", "token"),
    [
        (False, None, "café"),
        (True, None, "cafe"),
        (False, True, "cafe"),
        (False, False, "café"),
        (True, True, "cafe"),
        (True, False, "café"),
    ],
)
def test_accents_go_where_lower_casing_is_on_unless_an_option_says_otherwise(lower, strip, token, tmp_path):
    tokenizer = bert(tmp_path / "old", do_lower_case=lower, strip_accents=strip)
    assert tokenizer.tokens("café") == ["[CLS]", token, "[SEP]"]
    tokenizer.write(tmp_path / "new")
    assert Tokenizer.read(tmp_path / "new").tokens("café") == ["[CLS]", token, "[SEP]"]


def test_without_a_configuration_lower_casing_is_on(tmp_path):
    assert bert(tmp_path).tokens("The CAT") == ["[CLS]", "the", "cat", "[SEP]"]


@pytest.mark.parametrize("lower", [True, False])
def test_an_option_in_the_configuration_wins_over_the_normaliser_in_the_rules(lower, tmp_path):
    bert(tmp_path / "old", do_lower_case=not lower).write(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": lower, "strip_accents": None})
    )
    theirs = BertTokenizerFast.from_pretrained(tmp_path)
    (found,) = Tokenizer.read(tmp_path).encode(["Café"])
    assert list(found.ids) == theirs("Café")["input_ids"]
    assert Tokenizer.read(tmp_path).tokens("Café") == ["[CLS]", "cafe" if lower else "Café", "[SEP]"]


def test_special_tokens_may_have_other_names(tmp_path):
    words = ["<pad>", "<unk>", "<cls>", "<sep>", "<mask>", *WORDS[5:]]
    names = {f"{role}_token": f"<{role}>" for role in ("pad", "unk", "cls", "sep", "mask")}
    tokenizer = bert(tmp_path, words, **names)
    assert tokenizer.tokens("the ☃") == ["<cls>", "the", "<unk>", "<sep>"]
    assert tokenizer.control_ids == {0, 2, 3, 4}
    assert dict(tokenizer.roles) == {role: words.index(name) for role, name in names.items()}


def test_special_tokens_are_also_found_in_the_older_map(tmp_path):
    words = ["[PAD]", "<unk>", *WORDS[2:]]
    bert_folder(tmp_path, words)
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"unk_token": {"content": "<unk>"}}))
    assert Tokenizer.read(tmp_path).unknown_id == 1


def test_a_repeated_line_keeps_its_last_id_and_an_empty_line_uses_one_up(tmp_path):
    words = [*WORDS, "the", "", "dog", ""]
    tokenizer = bert(tmp_path, words)
    theirs = BertTokenizerLegacy(str(tmp_path / "vocab.txt"))
    (found,) = tokenizer.encode(["the dog"])
    assert list(found.ids) == theirs("the dog")["input_ids"]
    assert found.ids[1:3] == (len(WORDS), len(WORDS) + 2)
    assert tokenizer.vocab_size == len(WORDS) + 3
    tokenizer.write(tmp_path / "new")
    assert Tokenizer.read(tmp_path / "new").vocabulary() == tokenizer.vocabulary()


def test_line_ends_of_windows_and_a_byte_order_mark_do_not_matter(tmp_path):
    plain = bert(tmp_path / "plain")
    text = "\ufeff" + "\r\n".join(WORDS) + "\r\n"
    (tmp_path / "vocab.txt").write_bytes(text.encode())
    assert Tokenizer.read(tmp_path).vocabulary() == plain.vocabulary()


def test_only_a_newline_ends_a_line(tmp_path):
    words = [*WORDS, "odd\u2028one", "odd\x85two", "dog"]
    assert bert(tmp_path, words).tokens("dog") == ["[CLS]", "dog", "[SEP]"]
    assert bert(tmp_path, words).name(len(WORDS) + 2) == "dog"


@pytest.mark.parametrize("missing", ["[UNK]", "[CLS]", "[SEP]"])
def test_a_vocabulary_without_a_needed_token_is_refused_by_name(missing, tmp_path):
    with pytest.raises(FolderError, match=rf"vocab.txt: the vocabulary lacks '\{missing[:-1]}\]'; add it"):
        bert(tmp_path, [word for word in WORDS if word != missing])


def test_a_vocabulary_without_padding_and_mask_is_enough(tmp_path):
    tokenizer = bert(tmp_path, [word for word in WORDS if word not in ("[PAD]", "[MASK]")])
    assert tokenizer.control_ids == {1, 2}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"tokenizer_class": "MPNetTokenizer"}, "belongs to a MPNetTokenizer"),
        ({"tokenizer_class": "BertJapaneseTokenizer"}, "belongs to a BertJapaneseTokenizer"),
        ({"do_basic_tokenize": False}, "do_basic_tokenize=false"),
        ({"never_split": ["the"]}, "never_split"),
    ],
)
def test_what_would_give_other_ids_than_published_is_refused(config, words, tmp_path):
    with pytest.raises(FolderError, match=words):
        bert(tmp_path, **config)


def test_tokens_in_a_file_of_their_own_come_after_the_vocabulary(tmp_path):
    bert_folder(tmp_path)
    (tmp_path / "added_tokens.json").write_text(json.dumps({"zzz": len(WORDS), "Yyy": len(WORDS) + 1}))
    found = Tokenizer.read(tmp_path).encode(["the zzzyyy cat", "Yyy"])
    theirs = AutoTokenizer.from_pretrained(tmp_path, tokenizer_type="bert")
    assert [list(encoding.ids) for encoding in found] == theirs(["the zzzyyy cat", "Yyy"])["input_ids"]
    assert {len(WORDS), len(WORDS) + 1} <= set(found[0].ids)


def test_a_token_in_a_file_of_its_own_with_an_id_it_cannot_get_is_refused(tmp_path):
    bert_folder(tmp_path)
    (tmp_path / "added_tokens.json").write_text('{"extra": 60}')
    with pytest.raises(FolderError, match=r"added token 'extra' should have id 60 but gets 65"):
        Tokenizer.read(tmp_path)


def test_a_vocabulary_that_is_not_utf_8_is_refused(tmp_path):
    bert_folder(tmp_path)
    (tmp_path / "vocab.txt").write_bytes("[UNK]\ncafé\n".encode("latin-1"))
    with pytest.raises(FolderError, match=r"vocab.txt is not UTF-8"):
        Tokenizer.read(tmp_path)
