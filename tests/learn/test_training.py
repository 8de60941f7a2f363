"""The loop computes what a plain loop of the published code computes; seeds, accumulation, resuming."""

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.utils import clip_grad_norm_
from transformers import BertForSequenceClassification

import clearhead as ch
from clearhead.errors import ClearheadError, DataError, FolderError, Interrupted, SettingError
from clearhead.learn.run import Run
from clearhead.settings import Encode, Language, Training, Vocabulary

WEIGHTS = "model.safetensors"


def stopped(run, number):
    """Iterate, asking to stop so that step `number` is the last; returns the losses seen."""
    seen = []
    with pytest.raises(Interrupted) as error:  # noqa: PT012
        for progress in run:
            seen.append(progress.step.loss)
            if progress.step.number == number - 1 or number == 1:
                run.stop()
    assert f"stopped after step {len(seen)} of" in str(error.value)
    return seen


def settings(data, base, out, **changes):
    small = {"epochs": 2, "batch_tokens": 48, "learning_rate": 1e-3}
    return Training(data=str(data), base=str(base), out=str(out), **(small | changes))


def bits(folder):
    return {name: tensor.numpy().tobytes() for name, tensor in load_file(folder / WEIGHTS).items()}


def plain_losses(run, folder):
    """The first 20 losses of a plain loop of the published code: padded batches, AdamW, clipping."""
    run.model.save(folder)
    model = BertForSequenceClassification.from_pretrained(folder)  # in evaluation mode: nothing is dropped
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups)
    losses = []
    for number, (_, _, batches) in enumerate(run.trainer.steps[:20], 1):
        for group in optimizer.param_groups:
            group["lr"] = run.trainer.schedule(number)
        members = [index for batch in batches for index in batch]
        rows = [run.examples[index].windows[0].ids for index in members]
        longest = max(map(len, rows))
        ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        loss = model(ids, attention_mask=mask, labels=run.objective.targets[members]).loss
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("accumulate", [1, 3])
def test_the_first_losses_are_those_of_a_plain_loop(body_folder, reviews, tmp_path, accumulate):
    run = Run(settings(reviews, body_folder, tmp_path / "run", dropout=0.0, accumulate=accumulate, epochs=5))
    plain = plain_losses(run, tmp_path / "start")
    ours = [step.loss for step, _ in zip(run.trainer.run(), plain, strict=False)]
    assert len(ours) == len(plain) == 20
    assert ours == pytest.approx(plain, abs=1e-4)


def test_a_run_learns_saves_its_best_model_and_tells_how_it_went(body_folder, reviews, tmp_path):
    out = tmp_path / "run"
    progress = list(ch.train("classify", data=str(reviews), base=str(body_folder), out=str(out),
                             epochs=15, batch_tokens=64, learning_rate=3e-3, dropout=0.0))  # fmt: skip
    assert progress[-1].step.loss < 0.3 < progress[0].step.loss
    evaluated = [p for p in progress if p.metrics]
    assert len(evaluated) == 15
    best = max(p.metrics.accuracy for p in evaluated)
    first_best = min((p for p in evaluated if p.metrics.accuracy == best), key=lambda p: p.metrics.loss)
    assert first_best.best and [p for p in evaluated if p.best][-1] is first_best
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [p.step.number for p in progress]
    assert sum("eval_accuracy" in line for line in lines) == 15
    chosen = json.loads((out / "settings.json").read_text())
    assert chosen["settings"]["epochs"] == 15 and chosen["resolved"]["labels"] == ["bad", "good"]
    assert [path.name for path in out.glob("state-*/*")] == ["state.json"]
    model = ch.load(out)
    assert model.loaded.labels == ("bad", "good")
    assert ch.evaluate(model, reviews).metrics.accuracy > 0.8


def test_accumulated_batches_give_the_gradient_of_one_large_batch(body_folder, reviews, tmp_path):
    run = Run(settings(reviews, body_folder, tmp_path / "run", dropout=0.0))
    found = []
    for batches in ([[0, 1, 2, 3, 4, 5, 6]], [[3, 0], [1], [2, 6, 5, 4]]):
        loss = run.trainer.gradients(batches, None)
        found.append((loss, [p.grad.clone() for p in run.trainer.network.parameters()]))
        run.trainer.optimizer.zero_grad()
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-6)
    for one, two in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(one, two, atol=1e-7, rtol=1e-5)


