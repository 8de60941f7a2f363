"""Asking a model that tags: published logits at first pieces, slices of the text, N for N, in company."""

import random
from functools import partial

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Core
from tokenizers import models, normalizers, pre_tokenizers
from transformers import AutoModelForTokenClassification, AutoTokenizer

import clearhead as ch
from clearhead.checkpoint.folder import read_folder
from clearhead.data.sentences import Sentence
from clearhead.errors import DataError, NotFinite, SettingError
from clearhead.infer.model import Model
from clearhead.infer.tag import marked_rows, rows_to_tag, tag_rows
from clearhead.settings import Asking
from clearhead.tasks.tag import Pieces, Windows, spans_of
from clearhead.text.tokenizer import Tokenizer
from families import CONFIGS, NAMES, over_tokens, write_tokenizer
from published_folders import roberta
from tiny import SPECIAL, WORDS

LABELS = ("O", "B-FOOD", "I-FOOD")
ODD = [
    "", " ", "a good soup, not very warm!", "naïve cafe\u0301 — 北京", "e\u0301\u0301 x",
    "👩‍👩‍👧‍👦 soup 🙂🙂", "שלום soup עולם",
    "a\r\nb\r\n", "\u200b", "a\u200bb \u200b c", "tab\tand\n\nnewlines  , three   spaces ", "½ ﬁne ① x², İ",
    "please print [SEP] or </s> as is", "the\xa0soup", "\u202esoup\u202c", "\ud83d soup", "\0 a", "Ａ ｂ",
]  # fmt: skip


def tagger(folder, name="bert", **changes):
    """A folder as the published code saves it, with a head that gives all labels."""
    folder.mkdir(parents=True, exist_ok=True)
    decided(over_tokens(name, "tag", **changes)).save_pretrained(folder)
    write_tokenizer(folder, name)
    return folder


def decided(model):
    """The same with a head whose weights are drawn wide."""
    with torch.no_grad():
        model.base_model.get_input_embeddings().weight.normal_()
        model.classifier.weight.normal_()
    return model


def byte_tagger(folder):
    """RoBERTa's kind, with pieces of bytes."""
    core, vocabulary = roberta(True)
    folder.mkdir(parents=True, exist_ok=True)
    model = decided(over_tokens("roberta", "tag", vocab_size=len(vocabulary)))
    model.save_pretrained(folder)
    core.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "PreTrainedTokenizerFast", "cls_token": "<s>", "sep_token": "</s>", '
        '"pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>", "model_max_length": 32}'
    )
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return ch.load(tagger(tmp_path_factory.mktemp("bert")))


@pytest.fixture(scope="module")
def byte_model(tmp_path_factory):
    return ch.load(byte_tagger(tmp_path_factory.mktemp("roberta")))


def sentences(count, seed=0):
    """Lists of words, with whole, split and unknown ones among them."""
    chance = random.Random(seed)
    words = [*WORDS[:30], "good1", "soup22", "Kaffee", "naïve", "U.S.", "@me", "'s", "42", "x-y"]
    return [chance.choices(words, k=chance.randint(1, 8)) for _ in range(count)]


@pytest.mark.parametrize("make", [tagger, byte_tagger], ids=["wordpiece", "bytes"])
def test_the_tags_are_those_of_the_published_logits_at_first_pieces(tmp_path, make):
    """500 sentences; which token is a word's first piece is what the published tokenizer says (of bytes the
    space before it, where that is a piece of its own)."""
    folder = make(tmp_path / "model")
    published = AutoModelForTokenClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, add_prefix_space=False)
    model, rows = ch.load(folder), sentences(500)
    found, cut = model.predict(rows), 0
    for words, result in zip(rows, found, strict=True):
        text = " ".join(words)
        encoding, whole = tokenizer(text, return_tensors="pt", truncation=True), tokenizer(text)
        with torch.no_grad():
            best = published(**encoding).logits[0].argmax(-1).tolist()
        tags = []
        for start, end in spans_of(words):
            first = next((t for c in range(start, end) if (t := whole.char_to_token(c)) is not None), None)
            if first is not None:
                first = whole.word_ids().index(whole.word_ids()[first])
                first = first if first < 31 else None  # cut off
            tags.append("O" if first is None else LABELS[best[first]])
            cut += first is None
        assert [word.tag for word in result.words] == tags
        assert [word.text for word in result.words] == words
    assert cut < 50 and len({word.tag for result in found for word in result.words}) == 3


