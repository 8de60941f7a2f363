"""Shapes are checked in every test; tiny models and folders that need no download."""

import os

os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
# Threads that wait for each other sleep instead of spinning: beside other programs that would take hours.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

if "PYTEST_XDIST_WORKER" in os.environ:  # workers share the cores, and so do the processes they start
    os.environ["OMP_NUM_THREADS"] = "1"

from jaxtyping import install_import_hook

SHAPED = [
    "model." + name
    for name in "attention block cache heads kernels layout linear positions transformer".split()
]
SHAPED += ["tasks.classify", "tasks.several", "tasks.regress"]

# Shapes are types at the boundary of these folders; here, and only here, they are checked while running.
install_import_hook([f"clearhead.{name}" for name in SHAPED], "beartype.beartype")

import csv
import random
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from matrix import Matrix, write_page
from tiny import WORDS, tiny_bert

# The suite says the same each time it runs on the same commit; `--hypothesis-profile=explore` looks further.
settings.register_profile("any machine", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=300)
settings.load_profile("any machine")
torch.set_num_threads(min(2, torch.get_num_threads()))


@pytest.fixture
def bert_folder(tmp_path: Path) -> Path:
    """A published-looking BERT folder: tiny, random, three labels."""
    return tiny_bert(tmp_path / "bert", labels=("bad", "fine", "good"))


@pytest.fixture
def body_folder(tmp_path: Path) -> Path:
    """A BERT body without a classification head, with its pooler."""
    return tiny_bert(tmp_path / "body")


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    """A file of 60 labelled texts that can be learned."""
    chance = random.Random(0)
    path = tmp_path / "reviews.csv"
    rows = [("text", "label")]
    for number in range(60):
        label = ("good", "bad")[number % 2]
        words = [*chance.choices(WORDS[10:], k=chance.randint(2, 12)), label]
        chance.shuffle(words)
        rows.append((f"{' '.join(words)} {number}", label))
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    return path


MATRIX = Matrix()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--matrix", metavar="FILE", help="write the capability matrix of the tests that ran")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(MATRIX)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if path := session.config.getoption("--matrix"):
        write_page(MATRIX, path)
