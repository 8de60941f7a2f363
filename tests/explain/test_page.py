"""The page of a look: nothing in it becomes markup, it loads nothing, stays small, and says what was seen."""

import base64
import hashlib
import json
import random
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import ByteLevelBPETokenizer

import clearhead as ch
import clearhead.explain
import families
from clearhead.errors import DataError, NotFinite
from clearhead.explain.lens import Guess, Lens
from clearhead.explain.look import Look, Share, look
from clearhead.explain.page import live_page, page, write_page
from clearhead.explain.told import LEVELS, legible, packed, rounded, shown, told, unpacked
from clearhead.text.stream import namer
from clearhead.text.tokenizer import Tokenizer
from looks import look_of

HOSTILE = (
    "</script><img src=x onerror=alert(1)>", "<!-- <script>", "]]>", "&lt;b&gt;", '"><b onclick="x',
    "{{ 7 * 7 }}", "\u2028\u2029", "a\x00b\x1b[31mc", "\u202edrowssap", "שלום", "👩‍👩‍👧", "\ud83d", "'`${1}`",
)  # fmt: skip
MIB = 2**20


def hostile():
    answers = tuple((word, (Share(word, 0.5),)) for word in HOSTILE)
    values = torch.full((1, 2, len(HOSTILE), len(HOSTILE)), 1 / len(HOSTILE))
    return look_of(
        values, words=HOSTILE, guesses=HOSTILE, answers=answers, text=(HOSTILE[0], "".join(HOSTILE))
    )


class Tags(HTMLParser):
    """The tags of a page with their attributes, and what stands in each script."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.scripts, self.inside = [], [], False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, tuple(attrs)))
        self.inside = tag == "script"
        if self.inside:
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = self.inside and tag != "script"

    def handle_data(self, data):
        if self.inside:
            self.scripts[-1] += data


def rule(html):
    """The page's rules for the browser."""
    (found,) = [
        dict(attributes)["content"]
        for tag, attributes in Tags(html).tags
        if tag == "meta" and dict(attributes).get("http-equiv") == "Content-Security-Policy"
    ]
    return dict(part.split(" ", 1) for part in found.split("; "))


def test_nothing_of_a_text_becomes_markup():
    plain, hard = (Tags(page(one)) for one in (look_of(torch.ones(1, 1, 1, 1)), hostile()))
    assert plain.tags == hard.tags
    data = json.loads(hard.scripts[0])
    assert data["parts"][0]["queries"][0][0] == HOSTILE[0] and data["texts"][0] == HOSTILE[0]
    assert not set("<>&\u2028\u2029") & set(hard.scripts[0])
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", hard.scripts[1])


def test_what_cannot_be_seen_is_shown_as_a_sign():
    names = [token[0] for token in shown(hostile())["parts"][0]["queries"]]
    assert names[6] == "U+2028 U+2029" and names[7] == "a␀b␛[31mc" and names[8] == "\ufffddrowssap"
    assert names[9] == "שלום" and names[10] == "👩‍👩‍👧"
    assert [legible(one) for one in (" ", "", "\n", "\u200b", "é", "\u0301")] == [
        "␣", "∅", "␊", "U+200B", "é", "U+0301",
    ]  # fmt: skip


def test_a_page_loads_nothing_and_runs_its_own_script_alone():
    html = page(hostile())
    tags = Tags(html)
    assert not re.search(r"https?:|//[a-z]|@import|url\(", re.sub(r"^\s*//.*$", "", html, flags=re.M))
    assert not {"link", "img", "iframe", "object", "base"} & {tag for tag, _ in tags.tags}
    assert not [
        a for _, attrs in tags.tags for a, _ in attrs if a in ("src", "href", "style") or a[:2] == "on"
    ]
    rules = rule(html)
    digest = base64.b64encode(hashlib.sha256(tags.scripts[1].encode()).digest()).decode()
    assert rules["default-src"] == "'none'" and rules["script-src"] == f"'sha256-{digest}'"
    assert "connect-src" not in rules


@pytest.mark.parametrize("kind", ["random", "causal", "sharp"])
def test_128_tokens_12_layers_and_12_heads_stay_below_3_mb(kind):
    """Random weights of which any is as likely as another are what compresses least."""
    chance = np.random.default_rng(0)
    values = torch.from_numpy(chance.dirichlet(np.ones(128), size=(12, 12, 128)))
    if kind == "causal":
        values = values.tril()
        values = values / values.sum(-1, keepdim=True)
    if kind == "sharp":
        values = (values * 600).softmax(-1)
    letters = random.Random(0)
    words = ["".join(letters.choices("abcdefgh", k=8)) for _ in range(128)]
    some = look_of(values, words=words, guesses=words[:5])
    every = tuple(
        tuple(tuple(Guess(letters.choice(words), letters.random()) for _ in range(5)) for _ in words)
        for _ in range(13)
    )
    html = page(Look("m", "text", some.weights, Lens("next token", "probability", tuple(words), every), ()))
    assert len(html.encode()) < 1_500_000
    read = np.frombuffer(unpacked(shown(some)["weights"]), dtype=np.uint8).reshape(values.shape)
    assert np.abs(read / LEVELS - values.numpy()).max() <= 0.002