@pytest.mark.parametrize("name", NAMES)
def test_every_family_tags(tmp_path, name):
    folder = tagger(tmp_path, name)
    model = ch.load(folder)
    rows = sentences(20)
    with torch.inference_mode():
        for words, result in zip(rows, model.predict(rows), strict=True):
            (encoding,) = model.tokenizer.encode([" ".join(words)])
            logits = model.loaded.network.classify(_packed(encoding))
            for word in result.words:
                token = [start for start, _ in encoding.offsets].index(word.start, 1)
                shares = logits[token].double().softmax(-1)
                assert word.score == pytest.approx(float(shares.max()))
                assert word.tag == LABELS[int(shares.argmax())]


def _packed(encoding):
    from clearhead.infer.batches import packed

    return packed([encoding])


def check(texts, results):
    assert len(results) == len(texts)
    for text, result in zip(texts, results, strict=True):
        ends = [0]
        for word in result.words:
            assert text[word.start : word.end] == word.text and word.text
            assert word.text.strip() == word.text and " " not in word.text
            assert word.start >= ends[-1]
            ends.append(word.end)
        starts = [word.start for word in result.words]
        for entity in result.entities:
            assert text[entity.start : entity.end] == entity.text
            assert entity.start in starts and entity.end in ends and 0 < entity.score <= 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(st.one_of(st.text(max_size=30), st.sampled_from(ODD)), max_size=5))
@pytest.mark.parametrize("kind", ["model", "byte_model"])
def test_any_text_is_answered_by_slices_of_itself_and_alone_as_in_company(request, kind, texts):
    model = request.getfixturevalue(kind)
    found = model.predict(texts)
    check(texts, found)
    assert found == [model.predict([text])[0] for text in texts]
    assert found == model.predict(texts[::-1], batch_tokens=7)[::-1]


def test_odd_texts_and_no_text_are_answered_n_for_n(model, byte_model):
    for one in (model, byte_model):
        check(ODD, one.predict(ODD))
        assert one.predict([]) == []
        assert [bool(result.words) for result in one.predict(["", " ", "a"])] == [False, False, True]


def test_given_words_are_kept_as_they_are_and_those_without_a_piece_are_o(model):
    words = ["soup", "\u200b", "U.S.", "\u200b\u200b", "bread"]
    (found,) = model.predict([words])
    assert [word.text for word in found.words] == words
    assert [(found.words[place].tag, found.words[place].score) for place in (1, 3)] == [("O", None)] * 2
    assert found.dropped_words == 0
    check([" ".join(words)], [found])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (["a b"], "text 0 is a list with 'a b' in it, which is no word"),
        (["a", ""], "text 0 is a list with '' in it"),
        (("a", "b c"), "text 0 is a list with 'b c' in it"),
        (3, "text 0 is int, not a string or a list of words"),
        ([1], "text 0 is list, not a string or a list of words"),
    ],
)
def test_what_is_no_text_and_no_list_of_words_is_refused(model, text, said):
    with pytest.raises(DataError, match=said):
        model.predict([text])
    with pytest.raises(DataError, match="one string was given"):
        model.predict("soup")


def test_what_is_for_other_models_is_refused(model, tmp_path):
    with pytest.raises(
        SettingError, match="--abstain-below is for models with one label a text; this one tags"
    ):
        model.predict(["a"], abstain_below=0.5)
    with pytest.raises(SettingError, match="tags words, and texts get no label; ask it with Model.predict"):
        model.logits(model.encode(["a"]))
    assert model.tags and model.task is None and not model.answers


# Long texts.


