"""Tokenizer folders are read, written, copied and shared without losing a setting (A35)."""

import copy
import json
import pickle
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from text_folders import bert, bert_folder, byte_level, gpt2, unigram, word_level, written
from tokenizers import Tokenizer as Core
from tokenizers import models, processors

from clearhead.errors import FolderError
from clearhead.text import Tokenizer

INPUTS = ["input_ids", "token_type_ids", "attention_mask"]
ITEMS = ["the [SEP] cat", ("café </s>", "Une É ☃"), "", "x ↻ <s>", "unwanted running " * 9]


def settings_of(tokenizer: Tokenizer):
    return {
        "encodings": tokenizer.encode(ITEMS),
        "cut": tokenizer.encode(ITEMS, limit=7),
        "vocabulary": tokenizer.vocabulary(),
        "control_ids": tokenizer.control_ids,
        "roles": dict(tokenizer.roles),
        "facts": (tokenizer.unknown_id, tokenizer.lossless, tokenizer.limit, tokenizer.vocab_size),
        "special": (tokenizer.special_count(), tokenizer.special_count(pair=True)),
        "decoded": [tokenizer.decode(encoding.ids) for encoding in tokenizer.encode(ITEMS)],
    }


def all_kinds(folder) -> dict[str, Tokenizer]:
    return {
        "cased": bert(folder / "a", do_lower_case=False, model_max_length=512, extra={"kept": [1, None]}),
        "uncased": bert(folder / "b", tokenize_chinese_chars=False),
        "byte_level": byte_level(),
        "gpt2": Tokenizer(gpt2(), {"unk_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}),
        "words": Tokenizer(word_level(special=False), {"sep_token": "[SEP]", "cls_token": "[CLS]"}),
        "unigram": Tokenizer(unigram(), {"eos_token": {"content": "</s>", "special": True}}),
    }


@pytest.mark.parametrize("kind", ["cased", "uncased", "byte_level", "gpt2", "words", "unigram"])
def test_writing_and_reading_again_keeps_every_setting(kind, tmp_path):
    before = all_kinds(tmp_path)[kind]
    before.write(tmp_path / "one")
    after = Tokenizer.read(tmp_path / "one")
    assert settings_of(after) == settings_of(before)
    after.write(tmp_path / "two")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.parametrize("kind", ["cased", "byte_level", "words", "unigram"])
def test_a_copy_still_reads_literals_as_text(kind, tmp_path):
    before = all_kinds(tmp_path)[kind]
    for after in (copy.deepcopy(before), pickle.loads(pickle.dumps(before))):
        assert settings_of(after) == settings_of(before)


def test_unknown_fields_of_the_configuration_stay_as_they_were(tmp_path):
    config = {
        "do_lower_case": False,
        "chat_template": "{{ x }}",
        "ünknown": {"a": [1, 2.5, None]},
        "name": "é",
    }
    bert(tmp_path / "old", **config).write(tmp_path / "new")
    found = json.loads((tmp_path / "new" / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert config.items() <= found.items()


def test_a_published_configuration_is_written_as_it_was(tmp_path):
    config = {
        "tokenizer_class": "XTokenizer",
        "eos_token": {"content": "</s>", "lstrip": False, "__type": "AddedToken"},
        "z": 1,
        "a": 2,
    }
    Tokenizer.read(written(unigram(), tmp_path / "old", **config)).write(tmp_path / "new")
    found = json.loads((tmp_path / "new" / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert list(found.items()) == list(config.items())


def test_stored_truncation_and_padding_change_nothing(tmp_path):
    core = word_level()
    core.enable_truncation(5)
    core.enable_padding(length=12)
    tokenizer = Tokenizer.read(written(core, tmp_path))
    found = tokenizer.encode(["the cat sat on the mat", "cat"])
    assert [len(encoding.ids) for encoding in found] == [8, 3]
    tokenizer.write(tmp_path)
    rules = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    assert rules["truncation"] is None
    assert rules["padding"] is None


def test_dropout_of_merges_changes_nothing(tmp_path):
    core = Core.from_str(byte_level()._core.to_str())
    core.model.dropout = 0.9
    tokenizer = Tokenizer.read(written(core, tmp_path))
    texts = ["the cat sat on the mat"] * 50
    assert tokenizer.encode(texts) == byte_level().encode(texts)


def test_sixteen_threads_get_what_one_gets():
    tokenizer = byte_level()
    texts = ["the cat", "the cat sat on the mat " * 10, ("a naïve café", "the dog " * 20)]
    expected = {limit: tokenizer.encode(texts, limit=limit) for limit in (9, 33, None)}

    def work(number: int) -> int:
        return sum(
            tokenizer.encode(texts, limit=limit) == expected[limit]
            for call in range(250)
            for limit in [(9, 33, None)[(call + number) % 3]]
        )

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(work, range(16))) == [250] * 16


def test_a_template_of_any_published_kind_is_kept(tmp_path):
    for number, processor in enumerate(
        [
            processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)),
            processors.RobertaProcessing(("[SEP]", 3), ("[CLS]", 2)),
            processors.Sequence([processors.ByteLevel(), word_level().post_processor]),
            processors.TemplateProcessing(
                single="$A [SEP]", pair="$A [SEP] $B [SEP]", special_tokens=[("[SEP]", 3)]
            ),
        ]
    ):
        core = word_level()
        core.post_processor = processor
        tokenizer = Tokenizer.read(written(core, tmp_path / str(number), model_input_names=INPUTS))
        without = Tokenizer.read(written(core, tmp_path / str(number)))
        assert without.same(tokenizer) == (number in (1, 3))
        for item in ("the cat", "", ("the cat", "mat"), ("", "mat")):
            (found,) = tokenizer.encode([item])
            assert replace(found, segments=(0,) * len(found.ids)) == without.encode([item])[0]
            expected = core.encode(*item) if isinstance(item, tuple) else core.encode(item)
            assert list(found.ids) == expected.ids
            assert list(found.segments) == expected.type_ids
            assert list(found.offsets) == expected.offsets
            assert [bool(mask) for mask in expected.special_tokens_mask] == list(found.special)


def test_a_template_that_repeats_a_text_is_refused(tmp_path):
    core = word_level()
    core.post_processor = processors.TemplateProcessing(
        single="$A [SEP] $A", pair="$A $B", special_tokens=[("[SEP]", 3)]
    )
    with pytest.raises(FolderError, match="post_processor must place each text once"):
        Tokenizer.read(written(core, tmp_path))


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FolderError, match=r"nowhere is not a folder"):
        Tokenizer.read(tmp_path / "nowhere")


def test_a_folder_without_a_tokenizer_says_what_would_do(tmp_path):
    with pytest.raises(FolderError, match=r"neither tokenizer.json nor vocab.txt, .*save_pretrained"):
        Tokenizer.read(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("tokenizer.json", b'{"version": "1.0", "mod', r"tokenizer.json cannot be read as JSON"),
        ("tokenizer.json", b"\xff\xfe", r"tokenizer.json cannot be read as JSON"),
        ("tokenizer.json", b"[]", r"tokenizer.json holds a list, not an object"),
        ("tokenizer.json", b"{}", r"tokenizer.json does not describe a tokenizer"),
        ("tokenizer.json", b'{"model": {"type": "New", "vocab": {}}}', r"does not describe a tokenizer"),
        ("tokenizer_config.json", b"{", r"tokenizer_config.json cannot be read as JSON"),
        ("special_tokens_map.json", b"5", r"special_tokens_map.json holds a int"),
        (
            "tokenizer_config.json",
            b'{"sep_token": "\\ud83d"}',
            r"config.json holds \\ud83d, which is half",
        ),
        ("tokenizer_config.json", b'{"x": ["\\ude00\\ud83d"]}', r"tokenizer_config.json holds \\ude00"),
        ("special_tokens_map.json", b'{"sep_token": "\\uD83D"}', r"special_tokens_map.json holds \\ud83d"),
        ("added_tokens.json", b'{"\\udfff": 7}', r"added_tokens.json holds \\udfff"),
        ("tokenizer.json", b'{"model": {"vocab": {"a\\udfff": 7}}}', r"tokenizer.json holds \\udfff"),
    ],
)
def test_a_broken_file_is_named(name, content, words, tmp_path):
    bert_folder(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FolderError, match=words):
        Tokenizer.read(tmp_path)


def test_half_a_character_in_a_vocabulary_is_named_and_both_halves_are_one(tmp_path):
    (tmp_path / "merges.txt").write_text("")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "GPT2Tokenizer"}')
    (tmp_path / "vocab.json").write_text('{"\\ud83d\\ude00": 0, "<|endoftext|>": 1}')
    assert "😀" in Tokenizer.read(tmp_path).vocabulary()
    (tmp_path / "vocab.json").write_text('{"\\ud83d": 0, "<|endoftext|>": 1}')
    with pytest.raises(FolderError, match=r"vocab.json holds \\ud83d, which is half a character"):
        Tokenizer.read(tmp_path)


