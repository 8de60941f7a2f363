"""A new vocabulary depends on the texts alone (A46)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_folders import SENTENCES
from tokenizers import Tokenizer as Core
from tokenizers import models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer

import clearhead.text
from clearhead.errors import DataError, SettingError
from clearhead.text import Tokenizer, train_tokenizer, words
from clearhead.text.train import MINIMUM
from clearhead.text.words import count_words

SOURCE = Path(clearhead.text.__file__).parents[2]
KINDS = ["bpe", "wordpiece"]
TRAIN = """
import sys
from clearhead.text import train_tokenizer
texts = [" ".join(f"{a}{b}" for a in "abcdefgh" for b in "abcdefgh")] * 2 + ["ab cd ef gh", "é ↻ <s>"] * 2
texts += [" ".join("ab"[i % 2] * (i % 7) + "a" * (i % 5) + "bab" * (i % 3) for i in range(500))]
train_tokenizer(texts, vocab=330, kind=sys.argv[2]).write(sys.argv[1])
"""


def run(code: str, *arguments: object, **environment: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), **environment}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_texts_give_the_same_bytes_in_every_process(kind, tmp_path):
    found = set()
    for number in range(10):
        folder = tmp_path / str(number)
        run(TRAIN, folder, kind, PYTHONHASHSEED=str(number), RAYON_NUM_THREADS="1" if number % 2 else "4")
        files = sorted(folder.iterdir())
        assert [file.name for file in files] == ["tokenizer.json", "tokenizer_config.json"]
        found.add(tuple(file.read_bytes() for file in files))
    assert len(found) == 1


def test_text_needs_neither_torch_nor_numpy():
    code = "import sys, clearhead.text; print(sorted({'torch', 'numpy'} & sys.modules.keys()))"
    assert run(code) == "[]\n"


def test_training_and_encoding_print_nothing(tmp_path):
    assert run(TRAIN, tmp_path, "wordpiece") == ""


def test_special_tokens_stand_around_each_text_and_segments_are_zero():
    tokenizer = train_tokenizer(SENTENCES, vocab=300)
    single, pair = tokenizer.encode(["the", ("the", "the")])
    assert tokenizer.tokens("the") == ["<s>", "the", "</s>"]
    assert tokenizer.tokens(("the", "the")) == ["<s>", "the", "</s>", "the", "</s>"]
    assert single.ids[0] == 0
    assert single.ids[-1] == 1
    assert set(single.segments) | set(pair.segments) == {0}
    assert tokenizer.control_ids == {0, 1}
    assert dict(tokenizer.roles) == {"bos_token": 0, "eos_token": 1}


def test_a_vocabulary_that_cannot_be_reached_is_no_error():
    assert train_tokenizer(["ab ab"], vocab=100_000).vocab_size == 259  # only "ab" occurs twice
    assert train_tokenizer([], vocab=100_000).vocab_size == 258


def test_a_vocabulary_is_not_larger_than_asked_for():
    assert train_tokenizer(SENTENCES, vocab=270).vocab_size == 270
    assert train_tokenizer(SENTENCES, vocab=258).vocab_size == 258


@pytest.mark.parametrize("vocab", [257, 0, -5])
def test_a_vocabulary_too_small_for_all_bytes_is_refused_with_the_minimum(vocab):
    with pytest.raises(SettingError, match=f"vocab={vocab} is too small; make it at least 258"):
        train_tokenizer(SENTENCES, vocab=vocab)


def test_one_string_is_not_a_list_of_texts():
    with pytest.raises(DataError, match="put it into a list"):
        train_tokenizer("the cat", vocab=300)


def test_texts_may_come_from_an_iterator_and_hold_lone_surrogates():
    tokenizer = train_tokenizer((text for text in ["the \ud800 cat"] * 3), vocab=280)
    assert tokenizer.tokens("the")[1:-1] == ["the"]


def test_lower_casing_is_learned_and_applied():
    tokenizer = train_tokenizer(["The CAT"] * 3, vocab=300, lowercase=True)
    assert tokenizer.encode(["THE cat"])[0].ids == tokenizer.encode(["the cat"])[0].ids
    assert tokenizer.tokens("THE")[1:-1] == ["the"]


def test_texts_that_hold_the_literals_do_not_teach_them():
    tokenizer = train_tokenizer(["<s> the </s>"] * 5, vocab=300)
    (found,) = tokenizer.encode(["<s></s>"])
    assert tokenizer.control_ids.isdisjoint(found.ids[1:-1])
    assert tokenizer.decode(found.ids) == "<s></s>"


def test_the_published_reader_reads_our_folder_alike(tmp_path):
    tokenizer = train_tokenizer(SENTENCES, vocab=300)
    tokenizer.write(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    for text in ["the cat , it 's", "naïve ↻", ""]:
        assert theirs(text)["input_ids"] == list(tokenizer.encode([text])[0].ids)
        assert theirs.decode(theirs(text)["input_ids"], skip_special_tokens=True) == text
    pair = theirs("the", "cat")
    assert pair["input_ids"] == list(tokenizer.encode([("the", "cat")])[0].ids)
    assert (theirs.bos_token, theirs.eos_token) == ("<s>", "</s>")
    assert Tokenizer.read(tmp_path).encode(["the"]) == tokenizer.encode(["the"])


PIECES = [
    "a",
    "b",
    "ab",
    "ba",
    " ",
    "  ",
    "\n",
    "\t",
    "\u2028",
    "\x1c",
    "\x85",
    "\x0b",
    "1",
    "é",
    "中",
    "'s",
    ".",
]
TEXTS = st.lists(st.text(max_size=12) | st.lists(st.sampled_from(PIECES)).map("".join))


@settings(max_examples=100, deadline=None)
@given(texts=TEXTS)
def test_byte_level_merges_are_those_of_the_library_fed_with_the_texts(texts):
    texts = [words.LONE_SURROGATE.sub("\ufffd", text) for text in texts * 2]
    core = Core(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=280,
            min_frequency=2,
            special_tokens=["<s>", "</s>"],
            initial_alphabet=alphabet,
            show_progress=False,
        ),
    )
    found = train_tokenizer(texts, vocab=280)
    assert json.loads(found._core.to_str())["model"] == json.loads(core.to_str())["model"]


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=30) | TEXTS.map(" ".join))
@pytest.mark.parametrize("lower", [True, False])
def test_texts_cut_at_white_space_have_the_words_of_the_whole(lower, text):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bert = pre_tokenizers.BertPreTokenizer()
    text = words.LONE_SURROGATE.sub("\ufffd", text)
    for normalizer, splitter in (
        (normalizers.Lowercase() if lower else normalizers.Sequence([]), byte_level),
        (normalizers.BertNormalizer(lowercase=lower), bert),
    ):
        pieces = words.CHUNK.findall(text)
        assert "".join(pieces) == text
        whole, parts = (
            [word for part in given for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(part))]
            for given in ([text], pieces)
        )
        assert parts == whole


def test_no_more_than_the_most_frequent_words_are_kept(monkeypatch):
    monkeypatch.setattr(words, "KEPT", 3)
    texts = ["a a a a", "b b b", *(f"rare{number}" for number in range(20)), "c c c d e f g", "b a"]
    found = count_words(texts, str.split).words
    assert len(found) <= 6
    assert found["a"] == 5
    assert found["b"] == 4


def test_a_run_without_a_break_is_learned_from_in_pieces():
    texts = ["x" * 600 + " the the", "y" * 256 + " the"]
    found = count_words(texts, str.split)
    assert found.pieces == {"x" * 256: 2, "x" * 88: 1} and not found.left
    assert found.words == {"the": 3, "y" * 256: 1}
    assert {"Ġthe", "yy", "x" * 128} <= train_tokenizer(texts, vocab=300).vocabulary().keys()
    kana = train_tokenizer(["あいうえおかきくけこ" * 60], vocab=400)
    assert len(kana.encode(["あいうえお"])[0].ids) < 5


def test_what_is_left_out_is_counted_and_said(monkeypatch):
    monkeypatch.setattr(words, "PIECES", 2)
    texts = [f"{letter * 512} the" for letter in "abc"] * 2
    with pytest.warns(UserWarning, match=r"^runs of more than 256 bytes .*\(count 2, 33\.1% of the text\)"):
        train_tokenizer(texts, vocab=300)
    with pytest.warns(UserWarning, match=r"^runs of more than 100 .*\(count 6, 99\.4% .*--kind bpe"):
        tokenizer = train_tokenizer(texts, vocab=300, kind="wordpiece")
    assert "aa" not in tokenizer.vocabulary() and tokenizer.tokens(texts[0])[1:-1] == ["[UNK]", "the"]
    with pytest.raises(DataError, match=r"100\.0% .*: nothing is left to learn from; .*--kind bpe"):
        train_tokenizer(["あ" * 101], vocab=300, kind="wordpiece")


def test_long_runs_are_counted_alike_however_they_come(monkeypatch):
    texts = ["ab" * 300, "the " + "c" * 300] * 3
    at_once = count_words(texts, str.split)
    monkeypatch.setattr(words, "HELD", 1)
    assert count_words(texts, str.split) == at_once


def test_memory_does_not_grow_with_the_number_of_texts(tmp_path):
    code = """