def test_weights_that_no_softmax_gives_stay_below_3_mib_too():
    text = packed(look_of(torch.rand(12, 12, 128, 128, dtype=torch.float64)).weights)
    assert len(text) <= 1.251 * 128 * 128 * 144 < 3 * MIB - 100_000
    assert not set("<>&\"'\\") & set(text)


def test_weights_are_wrong_by_half_a_step_at_most():
    values = torch.linspace(0, 1, 4096, dtype=torch.float64).view(1, 1, 64, 64)
    read = np.frombuffer(unpacked(packed(look_of(values).weights)), dtype=np.uint8)
    assert np.abs(read / LEVELS - values.flatten().numpy()).max() <= 0.5 / LEVELS + 1e-12
    assert 0.5 / LEVELS < 0.002 and "0.002" in page(look_of(values))


def test_a_probability_is_1_only_where_it_is():
    assert [rounded(share, plain=False) for share in (1.0, 0.99999, 0.9999, 0.123456, 0.0)] == [
        1.0, 0.9999, 0.9999, 0.1235, 0.0,
    ]  # fmt: skip
    assert rounded(-12.34567, plain=True) == -12.35


def test_json_holds_all_of_a_look_unrounded(tmp_path):
    model = ch.load(families.tiny_folder(tmp_path, "bert", ("a", "b"), wide=True))
    found = look(model, ("the film", "so good"), layers=[0, -1], heads=[1, 3])
    said = json.loads(json.dumps(told(found), allow_nan=False))
    assert said["layers"] == [0, 2] and said["heads"] == [1, 3]
    assert (said["text"], said["pair"]) == ("the film", "so good")
    own = said["weights"]["self"]
    assert torch.equal(torch.tensor(own["values"]), found.weights[0].values)
    assert [token["text"] for token in said["tokens"]] == [token.text for token in found.weights[0].queries]
    assert said["answers"][0]["shares"][0]["share"] == found.answers[0][1][0].share
    guess = found.lens.layers[1][0][0]
    assert said["lens"]["layers"][1][0][0] == {"text": guess.text, "probability": guess.probability}


def test_places_of_answers_are_told(tmp_path):
    families.over_tokens("bert", "answer", wide=True).save_pretrained(tmp_path)
    families.write_tokenizer(tmp_path, "bert")
    model, context = ch.load(tmp_path), "the film was not so good"
    found = look(model, ("what was good ?", context))
    for share in found.answers[0][1]:
        if share.start is not None:
            assert context[share.start : share.end] == share.name
    with pytest.raises(DataError, match="a question is asked of a context; give both"):
        look(model, "what was good ?")


def test_a_model_of_numbers_that_are_none_shows_nothing(tmp_path):
    model = ch.load(families.tiny_folder(tmp_path, "bert", ("a", "b")))
    with torch.no_grad():
        model.loaded.network.embedding.tokens.weight.fill_(torch.nan)
    with pytest.raises(NotFinite, match="not finite, so there is nothing to look at"):
        look(model, "good")


def test_tokens_of_a_vocabulary_of_bytes_are_named_by_their_characters():
    core = ByteLevelBPETokenizer()
    core.train_from_iterator(["the café at the harbour"] * 3, vocab_size=300, show_progress=False)
    tokenizer = Tokenizer(core._tokenizer)
    name, (encoding,) = namer(tokenizer), tokenizer.encode([" the café 👩"])
    assert [name(id) for id in encoding.ids][:2] == [" the", " café"]
    assert all("\ufffd" not in name(id) for id in encoding.ids)


def test_a_page_is_written_whole(tmp_path):
    write_page(tmp_path / "look.html", hostile())
    assert (tmp_path / "look.html").read_text(encoding="utf-8") == page(hostile())
    assert [path.name for path in tmp_path.iterdir()] == ["look.html"]


def test_a_live_page_asks_the_server_it_came_from_and_nobody_else(tmp_path):
    html = live_page(ch.load(families.tiny_folder(tmp_path, "bert", ("a", "b"))), HOSTILE[:1])
    assert rule(html)["connect-src"] == "'self'" and rule(html)["default-src"] == "'none'"
    assert json.loads(Tags(html).scripts[0])["texts"] == [HOSTILE[0]]


def test_styles_and_scripts_keep_the_budget_of_files():
    place = Path(clearhead.explain.__file__).parent
    files = [path for path in place.iterdir() if path.name.startswith("page") and path.suffix != ".py"]
    assert {path.suffix for path in files} == {".js", ".css", ".jinja"}
    for path in files:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 300 and max(map(len, lines)) <= 110, path.name
        assert all(one or other for one, other in pairwise(lines)), f"{path.name}: two blank lines"
