"""A run that replaces another, or goes on with one, never mixes the two and loses neither."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import clearhead as ch
from clearhead.checkpoint.card import CARD
from clearhead.checkpoint.files import run_in
from clearhead.checkpoint.lock import locked
from clearhead.errors import ClearheadError, SettingError
from clearhead.learn import aside
from clearhead.learn.aside import BEFORE, MODEL
from clearhead.learn.place import LOG, SETTINGS
from clearhead.learn.run import Run
from clearhead.learn.state import states
from clearhead.settings import Training
from tiny import tiny_bert

SMALL = {"epochs": 2, "batch_tokens": 96, "eval_steps": 3, "save_steps": 2, "learning_rate": 0.01}


@pytest.fixture
def run(reviews, body_folder, tmp_path):
    """A run of a tiny model into `tmp_path / "run"`."""
    files = {"data": str(reviews), "base": str(body_folder), "out": str(tmp_path / "run")}
    return lambda **more: Run(Training(**{**files, **SMALL, **more}))  # type: ignore[arg-type]


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def model(folder):
    return {name: (folder / name).read_bytes() for name in MODEL if (folder / name).is_file()}


def until(run, step):
    """Train to a step and drop the run there, as a kill does."""
    for progress in run:
        if progress.step.number == step:
            return


@pytest.mark.parametrize("freeze", [False, True])
def test_a_base_that_has_changed_since_the_run_began_is_refused(run, body_folder, freeze):
    until(run(freeze=freeze), 2)
    (body_folder / "notes.md").write_text("not part of the model")
    run(freeze=freeze, resume=True)
    vocab = (body_folder / "vocab.txt").read_text()
    (body_folder / "vocab.txt").write_text(vocab.replace("soup\nbread", "bread\nsoup"))
    with pytest.raises(SettingError, match=r"--resume: the model of --from .*body has changed since the run"):
        run(freeze=freeze, resume=True)
    (body_folder / "vocab.txt").write_text(vocab)
    run(freeze=freeze, resume=True)
    tiny_bert(body_folder, seed=1)
    with pytest.raises(SettingError, match=r"--resume: the model of --from .*body has changed since the run"):
        run(freeze=freeze, resume=True)


@pytest.mark.parametrize("shards", [False, True])
def test_the_base_is_the_files_that_are_read_whatever_else_lies_beside_them(run, body_folder, shards):
    """A pickle beside a safetensors file that no reader takes for the model."""
    tensors, whole = load_file(body_folder / "model.safetensors"), body_folder / "pytorch_model.bin"
    (body_folder / "model.safetensors").unlink()
    save_file({"x": tensors["pooler.dense.bias"]}, body_folder / "adapter_model.safetensors")
    if shards:
        table = {"weight_map": dict.fromkeys(tensors, "part.bin")}
        (body_folder / "pytorch_model.bin.index.json").write_text(json.dumps(table))
        whole = body_folder / "part.bin"
    torch.save(tensors, whole)
    until(run(allow_bin=True), 2)
    save_file({"x": tensors["pooler.dense.bias"] + 1}, body_folder / "adapter_model.safetensors")
    run(allow_bin=True, resume=True)
    torch.save({name: tensor * 2 for name, tensor in tensors.items()}, whole)
    with pytest.raises(SettingError, match=r"--resume: the model of --from .*body has changed since the run"):
        run(allow_bin=True, resume=True)


@pytest.mark.parametrize("more", [{}, {"overwrite": True}, {"resume": True}])
@pytest.mark.parametrize("base", ["run", "link", "run/state-2/best", "around/../run"])
def test_a_base_in_the_folder_that_the_run_changes_is_refused(run, tmp_path, more, base):
    until(run(eval_steps=1), 2)
    (tmp_path / "around").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    before = content(tmp_path / "run")
    with pytest.raises(SettingError, match=r"--from .* lies in --out .*, which the run changes"):
        run(base=str(tmp_path / base), **more)
    assert content(tmp_path / "run") == before


def test_a_run_that_replaces_another_and_fails_leaves_the_other_whole_and_says_where(run, tmp_path):
    out = tmp_path / "run"
    list(run())
    old = content(out)
    (out / "thesis.txt").write_text("years of work")
    bad = run(overwrite=True, learning_rate=0.02)
    bad.trainer.network.head.output.bias.data.fill_(float("nan"))
    with pytest.raises(ClearheadError, match=r"not finite at step 1, .*no model yet; .* in .*run-before"):
        list(bad)
    assert content(out / BEFORE) == old
    assert content(out).keys() - {f"{BEFORE}/{name}" for name in old} == {SETTINGS, "thesis.txt"}
    assert json.loads((out / SETTINGS).read_text())["settings"]["learning_rate"] == 0.02
    assert ch.load(out / BEFORE)
    list(run(overwrite=True, learning_rate=0.03, epochs=1))
    assert not (out / BEFORE).exists() and ch.load(out)
    assert CARD in content(out) and len(states(out)) == 1


def test_a_run_that_fails_says_which_model_is_kept(run):
    bad = run(eval_steps=1)
    with pytest.raises(ClearheadError, match=r"not finite at step 2, .*the best model so far, of step 1"):  # noqa: PT012
        for _ in bad:
            bad.trainer.network.head.output.bias.data.fill_(float("nan"))
    new = run(overwrite=True, eval_steps=1)
    new.trainer.network.head.output.bias.data.fill_(float("nan"))
    with pytest.raises(ClearheadError, match="not finite at step 1"):
        list(new)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_validation_scores_that_are_not_finite_stop_the_run_and_stay_out_of_its_log(run, tmp_path, number):
    bad, evaluation = run(eval_steps=2), Run.evaluation

    def spoiled():
        if bad.trainer.done == 4:
            bad.trainer.network.head.output.bias.data.fill_(number)
        return evaluation(bad)

    bad.evaluation = spoiled
    said = r"validation at step 4: .*, row \d+: .*not finite.*lower --learning-rate; the best .*, of step \d"
    with pytest.raises(ClearheadError, match=said):
        list(bad)
    assert ch.load(tmp_path / "run").predict(["good"])
    lines = (tmp_path / "run" / LOG).read_text()
    assert lines.count("\n") == 3 and "NaN" not in lines and "Infinity" not in lines


def test_a_run_goes_on_in_its_folder_wherever_the_process_goes(run, tmp_path, monkeypatch, recwarn):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    moved = run(out="run")
    for number, _ in enumerate(moved):
        if number == 1:
            monkeypatch.chdir(tmp_path / "elsewhere")
    assert ch.load(tmp_path / "run") and CARD in content(tmp_path / "run")
    assert not list((tmp_path / "elsewhere").iterdir())
    assert str(moved.shown) == "run"


def test_what_the_system_refuses_within_a_run_is_an_error_of_ours(run, tmp_path):
    stopped = run(save_steps=1)
    stopped.save = lambda: (tmp_path / "nowhere" / "state").write_text("")
    with pytest.raises(SettingError, match=r"nowhere/state: No such file or directory$"):
        list(stopped)


class Killed(BaseException):
    """What nothing catches."""


@pytest.mark.parametrize("again", ["resume", "overwrite"])
@pytest.mark.parametrize("at", range(1, 9))
def test_a_kill_while_a_run_is_put_aside_leaves_one_run_and_loses_no_model(run, tmp_path, at, again):
    out, calls = tmp_path / "run", []
    list(run(epochs=1))
    old, log = model(out), (out / LOG).read_text()
    rename = Path.rename

    def counted(path, target):
        calls.append(path)
        if len(calls) == at:
            raise Killed
        return rename(path, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "rename", counted)
        with pytest.raises(Killed):
            list(run(epochs=1, overwrite=True))
    assert run_in(out)
    new = run(epochs=1, **{again: True})
    first = next(iter(new)) if at > 1 or again == "overwrite" else None
    if first:
        assert first.step.number == 1 and model(out / BEFORE) == old
        assert (out / BEFORE / LOG).read_text() == log
        until(run(epochs=1, resume=True), 1)
    list(run(epochs=1, resume=True))
    assert model(out) == old and not (out / BEFORE).exists()
    assert [json.loads(line)["step"] for line in (out / LOG).read_text().splitlines()] == list(
        range(1, len(new.trainer.steps) + 1)
    )


def test_of_two_runs_that_were_replaced_the_one_with_a_model_is_kept(run, tmp_path):
    out = tmp_path / "run"
    list(run())
    old = content(out)
    for rate in (0.02, 0.03):
        until(run(overwrite=True, learning_rate=rate), 2)
        assert [state.name for state in states(out)] == ["state-2"]
    assert content(out / BEFORE) == old
    aside.forget(out)
    assert not (out / BEFORE).exists() and run_in(out)


def test_a_folder_of_the_users_is_no_state_whatever_its_name(run, tmp_path):
    out = tmp_path / "run"
    list(run(epochs=1))
    (out / "state-7").mkdir()
    (out / "state-7" / "thesis.txt").write_text("years of work")
    for more in ({"overwrite": True}, {"resume": True}):
        with pytest.raises(SettingError, match=r"state-7 has the name of a state, and is none; .*move it"):
            run(epochs=1, **more)
    assert (out / "state-7" / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("at", [2, 3, 99])
def test_a_run_begins_once(run, tmp_path, at):
    """Iterated over again, it would put its own model aside or mix two runs; made again, it goes on."""
    list(run(out=str(tmp_path / "whole")))
    one = run(overwrite=True)
    until(one, at)
    before = content(tmp_path / "run")
    with pytest.raises(SettingError, match="this run has begun already; make it again with resume=True"):
        list(one)
    assert content(tmp_path / "run") == before
    again = run(resume=True)
    until(again, 5)
    with pytest.raises(SettingError, match="this run has begun already"):
        list(again)
    list(run(resume=True))
    assert model(tmp_path / "run") == model(tmp_path / "whole")


def test_a_run_that_could_not_begin_may_be_tried_again(run, tmp_path):
    waiting = run()
    with locked(tmp_path / "run"), pytest.raises(SettingError, match="a run is going on in"):
        list(waiting)
    list(waiting)
    assert ch.load(tmp_path / "run")
