"""The page as a person meets it, in a browser: pointing, keys, choices, heads switched off, hostile texts."""

import json
import re
import threading
from pathlib import Path

import pytest
import torch

import clearhead as ch
import families
import translators
from clearhead.app.live import opened
from clearhead.explain.look import look
from clearhead.explain.page import write_page
from clearhead.settings import Explaining
from looks import look_of

CHROMIUM = "/usr/bin/chromium"
TEXT = "the film was not so good"
HOSTILE = "</script><img src=x> <b>good</b> & שלום \u202e 👩‍👩‍👧"
sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
pytestmark = pytest.mark.skipif(not Path(CHROMIUM).exists(), reason=f"needs a browser at {CHROMIUM}")


@pytest.fixture(scope="module")
def browser():
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    place = tmp_path_factory.mktemp("bert")
    return ch.load(families.tiny_folder(place, "bert", ("a", "b", "c"), wide=True))


def told(message):
    """Whether it is a complaint: not of a text that was refused, nor of how these tests read a canvas."""
    return "status of 400" not in message.text and "willReadFrequently" not in message.text


@pytest.fixture
def tab(browser):
    """Opens a page; at the end nothing has been complained of, and nothing asked of another machine."""
    tabs, complaints, asked = [], [], []

    def tab(address, *, width=1280, **more):
        one = browser.new_context(viewport={"width": width, "height": 800}, **more).new_page()
        one.on("console", lambda message: complaints.append(message.text) if told(message) else None)
        one.on("pageerror", lambda error: complaints.append(str(error)))
        one.on("request", lambda request: asked.append(request.url))
        one.goto(address)
        one.wait_for_selector("body[data-ready]")
        tabs.append((one, re.match(r"file:|http://[^/]*/", address)[0]))
        return one

    yield tab
    for one, _ in tabs:
        one.context.close()
    assert not complaints
    assert all(any(url.startswith(mine) for _, mine in tabs) for url in asked), asked


@pytest.fixture(scope="module")
def page(model, tmp_path_factory):
    """The address of a page, and its look."""
    place = tmp_path_factory.mktemp("page") / "look.html"
    found = look(model, TEXT)
    write_page(place, found)
    return place.as_uri(), found


def shares(tab):
    """The weights that stand beside the tokens on the right, in percent."""
    return [float(re.sub("[^0-9.]", "", text) or 0) for text in tab.locator("#to .share").all_text_contents()]


def test_pointing_at_a_token_shows_its_weights_alone_and_a_click_keeps_them(tab, page):
    address, found = page
    one = tab(address)
    assert "8 tokens look at 8" in one.inner_text("#said") and not one.locator("#to .share").count()
    one.hover("#from li:nth-child(3) .token")
    mean = 100 * found.weights[0].values[0].mean(0)
    assert shares(one) == pytest.approx(mean[2].tolist(), abs=0.26)
    assert re.search(r"film. looks at .*%", one.inner_text("#said"))
    one.mouse.move(5, 5)
    assert not one.locator("#to .share").count()
    one.click("#from li:nth-child(3) .token")
    one.mouse.move(5, 5)
    assert one.locator("#to .share").count() == 8
    one.hover("#to li:nth-child(1) .token")
    assert "film" in one.inner_text("#said")  # which is kept
    one.keyboard.press("Escape")
    one.hover("#to li:nth-child(2) .token")
    assert "is looked at by" in one.inner_text("#said") and one.locator("#from .share").count() == 8


def test_layers_and_heads_are_chosen_by_controls_and_arrow_keys(tab, page):
    address, found = page
    one = tab(address)
    one.select_option("#layer", label="2")
    one.click("#legend button >> nth=3")
    one.click("#from li:nth-child(6) .token")
    assert shares(one) == pytest.approx((100 * found.weights[0].values[2, 3, 5]).tolist(), abs=0.26)
    one.keyboard.press("ArrowUp")
    one.keyboard.press("ArrowLeft")
    assert one.inner_text("#said").startswith("Layer 1, head 2: ")
    assert shares(one) == pytest.approx((100 * found.weights[0].values[1, 2, 5]).tolist(), abs=0.26)
    for _ in range(4):
        one.keyboard.press("ArrowLeft")
        one.keyboard.press("ArrowDown")
    assert one.inner_text("#said").startswith("Layer 2, mean of 4 heads: ")
    one.keyboard.press("j")
    assert one.evaluate("document.activeElement.dataset.place") == "6"
    assert "good" in one.inner_text("#said")
    one.click("[data-step=layer][data-by='-1']")
    assert one.input_value("#layer") == "1"
    assert one.locator("#layer option").all_text_contents() == ["0", "1", "2"]


def test_lines_are_drawn_and_fewer_for_one_token(tab, page):
    one = tab(page[0])
    count = "here('threads').getContext('2d').getImageData(0, 0, 9999, 999).data.filter((ink) => ink).length"
    every = one.evaluate(count)
    one.hover("#from li:nth-child(3) .token")
    assert 0 < one.evaluate(count) < every