SCRIPT = """
import sys, clearhead as ch
data, base, out, seed = sys.argv[1:]
list(ch.train("classify", data=data, base=base, out=out, seed=int(seed), epochs=1, batch_tokens=64))
"""


def test_the_same_seed_gives_the_same_head_and_file_in_new_processes(body_folder, reviews, tmp_path):
    """Public report A45."""
    for name, seed in (("one", 3), ("two", 3), ("other", 4)):
        command = [
            sys.executable,
            "-c",
            SCRIPT,
            str(reviews),
            str(body_folder),
            str(tmp_path / name),
            str(seed),
        ]
        subprocess.run(command, check=True)
    assert bits(tmp_path / "one") == bits(tmp_path / "two")
    assert bits(tmp_path / "one")["classifier.weight"] != bits(tmp_path / "other")["classifier.weight"]


def test_training_leaves_the_global_stream_of_random_numbers_alone(body_folder, reviews, tmp_path):
    state = torch.get_rng_state()
    list(Run(settings(reviews, body_folder, tmp_path / "run", epochs=1)))
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("stop", [1, 4, 9, 13])
def test_a_stopped_run_resumes_to_the_same_bits(body_folder, reviews, tmp_path, stop):
    whole = settings(reviews, body_folder, tmp_path / "whole")
    expected = [progress.step.loss for progress in Run(whole)]
    out = tmp_path / "parts"
    seen = stopped(Run(settings(reviews, body_folder, out)), stop)
    rest = list(Run(settings(reviews, body_folder, out, resume=True)))
    assert seen + [progress.step.loss for progress in rest] == expected
    assert bits(out) == bits(tmp_path / "whole")
    steps = [json.loads(line)["step"] for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(1, len(expected) + 1))


def test_resuming_with_other_settings_or_data_is_refused(body_folder, reviews, tmp_path):
    out = tmp_path / "run"
    stopped(Run(settings(reviews, body_folder, out)), 1)
    with pytest.raises(SettingError, match=r"--resume goes on with the same settings, but epochs was 2"):
        Run(settings(reviews, body_folder, out, resume=True, epochs=3))
    reviews.write_text(reviews.read_text().replace(",good", ",bad", 1))
    with pytest.raises(ClearheadError, match="the texts have changed since the run began"):
        Run(settings(reviews, body_folder, out, resume=True))


def test_resuming_with_another_border_between_learning_and_choosing_is_refused(
    body_folder, reviews, tmp_path
):
    header, *rows = reviews.read_text().splitlines(keepends=True)
    held = tmp_path / "held.csv"

    def part_at(border):
        reviews.write_text(header + "".join(rows[:border]))
        held.write_text(header + "".join(rows[border:]))

    part_at(40)
    out, files = tmp_path / "run", {"validation": str(held)}
    stopped(Run(settings(reviews, body_folder, out, **files)), 1)
    part_at(44)
    with pytest.raises(SettingError, match="the texts have changed since the run began"):
        Run(settings(reviews, body_folder, out, resume=True, **files))
    part_at(40)
    Run(settings(reviews, body_folder, out, resume=True, **files))


def test_a_folder_whose_content_could_be_lost_is_refused(body_folder, reviews, tmp_path):
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    with pytest.raises(SettingError, match="is not empty; give another --out"):
        Run(settings(reviews, body_folder, out))
    with pytest.raises(SettingError, match="is not a run of this program"):
        Run(settings(reviews, body_folder, out, overwrite=True))
    with pytest.raises(SettingError, match="holds no run to go on with"):
        Run(settings(reviews, body_folder, out, resume=True))
    with pytest.raises(SettingError, match="is a file; give a folder"):
        Run(settings(reviews, body_folder, out / "thesis.txt"))
    list(Run(settings(reviews, body_folder, tmp_path / "run", epochs=1)))
    with pytest.raises(SettingError, match="--resume to go on, --overwrite to replace it, or another --out"):
        Run(settings(reviews, body_folder, tmp_path / "run", epochs=1))
    list(Run(settings(reviews, body_folder, tmp_path / "run", epochs=1, overwrite=True)))


