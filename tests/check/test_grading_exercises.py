"""Every exercise: what is right passes, in several ways of writing it; every known mistake is named."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import clearhead as ch
from clearhead.check.grading.exercises import BY_FUNCTION, EXERCISES
from clearhead.check.grading.judge import answers_of, judge, tried
from clearhead.check.grading.numbers import close
from clearhead.check.grading.runner import Answer
from clearhead.check.grading.trial import amount
from clearhead.check.grading.verdict import Outcome
from clearhead.check.grading.wire import packed, unpacked

HERE = Path(__file__).parent / "grading"
SOURCES = [
    "softmax", "softmax_cols", "self_attention_by_vector", "self_attention",
    "scaled_dot_product_self_attention", "multihead_scaled_self_attention", "layer_norm", "tokenize",
]  # fmt: skip
every_exercise = pytest.mark.parametrize("name", EXERCISES)


@every_exercise
def test_the_reference_is_right_and_so_is_the_twin_without_mistakes(name):
    exercise = EXERCISES[name]
    assert judge(exercise, answers_of(exercise), function=name).outcome is Outcome.RIGHT
    for case in [*exercise.cases(), *exercise.hard]:
        assert close(exercise.mistaken(case, frozenset()), exercise.expected(case))


@every_exercise
def test_every_mistake_is_caught_and_named_with_its_smallest_example(name):
    exercise = EXERCISES[name]
    for mistake in exercise.mistakes:
        if mistake.care:
            continue
        answers = answers_of(exercise, frozenset([mistake.name]))
        found = judge(exercise, answers, function=name)
        assert found.outcome is Outcome.WRONG, mistake.name
        assert found.mistakes == (mistake.name,)
        assert found.did == (mistake.did,) and found.says == (mistake.says,)
        assert not found.alike, f"{mistake.name} cannot be told from {found.alike}"
        assert found.example.expected != found.example.given
        sizes = [trial.size for trial in tried(exercise, answers) if not trial.right]
        assert amount(list(found.example.arguments.values())) == min(sizes)


@every_exercise
def test_the_laws_hold_for_what_is_right(name):
    exercise = EXERCISES[name]
    ask = answers_of(exercise)
    for case in exercise.cases():
        for law in exercise.laws:
            other = law.other(case) if law.other else None
            second = None if other is None else exercise.form(ask([other])[0].value)
            assert law.holds(case, exercise.expected(case), second), law.sentence


@every_exercise
def test_some_mistake_breaks_some_law(name):
    exercise = EXERCISES[name]
    assert any(breaks(exercise, law, one.name) for law in exercise.laws for one in exercise.mistakes)


def test_what_is_wrong_in_no_known_way_names_the_law_that_it_breaks():
    exercise = EXERCISES["self_attention"]

    def causal(cases):
        answers = []
        for x, *weights in cases:
            outputs = [exercise.right(x[:, : last + 1], *weights)[:, [-1]] for last in range(x.shape[1])]
            answers.append(Answer(np.hstack(outputs)))
        return answers

    found = judge(exercise, causal, function="self_attention")
    assert found.outcome is Outcome.WRONG and not found.mistakes
    assert found.laws == ("permuting the inputs permutes the outputs",)
    assert np.shape(found.example.arguments["X"]) == (1, 2)


def breaks(exercise, law, mistake):
    ask = answers_of(exercise, frozenset([mistake]))
    for case in exercise.cases():
        (first,) = ask([case])
        if first.kind:
            continue
        second = None
        if law.other:
            (other,) = ask([law.other(case)])
            if other.kind:
                continue
            second = exercise.form(other.value)
        with np.errstate(all="ignore"):
            if not law.holds(case, exercise.form(first.value), second):
                return True
    return False


def test_there_are_enough_mistakes_and_all_have_words():
    mistakes = {(one.name, mistake.name) for one in EXERCISES.values() for mistake in one.mistakes}
    assert len(mistakes) >= 80
    for exercise in EXERCISES.values():
        names = [mistake.name for mistake in exercise.mistakes]
        assert len(names) == len(set(names))
        for mistake in exercise.mistakes:
            assert mistake.did.endswith(".") and mistake.says.endswith(".")
        assert sum(mistake.care for mistake in exercise.mistakes) == bool(exercise.hard)


def test_two_mistakes_together_are_both_named():
    exercise = EXERCISES["scaled_dot_product_self_attention"]
    wrong = frozenset(["not-scaled", "no-value-bias"])
    found = judge(exercise, answers_of(exercise, wrong), function=exercise.name)
    assert found.mistakes == ("not-scaled", "no-value-bias")
    assert found.why == "Two things are wrong in known ways."


def test_what_cannot_be_told_apart_is_said():
    """With the keys' bias left out, nothing changes: it adds the same to all dot products of one query."""
    exercise = EXERCISES["self_attention"]
    for x, *weights in exercise.cases():
        without = [*weights[:5], np.zeros_like(weights[5])]
        assert close(exercise.expected((x, *without)), exercise.expected((x, *weights)))


