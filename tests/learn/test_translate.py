"""Runs that learn what texts become: the whole way, stopped and gone on with, further from another model."""

import json
from pathlib import Path

import pytest
import torch
import transformers

import clearhead as ch
import clearhead.app
from clearhead.app.cli import main
from clearhead.app.translating import report_of
from clearhead.check.finding import Verdict
from clearhead.check.verify import battery
from clearhead.engine.modes import own_modes
from clearhead.errors import DataError, Interrupted, SettingError
from clearhead.learn.translate import TranslateRun
from clearhead.settings import Translating
from clearhead.tasks.language import IGNORED, next_token_loss
from clearhead.tasks.translate import Translations, side_by_side
from published_seq2seq import build, descriptions
from translators import NAMES, pairs, published, tiny_folder

MARIAN = next(one for one in descriptions() if one["repository"] == "Helsinki-NLP/opus-mt-en-de")

NOUNS = ["dog", "cat", "bird", "fish", "cow", "horse"]
COLOURS = ["red", "green", "blue", "white"]


def files(folder, count=60):
    """A toy language: the adjective goes behind, and words are spelled backwards."""
    lines = [(COLOURS[n % 4], NOUNS[(n * 7 + n // 6) % 6]) for n in range(count)]
    (folder / "t.en").write_text("".join(f"the {a} {b} runs\n" for a, b in lines))
    (folder / "t.xx").write_text("".join(f"{b[::-1]} {a[::-1]}\n" for a, b in lines))
    return [str(folder / "t.en"), str(folder / "t.xx")]


def settings(folder, **options):
    usual = {
        "data": files(folder), "out": str(folder / "run"), "layers": 1, "width": 32, "heads": 2, "vocab": 300,
        "epochs": 2, "batch_tokens": 256, "save_steps": 2,
    }  # fmt: skip
    return Translating(**(usual | options))


def weights(folder):
    return ch.load(folder).loaded.network.state_dict()


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_the_2017_model_learns_a_toy_language(tmp_path, capsys):
    main_ok = [
        "train",
        "translate",
        "--data",
        *files(tmp_path),
        "--out",
        str(tmp_path / "run"),
        "--layers",
        "1",
    ]
    main_ok += ["--width", "64", "--vocab", "300", "--epochs", "60", "--batch-tokens", "400"]
    with pytest.raises(SystemExit) as done:
        main([*main_ok, "--learning-rate", "3e-3"])
    assert done.value.code == 0
    capsys.readouterr()
    with pytest.raises(SystemExit) as done:
        main(["predict", str(tmp_path / "run"), "--text", "the blue cow runs", "--beams", "2"])
    answer = json.loads(capsys.readouterr().out)
    assert done.value.code == 0 and answer["answer"] == "woc eulb" and answer["end"] == "end"
    with pytest.raises(SystemExit) as done:
        main(["evaluate", str(tmp_path / "run"), "--data", files(tmp_path)[0], "--format", "text",
              "--references", files(tmp_path)[1]])  # fmt: skip
    scores = json.loads(capsys.readouterr().out)
    assert done.value.code == 0 and scores["chrf"] > 90 and "nrefs:1" in scores["bleu_signature"]
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["facts"]["decoder_layers"] == 1 and config["decoder_start_token_id"] == 0
    assert "BLEU" in (tmp_path / "run" / "report.html").read_text()


def test_a_new_model_begins_and_learns_by_the_numbers_of_its_documents(tmp_path):
    """Decision 20: queries, keys and values √2 smaller; the Adam of the paper, for new models alone."""
    run = TranslateRun(settings(tmp_path, width=128, heads=4))
    block = run.trainer.network.decoder.blocks[0]
    glorot = 128**-0.5  # the deviation of a square matrix
    for part in (block.attention.qkv, block.recall.query, block.recall.memory):
        assert float(part.weight.std()) == pytest.approx(glorot * 2**-0.5, rel=0.02)
    for part in (block.attention.output, block.recall.output):
        assert float(part.weight.std()) == pytest.approx(glorot, rel=0.02)
    list(run)
    further = TranslateRun(settings(tmp_path, base=str(tmp_path / "run"), out=str(tmp_path / "b"), layers=3,
                                    width=256, heads=4, vocab=8000))  # fmt: skip
    for one, numbers in ((run, ((0.9, 0.98), 1e-9)), (further, ((0.9, 0.999), 1e-8))):
        groups = one.trainer.optimizer.param_groups
        assert all((group["betas"], group["eps"]) == numbers for group in groups)


@pytest.mark.parametrize("separate", [False, True])
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(tmp_path, separate):
    options = {"separate": separate, "dropout": 0.1, "accumulate": 2, "epochs": 6}
    whole = TranslateRun(settings(tmp_path, out=str(tmp_path / "whole"), **options))
    list(whole)
    stopped = TranslateRun(settings(tmp_path, **options))
    for progress in (running := iter(stopped)):
        if progress.step.number == 3:
            stopped.stop()
            break
    with pytest.raises(Interrupted):
        next(running)
    list(TranslateRun(settings(tmp_path, resume=True, **options)))
    assert same(weights(tmp_path / "run"), weights(tmp_path / "whole"))
    model = ch.load(tmp_path / "run")
    assert (model.loaded.target is not None) == separate
    if separate:
        assert model.config.target_vocab == model.loaded.target.vocab_size


@pytest.mark.shows("train")
@pytest.mark.parametrize("translates", [True])
@pytest.mark.parametrize("name", NAMES)
def test_every_family_learns_further_and_stays_what_it_is(tmp_path, name, translates):
    base = tiny_folder(tmp_path / "base", name, decoder_start_token_id=1)
    given = {"layers": 3, "width": 256, "heads": 4, "vocab": 8000}  # the usual, which shape no model here
    list(TranslateRun(settings(tmp_path, base=str(base), **given)))
    before, after = ch.load(base), ch.load(tmp_path / "run")
    assert after.loaded.family.model_type == before.loaded.family.model_type
    assert after.config == before.config and after.loaded.begin == before.loaded.begin
    assert not same(weights(base), weights(tmp_path / "run"))


def test_empty_sides_are_left_out_and_told_and_long_ones_cut(tmp_path):
    (tmp_path / "a").write_text("\n".join(["one two", "", "three " * 50, *["x y"] * 20]) + "\n")
    (tmp_path / "b").write_text("\n".join(["eins", "zwei", "drei " * 50, *["u v"] * 20]) + "\n")
    run = TranslateRun(settings(tmp_path, data=[str(tmp_path / "a"), str(tmp_path / "b")], context=8))
    assert any("1 pair with an empty side left out" in note for note in run.notes)
    assert any(" of 20 pairs to learn from are cut to 8 tokens" in note for note in run.notes)
    assert max(map(len, run.objective.sources)) <= 8
    assert all(answer[-1] == 1 for answer in run.objective.answers)


@pytest.mark.parametrize("separate", [False, True])
def test_a_text_is_cut_to_the_context_in_training_evaluation_report_and_prediction_alike(tmp_path, separate):
    source, target = files(tmp_path)
    run = TranslateRun(settings(tmp_path, context=3, separate=separate, max_steps=2))
    list(run)
    model, texts = ch.load(tmp_path / "run"), Path(source).read_text().splitlines()
    read = [encoding.ids for encoding in model.encode(texts)]
    assert model.limit == 3 and {*map(tuple, run.objective.sources)} <= {*read}
    published = transformers.AutoTokenizer.from_pretrained(tmp_path / "run")
    assert [tuple(ids) for ids in published(texts, truncation=True)["input_ids"]] == read
    cut = sum(encoding.dropped > 0 for encoding in model.encode(texts))
    scored = ch.evaluate(model, source, references=target, format="text", max_new_tokens=2).metrics
    assert scored.truncated == cut > 0
    assert all(finding.verdict is not Verdict.FAIL for finding in battery(model))


def test_the_report_reads_no_more_of_a_text_than_the_run_did(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "clearhead.infer.continued.tokens",
        lambda model, prompts, *, settings: asked.extend(prompts) or iter(()),
    )
    base = tiny_folder(tmp_path / "base", "t5", decoder_start_token_id=1)
    run = TranslateRun(
        Translating(data=files(tmp_path), out=str(tmp_path / "run"), base=str(base), context=4, max_steps=1)
    )
    list(run)
    report_of(run)
    assert asked == [list(ids) for ids in run.validation.sources] and max(map(len, asked)) == 4


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"data": ["a", "b", "c"]}, SettingError, "--data names 3 files; give two"),
        (
            {"data": []},
            SettingError,
            "--data names 0 files .standard input is one file of pairs, --data=-.; ",
        ),
        ({"label_smoothing": 1.0}, SettingError, "--label-smoothing 1.0 must be at least 0 and below 1"),
        ({"base": "somewhere", "layers": 2}, SettingError, "--layers shapes a new model"),
        ({"width": 30, "heads": 4}, SettingError, "width=30 cannot be shared by heads=4"),
        ({"vocab": 10}, SettingError, "vocab=10 is too small"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path, options, error, said):
    with pytest.raises(error, match=said):
        TranslateRun(settings(tmp_path, **options))


def test_too_few_pairs_and_other_models_are_refused(tmp_path):
    (tmp_path / "a").write_text("one\n")
    data = [str(tmp_path / "a")] * 2
    with pytest.raises(DataError, match="1 pair with text on both sides are too few"):
        TranslateRun(settings(tmp_path, data=data))
    (tmp_path / "c").write_text("\n".join(["one", "", "two"]) + "\n")
    with pytest.raises(DataError, match="2 pairs with text on both sides are too few"):
        TranslateRun(settings(tmp_path, data=[str(tmp_path / "c")] * 2))
    from decoders import tiny_folder as decoder

    given = {"layers": 3, "width": 256, "heads": 4, "vocab": 8000}
    with pytest.raises(SettingError, match="is no encoder–decoder"):
        TranslateRun(settings(tmp_path, base=str(decoder(tmp_path / "d", "gpt2")), **given))


def test_how_much_of_a_language_a_model_cannot_write_is_told(tmp_path):
    base = {
        "base": str(build(MARIAN, tmp_path / "base")),
        "max_steps": 1,
        "out": str(tmp_path / "out"),
        "allow_bin": True,
    }
    (tmp_path / "a").write_text("the good soup\n" * 40)
    (tmp_path / "b").write_text("ein gut Suppe 汤\n" * 40)
    data = [str(tmp_path / name) for name in "ab"]
    run = TranslateRun(Translating(data=data, **base))
    told = [note for note in run.notes if "what it becomes" in note]
    share = sum(ids.count(run.model.loaded.writer.unknown_id) for ids in run.objective.answers)
    share /= sum(map(len, run.objective.answers))
    assert f"{share:.1%} of the tokens of what it becomes, in pairs to learn from, are unknown" in told[0]
    assert len(told) == 2 and 0 < share < 1


def test_a_base_that_does_not_say_how_answers_begin_is_named(tmp_path):
    base = tiny_folder(tmp_path / "base", "t5", decoder_start_token_id=None)
    said = f"{base} does not say which token its answers begin with: write decoder_start_token_id into config"
    with pytest.raises(SettingError, match=said):
        TranslateRun(Translating(data=files(tmp_path), base=str(base), out=str(tmp_path / "out")))


def test_a_translator_asked_for_labels_says_what_it_is(tmp_path):
    model = ch.load(tiny_folder(tmp_path / "base", "bart"))
    for ask in (model.predict, model.logits):
        with pytest.raises(
            SettingError, match="turns texts into others, without labels; ask it with generate"
        ):
            ask([])


@pytest.mark.parametrize("task", ["classify", "language", "fill"])
def test_other_tasks_refuse_an_encoder_decoder_by_name(tmp_path, task):
    folder = tiny_folder(tmp_path / "base", "bart")
    reviews = str(Path(clearhead.app.__file__).parent / "reviews.csv")
    data = reviews if task == "classify" else [reviews]
    with pytest.raises(SettingError, match="is an encoder–decoder, which learns what texts become"):
        ch.train(task, base=str(folder), data=data, out=str(tmp_path / "out"))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("spread", [0.0, 0.1, 0.5])
def test_smoothed_losses_and_gradients_are_those_of_torch(spread, bias):
    torch.manual_seed(0)
    x, weight = torch.randn(40, 8, dtype=torch.float64), torch.randn(33, 8, dtype=torch.float64)
    offset = torch.randn(33, dtype=torch.float64) if bias else None
    targets = torch.randint(33, (40,))
    targets[::7] = IGNORED
    mine = [one.clone().requires_grad_() for one in (x, weight, *([offset] if bias else []))]
    theirs = [one.clone().requires_grad_() for one in (x, weight, *([offset] if bias else []))]
    with own_modes(learning=True):
        given = {"targets": targets, "bias": mine[2] if bias else None, "smoothing": spread}
        loss = next_token_loss(mine[0], mine[1], **given)
        logits = torch.nn.functional.linear(*theirs)
        right = torch.nn.functional.cross_entropy(
            logits, targets, ignore_index=IGNORED, reduction="sum", label_smoothing=spread
        )
        torch.testing.assert_close(loss, right, atol=1e-10, rtol=1e-10)
        loss.backward()
        right.backward()
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-10, rtol=1e-10)
    with torch.no_grad():
        again = next_token_loss(x, weight, targets=targets, bias=offset, smoothing=spread)
    torch.testing.assert_close(again, right.detach(), atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("name", ["t5-gated", "marian"])
def test_the_loss_of_pairs_is_that_of_the_published_code(tmp_path, name):
    model = ch.load(tiny_folder(tmp_path, name, wide=True))
    theirs = published(name, wide=True)
    given = pairs()
    found = Translations(*zip(*given, strict=True), start=model.loaded.begin.start)
    with torch.no_grad():
        right = 0.0
        for source, answer in given:
            labels = torch.tensor([answer])
            out = theirs(input_ids=torch.tensor([source]), labels=labels)
            right += float(out.loss) * len(answer)
        mine = float(found.loss(model.loaded.network, range(len(given)), drop=None))
    assert mine == pytest.approx(right, rel=1e-4)


def test_the_loss_of_pairs_is_smoothed_as_torch_does_it(tmp_path):
    network = ch.load(tiny_folder(tmp_path, "marian", wide=True)).loaded.network
    given, right = pairs(), 0.0
    found = Translations(*zip(*given, strict=True), start=1, smoothing=0.1)
    how = {"reduction": "sum", "label_smoothing": 0.1}
    with torch.no_grad():
        for source, answer in given:
            rows = network.answering(*side_by_side([source], [[1, *answer[:-1]]]))[: len(answer)]
            logits = network.next_logits(rows)
            right += float(torch.nn.functional.cross_entropy(logits, torch.tensor(answer), **how))
        mine = float(found.loss(network, range(len(given)), drop=None))
    assert mine == pytest.approx(right, rel=1e-5)
