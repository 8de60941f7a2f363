"""Every figure shows the numbers that were computed or recorded, of the example and of any model."""

import subprocess
import sys
import warnings
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import clearhead as ch
import decoders
import families
import translators
from clearhead.errors import SettingError
from clearhead.explain.attribution import attribution
from clearhead.explain.effects import effects, head_scores, rollout
from clearhead.explain.figures import FIGURES, MADE_IN, draw, save
from clearhead.explain.figures.__main__ import main
from clearhead.explain.figures.canvas import shown, styled
from clearhead.explain.figures.numbers import columns_of, example
from clearhead.explain.look import look
from clearhead.explain.objective import Reading
from clearhead.explain.record import record
from clearhead.reference import batch_norm, layer_norm

DOCS = Path(__file__).parents[2] / "docs"
TEXT = "the film was not so good"
NEED_A_MODEL = ("cross", "lens", "effects", "attribution", "rollout", "roles")
OF_EXAMPLE = [name for name in FIGURES if name not in NEED_A_MODEL]
REFUSED = {
    ("gpt2", "permutation"): "a causal one is told the order by whom each token sees",
    ("bert", "cross"): "a model that reads a text and answers with another; this one has .* kind self",
    ("gpt2", "cross"): "a model that reads a text and answers with another",
    ("bart", "residual"): "gradient flow is of a single stack",
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A tiny model of each kind."""
    place = tmp_path_factory.mktemp("models")
    long = families.tiny_folder(place / "long", "bert", max_position_embeddings=64)
    (long / "tokenizer_config.json").write_text('{"do_lower_case": true, "model_max_length": 64}')
    return {
        "bert": ch.load(families.tiny_folder(place / "bert", "bert", ("a", "b", "c"), wide=True)),
        "gpt2": ch.load(decoders.tiny_folder(place / "gpt2", "gpt2", wide=True)),
        "bart": ch.load(translators.tiny_folder(place / "bart", "bart", wide=True)),
        "llama": ch.load(decoders.tiny_folder(place / "llama", "llama", wide=True)),
        "long": ch.load(long),
        "t5": ch.load(translators.tiny_folder(place / "t5", "t5", wide=True)),
    }


def images(figure):
    """The matrices that are drawn, in order, without those of colour bars."""
    return [np.ma.filled(image.get_array(), np.nan) for axes in figure.axes for image in axes.images]


def texts(figure):
    """Every text of a figure that is seen."""
    with styled():
        figure.draw_without_rendering()
    return [text for text in figure.findobj(lambda one: hasattr(one, "get_text")) if text.get_text()]


def is_number(said):
    """A label of a scale."""
    return said.replace("−", "").replace(".", "").isdecimal()


def test_every_figure_is_made_somewhere_once_and_says_what_it_shows():
    made = [name for names in MADE_IN.values() for name in names]
    assert sorted(made) == sorted(FIGURES) and len(set(made)) == len(made)
    assert all(len(line) > 20 for line in FIGURES.values())


@pytest.mark.parametrize("name", OF_EXAMPLE)
def test_a_figure_of_the_example_is_a_small_svg_without_a_date(tmp_path, name):
    figure = draw(name)
    assert isinstance(figure, Figure)
    save(figure, tmp_path / "it.svg")
    made = (tmp_path / "it.svg").read_bytes()
    assert b"<dc:date>" not in made and len(made) < 200_000
    ElementTree.fromstring(made)


@pytest.mark.parametrize("name", ["routing", "norms", "head"])
def test_a_figure_is_the_same_bytes_each_time(models, tmp_path, name):
    for number in (1, 2):
        save(draw(name, model=models["bert"], text=TEXT), tmp_path / f"{number}.svg")
    assert (tmp_path / "1.svg").read_bytes() == (tmp_path / "2.svg").read_bytes()


def test_the_page_of_figures_has_every_name_and_shows_every_example():
    page = (DOCS / "figures.md").read_text()
    for name, line in FIGURES.items():
        assert f"| `{name}` | {line} |" in page
        assert (f"(figures/example-{name}.svg)" in page) == (name in OF_EXAMPLE)
    assert sum(path.stat().st_size for path in (DOCS / "figures").iterdir()) < 1_500_000


@pytest.mark.parametrize("name", NEED_A_MODEL)
def test_a_figure_of_what_only_models_have_is_refused_without_one(name):
    with pytest.raises(SettingError, match=f"figure {name} needs a model: .*; give one, and a text"):
        draw(name)


@pytest.mark.parametrize("kind", ["bert", "gpt2", "bart"])
@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn_of_every_kind_of_model_or_refused_with_the_reason(models, kind, name):
    if (kind, name) in REFUSED:
        with pytest.raises(SettingError, match=REFUSED[kind, name]):
            draw(name, model=models[kind], text=TEXT)
        return
    figure = draw(name, model=models[kind], text=TEXT)
    assert figure.axes
    if kind == "bert":
        figure.draw_without_rendering()


@pytest.mark.parametrize("kind", ["llama", "t5"])
@pytest.mark.parametrize("name", ["softmax", "scaling", "sparse", "positions"])
def test_turned_and_biased_models_are_drawn_too(models, kind, name):
    chosen = {} if name == "positions" else {"layer": -1, "head": -1}
    assert draw(name, model=models[kind], text=TEXT, **chosen).axes


def test_the_weights_of_the_example_are_those_of_the_source(tmp_path):
    unscaled, scaled = images(draw("scaling"))[:2]
    np.testing.assert_array_equal(scaled, columns_of(example()))
    np.testing.assert_allclose(unscaled, columns_of(example(), scaled=False), atol=1e-15)
    assert np.sort(unscaled.max(0).round(4)).tolist() == [0.9884, 0.9941, 0.9983]
    (shown_weights,) = images(draw("head"))
    np.testing.assert_array_equal(shown_weights, columns_of(example()).T)


def test_the_large_matrices_of_one_head_do_what_the_head_does():
    values, weights = images(draw("sparse"))
    x, (head,) = example()
    flat = weights @ (values @ x.T.reshape(-1, 1) + np.tile(head.beta_v, (3, 1)))
    expected = head.omega_v @ x @ columns_of(example()) + head.beta_v
    np.testing.assert_allclose(flat.reshape(3, 4), expected.T)


def test_the_large_matrix_of_a_models_head_makes_its_values(models):
    reading = Reading.of(models["bert"], TEXT)
    with record(models["bert"], what=["resid_pre", "v"]) as seen, torch.no_grad():
        reading.run()
    x, v = (seen[0][name][1].double().numpy()[:4] for name in ("resid_pre", "v"))
    values, weights = images(draw("sparse", model=models["bert"], text=TEXT, layer=1, head=2))
    apart = (x - x[::-1]).reshape(-1, 1)  # the bias goes
    np.testing.assert_allclose((values @ apart).reshape(4, -1), (v - v[::-1])[:, 2], atol=1e-5)
    assert weights.shape == (24, 24) and np.count_nonzero(weights) == 4 * 4 * 6


@pytest.mark.parametrize("kind", ["bert", "llama", "t5"])
def test_the_weights_that_are_drawn_are_those_that_were_recorded(models, kind):
    model = models[kind]
    reading = Reading.of(model, TEXT)
    with record(model, what=["pattern", "v", "z"]) as seen, torch.no_grad():
        reading.run()
    (one,) = seen.sources if model.translates else seen.records
    weights = one.attention[1][2].double().numpy()
    (drawn,) = images(draw("head", model=model, text=TEXT, layer=1, head=2))
    np.testing.assert_allclose(drawn, weights, atol=1e-6)
    products, again = images(draw("softmax", model=model, text=TEXT, layer=1, head=2))
    np.testing.assert_allclose(again, weights, atol=1e-6)
    assert (np.isnan(products) == (weights == 0)).all()
    if kind != "t5":
        powers = np.exp(np.nan_to_num(products, nan=-np.inf))
        np.testing.assert_allclose(powers / powers.sum(1, keepdims=True), weights, atol=1e-5)
    plain, scaled = images(draw("scaling", model=model, text=TEXT, layer=1, head=2))[:2]
    np.testing.assert_allclose(plain if kind == "t5" else scaled, weights, atol=1e-5)
    every = images(draw("heads", model=model, text=TEXT))[1 if model.translates else 0]
    size = len(weights) + 1
    tile = every[size : 2 * size - 1, 2 * size : 3 * size - 1]
    np.testing.assert_allclose(tile, weights, atol=1e-6)


def test_what_is_measured_is_what_is_drawn(models):
    model, reading = models["bert"], Reading.of(models["bert"], TEXT)
    heads, parts = images(draw("effects", model=model, text=TEXT))
    found = effects(reading)
    np.testing.assert_allclose(heads, found.heads, atol=1e-6)
    np.testing.assert_allclose(parts, found.parts, atol=1e-6)
    bars = draw("attribution", model=model, text=TEXT).axes[0].patches
    np.testing.assert_allclose([bar.get_width() for bar in bars], attribution(reading).values, atol=1e-6)
    with record(model) as seen, torch.no_grad():
        reading.run()
    (reached,) = images(draw("rollout", model=model, text=TEXT))
    np.testing.assert_allclose(reached, rollout(seen[0])[-1], atol=1e-6)
    scores = head_scores(model)
    every = images(draw("roles", model=model))
    for values, kind in zip(every, ("previous", "first", "duplicate", "induction"), strict=True):
        np.testing.assert_allclose(values, getattr(scores, kind), atol=1e-6)


def test_an_answers_weights_to_its_text_are_drawn_as_a_mean_or_as_one_head(models):
    found = look(models["bart"], TEXT)
    (mean,) = images(draw("cross", look=found))
    np.testing.assert_allclose(mean, found.weights[0].values.mean((0, 1)), atol=1e-6)
    (one,) = images(draw("cross", look=found, layer=1, head=-1))
    np.testing.assert_allclose(one, found.weights[0].values[1, 3], atol=1e-6)
    assert draw("head", look=found, layer=2).axes and draw("lens", look=found).axes


def test_a_look_at_some_layers_has_no_others(models):
    found = look(models["bert"], TEXT, layers=[0, 2], heads=[1])
    (drawn,) = images(draw("head", look=found, layer=2))
    np.testing.assert_allclose(drawn, found.weights[0].values[1, 0], atol=1e-6)
    with pytest.raises(SettingError, match="layer=1 was not looked at; 0, 2 were"):
        draw("head", look=found, layer=1)
    with pytest.raises(SettingError, match="figure routing asks the model more than was looked at"):
        draw("routing", look=found)


def test_layer_norm_is_the_same_in_every_batch_and_batch_norm_is_not(models):
    for given in ({}, {"model": models["bert"], "text": TEXT, "layer": 1}):
        layer, batch = (axes.get_lines()[:2] for axes in draw("norms", **given).axes)
        assert np.array_equal(*(line.get_ydata() for line in layer))
        assert not np.allclose(*(line.get_ydata() for line in batch))
    one, other = (line.get_ydata() for line in draw("norms").axes[1].get_lines()[:2])
    rows = np.array([[1.0, 2, 3, 4], [10, 10, 20, 20], [-1, 0, 0, 1]])
    np.testing.assert_allclose(one, batch_norm(rows[:2])[0])
    np.testing.assert_allclose(other, batch_norm(rows[[0, 2]])[0])
    np.testing.assert_allclose(draw("norms").axes[0].get_lines()[0].get_ydata(), layer_norm(rows[0]))


@pytest.mark.parametrize("given", ["example", "bert", "bart"])
def test_tokens_in_another_order_change_places_only_without_positions(models, given):
    chosen = {} if given == "example" else {"model": models[given], "text": TEXT}
    without, with_them = (images(draw("permutation", **chosen))[at] for at in (2, 5))
    assert np.abs(without).max() < 1e-5 and np.abs(with_them).max() > 1e-3


def test_without_norms_the_gradient_is_lost_unless_there_are_residual_connections():
    bare, normed = draw("residual").axes
    kept, lost = (line.get_ydata() for line in bare.get_lines()[:2])
    assert len(kept) == len(lost) == 24 and kept[0] == pytest.approx(1, abs=0.01) and 0 < lost[0] < 1e-90
    kept, lost = (line.get_ydata() for line in normed.get_lines()[:2])
    assert 1 < kept[0] < 3 and 0.1 < lost[0] < 1  # a norm before each part does the same


HOSTILE = "$x_1$ <b>&amp;</b> \\frac \x1b[31m שלום \u202e مرحبا 😀 日本"


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_hostile_texts_are_drawn_as_they_stand(models, tmp_path, ending):
    figure = draw("head", model=models["bert"], text=f"good {HOSTILE}")
    assert not any(text.get_parse_math() for text in texts(figure) if not is_number(text.get_text()))
    with warnings.catch_warnings(action="ignore"):
        figure.savefig(tmp_path / f"theirs.{ending}")  # also by whoever does not know `save`
    save(figure, tmp_path / f"ours.{ending}")
    if ending == "svg":
        root = ElementTree.fromstring((tmp_path / "ours.svg").read_bytes())
        said = " ".join("".join(one.itertext()) for one in root.iter() if one.tag.endswith("text"))
        for part in ("$x_1$", "<b>&amp;</b>", "\\frac", "␛[31m", "שלום", "مرحبا", "😀"):
            assert part in said
        assert "\x1b" not in said and "\u202e" not in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a" * 30, "a" * 17 + "…"),
        (" ", "␣"),
        ("\n", "␊"),
        ("a\ud800", "a?"),
        ("\uffff", "\ufffd"),
        ("$", "$"),
    ],
)
def test_a_token_is_shown_short_and_without_what_could_command(text, said):
    assert shown(text) == said


def test_what_is_not_there_is_refused_by_name(models, tmp_path):
    bert = models["bert"]
    with pytest.raises(SettingError, match=r"figure 'haeds' is not one of routing, softmax, .*, roles"):
        draw("haeds")
    with pytest.raises(SettingError, match="layer=3: the model has 3, 0 to 2"):
        draw("softmax", model=bert, text=TEXT, layer=3)
    with pytest.raises(SettingError, match="head=-5: the model has 4, 0 to 3"):
        draw("routing", model=bert, text=TEXT, head=-5)
    with pytest.raises(SettingError, match="layer=1: the model has 1, 0 to 0"):
        draw("softmax", layer=1)
    with pytest.raises(SettingError, match="layer=7 was not looked at; 0, 1, 2 were"):
        draw("head", model=bert, text=TEXT, layer=7)
    with pytest.raises(SettingError, match="figure heads is of all layers and heads; leave layer=0 out"):
        draw("heads", model=bert, text=TEXT, layer=0)
    with pytest.raises(SettingError, match="figure head: a text was given without a model"):
        draw("head", text=TEXT)
    with pytest.raises(SettingError, match="figure head of a model needs a text that it reads"):
        draw("head", model=bert)
    with pytest.raises(SettingError, match=r"a figure is written as \.svg or \.png; end its name so"):
        save(draw("head"), tmp_path / "head.gif")
    with pytest.raises(SettingError, match=r"nowhere/head.svg cannot be written \(No such file"):
        save(draw("head"), tmp_path / "nowhere" / "head.svg")


def test_a_text_too_long_to_be_read_in_a_figure_is_refused(models):
    with pytest.raises(SettingError, match="figure routing: 41 tokens cannot be told apart in it, 40 can"):
        draw("routing", model=models["long"], text="good " * 39)


def test_one_command_draws_a_figure(tmp_path, capsys):
    where = tmp_path / "routing.svg"
    assert main(["routing", "--out", str(where)]) == 0
    save(draw("routing"), tmp_path / "again.svg")
    assert where.read_bytes() == (tmp_path / "again.svg").read_bytes()
    model = families.tiny_folder(tmp_path / "model", "bert")
    asked = [
        "head",
        "--out",
        str(tmp_path / "head.png"),
        "--model",
        str(model),
        "--text",
        "good",
        "--layer",
        "-1",
    ]
    assert main(asked) == 0 and (tmp_path / "head.png").stat().st_size > 1000
    assert main(["haeds", "--out", str(where)]) == 2
    assert capsys.readouterr().err.startswith("error: figure 'haeds' is not one of")


def test_the_names_are_there_without_matplotlib_and_torch():
    code = (
        "import sys; from clearhead.explain.figures import FIGURES; "
        "assert FIGURES and not {'matplotlib', 'torch', 'numpy'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
