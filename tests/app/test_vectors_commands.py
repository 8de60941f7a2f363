"""Vectors at the command line: each text's, the nearest texts, a run and its report, mistakes named."""

import json

import pytest

import clearhead as ch
from clearhead.app import facts, show
from clearhead.app.cli import main
from clearhead.infer import embed
from sentences import sentence_folder
from tiny import tiny_bert


@pytest.fixture
def run(capsys):
    """Run a command; its status, the JSON lines it prints, and what it says."""

    def run(*arguments):
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        seen = capsys.readouterr()
        return left.value.code, [json.loads(line) for line in seen.out.splitlines()], seen.err

    return run


@pytest.fixture
def folder(tmp_path):
    return sentence_folder(tmp_path / "model")


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("good soup\nthe film was slow\nwarm bread and cold soup\n" + "kind " * 40 + "\n")
    return path


def test_a_file_gives_a_vector_a_line(run, folder, texts, monkeypatch):
    monkeypatch.setattr(embed, "BLOCK", 2)
    status, lines, said = run("predict", folder, texts)
    assert status == 0 and len(lines) == 4
    vectors, read = ch.load(folder).vectors(texts.read_text().splitlines())
    for line, vector, one in zip(lines, vectors, read, strict=True):
        assert list(line) == ["text", "embedding", "tokens", "dropped", "windows"]
        assert line["embedding"] == vector.tolist()
        assert (line["tokens"], line["dropped"], line["windows"]) == (one.tokens, one.dropped, 1)
    assert "has no labels yet, so each text gets its vector; for labels train it: clearhead train" in said
    assert "longer than the model takes, and cut (see dropped): 1 of 4 texts" in said


def test_options_shape_the_vectors(run, folder, texts, tmp_path):
    _, (line,), _ = run("predict", folder, "--text", "good soup", "--dimensions", "3", "--pooling", "max")
    right = ch.load(folder).embed(["good soup"], dimensions=3, pooling="max")
    assert line["embedding"] == right[0].tolist()
    _, (line,), _ = run("predict", folder, "--text", "soup", "--no-normalise", "--prefix", "good ")
    assert line["embedding"] == ch.load(folder).embed(["good soup"], normalise=False)[0].tolist()
    _, lines, _ = run("predict", folder, texts, "--long", "window")
    assert lines[3]["windows"] > 1 and lines[3]["dropped"] == 0
    assert run("predict", folder, texts, "--out", tmp_path / "out.jsonl")[:2] == (0, [])
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 4


def test_queries_find_the_nearest_texts(run, folder, texts):
    status, lines, said = run(
        "predict", folder, texts, "--query", "soup", "--query", "slow film", "--top", "2"
    )
    assert status == 0 and [line["query"] for line in lines] == ["soup", "slow film"]
    assert "no labels" not in said
    for line in lines:
        assert [list(near) for near in line["nearest"]] == [["row", "score", "text", "dropped"]] * 2
        assert line["nearest"][0]["score"] >= line["nearest"][1]["score"]
    model = ch.load(folder)
    vectors, (query,) = model.embed(texts.read_text().splitlines()).double(), model.embed(["soup"]).double()
    best = int((vectors @ query).argmax())
    assert lines[0]["nearest"][0]["row"] == best + 1
    assert lines[0]["nearest"][0]["score"] == pytest.approx(float((vectors @ query).max()), abs=1e-6)


def test_empty_texts_are_refused_or_left_out(run, folder, tmp_path):
    path = tmp_path / "some.csv"
    path.write_text('text,more\ngood,1\n"  ",2\nsoup,3\n')
    status, _, said = run("predict", folder, path)
    assert status == 2 and "some.csv, row 2: holds no text; write one, or go on without" in said
    _, lines, _ = run("predict", folder, path, "--empty", "skip")
    assert [line["embedding"] is None for line in lines] == [False, True, False]
    _, (line,), _ = run("predict", folder, path, "--empty", "skip", "--query", "soup")
    assert [near["row"] for near in line["nearest"]] == [3, 1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{texts}", "--query", " "], "--query number 1 is empty; write what is looked for"),
        (["{texts}", "--query", "soup " * 40, "--long", "error"], "--query number 1: the text has 42 tokens"),
        (["{texts}", "--top", "3"], "--top is for --query, which is not given; leave it out"),
        (["{texts}", "--query", "a", "--top", "0"], "--top 0 must be at least 1"),
        (["{texts}", "--dimensions", "99"], "--dimensions 99 is more than the model's vectors have (24)"),
        (["{texts}", "--temperature", "1"], "--temperature is for language models"),
        (["{texts}", "--candidates", "3"], "--candidates is for models that fill masks"),
        (["{texts}", "--abstain-below", "0.5"], "--abstain-below is for labels"),
        (["{empty}"], "empty.txt: holds no rows"),
        (["{texts}", "--prompt", "query"], "--prompt 'query' is no prompt of"),
    ],
)
def test_mistakes_are_one_line(run, folder, texts, tmp_path, arguments, said):
    (tmp_path / "empty.txt").write_text("")
    names = {"texts": texts, "empty": tmp_path / "empty.txt"}
    status, lines, error = run("predict", folder, *(word.format(**names) for word in arguments))
    assert status == 2 and not lines
    assert said in error.splitlines()[-1]


