"""A run that is killed, at whatever moment, goes on to the bits of one that was not."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from shutil import rmtree

import pytest
from safetensors.torch import load_file, save_file

import clearhead as ch
from clearhead.checkpoint.card import CARD, MARK
from clearhead.checkpoint.fingerprint import FINGERPRINT
from clearhead.checkpoint.folder import write_folder
from clearhead.checkpoint.lock import LOCK, locked
from clearhead.errors import ClearheadError, FolderError, SettingError
from clearhead.learn.place import LOG, REPORT
from clearhead.learn.run import Run
from clearhead.learn.state import BEST, STANDING, TENSORS, states
from clearhead.settings import Training

SMALL = {"base": "new", "layers": 1, "width": 16, "heads": 2, "hidden": 32, "vocab": 300, "epochs": 2}
SMALL |= {"batch_tokens": 96, "save_steps": 2, "eval_steps": 3, "dropout": 0.2, "learning_rate": 0.01}


@pytest.fixture
def run(reviews, tmp_path):
    """A run of a tiny new model into `tmp_path / "run"`."""
    return lambda **more: Run(
        Training(**{"data": str(reviews), "out": str(tmp_path / "run"), **SMALL, **more})  # type: ignore[arg-type]
    )


def until(run, step):
    """Train to a step and drop the run there, as a kill does."""
    for progress in run:
        if progress.step.number == step:
            return


def remains(out):
    """What a run leaves, without times."""
    found = {}
    for path in out.rglob("*"):
        if path.is_file():
            found[str(path.relative_to(out))] = path.read_bytes()
    lines = [json.loads(line) for line in found[LOG].decode().splitlines()]
    found[LOG] = [{name: value for name, value in line.items() if name != "seconds"} for line in lines]
    for name in [name for name in found if name.endswith(STANDING)]:
        standing = json.loads(found[name])["standing"]
        found[name] = {key: value for key, value in standing.items() if key != "seconds"}
    return found


@pytest.fixture
def right(run, tmp_path):
    """What an undisturbed run leaves."""
    list(run(out=str(tmp_path / "whole")))
    left = remains(tmp_path / "whole")
    left[CARD] = left[CARD].replace(b"whole", b"run")
    return left


def test_a_killed_run_ends_with_the_bits_moments_and_log_of_an_undisturbed_one(run, right, tmp_path):
    """Public reports A19 and A23: killed before the first state, between states, and after the last step."""
    out = tmp_path / "run"
    until(run(), 1)
    assert not states(out)
    assert any("starts again from its beginning" in note for note in run(resume=True).notes)
    for step in (5, 8, 11):
        (out / f".part-state-{step}").mkdir()
        (out / f".report.html.{step}.part").write_text("half")
        (out / LOG).open("a").write('{"step": 9')
        again = run(resume=True)
        assert any(f"left half-written by a kill, and removed: .part-state-{step}" in n for n in again.notes)
        until(again, step)
    list(run(resume=True))
    assert remains(out) == right


def test_a_finished_run_that_is_resumed_makes_its_card_and_report_again(run, right, tmp_path):
    out = tmp_path / "run"
    list(run())
    (out / CARD).unlink()
    again = run(resume=True)
    assert list(again) == [] and again.best_step
    assert remains(out) == right


def test_the_best_model_of_the_state_takes_the_place_of_a_later_one(run, tmp_path):
    out = tmp_path / "run"
    until(run(), 4)
    before = ch.load(out)
    state = load_file(out / "state-4" / TENSORS)
    assert state["dropout"].numel() > 1000 and "exp_avg.encoder.blocks.0.attention.qkv.weight" in state
    network, right = before.loaded.network, before.predict(["a good soup"])
    network.head.output.bias.data += 1
    write_folder(out, before.loaded)
    again = run(resume=True)
    until(again, 5)
    assert json.loads((out / "state-4" / STANDING).read_text())["standing"]["best_step"] == 3
    assert before.predict(["a good soup"]) != right == ch.load(out).predict(["a good soup"])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.unlink()  # another state may have the same file
    path.write_bytes(content)


def replaced(path, content):
    path.unlink()
    path.write_text(content)


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: flip(state / TENSORS),
        lambda state: (state / TENSORS).write_bytes((state / TENSORS).read_bytes()[:-9]),
        lambda state: (state / TENSORS).unlink(),
        lambda state: (state / STANDING).write_text("{"),
        lambda state: (state / STANDING).write_text((state / STANDING).read_text().replace(": 6", ": 5", 1)),
        lambda state: save_file({"x": load_file(state / TENSORS)["dropout"]}, state / TENSORS),
        lambda state: flip(state / BEST / "model.safetensors"),
        lambda state: (state / BEST / "model.safetensors").unlink(),
        lambda state: (state / BEST / "tokenizer.json").unlink(),
        lambda state: flip(state / BEST / FINGERPRINT),
        lambda state: (state / BEST / FINGERPRINT).unlink(),
        lambda state: replaced(state / BEST / FINGERPRINT, "{"),
        lambda state: replaced(state / BEST / FINGERPRINT, "{}"),
        lambda state: rmtree(state / BEST),
    ],
)  # fmt: skip
def test_a_broken_state_is_named_and_an_older_whole_one_is_taken(run, right, tmp_path, damage):
    out = tmp_path / "run"
    until(run(), 4)
    (out / "state-4").rename(out / "kept")
    until(run(resume=True), 6)
    damage(out / "state-6")
    with pytest.raises(FolderError, match=r"state-6 is broken .*no other state is there.*--overwrite"):
        run(resume=True)
    (out / "kept").rename(out / "state-4")
    again = run(resume=True)
    assert again.trainer.done == 4 and any("state-6 is broken" in note for note in again.notes)
    list(again)
    assert remains(out) == right


def test_two_runs_into_one_folder_are_refused_and_a_dead_one_does_not_hinder(run, tmp_path):
    out = tmp_path / "run"
    going = iter(run(epochs=1))
    next(going)
    for more in ({}, {"resume": True}, {"overwrite": True}):
        with pytest.raises(SettingError, match=rf"a run is going on in .*run \(process {os.getpid()}\)"):
            run(epochs=1, **more)
    with pytest.raises(SettingError, match="a run is going on"), locked(out):
        pass
    going.close()
    assert not (out / LOCK).exists()
    (out / LOCK).write_text("1")  # what a killed run leaves
    list(run(epochs=1, resume=True))
    assert not (out / LOCK).exists()


def test_of_two_runs_that_are_ready_at_once_the_second_is_refused(run, tmp_path):
    first, second = run(epochs=1), run(epochs=1)
    list(first)
    with pytest.raises(SettingError, match="is not empty"):
        list(second)


def test_a_full_disk_loses_nothing_and_is_named(run, right, tmp_path):
    """While the model is saved, the state, the log: once there is room again, the run goes on."""
    out = tmp_path / "run"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for size in (3_000, 20_000, 60_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            with pytest.raises(ClearheadError, match=rf"{out}.*(too large|cannot be written)"):
                list(run(resume=(out / "settings.json").exists()))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert not list(out.glob(".part*"))
    list(run(resume=True))
    assert remains(out) == right


def test_a_card_says_what_was_done_and_never_replaces_another_readme(run, reviews, tmp_path):
    out = tmp_path / "run"
    list(run())
    card = (out / CARD).read_text()
    front = card.split("---\n")[1]
    values = {name: json.loads(value) for name, value in (line.split(": ", 1) for line in front.splitlines())}
    assert values["pipeline_tag"] == "text-classification" and values["library_name"] == "clearhead"
    assert not values.keys() & {"license", "language", "base_model"}
    (results,) = values["model-index"][0]["results"]
    assert {metric["type"] for metric in results["metrics"]} >= {"accuracy", "f1", "matthews_correlation"}
    assert "| training | reviews.csv | 54 |" in card.replace("\\_", "_")
    assert "clearhead train classify --data reviews.csv --from new --out run" in card and "--layers 1" in card
    assert str(tmp_path) not in card
    (out / CARD).write_text(card.replace(MARK + "\n", "my words\n"))
    with pytest.warns(UserWarning, match=r"README.md is not ours and stays as it is"):
        list(run(overwrite=True))
    assert "my words" in (out / CARD).read_text()


def command(reviews, out, *more):
    given = {"data": reviews, "out": out, "from": SMALL["base"], **SMALL}
    words = [word for name, value in given.items() if name != "base" for word in (f"--{name}", str(value))]
    return [sys.executable, "-m", "clearhead", "train", "classify", *words, *more]


def test_ctrl_c_twice_stops_at_once_and_the_run_goes_on(reviews, right, tmp_path):
    out = tmp_path / "run"
    process = subprocess.Popen(
        command(reviews, out), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    while not (out / LOG).exists():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130 and "Traceback" not in said
    done = subprocess.run(command(reviews, out, "--resume"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    left = remains(out)
    assert (out / REPORT).stat().st_size > 1000 and left.pop(REPORT)
    assert left == right


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "kills"), [("classify", "40"), ("language", "20"), ("fill", "20"), ("lora", "20")]
)
def test_kills_at_any_moment_change_no_bit(task, kills):
    """Public report A19: killed before random file operations, and after random times."""
    script = Path(__file__).parents[2] / "scripts" / "kill_sweep.py"
    command = [sys.executable, str(script), "--kills", kills, "--task", task]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every run ended with the bits of the undisturbed one" in done.stdout