def test_the_matrix_tells_the_weight_under_the_pointer(tab, page):
    address, found = page
    one = tab(address)
    one.click("[data-value=matrix]")
    one.select_option("#head", label="1")
    one.locator("#matrix").scroll_into_view_if_needed()
    where = one.evaluate("({ ...measures(), ...here('matrix').getBoundingClientRect().toJSON() })")
    at = [where["left"] + 132 + 4.5 * where["cell"], where["top"] + 104 + 2.5 * where["cell"]]
    one.mouse.move(*at)
    share = float(found.weights[0].values[0, 1, 2, 4])
    assert re.search(r"film. looks at .not.: ", one.inner_text("#said"))
    assert float(one.inner_text("#said").split(": ")[-1]) == pytest.approx(share, abs=0.0025)
    one.mouse.click(*at)
    one.keyboard.press("ArrowRight")
    assert "head 2" in one.inner_text("#said") and "film" in one.inner_text("#said")
    assert one.locator("#cells").get_attribute("aria-label") == "8 by 8 weights"


def test_the_lens_shows_layers_and_candidates(tab, page):
    address, found = page
    one = tab(address)
    cells = one.locator("#guesses td bdi").all_text_contents()
    assert cells == [layer[0][0].text for layer in found.lens.layers]
    one.click("#guesses td:nth-child(3) button")
    assert re.search(r"layer 1: .*%, .*%, .*%", one.inner_text("#guessed"))
    assert one.locator(".bars li bdi").all_text_contents() == [share.name for share in found.answers[0][1]]


def test_a_translators_answer_is_aligned_with_its_text(tab, tmp_path):
    model = ch.load(translators.tiny_folder(tmp_path / "bart", "bart", wide=True))
    found = look(model, "good bread", answer="bad soup")
    write_page(tmp_path / "look.html", found)
    one = tab((tmp_path / "look.html").as_uri())
    assert one.inner_text(".answer") == "bad soup"
    assert one.locator("#kinds button").all_text_contents() == [
        "Answer → text",
        "In the text",
        "In the answer",
    ]
    mean = found.weights[0].values.mean((0, 1))[2]
    one.hover("button.piece >> nth=2")
    best = found.weights[0].keys[int(mean.argmax())].text
    assert re.search(
        rf"looks at .{re.escape(best)}. {100 * float(mean.max()):.0f}\.", one.inner_text("#answers")
    )
    one.click("#kinds button >> nth=1")
    assert one.locator("#from li").count() == len(found.weights[1].queries)
    one.keyboard.press("ArrowRight")
    assert one.locator("#kinds [aria-checked=true]").inner_text() == "In the answer"


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_hostile_text_is_shown_as_it_stands_on_every_screen(tab, model, tmp_path, width, scheme):
    write_page(tmp_path / "look.html", look(model, HOSTILE))
    one = tab((tmp_path / "look.html").as_uri(), width=width, color_scheme=scheme, has_touch=width < 500)
    assert one.inner_text("#answers .quoted") == HOSTILE.replace("\u202e", "\ufffd")
    assert not one.locator("main img, main b:not(.bars b)").count()
    for view in ("lines", "matrix"):
        one.click(f"[data-value={view}]")
        assert one.evaluate("document.documentElement.scrollWidth") == width
    back = one.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", back)[:3])) < 200) == (scheme == "dark")
    if width < 500:
        one.click("[data-value=lines]")
        one.tap("#from li:nth-child(2) .token")
        assert "looks at" in one.inner_text("#said")


def test_many_tokens_and_heads_are_drawn_in_a_moment(tab, model, tmp_path):
    chance = torch.Generator().manual_seed(0)
    values = torch.rand(12, 12, 128, 128, generator=chance).softmax(-1)
    write_page(tmp_path / "look.html", look_of(values))
    one = tab((tmp_path / "look.html").as_uri())
    for _ in range(3):
        one.keyboard.press("ArrowDown")
    one.click("[data-value=matrix]")
    one.evaluate("here('matrix').scrollTo(1500, 1500)")
    assert one.inner_text("#said").startswith("Layer 3, mean of 12 heads")
    assert one.locator("#guesses tr").count() == 128


def test_live_heads_are_switched_off_and_the_answer_changes(tab, model):
    with opened(model, texts=[TEXT], settings=Explaining(live=True)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            one = tab(server.address)
            one.wait_for_selector("body[data-asked='1']")
            before = one.inner_text("#answers")
            one.click("#switch")
            one.wait_for_selector("body[data-asked='2']")
            assert one.locator("#off li").count() == 4 and "Switch on all heads" in one.inner_text("#switch")
            assert one.inner_text("#before .bars") in before
            assert one.inner_text("#after .bars") != one.inner_text("#before .bars")
            one.click("#off li:nth-child(1) button")
            one.wait_for_selector("body[data-asked='3']")
            assert "With 3 heads switched off" in one.inner_text("#answers")
            one.click("#on")
            one.wait_for_selector("body[data-asked='4']")
            assert one.inner_text("#answers") == before and not one.locator("#off li").count()
            one.fill("#typed", HOSTILE)
            one.keyboard.press("Control+Enter")
            one.wait_for_selector("body[data-asked='5']")
            assert "script" in one.inner_text("#from") and not one.locator("main img").count()
            one.fill("#typed", "good " * 99)
            one.click("#ask .main")
            one.wait_for_selector("body[data-asked='6']")
            assert "the model takes 32; shorten it" in one.inner_text("#trouble")
        finally:
            server.shutdown()
            thread.join()
    assert json.loads(one.evaluate("JSON.stringify(data.parts.map((part) => part.kind))")) == ["self"]