def test_nothing_is_written_when_a_run_cannot_start(body_folder, reviews, tmp_path):
    out = tmp_path / "run"
    test = tmp_path / "validation.csv"
    test.write_text("text,label\nfine,excellent\nbad,bad\n")
    with pytest.raises(
        DataError, match=r"validation.csv, row 1.*'excellent' is not one the model was trained on"
    ):
        Run(settings(reviews, body_folder, out, validation=str(test)))
    with pytest.raises(SettingError, match="--warmup 5000 is more than"):
        Run(settings(reviews, body_folder, out, warmup=5000))
    long = tmp_path / "long.csv"
    long.write_text("text,label\n" + "soup " * 40 + ",good\nfine,bad\nslow,bad\nwarm,good\n")
    with pytest.raises(DataError, match=r"long.csv, row 1: the text has 42 tokens, the model takes 32"):
        Run(settings(long, body_folder, out, long="error"))
    assert not out.exists()


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["yes", "no", "maybe"], ("maybe", "no", "yes")),
        ([1, 2, 3, 4], ("1", "2", "3", "4")),
        ([0, 2, 5, 10], ("0", "2", "5", "10")),
        ([True, False], ("false", "true")),
        (["NA", "null", "None"], ("NA", "None", "null")),
    ],
)
def test_labels_of_any_type_are_mapped_by_name_and_saved_in_order(body_folder, tmp_path, labels, names):
    """Public reports A30 and A33."""
    data = tmp_path / "data.jsonl"
    rows = [{"text": f"soup {number} {label}", "label": label} for number in range(8) for label in labels]
    data.write_text("\n".join(json.dumps(row) for row in rows))
    list(Run(settings(data, body_folder, tmp_path / "run", epochs=1)))
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["id2label"] == {str(number): name for number, name in enumerate(names)}
    assert ch.load(tmp_path / "run").loaded.labels == names


@pytest.mark.parametrize("pooling", [None, "cls", "max"])
def test_a_model_from_nothing_is_the_encoder_of_2017_in_our_own_folder(reviews, tmp_path, pooling):
    out = tmp_path / "run"
    small = {
        "layers": 1,
        "width": 16,
        "heads": 2,
        "hidden": 32,
        "vocab": 300,
        "epochs": 1,
        "pooling": pooling,
    }
    list(Run(settings(reviews, "new", out, **small)))
    config = json.loads((out / "config.json").read_text())
    assert config["model_type"] == "clearhead"
    facts = config["facts"]
    assert facts["positions"]["kind"] == "sinusoidal" and facts["activation"] == "relu"
    assert not facts["norm_first"] and config["head"]["pooling"] == (pooling or "mean")
    assert all(finding.verdict != "fail" for finding in ch.verify(ch.load(out)))


def test_a_head_with_the_same_labels_is_kept_and_another_is_new(bert_folder, tmp_path):
    data = tmp_path / "data.csv"
    rows = [f"{label} soup {n},{label}\n" for n in range(6) for label in ("bad", "fine", "good")]
    data.write_text("text,label\n" + "".join(rows))
    kept = Run(settings(data, bert_folder, tmp_path / "a"))
    before = ch.load(bert_folder).loaded.network.head.output.weight
    assert torch.equal(kept.model.loaded.network.head.output.weight, before)
    data.write_text(data.read_text().replace("fine", "so-so"))
    assert not torch.equal(
        Run(settings(data, bert_folder, tmp_path / "b")).model.loaded.network.head.output.weight, before
    )


def test_an_estimate_changes_nothing(body_folder, reviews, tmp_path):
    plain = [p.step.loss for p in Run(settings(reviews, body_folder, tmp_path / "a", epochs=1))]
    run = Run(settings(reviews, body_folder, tmp_path / "b", epochs=1))
    assert run.estimate() > 0
    assert [p.step.loss for p in run] == plain
    assert bits(tmp_path / "a") == bits(tmp_path / "b")


def test_an_unknown_option_or_task_is_named_with_the_nearest():
    with pytest.raises(SettingError, match="unknown option 'learning_rat'; did you mean learning_rate?"):
        ch.train("classify", data="x", out="y", learning_rat=1)
    with pytest.raises(SettingError, match="the option 'out' is missing"):
        ch.train("classify", data="x")
    with pytest.raises(SettingError, match="unknown task 'sing'; known: classify"):
        ch.train("sing", data="x", out="y")
    with pytest.raises(
        SettingError, match="--metric 'best' is not one of accuracy, macro_f1, micro_f1, pearson"
    ):
        ch.train("classify", data="x", out="y", metric="best")
    with pytest.raises(SettingError, match="--epochs 0 must be at least 1"):
        ch.train("classify", data="x", out="y", epochs=0)


