"""Scores of entities, against values worked out by hand and those that seqeval's README prints."""

import pytest

from clearhead.data.schemes import places
from clearhead.data.sentences import Sentence
from clearhead.tasks.scores_tags import measure_tags
from clearhead.tasks.tag import TagResult, Tags, Word


def scores(right, said, types=()):
    right, said = ([row.split() for row in rows] for rows in (right, said))
    same = sum(one == two for a, b in zip(right, said, strict=True) for one, two in zip(a, b, strict=True))
    return measure_tags(
        [places(row) for row in right], [places(row, strict=True) for row in said],
        types=types, words=sum(map(len, right)), same=same, loss=0.5,
    )  # fmt: skip


def test_the_example_of_seqeval():
    """https://github.com/chakki-works/seqeval: F1 0.50; MISC 0, PER 1; accuracy 0.80."""
    right = ["O O O B-MISC I-MISC I-MISC O", "B-PER I-PER O"]
    said = ["O O B-MISC I-MISC I-MISC I-MISC O", "B-PER I-PER O"]
    found = scores(right, said, types=("MISC", "PER"))
    assert (found.precision, found.recall, found.f1, found.macro_f1) == (0.5, 0.5, 0.5, 0.5)
    assert found.accuracy == 0.8
    assert [(one.label, one.f1, one.entities, one.given) for one in found.classes] == [
        ("MISC", 0.0, 1, 1), ("PER", 1.0, 1, 1),
    ]  # fmt: skip


def test_what_begins_with_i_does_not_count_as_in_its_strict_mode():
    """The same page: strict mode, IOB2: F1 0 where the default mode has 1."""
    found = scores(["B-NP I-NP O"], ["I-NP I-NP O"], types=("NP",))
    assert found.f1 == 0.0 and found.classes[0].given == 0


@pytest.mark.parametrize(
    ("right", "said", "precision", "recall", "f1"),
    [
        ("B-A I-A O B-B", "B-A I-A O B-B", 1, 1, 1),
        ("B-A I-A O B-B", "B-A O O B-B", 1 / 2, 1 / 2, 1 / 2),  # an end is missed
        ("B-A I-A O B-B", "B-B I-B O B-B", 1 / 2, 1 / 2, 1 / 2),  # a type is
        ("B-A I-A I-A", "B-A B-A I-A", 0, 0, 0),  # two for one
        ("B-A B-A", "B-A I-A", 0, 0, 0),  # one for two
        ("O O", "O O", 0, 0, 0),
        ("O O", "B-A O", 0, 0, 0),
        ("B-A O B-A O B-A", "B-A O O O O", 1, 1 / 3, 1 / 2),
    ],
)
def test_an_entity_is_right_as_a_whole_or_not_at_all(right, said, precision, recall, f1):
    found = scores([right], [said], types=("A", "B"))
    assert (found.precision, found.recall, found.f1) == pytest.approx((precision, recall, f1))


def test_macro_f1_is_the_mean_over_the_models_types_also_those_that_are_not_there():
    found = scores(["B-A O"], ["B-A O"], types=("A", "B"))
    assert (found.f1, found.macro_f1) == (1.0, 0.5)
    assert found.summary()["eval_f1"] == 1.0 and found.entities == 1


@pytest.mark.parametrize(
    ("labels", "right", "said", "accuracy"),
    [
        ("O B-A I-A", "O B-A I-A", "O I-A I-A", 2 / 3),  # an entity of both, and yet a tag is another
        ("O B-A I-A", "O B-A I-A", "O B-A I-A", 1),
        ("O B-A I-A E-A S-A", "O B-A I-A", "S-A B-A E-A", 2 / 3),  # what is read as BIO is B-A E-A here
        ("O B-A I-A E-A S-A", "O O B-A", "O O B-A", 2 / 3),
    ],
)
def test_accuracy_is_the_share_of_words_with_the_tag_that_is_given(labels, right, said, accuracy):
    words = ["w"] * 3
    results = [TagResult((), tuple(Word("w", tag, 1.0, 0, 1) for tag in said.split()), 3, 0)]
    rows = [Sentence.of(words, right.split(), file="f", row=1)]
    found = Tags(tuple(labels.split())).metrics(rows, results, nats=0.0, asked=3)
    assert found.accuracy == pytest.approx(accuracy)