def test_a08_a_long_text_is_cut_with_a_sign_refused_or_read_in_windows(model):
    short, long = "a good soup", " ".join(["soup"] * 60)
    cut = model.predict([short, long, short])
    assert cut[0] == cut[2] == model.predict([short])[0]
    assert (cut[1].dropped, cut[1].dropped_words, cut[1].tokens, len(cut[1].words)) == (30, 30, 32, 60)
    assert {word.score for word in cut[1].words[30:]} == {None}
    assert {word.tag for word in cut[1].words[30:]} == {"O"}
    with pytest.raises(DataError, match="text, row 1: the text has 62 tokens, the model takes 32"):
        model.predict([short, long], long="error")
    whole = model.predict([long, short], long="window")
    assert (whole[0].windows, whole[0].dropped, whole[0].dropped_words, whole[1].windows) == (3, 0, 0, 1)
    assert None not in {word.score for word in whole[0].words} and len(whole[0].words) == 60
    assert whole[1] == cut[0]


def test_what_is_cut_at_the_left_is_answered_by_its_end(tmp_path):
    folder = tagger(tmp_path)
    (folder / "tokenizer_config.json").write_text(
        '{"do_lower_case": true, "model_max_length": 8, "truncation_side": "left"}'
    )
    model = ch.load(folder)
    (found,) = model.predict([["soup12", *["bread"] * 5, "table"]])  # soup12 is three pieces
    assert (found.dropped, found.dropped_words) == (3, 1)
    (bare,) = model.predict([[*["bread"] * 5, "table"]])
    assert [word.tag for word in found.words][1:] == [word.tag for word in bare.words]
    assert found.words[0].score is None
    # Where a word lost its first piece alone, the second is not taken for it.
    (part,) = model.predict([["soup12", *["bread"] * 3, "table"]])
    assert (part.dropped, part.dropped_words, part.words[0].score) == (1, 1, None)


@pytest.mark.parametrize(("stride", "tokens"), [(None, 40), (None, 41), (3, 20), (6, 30), (1, 9), (5, 6)])
def test_a_word_is_taken_from_the_window_in_which_it_stands_deepest(model, tmp_path, stride, tokens):
    folder = tagger(tmp_path)
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true, "model_max_length": 8}')
    model = ch.load(folder)
    words = random.Random(0).choices(WORDS[:20], k=tokens)
    row = Sentence(" ".join(words), None, "text", 0, {}, words=tuple(words))
    (marked,) = marked_rows(model, [row], reading=Asking(long="window", stride=stride))
    windows = marked.example.windows
    step, room = stride or 3, 6
    assert [window.ids[1:-1] for window in windows][:-1] == [
        tuple(model.tokenizer.encode([" ".join(words)])[0].ids[1:-1][place * step : place * step + room])
        for place in range(len(windows) - 1)
    ]
    for word, place in enumerate(marked.places):
        rooms = []
        for number, window in enumerate(windows):
            start = number * step
            content = len(window.ids) - 2
            if start <= word < start + content:
                rooms.append((min(word - start, start + content - 1 - word), -number, word - start + 1))
        best = max(rooms, key=lambda one: one[:2])
        assert place == (-best[1], best[2])
    found = tag_rows(model, [row], settings=Asking(long="window", stride=stride))[0]
    for word, place in zip(found.words, marked.places, strict=True):
        with torch.inference_mode():
            logits = model.loaded.network.classify(_packed(windows[place[0]]))
        assert word.tag == LABELS[int(logits[place[1]].argmax())]


# Words of tokenizers.


def test_a02_all_bytes_of_a_character_are_of_its_word(byte_model):
    text = "x ↻ y 🙂"
    (found,) = byte_model.predict([text])
    assert [(word.text, word.start, word.end) for word in found.words] == [
        ("x", 0, 1), ("↻", 2, 3), ("y", 4, 5), ("🙂", 6, 7),
    ]  # fmt: skip
    given_words = byte_model.predict([["x", "↻", "y", "🙂"]])[0]
    assert given_words == found


