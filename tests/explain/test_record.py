"""What is recorded is what the published code's eager attention computes, and recording changes nothing."""

import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import clearhead as ch
import decoders
import families
import translators
from clearhead.checkpoint.folder import read_folder
from clearhead.engine.dropout import Dropout
from clearhead.errors import SettingError
from clearhead.explain import patterns
from clearhead.explain.record import record
from clearhead.infer.beams import beam_search
from clearhead.infer.choose import choose
from clearhead.infer.generate import tokens
from clearhead.model.kernels import Context
from clearhead.model.layout import pack
from clearhead.settings import Generating
from clearhead.tasks.translate import side_by_side
from clearhead.text.encoding import Encoding
from float64 import in_float64

CLOSE = {"atol": 1e-10, "rtol": 1e-10}
PROMPTS = [[7, 8, 9], [10, 11, 12, 13, 14, 15, 16, 17], [20, 21, 22], [5]]


def in_double(folder):
    """A loaded model that computes in float64."""
    model = ch.load(folder)
    model.loaded.network.double()
    return model


def recorded_as_published(theirs, folder):
    """All weights and streams of an encoder, or of a stack of any other kind, are the published code's."""
    network, ids = read_folder(folder).network.double(), families.texts()
    theirs.double()
    with record(network, what=["pattern", "resid_pre", "resid_post"]) as seen:
        network(pack(ids))
    assert len(seen) == len(ids)
    for one, row in zip(seen, ids, strict=True):
        told = theirs(input_ids=torch.tensor([row]), output_attentions=True, output_hidden_states=True)
        assert one.ids == tuple(row) and one.queries == tuple(range(len(row)))
        assert list(one.attention) == list(range(network.config.layers))
        for layer, weights in one.attention.items():
            torch.testing.assert_close(weights, told.attentions[layer][0], **CLOSE)
            ones = torch.ones(weights.shape[:2], dtype=weights.dtype)
            torch.testing.assert_close(weights.sum(-1), ones, **CLOSE)
            torch.testing.assert_close(one["resid_pre"][layer], told.hidden_states[layer][0], **CLOSE)
            if layer + 1 < network.config.layers:
                after = one["resid_post"][layer]
                torch.testing.assert_close(after, told.hidden_states[layer + 1][0], **CLOSE)


@pytest.mark.shows("record")
@pytest.mark.parametrize("labels", [(), ("a", "b", "c")], ids=["body", "head"])
@pytest.mark.parametrize("name", families.NAMES)
def test_an_encoders_weights_are_those_of_the_published_eager_code(tmp_path, name, labels):
    with torch.no_grad(), in_float64(*families.kinds(name)):
        families.tiny_folder(tmp_path, name, labels, wide=True)
        theirs = families.published(name, labels, wide=True, attn_implementation="eager")
        recorded_as_published(theirs, tmp_path)


@pytest.mark.shows("record")
@pytest.mark.parametrize("over", families.OVER)
@pytest.mark.parametrize("name", families.NAMES)
def test_weights_under_a_head_over_tokens_are_the_published_ones(tmp_path, name, over):
    theirs = families.over_tokens(name, over, wide=True, attn_implementation="eager")
    with torch.no_grad(), in_float64(type(theirs), type(theirs.base_model)):
        theirs = families.over_tokens(name, over, wide=True, attn_implementation="eager")
        theirs.save_pretrained(tmp_path)
        families.write_tokenizer(tmp_path, name)
        recorded_as_published(theirs, tmp_path)


@pytest.mark.shows("record")
@pytest.mark.parametrize("fills", [True])
@pytest.mark.parametrize("name", families.NAMES)
def test_weights_under_a_head_for_masks_are_the_published_ones(tmp_path, name, fills):
    with torch.no_grad(), in_float64(*families.kinds(name)):
        theirs = families.filler(name, wide=True, attn_implementation="eager")
        theirs.save_pretrained(tmp_path)
        families.write_tokenizer(tmp_path, name)
        recorded_as_published(theirs, tmp_path)


