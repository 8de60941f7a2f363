"""Marian's folders: one tokenizer for what is read, another for what is written, and the published ids."""

import copy
import json
import pickle
import sys
import warnings

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_text_published import ANY, TEXTS
from text_folders import GERMAN, SENTENCES, byte_level, files, gpt2, marian_folder, pieces, rules_folder
from transformers import MarianTokenizer

from clearhead.errors import FolderError, MissingExtra, SettingError
from clearhead.text import Tokenizer
from clearhead.text.stream import HALF, Stream

KINDS = {"shared": {}, "separate": {"separate": True}, "bytes": {"every": True}}
CODED = [
    ">>deu<< the cat",
    ">>deu<<",
    ">>xyz<< the",
    ">> the << cat",
    ">>deu",
    "<<>>",
    "the >>deu<< cat",
    ">><<a",
]
OTHERS = [
    "ß für 中文 ₂",
    "中",
    "中文中",
    "<s> </s> <unk> <pad>",
    "</s>",
    "☃",
    "▁",
    "a▁b",
    "ﬁ\r\nﬁ",
    *GERMAN[:3],
]
MARIAN = ANY | st.lists(st.sampled_from([*CODED, *OTHERS, " ", ">>", "<<"]), max_size=4).map("".join)


def published_reader(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sacremoses, which it recommends and does not use
        return MarianTokenizer.from_pretrained(folder, split_special_tokens=True)


@pytest.fixture(scope="module")
def readers(tmp_path_factory):
    """Kind → the folder, ours for the source and for the target, the published one."""
    base = tmp_path_factory.mktemp("marian")
    folders = {kind: marian_folder(base / kind, **options) for kind, options in KINDS.items()}
    return {
        kind: (folder, Tokenizer.read(folder), Tokenizer.read_target(folder), published_reader(folder))
        for kind, folder in folders.items()
    }


def check(text, source, target, published):
    assert list(source.encode([text])[0].ids) == published(text)["input_ids"], text
    assert list(target.encode([text])[0].ids) == published(text_target=text)["input_ids"], text
    for tokenizer in (source, target):
        (found,) = tokenizer.encode([text])
        assert found.ids[-1] == 0 and tokenizer.control_ids.isdisjoint(found.ids[:-1])
        assert tokenizer.plain([text]) == [list(found.ids[:-1])]
        assert len(tokenizer.words(text)) == len(found.ids) - 1


@pytest.mark.parametrize("kind", KINDS)
def test_sources_and_targets_have_the_published_ids(kind, readers):
    _, source, target, published = readers[kind]
    for text in [*TEXTS, *CODED, *SENTENCES[:3]]:
        check(text, source, target, published)
    for text in OTHERS:
        if "</s>" not in text:  # which the published reader obeys where no piece has its characters
            check(text, source, target, published)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150, deadline=None)
@given(text=MARIAN)
def test_any_texts_have_the_published_ids(kind, text, readers):
    assume(not any(token in text for token in ("</s>", "<pad>", "<unk>")))
    _, *both, published = readers[kind]
    check(text, *both, published)


@pytest.mark.parametrize("kind", KINDS)
def test_targets_are_decoded_as_the_published_reader_does(kind, readers):
    _, source, target, published = readers[kind]
    for text in [*TEXTS, *OTHERS, *SENTENCES[:3], ">>deu<< the cat"]:
        # The published reader takes the source's padding id for padding among targets, too.
        ids = [id for id in target.encode([text])[0].ids if id != published.pad_token_id]
        assert target.decode(ids).strip() == published.decode(ids, skip_special_tokens=True), text
        if kind != "separate":  # there it takes sources for targets, too
            ids = source.encode([text])[0].ids
            assert source.decode(ids).strip() == published.decode(ids, skip_special_tokens=True), text
    assert target.decode(target.encode(["der Hund nicht"])[0].ids) == "der Hund nicht"


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(text=MARIAN)
def test_a_stream_gives_the_whole_text_and_no_half_character(kind, text, readers):
    target = readers[kind][2]
    ids = target.encode([text])[0].ids
    stream = Stream(target)
    parts = [stream.push(id) for id in ids]
    assert HALF in text or not any(HALF in part for part in parts)
    assert "".join(parts) + stream.close() == target.decode(ids)


