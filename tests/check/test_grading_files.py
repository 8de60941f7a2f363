"""Files to be graded: what cannot be used is refused in one sentence, and no code of theirs does harm."""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import clearhead as ch
from clearhead.check.grading.verdict import Outcome
from clearhead.errors import DataError, SettingError


@pytest.fixture
def write(tmp_path):
    def written(code, name="mine.py"):
        file = tmp_path / name
        file.write_text(code)
        return file

    return written


def notebook(*cells):
    made = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    return json.dumps({"cells": [{"cell_type": "markdown", "source": ["# hello"]}, *made]})


def only(file, **options):
    (found,) = ch.grade(file, **options)
    return found


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def greedy(logits)\n    return 0\n", "mine.py, line 1: this is not Python (expected ':')"),
        ("x = 3\n", "no function has the name of an exercise; it has no functions; exercises are softmax,"),
        ("def f(): pass\ndef g(): pass\n", "it has f, g; exercises are softmax"),
        ("raise ValueError('oh')\ndef greedy(x): pass\n", "running it: mine.py, line 1"),
        ("import os\ndef greedy(x): pass\nos._exit(3)\n", "ended with status 3: is exit() called?"),
        ("", "it has no functions"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_sentence(write, code, said):
    with pytest.raises(DataError) as refused:
        ch.grade(write(code))
    assert said in str(refused.value).replace("; give FILE:function", "")
    assert "\n" not in str(refused.value)


def test_files_that_are_none_are_refused(write, tmp_path):
    for file, said in (
        (tmp_path / "none.py", "there is no such file"),
        (write("x", "mine.txt"), "only .py and .ipynb files can be graded"),
        (write("{}", "mine.ipynb"), "this is not a notebook"),
        (write("def f(): pass"), "no function has the name of an exercise"),
    ):
        with pytest.raises(DataError, match=said):
            ch.grade(file)
    (tmp_path / "mine.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="not text in UTF-8"):
        ch.grade(tmp_path / "mine.py")


def test_names_that_do_not_exist_are_refused_with_those_that_do(write):
    file = write("import numpy as np\ndef mine(x):\n    return np.argmax(x)\ndef other(x): pass\n")
    with pytest.raises(DataError, match="there is no function yours; it has mine, other"):
        ch.grade(f"{file}:yours")
    with pytest.raises(DataError, match="mine is not the name of an exercise; say which one"):
        ch.grade(f"{file}:mine")
    with pytest.raises(SettingError, match="there is no exercise 'gready'; there are softmax"):
        ch.grade(file, exercise="gready")
    with pytest.raises(DataError, match="no function is called greedy or choose_greedy"):
        ch.grade(file, exercise="greedy")
    with pytest.raises(SettingError, match="unknown option 'excercise'; did you mean exercise"):
        ch.grade(file, excercise="greedy")
    with pytest.raises(SettingError, match="--time 0 must be above 0"):
        ch.grade(file, time=0.0)
    with pytest.raises(SettingError, match=r"--memory 0\.1 must be from 0\.25"):
        ch.grade(file, memory=0.1)
    assert only(f"{file}:mine", exercise="greedy").outcome is Outcome.RIGHT


SOFT = "import numpy as np\ndef softmax_cols(x):\n    y = np.exp(x - x.max(0))\n    y = y / y.sum(0)\n    "


@pytest.mark.parametrize(
    ("code", "outcome", "said"),
    [
        (SOFT + "return y.astype(np.float16)", "wrong", "It is wrong, and not in a way that is known here."),
        (
            SOFT + "return y.T",
            "wrong",
            "(2, 1) where (1, 2) was expected: this is the transpose of the right",
        ),
        (SOFT + "return y.reshape(-1)", "wrong", "(1,) where (1, 1) was expected; the numbers are right."),
        (SOFT + "return y[:, :1]", "wrong", "Its shape is (1, 1) where (1, 2) was expected."),
        (SOFT + "return y + np.nan", "wrong", "There is a NaN in it"),
        (
            SOFT + "return [[1, 2], [3]]",
            "wrong",
            "An array of numbers was expected, all rows of equal length.",
        ),
        (SOFT + "return 'y'", "wrong", "An array of numbers was expected."),
        (SOFT + "return {1: y}", "wrong", "An array of numbers was expected."),
        (SOFT + "return object()", "wrong", "A value of type object was returned."),
        (SOFT + "return y.astype(complex)", "wrong", "An array of complex128 with 1 entries was returned."),
        (SOFT + "return np.zeros((2000, 2000))", "wrong", "with 4,000,000 entries was returned."),
        (
            SOFT + "return y @ y @ y[0, 0, 0]",
            "wrong",
            "mine.py, line 5 (return y @ y @ y[0, 0, 0]): IndexError",
        ),
        (SOFT + "exit(0)", "wrong", "mine.py, line 5 (exit(0)): SystemExit: 0"),
        (SOFT + "input()", "wrong", "mine.py, line 5 (input()): EOFError"),
        (SOFT + "return softmax_cols(x)", "wrong", "mine.py, line 3"),
        (SOFT + "return list(map(list, y))", "right", "It computes the equation."),
        (SOFT + "raise NotImplementedError", "not done yet", "It raises NotImplementedError"),
        ("def softmax_cols(x): pass", "not done yet", "It returns nothing"),
        ("def softmax_cols(x): ...", "not done yet", "It returns nothing"),
        ("def softmax_cols(x): return 3 + 0 * x", "not done yet", "It returns the number 3, whatever"),
        ("def softmax_cols(x): return x.copy()", "not done yet", "It returns its input as it is"),
        ("def softmax_cols(x, y): pass", "unusable", "It takes 2 arguments; the exercise has 1: (data_in)."),
        ("def softmax_cols(): pass", "unusable", "It takes 0 arguments; the exercise has 1: (data_in)."),
        ("def softmax_cols(x, y, *z): pass", "unusable", "It takes 2 or more arguments"),
    ],
)
def test_an_answer_that_is_none_is_told_in_one_sentence(write, code, outcome, said):
    found = only(write(code))
    assert found.outcome == outcome
    assert said in found.why, found.why
    assert "\n" not in found.why


def test_a_loop_without_end_and_too_much_memory_stop_that_function_alone(write):
    found = ch.grade(
        write(
            "import numpy as np, os\n"
            "def greedy(x):\n    while True: pass\n"
            "def sample(x, u):\n    return np.ones((1 << 40,))\n"
            "def top_k(x, k):\n    os.kill(os.getpid(), 9)\n"
            "def softmax_cols(x):\n    y = np.exp(x - x.max(0))\n    return y / y.sum(0)\n"
        ),
        time=1.0,
    )
    outcomes = {one.function: (one.outcome.value, one.why) for one in found}
    assert outcomes["greedy"][1].startswith("Nothing came back within 1 s: does a loop not end?")
    assert outcomes["sample"][1].startswith(
        "It takes more memory than it may (--memory allows more): mine.py, line 5"
    )
    assert "ended by SIGKILL" in outcomes["top_k"][1]
    assert outcomes["softmax_cols"][0] == "right"


def test_prints_are_kept_apart_and_changed_inputs_are_noted(write):
    found = only(
        write(
            "import numpy as np\nprint('loading')\n"
            "def softmax_cols(x):\n    print('computing', len(x))\n    x -= x.max(0)\n    np.exp(x, out=x)\n"
            "    x /= x.sum(0)\n    return x\n"
        )
    )
    assert found.outcome is Outcome.RIGHT
    assert found.printed.startswith("computing 1\n") and "loading" not in found.printed
    assert found.notes == ("it changes its inputs: work on a copy, or whoever calls loses what they had",)


def test_whole_numbers_are_noted(write):
    found = only(write("import numpy as np\ndef softmax_cols(x):\n    return np.exp(x).astype(int)\n"))
    assert found.outcome is Outcome.WRONG
    assert found.notes[0].startswith("it answers in whole numbers")


def test_an_argument_that_may_be_left_out_is_noted_where_it_is_not_taken(write):
    code = (
        "def layer_norm(x):\n    m = x - x.mean(-1, keepdims=True)\n"
        "    return m / ((m**2).mean(-1, keepdims=True) + 1e-5)**.5"
    )
    found = only(write(code))
    assert found.outcome is Outcome.RIGHT and found.notes == ("eps is not taken, so it was left out",)


def test_without_the_largest_subtracted_it_is_right_with_care(write):
    found = only(write("import numpy as np\ndef softmax_cols(x):\n    return np.exp(x) / np.exp(x).sum(0)\n"))
    assert found.outcome is Outcome.CARE and found.mistakes == ("no-max-subtraction",)
    assert found.example.given[0][0] == "nan"


def test_both_the_mistake_and_what_large_numbers_do_are_told(write):
    found = only(
        write("import numpy as np\ndef softmax_cols(x):\n    return (np.exp(x).T / np.exp(x).sum(1)).T\n")
    )
    assert found.mistakes == ("over-rows",)
    assert found.notes[0].startswith("it also breaks down on large numbers (no-max-subtraction)")


def test_math_that_overflows_is_care_as_well(write):
    code = (
        "import math\ndef softmax(z):\n    e = [math.exp(i) for i in z]\n    return [i / sum(e) for i in e]\n"
    )
    found = only(write(code))
    assert found.outcome is Outcome.CARE and found.example.given is None


def test_a_notebook_is_its_cells_and_the_notebooks_own_lines_are_left_out(write):
    book = notebook(
        "%matplotlib inline\n!pip install nothing\nimport numpy as np",
        "def greedy(x):\n    return 0",
        "this is not python",
        "if True:\n    %time\n    pass\n1 / 0",
        "def greedy(x):\n    return np.argmax(x)",
        "open('/nowhere/at/all')",
    )
    found = only(write(book, "mine.ipynb"))
    assert found.outcome is Outcome.RIGHT
    assert "part of the file failed when it ran" in found.notes[0]
    assert "mine.ipynb, cell 3" in found.notes[0]


def test_an_exception_in_a_notebook_is_shown_with_its_cell(write):
    found = only(write(notebook("x = 1", "def greedy(x):\n    return x['a']"), "mine.ipynb"))
    assert found.why.startswith("mine.ipynb, cell 2, line 2 (return x['a']): IndexError")


def test_a_file_finds_its_neighbours_and_only_its_main_part_is_left_out(write):
    write("import numpy as np\nbest = np.argmax\n", "helpful.py")
    code = (
        "from helpful import best\ndef greedy(x):\n    return best(x)\n"
        "if __name__ == '__main__':\n    raise SystemExit(1)\n"
    )
    assert only(write(code)).outcome is Outcome.RIGHT


def test_numpy_code_imports_no_torch(write):
    found = only(
        write("import sys\ndef greedy(x):\n    assert 'torch' not in sys.modules\n    return x.argmax()\n")
    )
    assert found.outcome is Outcome.RIGHT, found.why


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit there")
def test_nothing_is_left_running(write, tmp_path):
    mark = tmp_path / "pid"
    code = (
        f"import os, subprocess\ndef greedy(x):\n    child = subprocess.Popen(['sleep', '600'])\n"
        f"    open({str(mark)!r}, 'w').write(str(child.pid))\n    while True: pass\n"
    )
    only(write(code), time=0.5)
    pid = int(mark.read_text())
    until = time.monotonic() + 10.0
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(pid)


def alive(pid):
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


def test_a_file_that_never_ends_loading_is_refused_and_stopped(write, tmp_path, monkeypatch):
    monkeypatch.setattr("clearhead.check.grading.runner.IMPORTS", 1.0)
    mark = tmp_path / "pid"
    code = (
        f"import os\nopen({str(mark)!r}, 'w').write(str(os.getpid()))\n"
        "def greedy(x): pass\nwhile True: pass\n"
    )
    with pytest.raises(DataError, match="running it gave no answer .* below `if __name__ == '__main__':`"):
        ch.grade(write(code), time=1.0)
    assert not alive(int(mark.read_text()))


def test_grades_are_plain_data(write):
    found = only(write("def greedy(x):\n    return x.argmin()\n"))
    assert isinstance(found.example.arguments["logits"], list)
    assert not isinstance(found.example.expected, np.ndarray)


def test_what_is_imported_from_a_library_is_not_the_learners(write):
    file = write("from scipy.special import softmax\ndef greedy(logits):\n    return int(logits.argmax())\n")
    assert [grade.function for grade in ch.grade(file)] == ["greedy"]
    (one,) = ch.grade(f"{file}:softmax", exercise="softmax")
    assert one.function == "softmax"  # asked for by name, it is graded


def test_what_code_prints_reaches_no_terminal_raw(write, capsys):
    from clearhead.app import grades
    from clearhead.check.grading.exercises import EXERCISES

    file = write("def greedy(logits):\n    print('\\x1b]0;title\\x07')\n    return logits.argmin()\n")
    (one,) = ch.grade(file)
    assert "\x1b" in one.printed
    with grades.out.capture() as shown:
        grades.out.print(*grades.said(one, EXERCISES["greedy"], output=True))
    assert "\x1b]" not in shown.get() and "title" in shown.get()
