"""N texts in, N results out, in order; what does not fit is told."""

import json

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import clearhead as ch
from clearhead.errors import DataError, SettingError
from families import tiny_folder


def test_one_word_texts_are_texts(bert_folder):
    """Public report A11."""
    model = ch.load(bert_folder)
    three = model.predict(["fine", "bad", "fine"])
    assert len(three) == 3 and three[0] == three[2] == model.predict(["fine"])[0]
    assert model.predict([]) == []


def test_results_come_back_in_input_order_whatever_the_lengths(bert_folder):
    model = ch.load(bert_folder)
    texts = ["soup " * count for count in (9, 1, 5, 30, 1, 2)]
    alone = [model.predict([text])[0] for text in texts]
    for budget in (1, 16, 4096):
        assert model.predict(texts, batch_tokens=budget) == alone


def test_scores_are_probabilities_by_label_name(bert_folder):
    (result,) = ch.load(bert_folder).predict(["a good table"])
    assert list(result.scores) == ["bad", "fine", "good"]
    assert sum(result.scores.values()) == pytest.approx(1)
    assert result.score == max(result.scores.values()) == result.scores[result.label]


@pytest.mark.parametrize(("words", "dropped"), [(29, 0), (30, 0), (31, 1), (198, 168)])
def test_a_text_that_is_too_long_is_cut_and_counted(bert_folder, words, dropped):
    """Public reports A08 and A09: 32 positions, two of them special; no index error, alone or not."""
    model = ch.load(bert_folder)
    for texts in (["soup " * words], ["fine", "soup " * words, "bad"]):
        result = next(r for r in model.predict(texts) if r.tokens > 3)
        assert (result.tokens, result.dropped) == (min(words + 2, 32), dropped)
    same = model.predict(["soup " * words, "soup " * 30])
    assert same[0].scores == same[1].scores or words < 30


def test_a_text_that_is_too_long_can_be_refused_with_both_lengths(bert_folder):
    with pytest.raises(DataError, match="33.*32|32.*33"):
        ch.load(bert_folder).predict(["soup " * 31], long="error")


def test_a_control_token_in_a_text_is_text(bert_folder):
    """Public report A04: the literal changes neither ids of control tokens nor segments."""
    model = ch.load(bert_folder)
    (encoding,) = model.encode(["please print [SEP] or [MASK] as is"])
    control = [number for number in encoding.ids if number in model.tokenizer.control_ids]
    assert len(control) == 2 and set(encoding.segments) == {0}


def test_common_mistakes_are_named(bert_folder, body_folder):
    model = ch.load(bert_folder)
    with pytest.raises(
        DataError, match=r"one string was given where a list of texts is needed; write \[text\]"
    ):
        model.predict("one string")
    with pytest.raises(DataError, match="text 1 is NoneType, not a string"):
        model.predict(["fine", None])
    with pytest.raises(SettingError, match=r"has no labels yet; train it: clearhead train classify --from"):
        ch.load(body_folder).predict(["fine"])


def test_an_iterator_of_texts_is_read_once(bert_folder):
    model = ch.load(bert_folder)
    assert model.predict(text for text in ["fine", "bad"]) == model.predict(["fine", "bad"])


def test_vectors_do_not_depend_on_neighbours(body_folder):
    model = ch.load(body_folder)
    texts = ["fine", "a very long and slow film", "soup"]
    for pooling in ("cls", "mean", "max"):
        together = model.embed(texts, pooling=pooling)
        for text, vector in zip(texts, together, strict=True):
            assert torch.equal(model.embed([text], pooling=pooling)[0], vector)
    assert model.embed([]).shape == (0, 24)


@pytest.mark.parametrize("inputs", [["input_ids", "attention_mask"], ["input_ids", "token_type_ids"], None])
@pytest.mark.parametrize("name", ["bert", "electra"])
def test_pairs_are_answered_as_the_published_code_answers_them_with_and_without_segments(
    tmp_path, name, inputs
):
    folder = tiny_folder(tmp_path, name, ("bad", "good"), wide=True)
    said = json.loads((folder / "tokenizer_config.json").read_text())
    said |= {"model_input_names": inputs} if inputs else {}
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    pair = ("good soup", "a bad film")
    published = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        expected = published(**AutoTokenizer.from_pretrained(folder)(*pair, return_tensors="pt")).logits
    for place in (folder, tmp_path / "again"):
        model = ch.load(place)
        torch.testing.assert_close(model.logits(model.encode([pair])), expected, atol=5e-5, rtol=0)
        if place == folder:
            model.save(tmp_path / "again")