@pytest.mark.shows("record")
@pytest.mark.parametrize("embeds", [True])
@pytest.mark.parametrize("name", families.NAMES)
def test_vectors_are_made_with_the_published_weights(tmp_path, name, embeds):
    texts = ["good bread", "the film was not so good", "slow", "good bread"]
    with torch.no_grad(), in_float64(*families.kinds(name)):
        families.tiny_folder(tmp_path, name, wide=True)
        theirs = families.published(name, wide=True, attn_implementation="eager").double()
        model = in_double(tmp_path)
        with record(model) as seen:
            model.embed(texts)
        assert [one.ids for one in seen] == [one.ids for one in model.encode(texts)]
        for one in seen:
            told = theirs(input_ids=torch.tensor([one.ids]), output_attentions=True)
            for layer, weights in one.attention.items():
                torch.testing.assert_close(weights, told.attentions[layer][0], **CLOSE)


@pytest.mark.shows("record")
@pytest.mark.parametrize("speaks", [False])
@pytest.mark.parametrize("name", decoders.NAMES)
def test_a_decoder_without_a_head_has_the_published_weights(tmp_path, name, speaks):
    with torch.no_grad(), in_float64(*decoders.kinds(name)):
        decoders.tiny_folder(tmp_path, name, speaks=False, wide=True)
        recorded_as_published(decoders.published(name, speaks=False, wide=True), tmp_path)


@pytest.mark.shows("record")
@pytest.mark.parametrize("speaks", [True])
@pytest.mark.parametrize("name", decoders.NAMES)
def test_a_decoders_weights_are_the_same_at_once_in_steps_and_in_beams(tmp_path, name, speaks):
    with torch.no_grad(), in_float64(*decoders.kinds(name)):
        theirs = decoders.published(name, wide=True)
        decoders.tiny_folder(tmp_path, name, wide=True)
        theirs.double()
        model = in_double(tmp_path)
        with record(model) as seen:
            model.loaded.network(pack(PROMPTS))
        for one, row in zip(seen, PROMPTS, strict=True):
            told = theirs(input_ids=torch.tensor([row]), output_attentions=True)
            for layer, weights in one.attention.items():
                torch.testing.assert_close(weights, told.attentions[layer][0], **CLOSE)
        ways = Generating(max_new_tokens=9, lookup=0)
        with record(model) as seen:
            made = list(tokens(model, PROMPTS, settings=ways))
        assert len(seen) == len(PROMPTS)
        for index, (one, row) in enumerate(zip(seen, PROMPTS, strict=True)):
            whole = (row + [token.id for token in made if token.text == index])[:-1]
            assert one.ids == tuple(whole)
            told = theirs(input_ids=torch.tensor([whole]), output_attentions=True)
            for layer, weights in one.attention.items():
                torch.testing.assert_close(weights, told.attentions[layer][0], **CLOSE)
        searched = Generating(max_new_tokens=9, beams=4, samples=3)
        with record(model) as seen:
            answers = list(beam_search(model, PROMPTS, settings=searched))
        assert len(seen) == 3 * len(PROMPTS)
        found = iter(seen)
        for row, beams in zip(PROMPTS, answers, strict=True):
            told = theirs.generate(
                torch.tensor([row]), max_new_tokens=9, num_beams=4, num_return_sequences=3,
                pad_token_id=0, output_attentions=True, return_dict_in_generate=True, do_sample=False,
            )  # fmt: skip
            for rank, beam in enumerate(beams):
                one = next(found)
                assert one.ids == (*row, *beam.ids[:-1])
                for layer, weights in one.attention.items():
                    for step in range(len(beam.ids)):
                        right = told.attentions[step][layer][told.beam_indices[rank, step]]
                        end = len(row) + step
                        rows = weights[:, end - right.shape[1] : end]
                        mine = rows[..., end - right.shape[2] : end]  # a window's cache drops what is behind
                        torch.testing.assert_close(mine, right, **CLOSE)
                        torch.testing.assert_close(rows.sum(), mine.sum(), **CLOSE)


