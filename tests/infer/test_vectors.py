"""Vectors of texts: as the published code makes them, each text's its own, nothing hidden."""

import json
import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import clearhead as ch
from clearhead.data.rows import Row
from clearhead.errors import DataError, SettingError
from clearhead.infer import embed, nearest
from clearhead.model.config import Pooling
from clearhead.settings import Embedded
from families import NAMES
from sentences import plain_vectors, sentence_files, sentence_folder
from tiny import WORDS

POOLINGS = ("cls", "mean", "max", "last")
EMBEDDED = Embedded()


def some_texts(count=120):
    chance = random.Random(0)
    return [" ".join(chance.choices(WORDS, k=chance.randint(0, 40))) for _ in range(count)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return ch.load(sentence_folder(tmp_path_factory.mktemp("sentences") / "model"))


@pytest.mark.shows("load")
@pytest.mark.parametrize("embeds", [True])
@pytest.mark.parametrize("name", NAMES)
def test_vectors_are_those_of_the_published_code(tmp_path, name, embeds):
    """Every pooling, with the norm and without, texts of 0 to 40 words cut to 20 tokens."""
    texts = some_texts(40)
    folder = sentence_folder(tmp_path, name)
    for pooling in POOLINGS:
        for normalise in (True, False):
            sentence_files(folder, pooling=pooling, normalise=normalise)
            found = ch.load(folder).embed(texts).numpy()
            right = plain_vectors(folder, texts, pooling=pooling, normalise=normalise, limit=20)
            assert np.abs(found - right).max() < 2e-5 * max(1, np.abs(right).max())


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_text_has_its_vector_in_any_company(model, pooling):
    """Public report A34: 3 tokens alone, and beside 20; shuffled, and in small batches."""
    texts = ["soup", *some_texts(30), "the bread was warm and the soup was not so very good " * 2]
    together = model.embed(texts, pooling=pooling)
    for text, vector in zip(texts, together, strict=True):
        assert torch.equal(model.embed([text], pooling=pooling)[0], vector)
    order = random.Random(1).sample(range(len(texts)), len(texts))
    shuffled = model.embed([texts[place] for place in order], pooling=pooling, batch_tokens=33)
    assert torch.equal(shuffled, together[order])


@given(st.lists(st.text(max_size=40), max_size=12), st.sampled_from(POOLINGS), st.integers(1, 24))
def test_n_texts_have_n_vectors_in_order(model, texts, pooling, dimensions):
    found, read = model.vectors(texts, pooling=pooling, dimensions=dimensions)
    assert found.shape == (len(texts), dimensions) and len(read) == len(texts)
    assert found.isfinite().all()
    for place, text in enumerate(texts):
        (alone,) = model.embed([text], pooling=pooling, dimensions=dimensions)
        assert torch.equal(alone, found[place])


def test_what_was_read_is_told(model):
    """Public report A09: a cut is never silent."""
    _, read = model.vectors(["soup", "soup " * 40])
    assert [(one.tokens, one.dropped, len(one.windows)) for one in read] == [(3, 0, 1), (20, 22, 1)]
    _, read = model.vectors(["soup", "soup " * 40], long="window")
    assert [(one.dropped, len(one.windows)) for one in read] == [(0, 1), (0, 4)]
    with pytest.raises(DataError, match="text 1: the text has 42 tokens, the model takes 20"):
        model.embed(["soup", "soup " * 40], long="error")


def test_windows_are_joined_by_their_mean_before_the_norm(model):
    text = " ".join(some_texts(3))
    (joined,), (read,) = model.vectors([text], long="window", stride=9)
    plain = (
        embed.pooled(model.loaded.network, read.windows, pooling=Pooling.MEAN, budget=100).double().mean(0)
    )
    assert len(read.windows) > 2
    torch.testing.assert_close(joined.double(), plain / plain.norm(), atol=1e-6, rtol=0)


def test_an_empty_text_is_its_special_tokens(model):
    vectors, read = model.vectors(["", " "])
    assert [one.tokens for one in read] == [2, 2]
    assert torch.equal(vectors[0], vectors[1]) and vectors[0].norm() == pytest.approx(1)


def test_the_cut_to_dimensions_is_brought_to_length_again(model):
    texts = some_texts(5)
    whole, cut = model.embed(texts).double(), model.embed(texts, dimensions=7)
    right = whole[:, :7] / whole[:, :7].norm(dim=1, keepdim=True)
    torch.testing.assert_close(cut.double(), right, atol=1e-6, rtol=0)
    plain = model.embed(texts, normalise=False)
    assert torch.equal(model.embed(texts, normalise=False, dimensions=7), plain[:, :7])


def test_a_plain_folder_gives_the_mean(body_folder):
    texts = some_texts(8)
    right = plain_vectors(body_folder, texts, pooling="mean", normalise=False, limit=32)
    assert np.abs(ch.load(body_folder).embed(texts).numpy() - right).max() < 2e-5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dimensions": 0}, "--dimensions 0 must be at least 1"),
        ({"dimensions": 25}, r"--dimensions 25 is more than the model's vectors have \(24\)"),
        ({"pooling": "middle"}, "pooling='middle' is not one of cls, mean, max, last"),
        ({"normalise": "yes"}, "normalise='yes' is not True or False"),
        ({"prompt": "query"}, r"--prompt 'query' is no prompt of .* \(there: none\)"),
        ({"prompt": "query", "prefix": "q: "}, "--prefix and --prompt are both given"),
        ({"stride": 4}, "--stride 4 is for --long window"),
        ({"batch_tokens": 0}, "--batch-tokens 0 must be at least 1"),
        ({"poling": "mean"}, "unknown option 'poling'; did you mean pooling"),
    ],
)
def test_bad_options_are_named(model, options, said):
    with pytest.raises(SettingError, match=said):
        model.embed(["soup"], **options)


