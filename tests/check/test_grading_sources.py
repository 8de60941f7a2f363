"""The two sources' own code: as it stands it is not done yet, completed it passes, and prints its numbers."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

import clearhead as ch
import grading_table
from clearhead.check.grading.exercises import EXERCISES
from clearhead.check.grading.verdict import Outcome
from clearhead.reference.bpe import merged

SEEDS = Path(os.environ.get("CLEARHEAD_SHARED", "nowhere")) / "seeds"
needs_seeds = pytest.mark.skipif(not SEEDS.is_dir(), reason="CLEARHEAD_SHARED names no folder with seeds/")
SAILOR = (
    "a sailor went to sea sea sea to see what he could see see see but all that he could see see see was the "
    "bottom of the deep blue sea sea sea"
)
WOOD = "How much wood could a woodchuck chuck if a woodchuck could chuck wood"

COMPLETED = {
    "softmax": "    items_out = list(np.exp(items_in) / np.sum(np.exp(items_in)))\n    return items_out\n",
    "self_attention": (
        "    Q = beta_q + omega_q @ X\n    K = beta_k + omega_k @ X\n    V = beta_v + omega_v @ X\n"
        "    X_prime = V @ softmax_cols(K.T @ Q)\n    return X_prime\n"
    ),
    "scaled_dot_product_self_attention": (
        "    Q = beta_q + omega_q @ X\n    K = beta_k + omega_k @ X\n    V = beta_v + omega_v @ X\n"
        "    X_prime = V @ softmax_cols(K.T @ Q / np.sqrt(X.shape[0]))\n    return X_prime\n"
    ),
}


def functions(text):
    """The functions of a page that has lost its indentation: every line up to a return, indented."""
    found, inside = {}, None
    for line in text.splitlines():
        if re.match(r"def \w+\(", line):
            inside = re.match(r"def (\w+)\(", line)[1]
            found[inside] = [line]
        elif inside:
            if line.strip():
                found[inside].append("    " + line)
            if line.startswith("return"):
                found[inside][-1] = "    " + line.split("Now compute")[0].rstrip()
                inside = None
    return {name: "\n".join(lines) + "\n" for name, lines in found.items()}


@pytest.fixture(scope="module")
def published():
    text = "\n".join(path.read_text() for path in sorted(SEEDS.glob("*.txt")))
    return functions(text)


@needs_seeds
def test_the_sources_code_as_it_stands_is_not_done_yet_where_something_is_to_be_written(published, tmp_path):
    file = tmp_path / "published.py"
    file.write_text("import numpy as np\n\n\n" + "\n\n".join(published.values()))
    outcomes = {one.function: one.outcome for one in ch.grade(file)}
    assert outcomes == {
        "layer_norm": Outcome.RIGHT,
        "softmax": Outcome.UNDONE,
        "softmax_cols": Outcome.CARE,
        "self_attention": Outcome.UNDONE,
        "scaled_dot_product_self_attention": Outcome.UNDONE,
    }


@needs_seeds
@pytest.mark.parametrize("kind", ["py", "ipynb"])
def test_the_sources_code_completed_passes(published, tmp_path, kind):
    parts = ["import numpy as np\nprint('drawing')"]
    for name, code in published.items():
        head = code.split("\n", 1)[0] + "\n"
        parts.append(head + COMPLETED[name] if name in COMPLETED else code)
    file = tmp_path / f"completed.{kind}"
    if kind == "py":
        file.write_text("\n\n\n".join(parts))
    else:
        cells = [{"cell_type": "code", "source": ("%time\n" + part).splitlines(True)} for part in parts]
        file.write_text(json.dumps({"cells": cells}))
    found = ch.grade(file)
    assert len(found) == 5
    assert all(one.outcome in (Outcome.RIGHT, Outcome.CARE) for one in found), found


def test_layer_norm_is_as_printed():
    rows = np.array([[1.0, 2.0, 3.0, 4.0], [10.0, 10.0, 20.0, 20.0], [-1.0, 0.0, 0.0, 1.0]])
    normed = EXERCISES["layer_norm"].twin((rows,), frozenset())
    np.testing.assert_array_equal(np.round(normed[0], 3), [-1.342, -0.447, 0.447, 1.342])
    np.testing.assert_allclose(normed.mean(-1), 0.0, atol=1e-12)
    np.testing.assert_array_equal(np.round(normed.std(-1), 3), 1.0)


def drawn(seed, *shapes):
    np.random.seed(seed)
    return [np.random.normal(size=shape) for shape in shapes]


def test_attention_is_as_printed():
    x = np.hstack(drawn(3, *[(4, 1)] * 3))
    q, k, v, beta_q, beta_k, beta_v = drawn(0, *[(4, 4)] * 3, *[(4, 1)] * 3)
    given = (x, v, q, k, beta_v, beta_q, beta_k)
    plain = EXERCISES["self_attention"].twin(given, frozenset())
    np.testing.assert_allclose(plain[:, 0], [0.94744244, -0.24348429, -0.91310441, -0.44522983], atol=5.1e-9)
    vectors = [x[:, [token]] for token in range(3)]
    by_vector = EXERCISES["self_attention_by_vector"].twin((vectors, *given[1:]), frozenset())
    np.testing.assert_allclose(by_vector[2], [1.61949281, -0.06641533, 3.96863308, 2.15858316], atol=5.1e-9)
    scaled = EXERCISES["scaled_dot_product_self_attention"].twin(given, frozenset())
    np.testing.assert_allclose(scaled[:, 1], [1.59622051, -0.09516106, 3.70194096, 2.01339538], atol=5.1e-9)


def test_two_heads_are_as_printed():
    (x,) = drawn(3, (8, 6))
    shapes = [(4, 8)] * 3 + [(4, 1)] * 3
    weights = drawn(0, *shapes, *shapes, (8, 8))
    order = [2, 0, 1, 5, 3, 4]  # drawn as q, k, v; given as v, q, k
    heads = [weights[start + place] for start in (0, 6) for place in order]
    given = (x, *heads, weights[12])
    result = EXERCISES["multihead_scaled_self_attention"].twin(given, frozenset())
    np.testing.assert_array_equal(
        np.round(result[0], 3), [-21.207, -5.373, -20.933, -9.179, -11.319, -17.812]
    )
    np.testing.assert_array_equal(np.round(result[7], 3), [1.248, 18.894, -6.409, 3.224, 19.717, -5.629])


def test_byte_pair_encoding_is_as_printed():
    start, after = merged(SAILOR, 0), merged(SAILOR, 22)
    assert (len(start.words), len(start.tokens), len(after.tokens)) == (18, 19, 27)
    told = [(" ".join(merge.pair), merge.times) for merge in after.merges[:9]]
    assert told == [
        ("s e", 13), ("e </w>", 12), ("a </w>", 7), ("se e</w>", 7), ("se a</w>", 6), ("t </w>", 4),
        ("h e</w>", 4), ("t o", 3), ("to </w>", 2),
    ]  # fmt: skip
    assert (len(merged(WOOD, 0).tokens), len(merged(WOOD, 1000).merges)) == (14, 24)
    assert len(merged(WOOD, 1000).tokens) == len(set(WOOD.split())) == 8
    assert merged("", 3) == ({}, {}, ())
    for merges in (0, 5, 22, 99):
        assert EXERCISES["tokenize"].twin((SAILOR, merges), frozenset()) == merged(SAILOR, merges).tokens


def test_the_table_of_the_page_is_what_is_so(monkeypatch):
    # That each is named is tested one by one elsewhere; here only that the page says so.
    monkeypatch.setattr(grading_table, "verdict", lambda _, one: "with care" if one.care else "✓")
    page = (Path(__file__).parents[2] / "docs" / "grade.md").read_text()
    assert page == grading_table.page_with_table(page), "run scripts/grading_table"
    assert "| – |" not in page
