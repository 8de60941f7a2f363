"""Several labels for a text, and numbers: losses, answers and scores agree with the published ones."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk
from transformers import AutoModelForSequenceClassification

import clearhead as ch
from clearhead.app.cli import main
from clearhead.check.finding import Verdict
from clearhead.data.rows import Row
from clearhead.errors import DataError, SettingError
from clearhead.learn.run import Run
from clearhead.settings import Training
from clearhead.tasks.regress import Regression
from clearhead.tasks.scores_numbers import measure_numbers
from clearhead.tasks.scores_several import measure_several
from clearhead.tasks.several import SeveralLabels
from tiny import WORDS, tiny_bert

LABELS = ("bad", "fine", "good")
SMALL = {"base": "new", "layers": 1, "width": 16, "heads": 2, "hidden": 16, "epochs": 2, "batch_tokens": 64}


def rows(*labels, file="data.jsonl"):
    return [Row(f"text {n}", "|".join(names), file, n, {}, names) for n, names in enumerate(labels, 1)]


@pytest.fixture
def topics(tmp_path):
    """Texts that name all of their labels, or none."""
    path = tmp_path / "topics.jsonl"
    with path.open("w") as file:
        for number in range(60):
            names = [name for place, name in enumerate(LABELS) if number >> place & 1]
            words = [*names, WORDS[13 + number % 12], str(number)]
            file.write(json.dumps({"text": " ".join(words), "label": names}) + "\n")
    return path


@pytest.fixture
def stars(tmp_path):
    """Texts that hold their number."""
    path = tmp_path / "stars.csv"
    lines = [f"{'good ' * (number % 5)}{WORDS[13 + number % 12]} {number},{number % 5 + 0.5}"
             for number in range(60)]  # fmt: skip
    path.write_text("text,label\n" + "\n".join(lines) + "\n")
    return path


def test_the_losses_are_the_published_ones_and_do_not_depend_on_accumulation():
    """The published code takes the mean over texts (and labels); ours is a sum over texts, divided once."""
    logits = torch.tensor([[2.0, -1, 0.5], [0, 3, -2], [-40, 40, 0]])
    several = SeveralLabels(LABELS)
    targets = several.targets(rows(("bad", "good"), (), ("fine",)))
    assert targets.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    whole = several.loss(logits, targets) / 3
    assert whole == pytest.approx(torch.nn.BCEWithLogitsLoss()(logits, targets).item())
    parts = sum(several.loss(logits[part], targets[part]) for part in (slice(1), slice(1, 3))) / 3
    assert parts == pytest.approx(whole)
    regression = Regression()
    right = regression.targets([Row("a", label, "f", 1, {}) for label in ("1", "-2.5", "1e2")])
    outputs = torch.tensor([[0.5], [0], [90]])
    assert regression.loss(outputs, right) / 3 == pytest.approx(torch.nn.MSELoss()(outputs, right).item())


@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 3))
def test_scores_of_several_labels_agree_with_scikit_learn(seed, texts, count):
    random = np.random.default_rng(seed)
    logits, targets = random.normal(size=(texts, count)), random.random((texts, count)) < 0.4
    found = measure_several(logits, targets, labels=LABELS[:count])
    given_ = logits > 0
    if count > 1:
        assert found.accuracy == pytest.approx(sk.accuracy_score(targets, given_))
        for name, average in ((found.micro_f1, "micro"), (found.macro_f1, "macro")):
            assert name == pytest.approx(sk.f1_score(targets, given_, average=average, zero_division=0))
    assert found.loss == pytest.approx(
        np.mean([sk.log_loss(targets[:, n], 1 / (1 + np.exp(-logits[:, n])), labels=[False, True])
                 for n in range(count)])
    )  # fmt: skip
    if all(0 < targets[:, n].sum() < texts for n in range(count)):
        areas = [sk.roc_auc_score(targets[:, n], logits[:, n]) for n in range(count)]
        assert found.auroc == pytest.approx(np.mean(areas))
    else:
        assert found.auroc is None


@given(st.integers(0, 10_000), st.integers(2, 40))
def test_scores_of_numbers_agree_with_the_published_ones(seed, texts):
    from scipy.stats import pearsonr, spearmanr

    random = np.random.default_rng(seed)
    targets = random.integers(0, 5, texts).astype(float)
    outputs = targets + random.normal(size=texts)
    found = measure_numbers(outputs, targets)
    assert found.mse == pytest.approx(sk.mean_squared_error(targets, outputs))
    assert found.mae == pytest.approx(sk.mean_absolute_error(targets, outputs))
    if len(set(targets)) == 1:
        assert found.pearson is found.spearman is found.r2 is None
    else:
        assert found.r2 == pytest.approx(sk.r2_score(targets, outputs))
        assert found.pearson == pytest.approx(pearsonr(outputs, targets).statistic)
        assert found.spearman == pytest.approx(spearmanr(outputs, targets).statistic)


def test_a_published_head_says_by_problem_type_what_its_outputs_mean(tmp_path):
    """Sigmoids for several labels; one output is a number, as the published code decides too."""
    texts = ["a good table", "slow soup"]
    folder = tiny_bert(tmp_path / "multi", labels=LABELS, problem_type="multi_label_classification")
    published = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    model = ch.load(folder)
    for result, encoding in zip(model.predict(texts), model.encode(texts), strict=True):
        logits = published(torch.tensor([encoding.ids])).logits[0]
        assert list(result.scores.values()) == pytest.approx(logits.sigmoid().tolist(), abs=1e-5)
        assert result.labels == tuple(label for label, score in result.scores.items() if score > 0.5)
    folder = tiny_bert(tmp_path / "number", labels=("LABEL_0",))
    published = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    model = ch.load(folder)
    for result, encoding in zip(model.predict(texts), model.encode(texts), strict=True):
        assert result.value == pytest.approx(published(torch.tensor([encoding.ids])).logits.item(), abs=1e-5)
    several = tiny_bert(tmp_path / "several", labels=LABELS, problem_type="regression")
    with pytest.raises(SettingError, match="a regression with 3 outputs is not supported"):
        ch.load(several).predict(texts)


def test_several_labels_are_learned_saved_verified_and_evaluated(topics, tmp_path, capsys):
    out = tmp_path / "run"
    options = {**SMALL, "epochs": 30, "learning_rate": 5e-3, "dropout": 0.0}
    progress = list(ch.train("classify", data=topics, out=out, **options))
    assert progress[-1].metrics.micro_f1 > 0.9
    resolved = json.loads((out / "settings.json").read_text())["resolved"]
    assert resolved["problem"] == "multi_label_classification" and resolved["metric"] == "micro_f1"
    model = ch.load(out)
    (result,) = model.predict([f"bad good {WORDS[18]} 5"])
    assert result.labels == ("bad", "good") and list(result.scores) == list(LABELS)
    assert ch.evaluate(model, topics).metrics.micro_f1 > 0.9
    assert all(finding.verdict is not Verdict.FAIL for finding in ch.verify(model))
    for command in (["evaluate", str(out), "--data", str(topics)], ["predict", str(out), "--text", "x"]):
        with pytest.raises(SystemExit) as left:
            main(command)
        assert left.value.code == 0
        said = json.loads(capsys.readouterr().out)
        assert "micro_f1" in said or isinstance(said["labels"], list)


def test_numbers_are_learned_saved_verified_and_evaluated(stars, tmp_path, capsys):
    out = tmp_path / "run"
    shape = ["--from", "new", "--layers", "1", "--width", "16", "--heads", "2", "--hidden", "16"]
    command = ["train", "classify", "--data", str(stars), "--out", str(out), "--problem", "regression"]
    with pytest.raises(SystemExit) as left:
        main([*command, *shape, "--epochs", "40", "--learning-rate", "5e-3", "--dropout", "0"])
    assert left.value.code == 0
    page = (out / "report.html").read_text()
    assert "A model that gives each text a number" in (out / "README.md").read_text()
    assert "mean absolute error" in page and "Confus" not in page and "Scores by label" not in page
    capsys.readouterr()
    model = ch.load(out)
    assert model.loaded.labels == ("value",)
    low, high = model.predict(["soup", "good good good good soup"])
    assert low.value < 1.5 < 3.5 < high.value
    metrics = ch.evaluate(model, stars).metrics
    assert metrics.pearson > 0.9 and metrics.mse < 0.5
    assert all(finding.verdict is not Verdict.FAIL for finding in ch.verify(model))


def test_a_new_head_for_numbers_begins_at_their_mean(stars, body_folder, tmp_path):
    stars.write_text(stars.read_text().replace(".5\n", "000\n"))
    run = Run(
        Training(data=str(stars), base=str(body_folder), out=str(tmp_path / "run"), problem="regression")
    )
    mean = np.mean([float(row.label) for row in run.training])
    assert run.model.loaded.network.head.output.bias.item() == pytest.approx(mean)


def test_a_head_for_the_same_problem_is_kept_and_another_is_not(stars, tmp_path):
    folder = tiny_bert(tmp_path / "number", labels=("LABEL_0",))
    options = {"data": str(stars), "base": str(folder), "out": str(tmp_path / "run")}
    kept = Run(Training(**options, problem="regression"))
    before = ch.load(folder).loaded.network.head.output.weight
    assert torch.equal(kept.model.loaded.network.head.output.weight, before)
    single = Run(Training(**options))
    assert single.labels == ("0.5", "1.5", "2.5", "3.5", "4.5")  # numbers are names unless asked otherwise


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ('{"text": "a", "label": ["x"]}\n{"text": "b", "label": "y"}\n', {},
         "row 2, column 'label': y is one label, and the first row holds a list of labels"),
        ('{"text": "a", "label": "x"}\n{"text": "b", "label": ["y"]}\n', {},
         "row 2, column 'label': [\"y\"] is not a label"),
        ('{"text": "a", "label": ["x"]}\n{"text": "b", "label": [["y"]]}\n', {},
         "row 2, column 'label': [[\"y\"]] is no list of labels"),
        ('{"text": "a", "label": ["x"]}\n{"text": "b", "label": null}\n', {},
         "row 2, column 'label': holds no label"),
        ('{"text": "a", "label": []}\n{"text": "b", "label": []}\n', {}, "no row has a label"),
        ('{"text": "a", "label": 1}\n{"text": "b", "label": true}\n', {"problem": "regression"},
         "row 2: the label 'true' is not a finite number"),
        ('{"text": "a", "label": "1"}\n{"text": "b", "label": "1,5"}\n', {"problem": "regression"},
         "row 2: the label '1,5' is not a finite number"),
        ('{"text": "a", "label": "1"}\n{"text": "b", "label": "inf"}\n', {"problem": "regression"},
         "row 2: the label 'inf' is not a finite number"),
    ],
)  # fmt: skip
def test_labels_that_do_not_fit_the_problem_are_named_with_their_row(content, options, message, tmp_path):
    """Public report A33, for labels of mixed kinds."""
    data = tmp_path / "data.jsonl"
    data.write_text(content)
    with pytest.raises(DataError) as error:
        ch.train("classify", data=data, out=tmp_path / "run", **SMALL, **options)
    assert message in str(error.value) and str(data) in str(error.value)
    assert not (tmp_path / "run").exists()


def test_a_label_the_model_does_not_know_is_named_with_its_row(tmp_path):
    folder = tiny_bert(tmp_path / "multi", labels=LABELS, problem_type="multi_label_classification")
    data = tmp_path / "data.csv"
    data.write_text("text,label\na,bad|good\nb,\nc,fine|god\n")
    with pytest.raises(DataError, match=r"row 3: the label 'god' is not one .*did you mean 'good'"):
        ch.evaluate(ch.load(folder), data)


def test_a_cell_holds_labels_between_separators(tmp_path):
    from clearhead.data.rows import read_rows

    data = tmp_path / "data.csv"
    data.write_text('text,label\na,x| y|x\nb,\nc,"x, z"\n')
    assert [row.labels for row in read_rows(data, several=True)] == [("x", "y"), (), ("x, z",)]
    assert [row.labels for row in read_rows(data, several=True, label_separator=",")][2] == ("x", "z")
    with pytest.raises(SettingError, match="--label-separator is empty"):
        read_rows(data, several=True, label_separator="")


def test_every_label_stays_in_training(topics, tmp_path):
    with topics.open("a") as file:
        file.write('{"text": "the only one", "label": ["rare", "good"]}\n')
    for seed in range(5):
        run = Run(Training(data=str(topics), out=str(tmp_path / "run"), **SMALL, seed=seed))
        assert len(run.validation) == 6
        assert "rare" in {name for row in run.training for name in row.names}


@pytest.mark.parametrize(("problem", "metric"), [("regression", "accuracy"), ("single", "micro_f1")])
def test_a_metric_of_another_problem_is_refused(stars, tmp_path, problem, metric):
    with pytest.raises(SettingError, match=f"--metric {metric} is not one of"):
        ch.train("classify", data=stars, out=tmp_path / "run", problem=problem, metric=metric, **SMALL)


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_pairs_of_texts_are_trained_on_and_answered(ending, tmp_path, capsys):
    """Whether two words are the same can be learned only from both; order, names and N for N are kept."""
    data, names = tmp_path / f"pairs.{ending}", ("soup", "bread", "film", "story")
    pairs = [(one, two, str(one == two)) for one in names for two in names for _ in range(3)]
    pairs = [(f"{one} {n}", f"{two} {n}", same) for n, (one, two, same) in enumerate(pairs)]
    columns = ("sentence", "other", "label")
    if ending == "jsonl":
        lines = [json.dumps(dict(zip(columns, pair, strict=True))) for pair in pairs]
    else:
        sign = "," if ending == "csv" else "\t"
        lines = [sign.join(row) for row in (columns, *pairs)]
    data.write_text("\n".join(lines) + "\n")
    body = tiny_bert(tmp_path / "body")
    out = tmp_path / "run"
    list(ch.train("classify", data=data, base=body, out=out, pair_column="other", epochs=1))
    model = ch.load(out)
    asked = [pair[:2] for pair in pairs]
    results = model.predict(asked)
    assert results[0] == model.predict([asked[0]])[0]
    encoding = model.encode(asked)[5]
    assert set(encoding.segments) == {0, 1} and encoding.ids != model.encode([asked[5][::-1]])[0].ids
    metrics = ch.evaluate(model, data, pair_column="other").metrics
    assert metrics.accuracy == np.mean([r.label == pair[2] for r, pair in zip(results, pairs, strict=True)])
    with pytest.raises(SystemExit) as left:
        main(["predict", str(out), str(data), "--pair-column", "other"])
    assert left.value.code == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["text"], line["pair"], line["label"]) for line in said] == [
        (*pair, result.label) for pair, result in zip(asked, results, strict=True)
    ]


def test_a_pair_with_an_empty_text_is_named_with_its_column(tmp_path):
    data = tmp_path / "pairs.csv"
    data.write_text("text,other,label\na,b,x\nc,  ,y\n")
    with pytest.raises(DataError, match=r"row 2, column 'other': holds no text"):
        ch.train("classify", data=data, out=tmp_path / "run", pair_column="other", **SMALL)
    with pytest.raises(SettingError, match="--text-column and --pair-column are both 'other'"):
        ch.train("classify", data=data, out="run", pair_column="other", text_column="other", **SMALL)
    with pytest.raises(DataError, match=r"no column 'second'; found .*--pair-column"):
        ch.train("classify", data=data, out=tmp_path / "run", pair_column="second", **SMALL)