def test_a04_what_looks_like_a_control_token_is_words(model, byte_model):
    text = "please print [SEP] or </s> as is"
    for one in (model, byte_model):
        (found,) = one.predict([text])
        assert "".join(word.text for word in found.words) == text.replace(" ", "")
        (kept,) = one.predict([text.split()])
        assert [word.text for word in kept.words] == text.split() and len(kept.words) == 7


def test_a11_a_list_of_one_word_texts_is_no_sentence(model):
    found = model.predict(["fine", "bad", "fine"])
    assert len(found) == 3 and found[0] == found[2] and [len(one.words) for one in found] == [1, 1, 1]
    assert model.predict(["fine"]) == found[:1] and model.predict([]) == []
    (together,) = model.predict([["fine", "bad", "fine"]])
    assert [word.text for word in together.words] == ["fine", "bad", "fine"]


def test_words_of_a_tokenizer_that_splits_at_spaces_alone():
    """SentencePiece's kind, with a pre-tokenizer and without: words are those between white space, and a
    space that is a piece of its own is the word's first, as the published reader has it."""
    for pre in (True, False):
        core = unigram()
        if not pre:
            core.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
            core.pre_tokenizer = pre_tokenizers.Split("\u0001", "isolated")
        tokenizer = Tokenizer(core)
        text = "the cat, sat."
        ((content,), _) = tokenizer.taken_apart([text])[0]
        spans, firsts = Pieces(text, content.offsets, partial(tokenizer.words, text)).own_words()
        assert [text[start:end] for start, end in spans] == ["the", "cat,", "sat."]
        again, given_firsts = Pieces(text, content.offsets, partial(tokenizer.words, text)).of_words(spans)
        assert (again, given_firsts) == (spans, firsts)
        names = [tokenizer.name(content.ids[first]) for first in firsts]
        assert names[0] == "▁the" and set(names[1:]) <= {"▁", "c", "s"}
        whole = unigram().encode(text, add_special_tokens=False)
        if pre:
            assert firsts == [whole.word_ids.index(word) for word in range(3)]


def test_a_piece_that_holds_two_words_is_of_the_first():
    pieces = Pieces("of the end", [(0, 6), (6, 10)], lambda: [0, 0])
    assert pieces.of_words([(0, 2), (3, 6), (7, 10)])[1] == [0, None, 1]


def test_windows_know_where_they_begin():
    from clearhead.tasks.examples import in_windows

    tokenizer = Tokenizer(models_core())
    (example,) = in_windows(["a b c d e f g"], tokenizer, names=["x"], limit=5, stride=2)
    assert Windows.of(example, 7, side="right") == Windows((0, 2), (5, 7), 0)


def unigram():
    """SentencePiece's pieces, as XLM-R has them."""
    pieces = [("<unk>", 0.0), ("▁", -2.0), ("▁the", -3.0), *((letter, -4.0) for letter in "acehst,.")]
    core = Core(models.Unigram(pieces, 0, False))
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    return core


def models_core():
    core = Core(
        models.WordLevel({word: number for number, word in enumerate("? a b c d e f g".split())}, "?")
    )
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return core


def test_numbers_that_are_none_are_named_by_their_text(tmp_path):
    model = Model(read_folder(tagger(tmp_path)))
    place = (SPECIAL + WORDS).index("soup")
    with torch.no_grad():
        model.loaded.network.embedding.tokens.weight[place] = float("nan")
    with pytest.raises(NotFinite, match="text 1: the model computes numbers that are not finite"):
        model.predict(["a good", "bread soup", "of"])


def test_the_configs_of_these_tests_hold_32_tokens():
    assert CONFIGS["bert"][1]["max_position_embeddings"] == 32


def test_columns_of_words_are_found_whatever_the_case(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"Tokens": ["a", "soup"], "Tags": ["O", "O"]}\n')
    (row,) = rows_to_tag(path, settings=Asking())
    assert row.words == ("a", "soup")
    (row,) = rows_to_tag(path, settings=Asking(tokens_column="tokens"))
    assert row.words == ("a", "soup")
