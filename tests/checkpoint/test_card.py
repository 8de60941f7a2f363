"""What the model card and hints quote stays what it is: spans of code, words of commands, signs."""

import shlex

import pytest

from clearhead.checkpoint.card import code
from clearhead.data.wording import argument, visible


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("a_b*c", "`a_b*c`"), ("a`b", "``a`b``"), ("`", "`` ` ``"), ("``x`", "``` ``x` ```"),
        ("two\nlines", "`two lines`"), ("a|b", "`a|b`"),
    ],
)  # fmt: skip
def test_a_label_in_a_span_of_code_is_not_escaped(label, shown):
    assert code(label) == shown


@pytest.mark.parametrize("path", ["runs/mine", "my run", "it's", "-y", "a;b", "$HOME", "naïve ü"])
def test_a_path_in_a_command_is_one_word_and_no_option(path):
    (word,) = shlex.split(argument(path))
    assert word == (f"./{path}" if path.startswith("-") else path)


def test_what_turns_the_direction_of_writing_is_shown_as_a_sign():
    assert visible("a\u202eb\u2066c\u2069\x1b") == "a\ufffdb\ufffdc\ufffd\u241b"
    assert visible("שלום") == "שלום"
