"""Which tokens are hidden: a function of seed, epoch and piece, never of company; shares as printed."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.errors import SettingError
from clearhead.settings import Hidden
from clearhead.tasks.fill import Gaps, Hiding, most_likely
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.train import masked_tokenizer, train_tokenizer

TEXTS = [f"the soup number {n} was unbelievably good, and not very warm!" for n in range(30)]
ARCHITECTURES = ("bert", "roberta", "modernbert")


@pytest.fixture(scope="module", params=ARCHITECTURES)
def tokenizer(request):
    return masked_tokenizer(TEXTS, architecture=request.param, vocab=300)


def hiding(tokenizer, seed=0, **hidden):
    return Hiding(tokenizer, Hidden(**hidden), seed=seed, source="here")


def gaps(tokenizer, texts, context=16, seed=0, **hidden):
    return Gaps(texts, tokenizer, hiding=hiding(tokenizer, seed, **hidden), context=context)


def test_what_is_hidden_follows_from_seed_epoch_and_text_alone(tokenizer):
    alone = gaps(tokenizer, TEXTS[:1])
    together = gaps(tokenizer, TEXTS[::-1])
    count = len(alone.spans)
    assert [alone.hidden(n) for n in range(count)] == [
        together.hidden(len(together.spans) - count + n) for n in range(count)
    ]
    first = [together.hidden(n) for n in range(len(together.spans))]
    together.epoch = lambda: 1
    assert first != [together.hidden(n) for n in range(len(together.spans))]
    together.epoch = lambda: 0
    assert first == [together.hidden(n) for n in range(len(together.spans))]
    assert first != [gaps(tokenizer, TEXTS[::-1], seed=1).hidden(n) for n in range(len(together.spans))]


@settings(deadline=None, max_examples=40)
@given(share=st.floats(0.01, 0.99), count=st.integers(1, 60), seed=st.integers(0, 9))
def test_the_share_is_hidden_and_nothing_special_is(share, count, seed):
    tokenizer = masked_tokenizer(TEXTS, architecture="bert", vocab=120)
    chance = np.random.default_rng(seed)
    ids = chance.integers(0, tokenizer.vocab_size, count).astype(np.int32)
    special = {*tokenizer.control_ids, tokenizer.unknown_id}
    usual = [place for place, id in enumerate(ids.tolist()) if id not in special]
    if not usual:
        return
    read, places = hiding(tokenizer, seed, mask_share=share)(ids, epoch=3)
    assert places == sorted(set(places)) and set(places) <= set(usual)
    assert len(places) == max(1, round(share * len(usual)))
    changed = [place for place, (one, two) in enumerate(zip(ids, read, strict=True)) if one != two]
    assert set(changed) <= set(places)
    mask = tokenizer.roles["mask_token"]
    assert all(read[place] == mask or read[place] not in special for place in places)


def test_eighty_of_a_hundred_become_the_mask_ten_another_token_ten_stay(tokenizer):
    ids = np.array(tokenizer.plain([" ".join(TEXTS) * 20])[0], dtype=np.int32)
    read, places = hiding(tokenizer, mask_share=0.5)(ids)
    mask = tokenizer.roles["mask_token"]
    masked = np.mean([read[place] == mask for place in places])
    same = np.mean([read[place] == ids[place] for place in places])
    assert masked == pytest.approx(0.8, abs=0.02)
    assert same == pytest.approx(0.1, abs=0.02)


def test_words_are_hidden_whole(tokenizer):
    new = [f"verydone souper {text}" for text in TEXTS]
    found = gaps(tokenizer, new, context=64, whole_words=True, mask_share=0.3)
    parts = 0
    for member, (start, end) in enumerate(found.spans):
        _, places = found.hidden(member)
        words = found.words[start:end]
        hidden = {int(words[place]) for place in places}
        assert sorted(places) == [place for place in range(end - start) if words[place] in hidden]
        parts += len(places) - len(hidden)
    assert parts > 0  # some of these words have several pieces


@settings(deadline=None, max_examples=30)
@given(st.lists(st.text(alphabet="abc d.", max_size=40), max_size=6), st.integers(3, 12))
def test_pieces_cover_each_document_and_cross_no_border(texts, context):
    tokenizer = masked_tokenizer(["a b c d abc"], architecture="modernbert", vocab=270)
    found = gaps(tokenizer, texts, context=context)
    documents = tokenizer.plain(texts) if texts else []
    expected = [
        document[start : start + context - 2]
        for document in documents
        for start in range(0, len(document), context - 2)
    ]
    assert [found.ids[start:end].tolist() for start, end in found.spans] == expected
    assert found.lengths == [len(piece) + 2 for piece in expected]


def test_a_tokenizer_without_a_mask_is_refused_by_name():
    with pytest.raises(SettingError, match="here: the tokenizer has no mask token.*mask_token"):
        hiding(train_tokenizer(TEXTS, vocab=300))


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5])
def test_a_share_of_nothing_or_all_is_refused(share):
    with pytest.raises(SettingError, match=r"--mask-share .* must be above 0 and below 1"):
        Hidden(mask_share=share)


def test_the_most_likely_tokens_have_their_share_of_all(tokenizer):
    logits = torch.randn(3, tokenizer.vocab_size, generator=torch.Generator().manual_seed(0))
    shares = logits.double().softmax(-1)
    for row, found in zip(shares, most_likely(logits, tokenizer, count=4), strict=True):
        assert [one.token for one in found] == row.argsort(descending=True)[:4].tolist()
        assert all(one.score == row[one.token] and one.token_str for one in found)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_tokenizer_with_a_mask_is_read_by_the_published_code_alike(tmp_path, architecture):
    from transformers import AutoTokenizer

    from clearhead.text.masks import with_masks

    made = masked_tokenizer(TEXTS, architecture=architecture, vocab=300)
    made.write(tmp_path)
    theirs, again = AutoTokenizer.from_pretrained(tmp_path), Tokenizer.read(tmp_path)
    word = theirs.mask_token
    for text in (f"the soup was {word}, and {word} .", word, f"{word}{word} good", f" a {word}\n b"):
        for ours in (made, again):
            assert list(with_masks(ours, text, name="").ids) == theirs(text)["input_ids"]
            other = text.replace(word, "[MASK]")
            one, two = (with_masks(ours, given, name="") for given in (text, other))
            assert one == two
    assert theirs("a", "b")["input_ids"] == list(made.encode([("a", "b")])[0].ids)
