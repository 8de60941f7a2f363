"""Pairs as ids: an answer that is cut keeps the token that ends it, and every cut is told."""

import pytest

import clearhead as ch
from clearhead.tasks.translate import encoded
from published_seq2seq import build, descriptions
from translators import NAMES, tiny_folder

TEXT = "the good soup was not very warm, bread and wine!"
BUILT = {description["repository"]: description for description in descriptions()}


@pytest.fixture(scope="module", params=[*BUILT, *NAMES])
def loaded(request, tmp_path_factory):
    """Every published repository, and every family with a tokenizer that puts a token before texts."""
    folder = tmp_path_factory.mktemp("models") / "model"
    if request.param in BUILT:
        build(BUILT[request.param], folder)
    else:
        tiny_folder(folder, request.param, decoder_start_token_id=2)
    return ch.load(folder, allow_bin=True).loaded


def test_an_answer_of_any_length_ends_with_its_end_and_what_is_cut_is_told(loaded):
    pairs = [(TEXT, TEXT)]
    ((read,), (whole,), none) = encoded(loaded, pairs, most=10_000)
    assert whole[-1] in loaded.ends and not none
    begun = whole[0] == loaded.begin.start
    assert (
        not begun or loaded.writer.encode([TEXT])[0].ids.count(whole[0]) > 1
    )  # one that both begins and ends
    for most in range(3, max(len(read), len(whole)) + 3):
        ((source,), (answer,), cut) = encoded(loaded, pairs, most=most)
        assert len(source) == min(len(read), most) and source[-1] == read[-1]
        assert answer == (whole if len(whole) <= most else [*whole[: most - 1], whole[-1]])
        assert cut == (len(whole) > most or len(read) > most)