@pytest.mark.shows("record")
@pytest.mark.parametrize("translates", [True])
@pytest.mark.parametrize("name", translators.NAMES)
def test_a_translators_weights_are_the_same_at_once_in_steps_and_in_beams(tmp_path, name, translates):
    pairs = translators.pairs()[1:6]
    with torch.no_grad(), in_float64(translators.kind(name)):
        theirs = translators.doubled(translators.published(name, wide=True))
        model = in_double(translators.tiny_folder(tmp_path, name, wide=True))
        with record(model) as seen:
            model.loaded.network.answering(*side_by_side([a for a, _ in pairs], [b for _, b in pairs]))
        for one, (asked, answer) in zip(seen, pairs, strict=True):
            told = theirs(
                input_ids=torch.tensor([asked]),
                decoder_input_ids=torch.tensor([answer]),
                output_attentions=True,
            )
            assert one.ids == tuple(answer) and one.source.ids == tuple(asked)
            same(one, told)
        asked = [source for source, _ in pairs]
        for ways in ({}, {"beams": 3, "samples": 2}):
            how = Generating(max_new_tokens=8, **ways)
            with record(model) as seen:
                if ways:
                    answers = [b.ids for found in beam_search(model, asked, settings=how) for b in found]
                else:
                    made = list(tokens(model, asked, settings=how))
                    answers = [tuple(t.id for t in made if t.text == text) for text in range(len(asked))]
            assert len(seen) == len(answers)
            for number, (one, answer) in enumerate(zip(seen, answers, strict=True)):
                said = [model.loaded.begin.start, *answer[:-1]]
                assert one.ids == tuple(said)
                told = theirs(
                    input_ids=torch.tensor([asked[number * len(asked) // len(answers)]]),
                    decoder_input_ids=torch.tensor([said]),
                    output_attentions=True,
                )
                same(one, told)


def same(one, told):
    """One record's weights and the published code's: the decoder's own, to the source, the encoder's."""
    for layer, weights in one.attention.items():
        torch.testing.assert_close(weights, told.decoder_attentions[layer][0], **CLOSE)
    for layer, weights in one.cross.items():
        torch.testing.assert_close(weights, told.cross_attentions[layer][0], **CLOSE)
    for layer, weights in one.source.attention.items():
        torch.testing.assert_close(weights, told.encoder_attentions[layer][0], **CLOSE)
    assert len(one.cross) == len(told.cross_attentions)
    assert len(one.source.attention) == len(told.encoder_attentions)


EVERYTHING = ["pattern", "q", "k", "v", "z", "attn_out", "resid_pre", "mlp_out", "resid_post", "embed"]


@pytest.mark.parametrize("name", ["bert", "gpt2", "bart"])
def test_recording_changes_no_bit(tmp_path, name):
    if name == "bert":
        model = ch.load(families.tiny_folder(tmp_path, name, ("a", "b"), wide=True))
        texts = ["good bread", "the film was not so good , and the soup was cold", "slow", "good bread"]
        before = model.predict(texts)
        with record(model, what=EVERYTHING) as seen:
            after = model.predict(texts)
        encoded = model.encode(texts)
        assert [one.ids for one in seen] == [tuple(one.ids) for one in encoded]
    else:
        make = decoders.tiny_folder if name == "gpt2" else translators.tiny_folder
        model = ch.load(make(tmp_path, name, wide=True))
        how = Generating(max_new_tokens=12, lookup=4)
        before = list(tokens(model, PROMPTS, settings=how))
        with record(model, what=EVERYTHING) as seen:
            after = list(tokens(model, PROMPTS, settings=how))
        assert len(seen) == len(PROMPTS)
    assert before == after


def made_by(model, prompts):
    """The ids of the first prompt's answer."""
    return [t.id for t in tokens(model, prompts, settings=Generating(max_new_tokens=6)) if t.text == 0]


@pytest.mark.parametrize("ends", [False, True], ids=["by length", "by a stop"])
def test_guesses_that_were_taken_back_leave_nothing_in_a_record(tmp_path, ends):
    model = in_double(decoders.tiny_folder(tmp_path, "gpt2", wide=True))
    prompts = [[7, 8, 9, 7, 8, 9, 7, 8], [4, 5, 4, 5, 4, 5]]
    stop = model.tokenizer.name(made_by(model, prompts)[-1]) if ends else None
    found = {}
    for lookup in (0, 6):
        how = Generating(max_new_tokens=20, lookup=lookup, stop=[stop] if stop else None)
        with record(model, what=["pattern", "k", "resid_post"]) as seen:
            list(tokens(model, prompts, settings=how))
        found[lookup] = list(seen)
    for plain, guessed in zip(found[0], found[6], strict=True):
        assert plain.ids == guessed.ids and plain.queries == guessed.queries
        for what in ("pattern", "k", "resid_post"):
            for layer, numbers in plain[what].items():
                torch.testing.assert_close(guessed[what][layer], numbers, **CLOSE)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return ch.load(families.tiny_folder(tmp_path_factory.mktemp("bert"), "bert", ("a", "b"), wide=True))


def test_layers_heads_and_queries_are_chosen(bert):
    text = "the film was not so good"
    with record(bert, what=["pattern", "q", "k", "resid_mid"]) as whole:
        bert.predict([text])
    with record(
        bert, layers=[-1, 0], heads=2, queries=[1, -1, 90], what=["pattern", "q", "k", "resid_mid"]
    ) as s:
        bert.predict([text])
    full, part = whole[0], s[0]
    last = len(full.ids) - 1
    assert part.queries == (1, last) and list(part.attention) == [0, 2]
    for layer in (0, 2):
        assert torch.equal(part.attention[layer], full.attention[layer][[2]][:, [1, last]])
        assert torch.equal(part["q"][layer], full["q"][layer][[1, last]][:, [2]])
        assert torch.equal(part["k"][layer], full["k"][layer][:, [2]])
        assert torch.equal(part["resid_mid"][layer], full["resid_mid"][layer][[1, last]])
    with record(bert, queries=slice(2, None, 2)) as some:
        bert.predict([text])
    assert some[0].queries == tuple(range(2, last + 1, 2))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"layers": [3]}, "layers=3: the model has 3, 0 to 2"),
        ({"heads": [0, -5]}, "heads=-5: the model has 4, 0 to 3"),
        ({"heads": [1.5]}, "heads=1.5 is not a whole number"),
        ({"what": "patterns"}, "what='patterns' is not one of .*pattern"),
        ({"what": ["pattern", "cross_q"]}, "what='cross_q' is of a decoder that reads another text"),
        ({"what": []}, "what=.* asks for nothing"),
    ],
)
def test_what_is_not_there_is_refused_by_name(bert, asked, said):
    with pytest.raises(SettingError, match=said), record(bert, **asked):
        raise AssertionError("nothing is recorded")
    with pytest.raises(SettingError, match="str was given where a loaded model is needed"), record("bert"):
        pass


