"""Answers of encoder–decoders: those of the published code, and none that depends on its company."""

import json
from dataclasses import replace

import pytest
import torch

import clearhead as ch
from clearhead.check.answering import said_of
from clearhead.checkpoint.answering import FIRST, START
from clearhead.data.rows import Row
from clearhead.errors import DataError, SettingError
from clearhead.infer.beams import beam_search
from clearhead.infer.choose import choose
from clearhead.infer.continued import continued
from clearhead.infer.generate import tokens
from clearhead.settings import Generating
from float64 import in_float64
from translators import NAMES, doubled, kind, pairs, published, tiny_folder

SOURCES = [source for source, _ in pairs()]
NEW = 12


def model_of(folder, name, **changes):
    return ch.load(tiny_folder(folder, name, wide=True, **changes))


def greedy(model, sources, **options):
    found = [[] for _ in sources]
    for token in tokens(model, sources, settings=Generating(**({"max_new_tokens": NEW} | options))):
        found[token.text].append((token.id, token.log_probability, token.end))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_greedy_and_beam_answers_are_those_of_the_published_code(tmp_path, name):
    """In float64, so that no tie is decided by the last bit."""
    with torch.no_grad(), in_float64(kind(name)):
        model = model_of(tmp_path, name)
        model.loaded.network.double()
        theirs = doubled(published(name, wide=True))
        mine = greedy(model, SOURCES)
        beams = list(beam_search(model, SOURCES, settings=Generating(beams=4, samples=2, max_new_tokens=NEW)))
        for source, answer, best in zip(SOURCES, mine, beams, strict=True):
            given = {"input_ids": torch.tensor([source]), "max_new_tokens": NEW, "do_sample": False}
            one = theirs.generate(**given, num_beams=1)[0, 1:].tolist()
            assert [id for id, _, _ in answer] == one
            several = theirs.generate(**given, num_beams=4, num_return_sequences=2)[:, 1:].tolist()
            pad = theirs.config.pad_token_id
            assert [list(beam.ids) for beam in best] == [
                row[: len(beam.ids)] for row, beam in zip(several, best, strict=True)
            ]
            assert all(set(row[len(beam.ids) :]) <= {pad} for row, beam in zip(several, best, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_no_answer_depends_on_its_company(tmp_path, name):
    model = model_of(tmp_path, name)
    asked = Generating(beams=3, samples=3, max_new_tokens=NEW, batch_texts=4)
    together, reversed_ = greedy(model, SOURCES), greedy(model, SOURCES[::-1], batch_texts=3)[::-1]
    searched = list(beam_search(model, SOURCES, settings=asked))
    sampled = greedy(model, SOURCES, temperature=1.0, seed=3)
    assert together == reversed_
    for index, source in list(enumerate(SOURCES))[::3]:
        assert greedy(model, [source]) == [together[index]]
        assert list(beam_search(model, [source], settings=asked)) == [searched[index]]
        assert greedy(model, [source], temperature=1.0, seed=3) == [sampled[index]]


def test_the_first_token_may_be_given_and_some_never_said(tmp_path):
    said = {"bart": {"forced_bos_token_id": 7}, "marian": {"bad_words_ids": [[1]]}}
    for name, fields in said.items():  # as the published folders state it, older than the code
        path = tiny_folder(tmp_path / name, name, wide=True) / "config.json"
        (path.parent / "generation_config.json").unlink()
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    model = ch.load(tmp_path / "bart")
    assert model.loaded.begin.first == 7
    assert all(answer[0][0] == 7 for answer in greedy(model, SOURCES))
    marian = ch.load(tmp_path / "marian")
    assert marian.loaded.begin.never == (1,)
    assert all(id != 1 for answer in greedy(marian, SOURCES) for id, _, _ in answer)


GIVEN = {"bos_token_id": 2, "decoder_start_token_id": 3, "eos_token_id": 3, "pad_token_id": 1}
BEGUN = [
    ({"forced_bos_token_id": 17}, None),
    ({"forced_bos_token_id": 17}, GIVEN),
    ({"forced_bos_token_id": 17}, GIVEN | {"forced_bos_token_id": None}),
    ({"forced_bos_token_id": 17}, GIVEN | {"forced_bos_token_id": 18}),
    ({"force_bos_token_to_be_generated": True}, None),
    ({"force_bos_token_to_be_generated": False}, None),
    ({"force_bos_token_to_be_generated": True, "forced_bos_token_id": 17}, None),
    ({"force_bos_token_to_be_generated": True}, GIVEN),
    ({"bad_words_ids": [[5], [13]]}, None),
    ({"bad_words_ids": [[5], [13]]}, GIVEN),
    ({"bad_words_ids": [[5], [13]]}, GIVEN | {"bad_words_ids": [[6]]}),
    ({"decoder_start_token_id": 9}, GIVEN),
    ({"decoder_start_token_id": 9}, {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 1}),
]


@pytest.mark.parametrize(("config", "generation"), BEGUN)
def test_answers_begin_as_the_published_code_reads_both_files(tmp_path, config, generation):
    """The one file takes the place of the other's fields; an old field counts where the newer file is not."""
    folder = tiny_folder(tmp_path / "bart", "bart", wide=True)
    facts = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(facts | config))
    (folder / "generation_config.json").unlink()
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    theirs, model = kind("bart").from_pretrained(folder), ch.load(folder)
    for source in SOURCES[:4]:
        given = {"input_ids": torch.tensor([source]), "max_new_tokens": NEW, "do_sample": False}
        right = theirs.generate(**given, attention_mask=torch.ones(1, len(source), dtype=torch.long))[
            0
        ].tolist()
        (answer,) = greedy(model, [source])
        assert [model.loaded.begin.start, *(id for id, _, _ in answer)] == right
    begin = model.loaded.begin
    stated = (begin.start, begin.first, [[id] for id in begin.never] or None)
    assert tuple(said_of(folder, name) for name in (START, FIRST, "bad_words_ids")) == stated


def test_a_model_that_does_not_say_how_answers_begin_is_told_so(tmp_path):
    model = model_of(tmp_path, "t5", decoder_start_token_id=None)
    with pytest.raises(SettingError, match="does not say which token its answers begin with"):
        greedy(model, SOURCES)


def test_answers_are_at_most_twice_as_long_as_texts_and_sixteen(tmp_path):
    model = model_of(tmp_path, "t5", eos_token_id=0)
    object.__setattr__(model.loaded, "ends", ())
    found = greedy(model, SOURCES[:5], max_new_tokens=None)
    assert [len(answer) for answer in found] == [2 * len(source) + 16 for source in SOURCES[:5]]


def test_wrong_sources_are_refused_by_number(tmp_path):
    model = model_of(tmp_path, "bart")
    greedy(model, [[5] * 40])  # all positions: an answer has its own
    with pytest.raises(DataError, match="prompt 1 has 41 tokens, and the model has 40 positions; shorten"):
        greedy(model, [[5], [5] * 41])
    with pytest.raises(DataError, match="prompt 0 is empty"):
        greedy(model, [[]])


def test_one_of_several_answers_is_chosen_by_its_log_probability(tmp_path):
    model = model_of(tmp_path, "marian")
    found = choose(model, SOURCES[4], options=["soup", "good bread"])
    for choice in found:
        (ids,) = model.loaded.writer.plain([choice.text])
        start = model.loaded.begin.start
        with torch.inference_mode():
            from clearhead.model.layout import pack

            network = model.loaded.network
            before = [start, *ids[:-1]]
            source, target = (
                pack([SOURCES[4]], beside=[len(before)]),
                pack([before], beside=[len(SOURCES[4])]),
            )
            said = network.next_logits(network.answering(source, target)).log_softmax(-1)
        right = sum(float(said[place, id]) for place, id in enumerate(ids))
        assert choice.log_probability == pytest.approx(right, abs=1e-4)


def test_what_is_asked_for_by_files_keeps_its_order_and_empty_texts(tmp_path):
    model = model_of(tmp_path, "t5")
    texts = ["good bread", "  ", "the soup was cold .", "x" * 3000]
    rows = [Row(text, None, "f", number, {}) for number, text in enumerate(texts, 1)]
    found = continued(model, rows, settings=Generating(max_new_tokens=5))
    assert [row.text for row, _ in found] == texts
    answers = [answer for _, answer in found]
    assert answers[1].answer is None and answers[1].tokens == 0
    assert all(answer.tokens for place, answer in enumerate(answers) if place != 1)
    one = continued(model, rows[2:3], settings=Generating(max_new_tokens=5))
    assert one == found[2:3]


def test_a_text_of_a_pair_that_is_too_long_is_named_by_file_and_row(tmp_path):
    model = model_of(tmp_path / "m", "bart")
    (tmp_path / "x.en").write_text("good\n" + "soup " * 60 + "\n")
    (tmp_path / "x.de").write_text("gut\nSuppe\n")
    given = {"references": str(tmp_path / "x.de"), "format": "text", "max_new_tokens": 3}
    with pytest.raises(DataError, match=r"x.en, row 2: the text has \d+ tokens, the model takes 32"):
        ch.evaluate(model, tmp_path / "x.en", long="error", **given)
    scores = ch.evaluate(model, tmp_path / "x.en", **given).metrics
    assert scores.texts == 2 and scores.truncated == 1


def test_a_prefix_is_read_and_not_told(tmp_path):
    model = model_of(tmp_path, "t5")
    rows = [Row("soup", None, "f", 1, {}), Row(" ", None, "f", 2, {})]
    ways = Generating(max_new_tokens=4)
    (row, answer), (_, nothing) = continued(model, rows, settings=ways, prefix="the good ")
    whole = continued(model, [replace(rows[0], text="the good soup")], settings=ways)
    assert row.text == "soup" and answer == whole[0][1] and nothing.answer is None
