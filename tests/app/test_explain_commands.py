"""The command explain, as it is typed: pages, figures, JSON, tables, two models, and the live server."""

import http.client
import io
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

import clearhead as ch
import decoders
import families
import translators
from clearhead.app import show
from clearhead.app.cli import main
from clearhead.app.live import MOST, opened
from clearhead.settings import Explaining

TEXT = "the film was not so good"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A tiny model of each kind."""
    place = tmp_path_factory.mktemp("models")
    families.tiny_folder(place / "bert", "bert", ("a", "b", "c"), wide=True, num_hidden_layers=5)
    families.over_tokens("bert", "answer", wide=True).save_pretrained(place / "answer")
    families.write_tokenizer(place / "answer", "bert")
    decoders.tiny_folder(place / "llama", "llama", wide=True)
    translators.tiny_folder(place / "bart", "bart", wide=True)
    return place


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run a command in this process, in an empty folder, with this standard input."""
    monkeypatch.chdir(tmp_path)

    def run(*words, given="", looking=False):
        capsys.readouterr()
        monkeypatch.setattr(sys, "stdin", io.StringIO(given))
        if looking:
            monkeypatch.setattr(show, "plain", lambda as_json: as_json)
        with pytest.raises(SystemExit) as left:
            main([str(word) for word in words])
        seen = capsys.readouterr()
        return SimpleNamespace(status=left.value.code, out=seen.out, err=seen.err)

    return run


@pytest.fixture
def refusal(run):
    """Run a command that cannot work; its one line."""

    def refusal(*words, **given):
        done = run(*words, **given)
        assert done.status == 2 and not done.out, done
        (line,) = done.err.splitlines()
        return line

    return refusal


# One model


def test_json_is_printed_where_nobody_is_looking_and_with_a_dash(run, folders):
    plain = run("explain", folders / "bert", TEXT)
    assert plain.status == 0 and not plain.err
    said = json.loads(plain.out)
    assert said["text"] == TEXT and said["kind"] == "label" and said["heads"] == [0, 1, 2, 3]
    assert [len(said["weights"]["self"]["values"]), len(said["tokens"])] == [5, 8]
    assert run("explain", folders / "bert", TEXT, "--out", "-").out == plain.out
    assert run("explain", folders / "bert", given=TEXT + "\n").out == plain.out
    assert run("explain", folders / "bert", TEXT, "--out", "-", looking=True).out == plain.out
    assert run("explain", folders / "bert", "--text", TEXT, "--json", looking=True).out == plain.out


def test_layers_heads_and_candidates_are_chosen(run, folders):
    chosen = ("--layers", "-1", "0", "--heads", 2, "--candidates", 1)
    said = json.loads(run("explain", folders / "llama", "good bread", *chosen).out)
    assert said["layers"] == [0, 2] and said["heads"] == [2]
    assert {len(row) for layer in said["lens"]["layers"] for row in layer} == {1}
    (answer,) = said["answers"]
    assert answer["of"] == "next token" and len(answer["shares"]) == 1


@pytest.mark.parametrize("name", ["look.html", "look.HTM", "look.json"])
def test_a_page_or_json_is_written_to_a_new_file(run, refusal, folders, tmp_path, name):
    done = run("explain", folders / "bert", TEXT, "--out", name)
    assert done.status == 0 and not done.out and name in done.err
    written = (tmp_path / name).read_text()
    assert written.startswith("<!doctype html>" if "json" not in name else '{"model"')
    assert "is there already; remove it" in refusal("explain", folders / "bert", TEXT, "--out", name)
    assert (tmp_path / name).read_text() == written


def test_nothing_is_written_into_a_models_folder(refusal, folders):
    line = refusal("explain", folders / "bert", TEXT, "--out", folders / "bert" / "look.html")
    assert "is inside the model's folder" in line