def test_two_threads_on_one_model_do_not_see_each_other(bert):
    texts = [["good bread", "slow"], ["the soup was cold", "bad", "fine place"]]
    begin, found = threading.Barrier(3), {}

    def work(number):
        with record(bert, layers=[number]) as seen:
            begin.wait()
            for _ in range(20):
                bert.predict(texts[number])
            found[number] = list(seen)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for worker in workers:
        worker.start()
    begin.wait()
    with record(bert, layers=[2]) as nobody:
        for worker in workers:
            worker.join()
    assert len(nobody) == 0
    for number in range(2):
        own = [tuple(one.ids) for one in bert.encode(texts[number])] * 20
        assert [one.ids for one in found[number]] == own
        assert all(list(one.attention) == [number] for one in found[number])


def test_recorders_within_recorders_each_see_theirs_and_end_with_their_block(bert):
    with record(bert, layers=[0]) as outer:
        bert.predict(["good bread"])
        try:
            with record(bert, layers=[1], what="z") as inner:
                bert.predict(["slow", "bad"])
                raise ZeroDivisionError
        except ZeroDivisionError:
            bert.predict(["fine"])
    bert.predict(["cold"])
    assert len(outer) == 4 and len(inner) == 2
    assert list(inner[0]["z"]) == [1] and not inner[0].attention


def test_another_models_calls_are_not_recorded(bert, tmp_path):
    other = ch.load(families.tiny_folder(tmp_path, "bert", ("a", "b")))
    with record(bert) as seen:
        other.predict(["good bread"])
    assert len(seen) == 0


def test_a_training_step_is_recorded_too(bert):
    network, drop = bert.loaded.network, Dropout(torch.Generator().manual_seed(0), 0.5)
    batch = pack([[5, 6, 7], [8, 9]])
    with record(network) as seen:
        loss = network(batch, Context.of(batch.layout, drop=drop)).sum()
    loss.backward()
    network.zero_grad()
    assert [one.ids for one in seen] == [(5, 6, 7), (8, 9)]
    for one in seen:
        for weights in one.attention.values():  # before dropout: they sum to 1
            assert not weights.requires_grad
            torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:2]))