def test_two_tokenizers_of_a_folder_are_two(readers):
    _, source, target, published = readers["shared"]
    assert source.vocabulary() == target.vocabulary() == published.get_vocab()
    assert not source.same(target) and source.encode([GERMAN[0]]) != target.encode([GERMAN[0]])
    assert source.roles == {"eos_token": 0, "unk_token": 1, "pad_token": source.vocab_size - 1}
    assert source.unknown_id == 1 and source.limit == published.model_max_length == 512
    assert source.control_ids == {0, source.vocab_size - 1}
    _, source, target, _ = readers["separate"]
    assert source.vocab_size < target.vocab_size


def test_a_language_code_is_one_token_at_the_beginning_and_text_elsewhere(readers):
    source = readers["shared"][1]
    code = source.vocabulary()[">>deu<<"]
    (first,), (later,) = source.encode([">>deu<< the cat"]), source.encode(["a >>deu<<"])
    assert first.ids[0] == code and first.offsets[0] == (0, 7) and code not in later.ids
    assert source.encode([">>xyz<< the"])[0].ids[0] == source.unknown_id
    assert source.tokens(">>deu<<") == [">>deu<<", "</s>"]


def test_an_unknown_character_of_one_language_may_be_a_piece_of_the_other(readers):
    source = readers["shared"][1]
    assert source.tokens("中") != ["▁", "<unk>", "</s>"] or "中" not in source.vocabulary()
    assert source.tokens("☃")[-2:] == ["<unk>", "</s>"]


def test_offsets_are_those_of_the_original(readers):
    text = ">>deu<<  the ☃☃  cafe\u0301 ﬁ cat"
    for kind in KINDS:
        (found,) = readers[kind][1].encode([text])
        spans = [text[start:end] for start, end in found.offsets[:-1]]
        assert spans[0] == ">>deu<<" and ("☃" in spans if kind == "bytes" else "☃☃" in spans)
        assert any("e\u0301" in span for span in spans)
        assert list(found.offsets[:-1]) == sorted(found.offsets[:-1]) and found.offsets[-2][1] == len(text)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_cut_keeps_its_end(kind, readers):
    for tokenizer in readers[kind][1:3]:
        for limit in range(1, 9):
            (found,) = tokenizer.encode(["the cat sat on the mat"], limit=limit)
            assert len(found.ids) == limit and found.ids[-1] == 0 and found.dropped


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_that_is_written_again_has_its_files_and_ids_here_and_published(kind, readers, tmp_path):
    folder, source, target, published = readers[kind]
    source.write(tmp_path)
    target.write(tmp_path, part="target")
    names = ["source.spm", "target.spm", "vocab.json", *(["target_vocab.json"] if kind == "separate" else [])]
    for name in names:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()
    written = {"tokenizer_config.json", "target_tokenizer_config.json"}
    assert {path.name for path in tmp_path.iterdir()} == {*names, *written}
    assert Tokenizer.read(tmp_path).same(source) and Tokenizer.read_target(tmp_path).same(target)
    again = published_reader(tmp_path)
    for text in [*TEXTS, *CODED, *OTHERS]:
        assert again(text) == published(text) and again(text_target=text) == published(text_target=text)