def test_prompts_are_put_before_texts(tmp_path):
    facts = {"prompts": {"query": "good ", "document": "bad "}, "default_prompt_name": "document"}
    folder = sentence_folder(tmp_path, facts=facts)
    model, texts = ch.load(folder), ["soup", "cold bread"]
    plain = {word: model.embed([word + text for text in texts], prefix="") for word in ("", "good ", "bad ")}
    assert torch.equal(model.embed(texts), plain["bad "])
    assert torch.equal(model.embed(texts, prompt="query"), plain["good "])
    assert torch.equal(model.embed(texts, prefix="good "), plain["good "])
    assert torch.equal(model.embed(texts, prefix=""), plain[""])


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_prompt_may_be_left_out_of_the_pooling(tmp_path, pooling):
    facts = {"prompts": {"q": "the good "}, "default_prompt_name": "q"}
    folder = sentence_folder(tmp_path, pooling=pooling, normalise=False, facts=facts)
    path = folder / "1_Pooling" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"include_prompt": False}))
    model, texts = ch.load(folder), ["soup", "cold bread of a kind"]
    for text, vector in zip(texts, model.embed(texts), strict=True):
        (encoding,) = model.encode(["the good " + text])
        whole = model.loaded.network(embed.batches_of([encoding], 99).__next__()[1])
        tokens = whole[3 : len(encoding.ids)]  # without [CLS] the good
        right = {"cls": tokens[0], "mean": tokens.mean(0), "max": tokens.amax(0), "last": tokens[-1]}
        torch.testing.assert_close(vector, right[pooling].detach(), atol=1e-6, rtol=1e-6)
    with pytest.raises(SettingError, match="left out of the pooling is for texts of one window"):
        model.embed(["soup " * 50], long="window")


def rows_of(texts):
    return [Row(text, None, "file", number, {}) for number, text in enumerate(texts, 1)]


@pytest.mark.parametrize("how", ["cosine", "dot", "euclidean", "manhattan"])
def test_the_nearest_are_those_of_all_comparisons(tmp_path, monkeypatch, how):
    monkeypatch.setattr(embed, "BLOCK", 7)
    facts = {"similarity_fn_name": how}
    model = ch.load(sentence_folder(tmp_path, normalise=False, facts=facts))
    texts, queries = some_texts(50), ["good soup", "a slow film", "soup " * 30]
    found = nearest.nearest(model, rows_of(texts), queries=queries, settings=EMBEDDED, asking=EMBEDDED, top=6)
    vectors, asked = model.embed(texts).double().numpy(), model.embed(queries).double().numpy()
    for query, vector, one in zip(queries, asked, found, strict=True):
        gap = vectors - vector
        scores = {
            "dot": vectors @ vector,
            "cosine": vectors @ vector / np.linalg.norm(vectors, axis=1) / np.linalg.norm(vector),
            "euclidean": -np.sqrt((gap**2).sum(1)),
            "manhattan": -np.abs(gap).sum(1),
        }[how]
        kept = [place for place, text in enumerate(texts) if text.strip()]
        right = sorted(kept, key=lambda place: (-scores[place].round(9), place))[:6]
        assert one.query == query
        assert [near.row - 1 for near in one.nearest] == right
        assert [near.text for near in one.nearest] == [texts[place] for place in right]
        assert [near.score for near in one.nearest] == pytest.approx(scores[right].tolist(), abs=1e-9)
    assert found[2].dropped == 12


def test_equal_texts_come_in_their_order_and_few_are_all(model, monkeypatch):
    monkeypatch.setattr(embed, "BLOCK", 2)
    rows = rows_of(["soup", "bread", "soup", "soup", "film"])
    ask = {"settings": EMBEDDED, "asking": EMBEDDED}
    (found,) = nearest.nearest(model, rows, queries=["soup"], top=3, **ask)
    assert [near.row for near in found.nearest] == [1, 3, 4]
    assert [near.score for near in found.nearest] == pytest.approx([1, 1, 1])
    (found,) = nearest.nearest(model, rows, queries=["soup"], top=99, **ask)
    assert len(found.nearest) == 5


def test_a_score_does_not_depend_on_its_company(model, monkeypatch):
    texts = some_texts(40)
    ask = {"queries": ["good soup"], "settings": EMBEDDED, "asking": EMBEDDED, "top": 99}
    (found,) = nearest.nearest(model, rows_of(texts), **ask)
    for near in found.nearest:
        (alone,) = nearest.nearest(model, rows_of([near.text]), **ask)
        assert alone.nearest[0].score == near.score