@pytest.mark.parametrize("file", ["by_arrays", "by_float32", "by_torch", "by_lists"])
def test_right_solutions_pass_in_whatever_way_they_are_written(file):
    found = ch.grade(HERE / f"{file}.py")
    graded = [one.exercise for one in found]
    missing = set(EXERCISES) - set(graded)
    assert missing == {"by_torch": {"tokenize"}, "by_lists": set(list(EXERCISES)[15:])}.get(file, set())
    wrong = [one for one in found if one.outcome is not Outcome.RIGHT]
    assert not wrong, wrong
    assert not any(one.mistakes for one in found)


def test_every_starter_is_not_done_yet(tmp_path):
    file = tmp_path / "starters.py"
    file.write_text("\n\n".join(exercise.starter for exercise in EXERCISES.values()))
    found = ch.grade(file)
    assert [one.exercise for one in found] == list(EXERCISES)
    for one in found:
        assert one.outcome is Outcome.UNDONE, one
        assert one.why.startswith("It returns ")


def test_what_is_asked_and_answered_survives_the_pipe():
    for exercise in EXERCISES.values():
        for case in exercise.cases():
            sent = unpacked(json.loads(json.dumps(packed(list(case)))))
            assert close(exercise.expected(tuple(sent)), exercise.expected(case))


def test_names_of_functions_belong_to_one_exercise():
    names = [name for exercise in EXERCISES.values() for name in exercise.accepts]
    assert len(names) == len(set(names)) == len(BY_FUNCTION)
    assert all(exercise.accepts[0] in exercise.starter for exercise in EXERCISES.values())
    assert list(EXERCISES)[: len(SOURCES)] == SOURCES


ODD = [
    3, True, -0.5, 10**30, "x", [], {}, [[]], [[1, 2], [3]], [[1.0, 2.0]], {"a": "b"}, {"a": [1]}, {"a": 1.5},
    [{}], [{"a": 2}, None], [None], ["a"], np.zeros(0), np.zeros((2, 2)), np.full((1, 1), np.nan),
    [np.zeros((2, 1)), np.zeros((1, 1))], np.array([True]), np.full(3, np.inf), [[[1.0]]], np.arange(3),
]  # fmt: skip


@every_exercise
def test_whatever_comes_back_is_graded_without_an_error_of_ours(name):
    exercise = EXERCISES[name]
    for odd in ODD[len(name) % 3 :: 3]:
        told = unpacked(json.loads(json.dumps(packed(odd))))
        found = judge(exercise, lambda cases, told=told: [Answer(told)] * len(cases), function=name)
        assert found.outcome in (Outcome.WRONG, Outcome.UNDONE), (odd, found)
        json.dumps(asdict(found), allow_nan=False)


@every_exercise
def test_answers_that_are_right_once_and_odd_then_are_graded_too(name):
    exercise = EXERCISES[name]
    for odd in ODD[len(name) % 6 :: 6]:
        given = [Answer(exercise.right(*case)) for case in exercise.cases()]
        given[-1] = Answer(odd)
        found = judge(exercise, lambda cases, given=given: given[: len(cases)], function=name)
        assert found.outcome in (Outcome.WRONG, Outcome.RIGHT), (odd, found)
        json.dumps(asdict(found), allow_nan=False)