def test_vectors_options_are_refused_by_other_models(run, bert_folder, texts):
    status, _, error = run("predict", bert_folder, texts, "--query", "soup")
    assert status == 2 and "--query is for models that give vectors" in error


def test_prompts_for_queries_and_documents_are_the_folders(run, tmp_path, texts):
    prompts = {"prompts": {"query": "good ", "document": "bad "}}
    folder = sentence_folder(tmp_path / "model", facts=prompts)
    model = ch.load(folder)
    _, (line,), _ = run("predict", folder, texts, "--query", "soup", "--top", "1")
    vectors = model.embed(texts.read_text().splitlines(), prompt="document").double()
    (query,) = model.embed(["soup"], prompt="query").double()
    assert line["nearest"][0]["score"] == pytest.approx(float((vectors @ query).max()), abs=1e-6)
    _, (line,), _ = run("predict", folder, texts, "--query", "soup", "--prefix", "a ", "--query-prefix", "b ")
    vectors = model.embed(texts.read_text().splitlines(), prefix="a ").double()
    (query,) = model.embed(["soup"], prefix="b ").double()
    assert line["nearest"][0]["score"] == pytest.approx(float((vectors @ query).max()), abs=1e-6)


def test_train_evaluate_and_info(run, tmp_path):
    data = tmp_path / "pairs.jsonl"
    rows = [
        {"anchor": f"good soup {n % 10} {n // 10}", "positive": f"{n % 10} bread {n // 10}"}
        for n in range(40)
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    small = ["--layers", "1", "--width", "16", "--heads", "2", "--hidden", "32", "--batch-pairs", "9"]
    out = tmp_path / "run"
    status, (line,), said = run("train", "embed", "--data", data, "--from", "new", "--out", out, *small)
    assert status == 0, said
    assert "36 pairs to learn from" in said and "MRR@10" in said
    assert "more come from a smaller --batch-pairs (now 9)" in said
    page = (out / "report.html").read_text()
    assert "MRR@10" in page and "Loss, nats per pair" in page and "the nearest second text" in page
    card = (out / "README.md").read_text()
    assert "clearhead train embed --data pairs.jsonl" in card and "eval_mrr_at_10" in card
    status, (line,), _ = run("evaluate", out, "--data", data)
    assert status == 0 and line["texts"] == 40 and line["candidates"] == 40
    assert ch.evaluate(ch.load(out), data).metrics.mrr_at_10 == line["mrr_at_10"]
    _, (line,), _ = run("info", out)
    assert line["vectors"]["pooling"] == "mean" and line["vectors"]["dimensions"] == 16
    assert line["vectors"]["normalised"] is True


def test_evaluate_says_what_it_needs(run, reviews, tmp_path):
    body = tiny_bert(tmp_path / "body")
    status, _, said = run("evaluate", body, "--data", reviews)
    assert status == 2
    assert (
        "no column 'positive'" in said and "for labels it has to be trained: clearhead train classify" in said
    )


def test_a_terminal_shows_tables(run, folder, texts, monkeypatch, capsys):
    for module in (show, facts):
        monkeypatch.setattr(module, "plain", lambda as_json: False)
    with pytest.raises(SystemExit):
        main(["predict", str(folder), str(texts)])
    assert "(24 numbers)" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["predict", str(folder), str(texts), "--query", "soup"])
    assert "good soup" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["info", str(folder)])
    assert "pooling mean" in capsys.readouterr().out