import resource, sys
from clearhead.text import words, train_tokenizer
words.KEPT = 5_000
texts = (f"w{n * 7919 % 1_000_003} x{n} the cat" for n in range(int(sys.argv[1])))
train_tokenizer(texts, vocab=400, kind="wordpiece")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
    few, many = int(run(code, 10_000)), int(run(code, 100_000))
    assert many < few + 20  # MB; without the bound it would be 60


@pytest.mark.parametrize("lowercase", [True, False])
def test_word_pieces_are_read_by_the_published_reader_alike(lowercase, tmp_path):
    tokenizer = train_tokenizer(SENTENCES, vocab=150, kind="wordpiece", lowercase=lowercase)
    tokenizer.write(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]
    theirs, again = AutoTokenizer.from_pretrained(tmp_path), Tokenizer.read(tmp_path)
    for item in ["The cat, it's", "naïve ↻ Café", "", ("the mat", "a dog"), "abcdefgh catdog"]:
        texts = item if isinstance(item, tuple) else (item,)
        expected = theirs(*texts, return_token_type_ids=True)
        (found,) = tokenizer.encode([item])
        assert list(found.ids) == expected["input_ids"]
        assert list(found.segments) == expected["token_type_ids"]
        assert again.encode([item]) == [found]
    assert tokenizer.tokens("the cat")[1:-1] == ["the", "cat"]
    assert (tokenizer.tokens("THE")[1:-1] == ["the"]) == lowercase


