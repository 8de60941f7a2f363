"""`clearhead grade`: what it prints, and the exit status that it leaves."""

import json
import subprocess
import sys

import pytest

from clearhead.app import grades
from clearhead.app.cli import main
from clearhead.check.grading.exercises import EXERCISES
from clearhead.check.grading.verdict import Outcome

RIGHT = "def greedy(logits):\n    print('thinking')\n    return logits.argmax()\n"
WRONG = RIGHT.replace("argmax", "argmin")


def run(*words):
    with pytest.raises(SystemExit) as left:
        main(["grade", *map(str, words)])
    return left.value.code


@pytest.mark.parametrize(
    ("code", "status", "outcome"),
    [
        (RIGHT, 0, "right"),
        (WRONG, 1, "wrong"),
        ("def greedy(logits):\n    pass\n", 1, "not done yet"),
        ("def greedy(a, b):\n    pass\n", 2, "unusable"),
        (
            "import numpy as np\ndef softmax_cols(x):\n    return np.exp(x) / np.exp(x).sum(0)\n",
            0,
            "right, with care",
        ),
    ],
)
def test_the_status_says_the_outcome_and_json_the_rest(tmp_path, capsys, code, status, outcome):
    file = tmp_path / "mine.py"
    file.write_text(code)
    assert run(file) == status
    said = capsys.readouterr()
    (line,) = map(json.loads, said.out.splitlines())
    assert line["outcome"] == outcome and "printed" not in line
    assert said.err == f"1 graded: 1 {outcome}\n"
    if outcome == "wrong":
        assert line["mistakes"] == ["least-likely"]
        assert line["example"]["expected"] != line["example"]["given"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no file: give a .py or .ipynb, --list for the exercises, or --start NAME"),
        (["none.py"], "none.py: there is no such file"),
        (["--start", "nothing"], "there is no exercise 'nothing'"),
        (["none.py", "--time", "0"], "--time 0 must be above 0"),
    ],
)
def test_what_cannot_be_done_is_said_on_one_line_with_status_2(capsys, words, said):
    assert run(*words) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_the_list_names_every_exercise(capsys, monkeypatch):
    assert run("--list") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["name"] for line in lines] == list(EXERCISES)
    assert all(line["mistakes"] and line["contract"] for line in lines)
    monkeypatch.setattr(grades, "plain", lambda _: False)
    assert run("--list") == 0
    assert "layer_norm  " in capsys.readouterr().out


def test_a_start_can_be_graded(tmp_path, capsys):
    assert run("--start", "greedy") == 0
    file = tmp_path / "mine.py"
    file.write_text(capsys.readouterr().out)
    assert file.read_text().startswith("# logits [vocab], one number for each token")
    assert run(file) == 1
    assert "not done yet" in capsys.readouterr().out


def test_output_is_shown_where_it_is_asked_for(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(RIGHT)
    assert run(file, "--show-output") == 0
    assert json.loads(capsys.readouterr().out)["printed"].startswith("thinking\n")


def test_a_terminal_sees_the_mistake_and_its_example(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("clearhead.app.terminal.plain", lambda _: False)
    file = tmp_path / "mine.py"
    file.write_text(WRONG)
    assert run(f"{file}:greedy", "--show-output") == 1
    said = capsys.readouterr().out
    for words in (
        "✗ wrong  greedy",
        "least-likely",
        "the smallest input",
        "expected =",
        "given =",
        "thinking",
    ):
        assert words in said


def test_every_outcome_has_a_style():
    assert set(grades.STYLES) == set(Outcome)


def test_grading_arrays_imports_no_torch(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(RIGHT)
    script = (
        "import sys\nfrom clearhead.app.cli import main\n"
        f"try:\n    main(['grade', {str(file)!r}])\nfinally:\n    assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