def test_figures_are_drawn_by_name(run, refusal, folders, tmp_path):
    bert = folders / "bert"
    assert run("explain", bert, TEXT, "--out", "a.png").status == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    for name in ("b.svg", "c.svg"):
        asked = ("--figure", "head", "--layers", 1, "--heads", 2)
        assert run("explain", bert, TEXT, "--out", name, *asked).status == 0
    assert "layer 1, head 2" in (tmp_path / "b.svg").read_text()
    assert (tmp_path / "b.svg").read_bytes() == (tmp_path / "c.svg").read_bytes()
    for name, said in (("routing", "layer 1, head 2"), ("softmax", "layer 1, head 2"), ("norms", "layer 1")):
        chosen = ("--layers", 1) if name == "norms" else ("--layers", 1, "--heads", 2)
        assert run("explain", bert, TEXT, "--out", f"{name}.svg", "--figure", name, *chosen).status == 0
        assert said in (tmp_path / f"{name}.svg").read_text()
    for name, said in (
        ("effects", "layer"),
        ("rollout", "head=1"),
        ("routing", "--layers: the figure routing"),
    ):
        chosen = ("--layers", 1, 2) if name == "routing" else ("--heads", 1)
        line = refusal("explain", bert, TEXT, "--out", "d.png", "--figure", name, *chosen)
        assert said in line and not (tmp_path / "d.png").exists()
    line = refusal("explain", bert, TEXT, "--out", "d.png", "--figure", "effects", "--answer", "x")
    assert "--answer is for the figures heads, cross, lens; effects does not read it" in line
    line = refusal("explain", bert, TEXT, "--out", "c.png", "--figure", "flow")
    assert "--figure 'flow' is not known; there are routing, softmax, " in line
    assert "--figure is for --out with .png or .svg" in refusal("explain", bert, TEXT, "--figure", "lens")


@pytest.mark.parametrize(
    ("name", "words", "shown"),
    [
        ("bert", (TEXT,), ("looks at (layer 4, mean of 4 heads)", "after layer", "label: ")),
        ("llama", ("good bread",), ("layer 3 says", "next token: ")),
        ("bart", ("good bread", "--answer", "bad soup"), ("layer 2 says", "answer: bad soup")),
        ("answer", ("what ?", TEXT), ("start", "end", "answer: ")),
    ],
)
def test_a_terminal_shows_a_table_and_the_answer(run, folders, name, words, shown):
    done = run("explain", folders / name, *words, looking=True)
    assert done.status == 0, done.err
    assert all(one in done.out for one in shown), done.out
    assert "--out look.html" in done.err


def test_a_question_has_a_context(run, refusal, folders):
    place = folders / "answer"
    both = run("explain", place, "what ?", TEXT)
    assert run("explain", place, "what ?", "--context", TEXT).out == both.out
    assert json.loads(both.out)["pair"] == TEXT
    assert "give both: the context with --context" in refusal("explain", place, "what ?")
    assert "reads one; give one" in refusal("explain", folders / "llama", "what ?", TEXT)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("",), "nothing to look at in an empty text"),
        ((" \n",), "nothing to look at in an empty text"),
        (("good " * 10_000,), "the text has 10002 tokens, the model takes 32; shorten it"),
        ((TEXT, "--layers", "5"), "layers=5: the model has 5, 0 to 4"),
        ((TEXT, "--heads", "4"), "heads=4: the model has 4, 0 to 3"),
        ((TEXT, "--candidates", "0"), "--candidates 0 must be at least 1"),
        ((TEXT, "--answer", "x"), "answer='x' is for models that turn a text into another"),
        ((TEXT, "--out", "look.txt"), "--out look.txt: the ending says what is made"),
        ((TEXT, "--out", "no/look.html"), "there is no folder no; make it first"),
        ((TEXT, "--tolerance", "0.1"), "--tolerance is for two models"),
        ((TEXT, "--port", "80"), "--port is for --live"),
        (("--live", "--port", "65536"), "--port 65536 must be from 0"),
        ((TEXT, "--live", "--out", "x.html"), "--out and --live are two things"),
        ((TEXT, "--context", "a", "--text", "b"), f"both '{TEXT}' and --text are given"),
        ((TEXT, "a", "--context", "b"), "both 'a' and --context are given"),
        ((TEXT, "a", "b"), f"3 texts are given ('{TEXT}', 'a', 'b'), and at most two"),
        ((TEXT, "--hed", "1"), "--hed is no option of explain"),
    ],
)
def test_what_cannot_be_is_refused_by_name(refusal, folders, words, said):
    assert said in refusal("explain", folders / "bert", *words)


def test_a_text_may_begin_with_a_hyphen(run, folders):
    assert json.loads(run("explain", folders / "bert", "- good").out)["text"] == "- good"


# Two models


@pytest.fixture(scope="module")
def swapped(folders, tmp_path_factory):
    """The same model with two query rows of head 1 of layer 3 swapped."""
    place = tmp_path_factory.mktemp("swapped") / "bert"
    shutil.copytree(folders / "bert", place)
    weights = load_file(place / "model.safetensors")
    name = "bert.encoder.layer.3.attention.self.query."
    for part in ("weight", "bias"):
        rows = weights[name + part].clone()  # 6 rows a head
        rows[[6, 7]] = rows[[7, 6]]
        weights[name + part] = rows
    save_file(weights, place / "model.safetensors", metadata={"format": "pt"})
    return place