def test_a_run_that_diverges_says_so_and_keeps_the_best_model(body_folder, reviews, tmp_path):
    run = Run(settings(reviews, body_folder, tmp_path / "run"))
    for number, _ in enumerate(run):
        if number == 8:
            break
    with torch.no_grad():
        run.trainer.network.head.output.weight.fill_(float("inf"))
    with pytest.raises(ClearheadError, match=r"not finite at step 10, .*lower --learning-rate"):
        list(run.trainer.run())


def test_a_settings_file_of_another_program_is_no_run(body_folder, reviews, tmp_path):
    out = tmp_path / "mine"
    out.mkdir()
    (out / "settings.json").write_text('{"editor.fontSize": 14}')
    with pytest.raises(SettingError, match="is not a run of this program"):
        Run(settings(reviews, body_folder, out, overwrite=True))


@pytest.mark.parametrize("name", ["warmup", "weight_decay", "max_grad_norm", "learning_rate", "dropout"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_numbers_that_are_no_numbers_are_refused_by_name(name, value):
    with pytest.raises(SettingError, match="--" + name.replace("_", "-")):
        settings("data.csv", "minilm", "out", **{name: value})


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every name of a file is Unicode")
def test_a_name_that_is_not_utf8_is_refused_where_it_would_be_written_down(bert_folder, reviews, tmp_path):
    odd = tmp_path / "r\udcff.csv"
    odd.write_bytes(reviews.read_bytes())
    right, before = {"data": reviews, "base": "new", "out": tmp_path / "run"}, sorted(tmp_path.iterdir())
    for name, said in (("data", "data"), ("validation", "validation"), ("base", "from"), ("out", "out")):
        fix = rf"--{said} '.*\\udcff.csv' is not UTF-8, and is written into files; rename it"
        with pytest.raises(SettingError, match=fix):
            ch.train("classify", **(right | {name: odd}))
    with pytest.raises(SettingError, match="--data .*rename it"):
        ch.train("language", **right | {"data": [odd]})
    with pytest.raises(SettingError, match="--tokenizer .*give another name"):
        ch.train("fill", **right | {"data": [str(reviews)], "tokenizer": "\udcff"})
    with pytest.raises(SettingError, match="--data .*rename it"):
        Encode(data=[str(odd)], tokenizer="t", out="ids")
    assert Encode(data=["x.txt"], tokenizer="t\udcff", out="\udcff")
    assert sorted(tmp_path.iterdir()) == before
    model = ch.load(bert_folder.rename(tmp_path / "m\udcff"))
    asked = tmp_path / "two\udcff.csv"
    asked.write_text("text,label\nsoup,bad\nfilm,good\n")
    assert ch.evaluate(model, asked).metrics.texts == 2


def test_a_path_that_is_too_long_is_refused_by_its_flag(reviews, tmp_path):
    long = "x" * 300
    right = {"data": reviews, "base": "new", "out": tmp_path / "run"}
    for name, said in (("data", "data"), ("validation", "validation"), ("base", "from"), ("out", "out")):
        with pytest.raises(SettingError, match=f"--{said} x{{60}}… cannot be used .File name too lo"):
            ch.train("classify", **(right | {name: long}))
    for made in (
        lambda **more: Encode(tokenizer="t", **more), lambda **more: Vocabulary(**more),
        lambda **more: Language(base="new", **more),
    ):  # fmt: skip
        for given in ({"data": ["texts.txt", long], "out": "o"}, {"data": ["texts.txt"], "out": long}):
            with pytest.raises(SettingError, match="x{60}… cannot be used .File name too long.; give"):
                made(**given)
    assert not (tmp_path / "run").exists()


def test_a_broken_state_is_named(body_folder, reviews, tmp_path):
    out = tmp_path / "run"
    stopped(Run(settings(reviews, body_folder, out)), 3)
    (out / "state-backup").mkdir()
    (state,) = out.glob("state-[0-9]*")
    (state / "state.json").write_text("{")
    with pytest.raises(FolderError, match=r"is broken or of another model .*start again with --overwrite"):
        Run(settings(reviews, body_folder, out, resume=True))


def test_a_run_may_be_moved_and_resumed(body_folder, reviews, tmp_path):
    stopped(Run(settings(reviews, body_folder, tmp_path / "here")), 3)
    (tmp_path / "here").rename(tmp_path / "there")
    assert list(Run(settings(reviews, body_folder, tmp_path / "there", resume=True)))
