"""The report of a run as a page: what is in it, what is not, and that no text can break it."""

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from clearhead.data.rows import Row
from clearhead.data.wording import spoken
from clearhead.explain.mistakes import Mistake, most_confident_mistakes
from clearhead.explain.report import Answer, Report, page, write_report
from clearhead.tasks.classify import Result

CHROMIUM = "/usr/bin/chromium"
HOSTILE = (
    "<script>alert('x')</script>",
    "\"><img src=x onerror=alert(1)> ' & &amp; </p></li></section>",
    "-->]]></style></svg></title>{{ 7 * 7 }}{% endfor %}",
    "👩‍👩‍👧‍👦 🎉 e\u0301 \u202eback to front",
    "هذا الفيلم رائع جدا، وأنصح الجميع بمشاهدته.",
    "half a character \ud83d",
)


class Elements(HTMLParser):
    """The elements of a page with the names of their attributes, and its texts."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.texts = [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, *sorted(name for name, _ in attrs)))

    handle_startendtag = handle_starttag

    def handle_data(self, data):
        self.texts.append(data)


def words_of(html):
    """The visible words, with plain spaces."""
    return " ".join(" ".join(Elements(html.split("</style>")[1]).texts).split())


def mistake(text="bad", **changes):
    plain = Mistake(text=text, right="positive", guessed="negative", score=0.9, file="a.csv", row=7)
    return replace(plain, **changes)


# One file that stands alone.


def test_the_file_loads_nothing(report, tmp_path):
    write_report(tmp_path / "report.html", report())
    html = (tmp_path / "report.html").read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    for loading in ("http://", "https://", "src=", "href=", "url(", "@import", "<script"):
        assert loading not in html
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_the_file_forbids_the_browser_to_load_anything(report):
    assert """content="default-src 'none'; style-src 'unsafe-inline'">""" in page(report())


def test_a_report_takes_the_place_of_an_older_one(report, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    write_report(str(path), report(title="new"))
    assert "<title>new</title>" in path.read_text(encoding="utf-8")


# Texts are texts.


def test_hostile_text_adds_no_element(report):
    def everywhere(text):
        return page(
            report(
                title=text,
                subtitle=text,
                metrics_of=text,
                baseline_name=text,
                mistakes=[mistake(text, right=text, guessed=text, file=text)],
                answers=[Answer(text=text, label=text, score=0.5)],
                answers_source=text,
                facts={text: text},
                timing={text: text},
                machine={text: text},
                settings={text: text},
                notes=[text],
                next_steps=[(text, text)],
            )
        )

    plain = Elements(everywhere("plain")).elements
    for text in HOSTILE:
        assert Elements(everywhere(text)).elements == plain


def test_hostile_labels_add_no_element(report, metrics):
    confusion = [[5, 1], [2, 6]]
    plain = Elements(page(report(metrics=metrics(confusion, ("a", "b"))))).elements
    for label in HOSTILE:
        assert Elements(page(report(metrics=metrics(confusion, (label, "b"))))).elements == plain


def test_a_text_is_shown_as_it_stands(report):
    for text in HOSTILE[:-1]:
        assert spoken(text) in "".join(Elements(page(report(mistakes=[mistake(text)]))).texts)


def test_half_a_character_does_not_keep_a_report_from_being_written(report, tmp_path):
    write_report(tmp_path / "report.html", report(mistakes=[mistake("half \ud83d")]))
    assert "half &#55357;" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_long_text_is_shortened_visibly(report):
    html = page(report(mistakes=[mistake("x" * 5000)]))
    assert "x" * 400 + "…" in html
    assert "x" * 401 not in html
    assert "5,000 characters in all" in html
    assert "characters in all" not in page(report(mistakes=[mistake("x" * 400)]))


def test_a_text_chooses_its_own_direction(report):
    assert f'<p class="text" dir="auto">{HOSTILE[4]}</p>' in page(report(mistakes=[mistake(HOSTILE[4])]))


# The numbers.


def test_the_headline_is_accuracy_against_the_baseline(report):
    words = words_of(page(report()))
    assert "91.3 % accuracy on 1,000 held-out reviews (95 % interval: 89.4 to 92.9 %)" in words
    assert "9.6 points above the baseline, TF-IDF + logistic regression (81.7 %)" in words


def test_a_model_below_the_baseline_says_so(report, metrics):
    words = words_of(page(report(baseline=metrics([[490, 0], [10, 500]], ("negative", "positive")))))
    assert "7.7 points below the baseline" in words


def test_without_a_baseline_nothing_is_said_of_one(report):
    assert "baseline" not in words_of(page(report(baseline=None, baseline_name=None)))


def test_a_baseline_needs_no_name(report):
    words = words_of(page(report(baseline_name=None)))
    assert "9.6 points above the baseline (81.7 %)" in words
    assert "The same texts, answered by the baseline." in words


def test_a_probability_is_never_certain(report):
    words = words_of(page(report(mistakes=[mistake(score=1.0)], answers=[])))
    assert "negative > 99.9 %" in words
    assert "100.0 %" not in words


def test_an_auroc_that_is_none_is_undefined(report, metrics):
    words = words_of(page(report(metrics=metrics([[5, 1], [0, 0]], ("a", "b")))))
    assert "AUROC undefined" in words


def test_two_labels_are_a_matrix_with_shares(report):
    words = words_of(page(report()))
    assert "Label negative positive negative 452 92.2 % 38 7.8 % positive 49 9.6 % 461 90.4 %" in words


def test_fourteen_labels_are_the_pairs_confused_most_often(report, metrics):
    confusion = [[20 if right == guess else 0 for guess in range(14)] for right in range(14)]
    confusion[3][5] = 5
    words = words_of(page(report(metrics=metrics(confusion, tuple(f"label{n}" for n in range(14))))))
    assert "Confusion matrix" not in words
    assert "Of 14 labels, the pairs that are confused most often." in words
    assert "label3 label5 5 20.0 %" in words


def test_fourteen_labels_without_a_mistake_say_so(report, metrics):
    confusion = [[20 if right == guess else 0 for guess in range(14)] for right in range(14)]
    words = words_of(page(report(metrics=metrics(confusion, tuple(f"label{n}" for n in range(14))))))
    assert "No text was given a wrong label." in words
    assert "100.0 % accuracy" in words


def test_mistakes_of_one_file_name_it_once_and_of_two_files_each_time(report):
    one = words_of(page(report(mistakes=[mistake(row=7), mistake(row=9)])))
    assert one.count("a.csv") == 1
    assert "Row 7" in one
    two = words_of(page(report(mistakes=[mistake(row=7), mistake(row=9, file="b.csv")])))
    assert "Row 7 of a.csv" in two
    assert "Row 9 of b.csv" in two


# Sections.


def test_empty_sections_vanish(report):
    full = report()
    plain = Report(title=full.title, subtitle="", metrics=full.metrics, metrics_of=full.metrics_of)
    html = page(plain)
    assert html.count("<section") == 4
    headings = [part.split("<")[0] for part in html.split("<h2")[1:]]
    assert [heading.split(">")[1] for heading in headings] == [
        "Result",
        "Confusion matrix",
        "Scores by label",
        "Calibration",
    ]


def test_sections_come_in_the_order_of_the_questions_a_reader_has(report):
    ids = [part.split('"')[0] for part in page(report()).split('<h2 id="')[1:]]
    expected = "result curves confusion classes calibration mistakes answers "
    expected += "baseline timing machine settings notes next"
    assert ids == expected.split()


def test_every_table_has_a_caption_and_every_heading_cell_a_scope(report):
    elements = Elements(page(report())).elements
    tags = [element[0] for element in elements]
    assert tags.count("table") == tags.count("caption") == 5
    assert all("scope" in element for element in elements if element[0] == "th")


def test_every_figure_says_in_words_what_it_shows(report):
    html = page(report())
    assert html.count('role="img"') == html.count("<title id=") == 3
    assert "Validation accuracy: 86.9\N{NO-BREAK SPACE}% at step 80" in html


# Which mistakes.


def rows_and_results(*answers):
    """Rows and results from triples of label, guess and score."""
    rows = [Row(f"text {n}", label, "a.csv", n, {}) for n, (label, _, _) in enumerate(answers, start=1)]
    results = [Result(guess, score, {}, 3, 0) for _, guess, score in answers]
    return rows, results


def test_the_surest_mistake_comes_first():
    rows, results = rows_and_results(("a", "b", 0.6), ("a", "a", 1.0), ("b", "a", 0.9), ("a", "b", 0.9))
    assert [found.row for found in most_confident_mistakes(rows, results)] == [3, 4, 1]
    assert most_confident_mistakes(rows, results, most=1) == [
        Mistake(text="text 3", right="b", guessed="a", score=0.9, file="a.csv", row=3)
    ]


def test_a_row_without_a_label_and_a_skipped_text_are_no_mistakes():
    rows, results = rows_and_results((None, "b", 0.6), ("a", None, None))
    assert most_confident_mistakes(rows, results) == []


def test_rows_and_results_must_be_as_many():
    rows, results = rows_and_results(("a", "b", 0.6))
    with pytest.raises(ValueError, match="argument 2 is longer"):
        most_confident_mistakes(rows, [*results, *results])


# On a phone.


@pytest.mark.slow
@pytest.mark.skipif(not Path(CHROMIUM).exists(), reason=f"needs a browser at {CHROMIUM}")
def test_a_page_is_no_wider_than_a_phone(report, metrics, tmp_path):
    sync_api = pytest.importorskip("playwright.sync_api")
    long = "x" * 300
    confusion = [[20 if right == guess else 1 for guess in range(12)] for right in range(12)]
    hard = report(
        title=long,
        subtitle=long,
        metrics=metrics(confusion, (long, *(f"quite a long label {n}" for n in range(11)))),
        mistakes=[mistake(long, right=long, guessed=long, file=long), mistake(HOSTILE[4])],
        facts={long: long},
        settings={long: long},
        notes=[long],
        next_steps=[(long, long)],
    )
    write_report(tmp_path / "plain.html", report())
    write_report(tmp_path / "hard.html", hard)
    with sync_api.sync_playwright() as playwright:
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        for name in ("plain", "hard"):
            for width in (380, 1280):
                tab = browser.new_page(viewport={"width": width, "height": 800})
                tab.goto((tmp_path / f"{name}.html").as_uri())
                tab.evaluate("document.querySelectorAll('details').forEach(box => box.open = true)")
                assert tab.evaluate("document.documentElement.scrollWidth") == width, name
        browser.close()


def test_what_could_command_a_terminal_or_turn_a_line_is_shown_as_a_sign(report):
    html = page(report(title="a\x1b[31m\u202eb", mistakes=[mistake(text="two\nlines\x00")]))
    assert not {"\x1b", "\u202e", "\x00"} & set(html)
    assert "a\u241b[31m\ufffdb" in html and "two\nlines\u2400" in html