def test_a_comparison_finds_a_head_whose_query_rows_are_swapped(run, folders, swapped):
    done = run("explain", folders / "bert", swapped, TEXT)
    said = json.loads(done.out)
    assert done.status == 1 and not said["agree"]
    first = said["first"]
    assert (first["layer"], first["point"], first["apart"]) == (3, "q", [1])
    assert all(gap["difference"] == 0 for gap in said["gaps"] if gap["layer"] < 3)
    table = run("explain", folders / "bert", swapped, TEXT, looking=True)
    assert table.status == 1 and "they part at layer 3, q, head 1: " in table.out


def test_a_model_is_as_itself_and_more_is_tolerated_on_request(run, folders, swapped):
    done = run("explain", folders / "bert", folders / "bert", TEXT)
    assert done.status == 0 and json.loads(done.out)["agree"]
    assert run("explain", folders / "bert", folders / "bert", TEXT, looking=True).out.endswith("they agree\n")
    assert run("explain", folders / "bert", swapped, TEXT, "--tolerance", 100).status == 0


def test_a_model_is_told_from_a_text(run, refusal, folders, tmp_path, monkeypatch):
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))
    bert = folders / "bert"
    shutil.copytree(bert, tmp_path / "cache" / "minilm")
    line = refusal("explain", bert, "minilm")
    assert (
        "'minilm' is a model, so two are compared, and the text is missing" in line
        and "--text minilm" in line
    )
    assert json.loads(run("explain", bert, "--text", "minilm").out)["text"] == "minilm"
    assert json.loads(run("explain", bert, "minilm", TEXT).out)["agree"]
    assert json.loads(run("explain", bert, "minilm", "--text", TEXT).out)["agree"]
    (tmp_path / "good").mkdir()  # a folder without a model in it is a word
    assert json.loads(run("explain", bert, "good", TEXT).out)["pair"] == TEXT
    for flag, *value in (("--out", "x.html"), ("--layers", "0"), ("--heads", "0"), ("--live",)):
        line = refusal("explain", bert, "minilm", TEXT, flag, *value)
        assert f"{flag} is for one model, and two are given" in line
    assert "the models have 5 and 3 layers" in refusal("explain", bert, folders / "llama", TEXT)


# Live


