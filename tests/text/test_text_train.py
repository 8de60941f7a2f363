"""A new vocabulary depends on the texts alone (A46)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from text_folders import SENTENCES
from transformers import AutoTokenizer

import clearhead.text
from clearhead.errors import DataError, SettingError
from clearhead.text import Tokenizer, train_tokenizer

SOURCE = Path(clearhead.text.__file__).parents[2]
TRAIN = """
import sys
from clearhead.text import train_tokenizer
texts = [" ".join(f"{a}{b}" for a in "abcdefgh" for b in "abcdefgh")] * 2 + ["ab cd ef gh", "é ↻ <s>"] * 2
train_tokenizer(texts, vocab=300).write(sys.argv[1])
"""


def run(code: str, *arguments: object, **environment: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), **environment}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def test_the_same_texts_give_the_same_bytes_in_every_process(tmp_path):
    found = set()
    for number in range(10):
        folder = tmp_path / str(number)
        run(TRAIN, folder, PYTHONHASHSEED=str(number), RAYON_NUM_THREADS="1" if number % 2 else "4")
        files = sorted(folder.iterdir())
        assert [file.name for file in files] == ["tokenizer.json", "tokenizer_config.json"]
        found.add(tuple(file.read_bytes() for file in files))
    assert len(found) == 1


def test_text_needs_neither_torch_nor_numpy():
    code = "import sys, clearhead.text; print(sorted({'torch', 'numpy'} & sys.modules.keys()))"
    assert run(code) == "[]\n"


def test_training_and_encoding_print_nothing(tmp_path):
    assert run(TRAIN, tmp_path) == ""


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