def test_looking_changes_nothing_where_there_is_nothing_to_see(tmp_path):
    # pytorch/pytorch#160064: the path that also gave weights gave NaN where a row saw nothing.
    network = ch.load(translators.tiny_folder(tmp_path, "bart", wide=True)).loaded.network
    source, target = side_by_side([[], [5, 6, 7]], [[8, 9], [10]])
    with torch.no_grad():
        before = network.answering(source, target)
        with record(network, what=["pattern", "cross_pattern", "cross_z"]) as seen:
            after = network.answering(source, target)
    assert torch.equal(before, after) and bool(after[: sum(target.layout.lengths)].isfinite().all())
    for one, read in zip(seen, (0, 3), strict=True):
        for layer, weights in one.cross.items():
            assert weights.shape == (4, len(one.ids), read) and bool(weights.isfinite().all())
            assert torch.equal(one["cross_z"][layer], one["cross_z"][layer] * bool(read))
        for weights in one.attention.values():
            torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:2]))


@pytest.mark.parametrize("name", ["llama", "mistral", "t5"])
def test_weights_made_in_chunks_are_the_same(tmp_path, monkeypatch, name):
    make = translators.tiny_folder if name == "t5" else decoders.tiny_folder
    network = ch.load(make(tmp_path, name, wide=True)).loaded.network.double()
    found = []
    for room in (patterns.ROOM, 40):
        monkeypatch.setattr(patterns, "ROOM", room)
        with torch.no_grad(), record(network, heads=[0, 3], queries=[0, 1, 2, 9, 11, 12, 30]) as seen:
            network(pack([list(range(5, 45)), [5, 6, 7]]))
        found.append(seen.sources if name == "t5" else seen.records)
    for one, other in zip(*found, strict=True):
        assert one.queries == other.queries
        for layer, weights in one.attention.items():
            torch.testing.assert_close(other.attention[layer], weights, **CLOSE)


def test_a_text_in_windows_has_a_record_for_each_window(bert):
    text = "the film was not so good , and the soup was cold " * 4
    with record(bert) as seen:
        bert.predict(["slow", text], long="window")
    windows = [window.ids for one in bert.examples(["slow", text], long="window") for window in one.windows]
    assert len(windows) > 2 and [one.ids for one in seen] == windows


@given(st.lists(st.lists(st.integers(5, 40), min_size=1, max_size=12), min_size=1, max_size=6), st.data())
@settings(max_examples=30, deadline=None)
def test_any_texts_in_any_batches_have_the_records_they_have_alone(bert, texts, data):
    budget = data.draw(st.integers(1, 40))
    zeros = [(0,) * len(ids) for ids in texts]
    encodings = [
        Encoding(tuple(ids), zero, ((0, 0),) * len(ids), zero, 0)
        for ids, zero in zip(texts, zeros, strict=True)
    ]
    with record(bert, layers=[1], what=["pattern", "resid_post"]) as seen:
        bert.logits(encodings, batch_tokens=budget)
    assert [one.ids for one in seen] == [tuple(ids) for ids in texts]
    for one, encoding in zip(seen, encodings, strict=True):
        with record(bert, layers=[1], what=["pattern", "resid_post"]) as alone:
            bert.logits([encoding])
        assert torch.equal(alone[0]["resid_post"][1], one["resid_post"][1])
        torch.testing.assert_close(alone[0].attention[1], one.attention[1], atol=1e-6, rtol=1e-6)


def test_an_answer_is_recorded_when_its_last_token_is_there(tmp_path):
    model = ch.load(decoders.tiny_folder(tmp_path, "gpt2", wide=True))
    with record(model) as seen:
        for token in tokens(model, [[7, 8, 9]], settings=Generating(max_new_tokens=4)):
            if token.end:
                break
        assert len(seen) == 1 and len(seen[0].ids) == 6


@pytest.mark.parametrize("name", ["gpt2", "bart"])
def test_each_answer_that_is_weighed_has_a_record(tmp_path, name):
    make = decoders.tiny_folder if name == "gpt2" else translators.tiny_folder
    model = ch.load(make(tmp_path, name, wide=True))
    options = ["good", "so good , so cold", "bread"]
    with record(model) as seen:
        choose(model, [7, 8, 9], options=options)
    pieces = model.loaded.writer.plain(options)
    before = [7, 8, 9] if name == "gpt2" else [model.loaded.begin.start]
    assert [one.ids for one in seen] == [(*before, *piece[:-1]) for piece in pieces]
    network = model.loaded.network
    for one in seen:
        with torch.no_grad(), record(network) as whole:
            if name == "gpt2":
                network(pack([one.ids]))
            else:
                network.answering(*side_by_side([[7, 8, 9]], [one.ids]))
        for layer, weights in whole[0].attention.items():
            torch.testing.assert_close(one.attention[layer], weights, atol=1e-5, rtol=1e-5)