def test_what_breaks_only_when_a_text_is_read_is_the_files_fault(tmp_path, capfd):
    core = Core(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    rules = json.loads(core.to_str())
    table = (1024).to_bytes(4, "little") + b"\xff\xff\xff\x7f" * 256 + b"abc\0"  # it looks whole
    rules["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": b64encode(table).decode()}
    (tmp_path / "tokenizer.json").write_text(json.dumps(rules))
    tokenizer = Tokenizer.read(tmp_path)
    for read in (tokenizer.encode, tokenizer.plain, lambda texts: tokenizer.words(texts[0])):
        with pytest.raises(FolderError, match=r"tokenizer.json cannot be used: .* fails at a text"):
            read(["ab é"])


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"unk_token": 5}, r"tokenizer_config.json: 5 is no token; write a string"),
        ({"sep_token": {"text": "[SEP]"}}, r"is no token"),
        ({"additional_special_tokens": "[X]"}, r"additional_special_tokens must be a list"),
        ({"added_tokens_decoder": {"0": None}}, r"None is no token"),
        ({"do_lower_case": "yes"}, r"do_lower_case='yes' is not known; use true or false"),
        ({"do_lower_case": None}, r"do_lower_case=None is not known"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(config, words, tmp_path):
    with pytest.raises(FolderError, match=words):
        bert(tmp_path, **config)


def test_an_unknown_token_that_is_not_in_the_vocabulary_is_refused_when_read(tmp_path):
    core = Core(models.WordLevel({"a": 0}, unk_token="[UNK]"))
    with pytest.raises(FolderError, match=r"unk_token '\[UNK\]' is not in the vocabulary"):
        Tokenizer.read(written(core, tmp_path))


def test_an_added_token_that_would_silently_get_another_id_is_refused(tmp_path):
    core = word_level()
    core.add_tokens(["zzz"])
    rules = json.loads(core.to_str())
    rules["added_tokens"][-1]["id"] += 5
    tmp_path.joinpath("tokenizer.json").write_text(json.dumps(rules))
    with pytest.raises(FolderError, match=r"added token 'zzz' should have id \d+ but gets \d+"):
        Tokenizer.read(tmp_path)


def test_published_rules_with_few_fields_are_read(tmp_path):
    rules = {"model": {"vocab": {"[UNK]": 0, "a": 1}, "unk_token": "[UNK]", "max_input_chars_per_word": 100}}
    rules["model"]["continuing_subword_prefix"] = "##"
    (tmp_path / "tokenizer.json").write_text(json.dumps(rules))
    tokenizer = Tokenizer.read(tmp_path)
    assert tokenizer.encode(["a"])[0].ids == (1,)
    assert tokenizer.special_count(pair=True) == 0
    assert tokenizer.control_ids == frozenset()
    assert tokenizer.limit is None