def test_a_folder_that_the_published_reader_has_written_is_read(readers, tmp_path):
    for kind, (_, source, target, published) in readers.items():
        published.save_pretrained(tmp_path / kind)
        again = Tokenizer.read(tmp_path / kind), Tokenizer.read_target(tmp_path / kind)
        for text in [*TEXTS, *CODED]:
            assert [tokenizer.encode([text]) for tokenizer in again] == [
                tokenizer.encode([text]) for tokenizer in (source, target)
            ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_gives_the_same_ids(kind, readers):
    for before in readers[kind][1:3]:
        for after in (copy.deepcopy(before), pickle.loads(pickle.dumps(before))):
            assert after.same(before) and after.encode(TEXTS) == before.encode(TEXTS)


# --- two tokenizers of our own ------------------------------------------------------------------------------


def test_a_target_tokenizer_is_written_beside_another_and_read_again(tmp_path):
    source, target = byte_level(), Tokenizer(gpt2(), {"eos_token": "<|endoftext|>"})
    source.write(tmp_path)
    assert Tokenizer.read_target(tmp_path) is None
    target.write(tmp_path, part="target")
    assert {path.name for path in tmp_path.iterdir()} == {
        *("tokenizer.json", "tokenizer_config.json"),
        *("target_tokenizer.json", "target_tokenizer_config.json"),
    }
    assert Tokenizer.read(tmp_path).same(source) and Tokenizer.read_target(tmp_path).same(target)
    (tmp_path / "target_tokenizer.json").unlink()
    with pytest.raises(
        FolderError, match=r"target_tokenizer_config.json speaks of target_tokenizer.json, whi"
    ):
        Tokenizer.read_target(tmp_path)
    with pytest.raises(SettingError, match=r"part='both' is not known; use 'source' or 'target'"):
        source.write(tmp_path, part="both")


def test_marians_may_stand_beside_one_of_our_own(readers, tmp_path):
    _, source, target, _ = readers["separate"]
    own = byte_level()
    for pair in ((own, target), (source, own)):
        folder = tmp_path / str(pair[0] is own)
        pair[0].write(folder)
        pair[1].write(folder, part="target")
        assert Tokenizer.read(folder).same(pair[0]) and Tokenizer.read_target(folder).same(pair[1])


def test_halves_of_two_marian_folders_are_not_written_into_one(readers, tmp_path):
    readers["separate"][1].write(tmp_path)
    with pytest.raises(FolderError, match=r"\.(spm|json) is of another model, and both tokenizers"):
        readers["shared"][2].write(tmp_path, part="target")


def test_a_tokenizer_json_counts_where_no_class_says_otherwise(tmp_path):
    rules_folder(gpt2(), tmp_path / "a", model_type="marian")
    assert Tokenizer.read(tmp_path / "a").lossless and Tokenizer.read_target(tmp_path / "a") is None
    marian_folder(rules_folder(gpt2(), tmp_path / "b"))
    assert not Tokenizer.read(tmp_path / "b").lossless  # there the published reader does not look at it
    files(tmp_path / "b", tokenizer_config_json={"tokenizer_class": "PreTrainedTokenizerFast"})
    assert Tokenizer.read(tmp_path / "b").lossless


# --- what is refused ----------------------------------------------------------------------------------------


def test_without_the_package_the_way_to_install_it_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    words = r'source.spm, a sentencepiece model, needs an extra: pip install "clearhead\[sentencepiece\]"'
    with pytest.raises(MissingExtra, match=words):
        Tokenizer.read(marian_folder(tmp_path))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"separate_vocabs": "no"}, r"separate_vocabs='no' is not known; use true or false"),
        ({"separate_vocabs": True}, r"has no target_vocab.json, which a MarianTokenizer is read from"),
        ({"sp_model_kwargs": {"reverse": True}}, r"reverse of sp_model_kwargs is not supported; remove it"),
        ({"pad_token": "<p>"}, r"vocab.json lacks '<p>'; add it, or name another pad_token"),
        (
            {"added_tokens_decoder": {"3": {"content": "Wort"}}},
            r"the added token 'Wort' is a word, and words",
        ),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(config, words, tmp_path):
    with pytest.raises(FolderError, match=words):
        Tokenizer.read(marian_folder(tmp_path, **config))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("source.spm", None, r"has no source.spm, which a MarianTokenizer is read from; fetch it again"),
        ("target.spm", None, r"has no target.spm"),
        ("vocab.json", None, r"has no vocab.json"),
        ("source.spm", b"junk", r"source.spm is not a sentencepiece model \(.*\); fetch it again"),
        ("source.spm", b"", r"source.spm is not a sentencepiece model"),
        ("vocab.json", b"[]", r"vocab.json must give each token an id of its own"),
        ("vocab.json", b"{", r"vocab.json cannot be read as JSON"),
    ],
)
def test_files_that_are_missing_or_broken_are_refused(name, content, words, tmp_path):
    path = marian_folder(tmp_path) / name
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(FolderError, match=words):
        Tokenizer.read(tmp_path)


def test_ends_with_two_ids_are_refused(tmp_path):
    path = marian_folder(tmp_path, separate=True) / "target_vocab.json"
    ids = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**ids, "</s>": 1, "<unk>": 0}), encoding="utf-8")
    assert Tokenizer.read(tmp_path)
    with pytest.raises(
        FolderError, match=r"'</s>' is 1 in target_vocab.json and 0 in vocab.json, and the pub"
    ):
        Tokenizer.read_target(tmp_path)


def test_the_models_of_the_tests_are_the_same_each_time():
    assert pieces.__wrapped__(90) == pieces(90)
