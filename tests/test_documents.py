"""What README and docs say is true: the tree, the commands, the links."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

import clearhead
from clearhead.app.cli import app, main

SOURCE = Path(clearhead.__file__).parent
ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))


def blocks(page, language):
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), flags=re.M | re.S)
    return [content for name, content in found if name == language]


def test_the_readmes_tree_is_the_real_tree():
    (tree,) = [block for block in blocks(ROOT / "README.md", "") if block.startswith("src/clearhead/")]
    told = re.findall(r"── (\w+)/", tree)
    real = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
    assert sorted(told) == real
    for line in tree.splitlines()[1:]:
        assert re.search(r"/\s+\S.{15,}", line), f"no words for {line}"


def test_every_folder_has_its_page():
    for path in SOURCE.glob("*/__init__.py"):
        assert (ROOT / "docs" / f"{path.parent.name}.md").is_file()


def commands(text):
    """Lines of shell blocks that call the program."""
    for line in text.splitlines():
        line = line.removeprefix("$ ").split("  #")[0].strip()
        if line.startswith("clearhead "):
            yield line


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda path: path.name)
def test_every_command_that_is_shown_can_be_parsed(page):
    """Verbs and flags exist; nothing is run."""
    for block in blocks(page, "sh") + blocks(page, "console"):
        for line in commands(block):
            if line.split()[-1] == "\\" or "|" in line:
                continue
            words = [re.sub(r"[<>]", "", word) for word in shlex.split(line)[1:]]
            app.parse_args(words, exit_on_error=False, print_error=False)


def offline(page):
    return [line for block in blocks(page, "console") for line in block.splitlines() if line.startswith("$ ")]


@pytest.mark.parametrize("page", [page for page in PAGES if offline(page)], ids=lambda path: path.name)
def test_the_pages_own_commands_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))
    shutil.copy(SOURCE / "app" / "reviews.csv", "reviews.csv")
    for block in blocks(page, "jsonl"):
        Path(f"{page.stem}.jsonl").write_text(block)
    for line in offline(page):
        words = shlex.split(line)
        assert words[1] == "clearhead", line
        with pytest.raises(SystemExit) as left:
            main(words[2:])
        assert left.value.code == 0, line
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), {})


def test_the_readmes_python_runs(tmp_path, monkeypatch, body_folder):
    monkeypatch.chdir(tmp_path)
    for name in ("reviews.csv", "test.csv"):
        rows = (SOURCE / "app" / "reviews.csv").read_text().splitlines(keepends=True)
        Path(name).write_text("".join(rows[:41]))
    names = {}
    for code in blocks(ROOT / "README.md", "python"):
        exec(compile(code.replace('"minilm"', repr(str(body_folder))), "README.md", "exec"), names)


def test_the_make_commands_of_the_readme_exist():
    made = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.M)
    for block in blocks(ROOT / "README.md", "sh"):
        for target in re.findall(r"^make (\w+)", block, flags=re.M):
            assert target in made


@pytest.mark.parametrize("page", ["figures", "looking"])
def test_the_pages_of_figures_run(page, tmp_path, monkeypatch):
    from clearhead.explain.figures.__main__ import main as figure
    from families import tiny_folder

    monkeypatch.chdir(tmp_path)
    body = tiny_folder(tmp_path / "body", "bert", num_hidden_layers=6, num_attention_heads=12)
    text = ROOT / "docs" / f"{page}.md"
    for block in blocks(text, "python"):
        exec(compile(block.replace('"minilm"', repr(str(body))), text.name, "exec"), {})
    for line in "".join(blocks(text, "sh")).splitlines():
        words = shlex.split(line.replace(" minilm ", f" {body} "))
        if words[:3] == ["python", "-m", "clearhead.explain.figures"]:
            assert figure(words[3:]) == 0
        elif words[:2] == ["clearhead", "explain"]:
            with pytest.raises(SystemExit) as left:
                main(words[1:])
            assert left.value.code == 0
    assert any(tmp_path.glob("*.svg"))


def test_the_page_on_looking_inside_runs(tmp_path, capsys):
    from decoders import tiny_folder as speaker
    from families import tiny_folder as reader

    body = reader(tmp_path / "body", "bert", num_hidden_layers=6, num_attention_heads=12)
    small = speaker(tmp_path / "small", "llama", num_hidden_layers=30)
    names = {}
    for block in blocks(ROOT / "docs" / "inside.md", "python"):
        code = block.replace('"minilm"', repr(str(body))).replace('"smollm2"', repr(str(small)))
        exec(compile(code, "inside.md", "exec"), names)
    assert names["weights"].shape[0] == 12 and names["stream"].shape[1] == 24
    assert not names["same"].allclose(names["without"]) and names["found"].first is None
    assert not names["patched"][0].allclose(names["patched"][1])
    assert "None" in capsys.readouterr().out
