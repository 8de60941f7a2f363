"""What a run computes depends on none of torch's modes that whoever calls it has set."""

import pytest
import torch
from test_training import bits, settings

import clearhead as ch
from clearhead.learn.run import Run

MODES = {
    "no gradients": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "another device": lambda: torch.device("meta"),
}


@pytest.fixture
def doubles():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def trained(reviews, base, out):
    made = {"layers": 1, "width": 16, "heads": 2, "hidden": 32} if base == "new" else {}
    for _ in Run(settings(reviews, base, out, max_steps=3, **made)):
        pass
    return bits(out), ch.load(out).predict(["a good soup"])


@pytest.mark.parametrize("base", ["new", "published"])
@pytest.mark.parametrize("mode", MODES)
def test_modes_of_the_caller_change_no_bit(reviews, body_folder, tmp_path, mode, base):
    base = base if base == "new" else body_folder
    right = trained(reviews, base, tmp_path / "right")
    with MODES[mode]():
        assert trained(reviews, base, tmp_path / "odd") == right


def test_a_default_of_float64_changes_no_bit(reviews, tmp_path, request):
    right = trained(reviews, "new", tmp_path / "right")
    request.getfixturevalue("doubles")
    assert trained(reviews, "new", tmp_path / "odd") == right
    assert torch.get_default_dtype() is torch.float64


@pytest.fixture
def rounding():
    yield lambda way: setattr(torch.backends.mkldnn.matmul, "fp32_precision", way)
    torch.backends.mkldnn.matmul.fp32_precision = "none"
    torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("way", ["medium", "high", "bf16"])
def test_products_that_may_be_rounded_change_no_bit(reviews, body_folder, tmp_path, rounding, way):
    right = trained(reviews, body_folder, tmp_path / "right")
    vectors = ch.load(body_folder).embed(["a good soup", "slow"])
    if way == "bf16":
        rounding(way)
    else:
        torch.set_float32_matmul_precision(way)
    allowed = torch.backends.mkldnn.matmul.fp32_precision
    assert trained(reviews, body_folder, tmp_path / "odd") == right
    assert torch.equal(ch.load(body_folder).embed(["a good soup", "slow"]), vectors)
    assert torch.backends.mkldnn.matmul.fp32_precision == allowed


def test_a_file_to_learn_from_is_never_in_the_folder_that_is_replaced(reviews, tmp_path):
    out = tmp_path / "run"
    trained(reviews, "new", out)
    inside = out / "reviews.csv"
    inside.write_bytes(reviews.read_bytes())
    for given in ({"data": inside}, {"data": reviews, "validation": str(inside)}):
        data = given.pop("data")
        with pytest.raises(ch.ClearheadError, match=r"reviews.csv lies in --out .*; move it"):
            Run(settings(data, "new", out, overwrite=True, **given))
    assert inside.read_bytes() == reviews.read_bytes()


def test_a_new_model_that_no_memory_holds_is_refused_with_both_numbers(reviews, tmp_path):
    with pytest.raises(
        ch.ClearheadError, match=r"takes 1,2\d\d GB to train, and this machine has \d+ GB; lower"
    ):
        Run(settings(reviews, "new", tmp_path / "run", width=100_000))
