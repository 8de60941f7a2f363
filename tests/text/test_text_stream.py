"""Text while it comes: whole characters only, and nothing of a stop string."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from text_folders import published_folders
from tokenizers import Tokenizer as Core
from tokenizers import decoders, models
from tokenizers.pre_tokenizers import ByteLevel

from clearhead.text.stream import HALF, Stream, text_of
from clearhead.text.tokenizer import Tokenizer
from published_decoders import llama


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    folders = published_folders(tmp_path_factory.mktemp("folders"))
    return {name: Tokenizer.read(folder) for name, folder in folders.items()}


texts = st.text(max_size=30) | st.sampled_from(
    ["測試 🧪 и ok", "🙂🙃 naïve", "東京 мир", "e\u0301 ﬁ", "👩\u200d👧 a", "  two  spaces \n"]
)


@settings(deadline=None)
@given(text=texts, stops=st.lists(st.text(min_size=1, max_size=3), max_size=2), data=st.data())
def test_pieces_are_the_text_up_to_the_first_stop(tokenizers, text, stops, data):
    tokenizer = tokenizers[data.draw(st.sampled_from(sorted(tokenizers)))]
    ids = tokenizer.encode([text])[0].ids
    whole = tokenizer.decode(ids)
    stream = Stream(tokenizer, stops)
    pieces = []
    for id in ids:
        pieces.append(stream.push(id))
        if stream.stopped is not None:
            break
    pieces.append(stream.close())
    places = [whole.find(stop) for stop in stops if stop in whole]
    assert "".join(pieces) == (whole[: min(places)] if places else whole)
    assert (stream.stopped is not None) == bool(places)


@settings(deadline=None)
@given(text=texts)
def test_no_half_character_is_shown(tokenizers, text):
    for tokenizer in tokenizers.values():
        if not tokenizer.lossless or HALF in text:
            continue
        stream = Stream(tokenizer)
        assert not any(HALF in stream.push(id) for id in tokenizer.encode([text])[0].ids)


@pytest.mark.parametrize("cut", range(1, 18))
def test_a_public_report_of_characters_spread_over_tokens(cut):
    """Public report A14: bytes without merges, also stopped by length within a character."""
    core = Core(
        models.BPE(vocab={piece: id for id, piece in enumerate(sorted(ByteLevel.alphabet()))}, merges=[])
    )
    core.pre_tokenizer, core.decoder = ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = Tokenizer(core)
    ids = tokenizer.encode(["測試 🧪 и ok"])[0].ids
    assert len(ids) == 17
    stream = Stream(tokenizer)
    pieces = [stream.push(id) for id in ids[:cut]]
    assert not any(HALF in piece for piece in pieces)
    assert "".join(pieces) + stream.close() == tokenizer.decode(ids[:cut])


def test_an_answer_is_what_it_adds_to_its_prompt(tokenizers):
    """A decoder that takes away the space before a text must not take it from an answer."""
    compared = 0
    for name, tokenizer in tokenizers.items():
        for prompt, answer in (("the cat", " sat down"), ("one two", " three"), ("a", "b c")):
            first = tokenizer.plain([prompt])[0]
            whole = tokenizer.plain([prompt + answer])[0]
            if whole[: len(first)] != first:
                continue  # the answer changes how the prompt is cut
            right = tokenizer.decode(whole)[len(tokenizer.decode(first)) :]
            assert text_of(tokenizer, whole[len(first) :], before=first) == right, name
            stream = Stream(tokenizer, [" "], before=first)
            pieces = "".join(stream.push(id) for id in whole[len(first) :]) + stream.close()
            assert pieces == right.split(" ")[0] and (stream.stopped == " ") == (" " in right)
            compared += 1
    assert compared > 10


PIECES = st.lists(st.sampled_from(["soup", " ", "a", "🤷🏽", "漢字", "é", "ࠀ", "\n"]), max_size=7).map(
    "".join
)


@settings(deadline=None)
@given(prompt=PIECES, answer=PIECES)
def test_characters_in_bytes_one_after_another_are_shown_whole(prompt, answer):
    """Llama's decoder gives nothing but � for a run of bytes of which it has not all."""
    tokenizer = Tokenizer(llama(), {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"})
    before, whole = tokenizer.plain([prompt, prompt + answer])
    assume(whole[: len(before)] == before)
    stream = Stream(tokenizer, before=before)
    parts = [*(stream.push(id) for id in whole[len(before) :]), stream.close()]
    assert "".join(parts) == tokenizer.decode(whole)[len(tokenizer.decode(before)) :]
    assert not any(HALF in part for part in parts)