@pytest.fixture(scope="module")
def server(folders):
    """A live server with a tiny classifier."""
    with opened(ch.load(folders / "bert"), texts=[TEXT], settings=Explaining(live=True)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def ask(server):
    """Send a request; status and answer."""

    def ask(method, path, body=None, **headers):
        port = server.server_address[1]
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None and not isinstance(body, bytes):
            body, named = json.dumps(body).encode(), {"Content-Type": "application/json"} | named
        link.request(method, path, body=body, headers=named)
        answer = link.getresponse()
        found = answer.read()
        link.close()
        return SimpleNamespace(status=answer.status, headers=answer.headers, body=found)

    return ask


def test_the_page_and_a_look_are_given_to_whoever_knows_the_token(server, ask):
    page = ask("GET", f"/{server.token}/")
    assert page.status == 200 and page.body.startswith(b"<!doctype html>")
    assert page.headers["Cache-Control"] == "no-store" and "Access-Control-Allow-Origin" not in page.headers
    said = json.loads(ask("POST", f"/{server.token}/look", {"text": TEXT, "off": []}).body)
    assert said["before"] is None and said["texts"] == [TEXT]
    off = [["self", 0, head] for head in range(4)]
    changed = json.loads(ask("POST", f"/{server.token}/look", {"text": TEXT, "off": off}).body)
    assert changed["before"]["answers"] == said["answers"] != changed["answers"]


@pytest.mark.parametrize("path", ["/", "/look", "/x/", "/{}x/look", "/%C3%A9/", "/{:.10}/"])
def test_without_the_token_nothing_is_given(server, ask, path):
    others = [(method, None) for method in ("HEAD", "OPTIONS", "PUT", "DELETE")]
    for method, body in (("GET", None), ("POST", {"text": TEXT}), *others):
        answer = ask(method, path.format(server.token), body)
        assert answer.status == (404 if "{}" in path else 403)
        assert method == "HEAD" or (b"nothing is here" if "{}" in path else b"not whole") in answer.body


def test_other_names_for_this_machine_and_other_sites_are_refused(server, ask):
    path, port = f"/{server.token}/", server.server_address[1]
    assert ask("GET", path, Host=f"localhost:{port}").status == 200
    for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1:{port + 1}", "127.0.0.1", ""):
        assert ask("GET", path, Host=host).status == 403
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{port + 1}"):
        assert ask("POST", f"{path}look", {"text": TEXT}, Origin=origin).status == 403
    assert ask("POST", f"{path}look", {"text": TEXT}, Origin=f"http://127.0.0.1:{port}").status == 200


@pytest.mark.parametrize(
    ("body", "headers", "status", "said"),
    [
        ({"text": " "}, {}, 400, "empty text"),
        ({"text": "good " * 40}, {}, 400, "the model takes 32"),
        ({"text": 3}, {}, 400, "the request must be"),
        ([1], {}, 400, "the request must be"),
        ({"text": TEXT, "off": [["self", 9, 0]]}, {}, 400, "layer=9: the model has 5, 0 to 4"),
        ({"text": TEXT, "off": [["self", 0, 4]]}, {}, 400, "head=4: the model has 4, 0 to 3"),
        ({"text": TEXT, "off": [["cross", 0, 0]]}, {}, 400, "is no head"),
        ({"text": TEXT, "off": [["self", 0, "x"]]}, {}, 400, "is not a whole number"),
        (b"{", {"Content_Type": "application/json"}, 400, "not valid JSON"),
        (b"text=x", {"Content_Type": "application/x-www-form-urlencoded"}, 415, "send JSON"),
        (
            b"{}",
            {"Content_Type": "application/json", "Content_Length": str(MOST + 1)},
            413,
            "bytes are taken",
        ),
        (b"{}", {"Content_Type": "application/json", "Content_Length": "-1"}, 411, "how long"),
    ],
)
def test_a_request_that_cannot_be_answered_says_why(server, ask, body, headers, status, said):
    answer = ask("POST", f"/{server.token}/look", body, **headers)
    assert answer.status == status and said in json.loads(answer.body)["error"]


def test_each_request_has_its_own_edits(server, ask):
    """Eight at a time, half of them with heads off."""
    path, found = f"/{server.token}/look", {}
    off = [["self", layer, head] for layer in range(5) for head in range(4)]

    def work(number):
        asked = {"text": TEXT, "off": off if number % 2 else []}
        found[number] = json.loads(ask("POST", path, asked).body)["answers"]

    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len({str(found[number]) for number in (0, 2, 4, 6)}) == 1
    assert len({str(found[number]) for number in (1, 3, 5, 7)}) == 1 and found[0] != found[1]


def test_a_port_that_is_taken_is_named_with_its_flag(refusal, folders):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = refusal("explain", folders / "bert", "--live", "--port", port)
    assert f"--port {port} cannot be had (Address already in use); give another, or leave it out" in line


def heard():
    """Ctrl-C is heard."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_ends_the_server(folders):
    words = [sys.executable, "-m", "clearhead", "explain", str(folders / "bert"), "--live"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # Where the tests run in the background of a shell, SIGINT is ignored, and a child inherits that.
    with subprocess.Popen(words, preexec_fn=heard, **pipes) as running:
        try:
            assert json.loads(running.stdout.readline())["url"].startswith("http://127.0.0.1:")
            running.send_signal(signal.SIGINT)
            out, err = running.communicate(timeout=60)
        finally:
            running.kill()
    assert running.returncode == 0 and not out and err.endswith("stopped\n") and "Traceback" not in err


def test_a_translators_heads_are_switched_off_in_each_stack(folders):
    from clearhead.explain.trial import tried

    model = ch.load(folders / "bart")
    said = {"answer": "bad soup", "layers": 0, "heads": 0}
    plain = tried(model, "good bread", **said)
    for kind in ("encoder", "decoder", "cross"):
        found = tried(model, "good bread", off=[[kind, 0, head] for head in range(4)], **said)
        assert found["before"] == {"answers": plain["answers"], "answer": plain["answer"]}
        assert found["lens"] != plain["lens"]
    assert torch.is_grad_enabled()


def test_a_model_of_the_catalog_that_is_not_here_is_no_text(refusal, folders, monkeypatch, tmp_path):
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "empty"))
    assert "clearhead get smollm2" in refusal("explain", folders / "bert", "smollm2", TEXT)