def test_word_pieces_begin_with_the_control_tokens_then_characters_then_pieces():
    tokenizer = train_tokenizer(["abab ab, ba"] * 3, vocab=100, kind="wordpiece")
    names = list(tokenizer.vocabulary())
    assert names[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert names[5:10] == [",", "a", "b", "##a", "##b"]  # no ##, as a comma is always a word
    assert names[10] == "ab"  # met most often
    assert set(names[11:]) == {"ba", "##ab", "abab"}
    assert tokenizer.control_ids == {0, 2, 3, 4}
    assert tokenizer.unknown_id == 1


def test_word_pieces_hold_the_most_frequent_characters_and_leave_half_the_room():
    texts = ["".join(chr(97 + number) for number in range(26)) + " e e e a a", "ééé"]
    tokenizer = train_tokenizer(texts, vocab=20, kind="wordpiece")
    assert list(tokenizer.vocabulary())[5:] == ["a", "e", "é", "##a", "##e", "##é"]
    assert tokenizer.tokens("ez")[1:-1] == ["[UNK]"]
    assert train_tokenizer([], vocab=20, kind="wordpiece").vocab_size == 5
    assert train_tokenizer(SENTENCES, vocab=80, kind="wordpiece").vocab_size <= 80


def test_a_vocabulary_too_small_for_word_pieces_is_refused():
    with pytest.raises(SettingError, match=r"vocab=8 is too small; make it at least 9, for \[PAD\]"):
        train_tokenizer(SENTENCES, vocab=8, kind="wordpiece")


def test_the_smallest_vocabulary_of_each_kind_holds_a_character():
    for kind, least in MINIMUM.items():
        tokenizer = train_tokenizer(["abc abd"], vocab=least, kind=kind)
        (found,) = tokenizer.encode(["a"])
        assert tokenizer.unknown_id not in found.ids and tokenizer.vocab_size <= least
