"""The seed's question and ten more, asked of a text in three ways, to look at.

    python benchmarks/asking.py --quick | --full [--seed 0] [--json FILE]

1. a place in the text: MiniLM learns answers from 40 articles of XQuAD (files of $CLEARHEAD_SHARED) in three
   epochs, and is asked;
2. yes or no, with the sentence that weighs most: the model of 1 goes on with pairs made of the same articles,
   a question with its answer behind it (yes) or with an answer that stands in another paragraph of the
   article (no), for no yes-or-no questions are at hand; how it does on such pairs of the other 8 is told;
3. a language model's choice: SmolLM2, given the passage, the question and "Answer yes or no.", chooses.

The quick run learns from few rows in one step. Fetches MiniLM and SmolLM2 where they are not here yet, as
`clearhead get` does.
"""

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import measuring
from answer import DATA

PASSAGE = (  # Prince, Understanding Deep Learning, chapter 12
    "The restaurant refused to serve me a ham sandwich because it only cooks vegetarian food. In the end, "
    "they just gave me two slices of bread. Their ambiance was just as good as the food and service."
)
QUESTIONS = {
    "Does the restaurant serve steak?": "no",
    "Does the restaurant serve vegetarian food?": "yes",
    "Did the guest get a ham sandwich?": "no",
    "Did the guest get bread?": "yes",
    "Was the ambiance as good as the food?": "yes",
    "Was the guest given three slices of bread?": "no",
    "Does the restaurant cook meat?": "no",
    "Could a vegetarian eat there?": "yes",
    "Did the restaurant refuse to serve a sandwich?": "yes",
    "Was the guest given soup?": "no",
    "Does the passage say what the guest paid?": "no",
}


def yes_or_no(articles: list[dict]) -> list[dict]:
    """Two rows of each question."""
    chance, rows = random.Random(0), []
    for article in articles:
        answers = sorted({qa["answers"][0]["text"] for one in article["paragraphs"] for qa in one["qas"]})
        for paragraph in article["paragraphs"]:
            wrong = [answer for answer in answers if answer not in paragraph["context"]]
            for qa in paragraph["qas"] if wrong else []:
                for label, answer in (("yes", qa["answers"][0]["text"]), ("no", chance.choice(wrong))):
                    asked = f"{qa['question']} {answer}?"
                    rows.append({"question": asked, "passage": paragraph["context"], "answer": label})
    chance.shuffle(rows)
    return rows


def command(*words: object) -> str:
    """What a command of clearhead says."""
    line = [sys.executable, "-m", "clearhead", *map(str, words)]
    return subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout


def rows_to(path: Path, rows: list[dict]) -> Path:
    """A JSONL file of them."""
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")
    return path


def places(folder: Path, articles: list[dict], *, steps: list[object]) -> list[tuple[str, ...]]:
    """The first way."""
    for name, some in (("train", articles[:-8]), ("test", articles[-8:])):
        (folder / f"{name}.json").write_text(json.dumps({"version": "1.1", "data": some}), encoding="utf-8")
    command(
        "train", "answer", "--data", folder / "train.json", "--validation", folder / "test.json",
        "--out", folder / "answers", "--from", "minilm", *steps,
    )  # fmt: skip
    asked = rows_to(folder / "asked.jsonl", [{"question": one, "context": PASSAGE} for one in QUESTIONS])
    said = zip(
        QUESTIONS, map(json.loads, command("predict", folder / "answers", asked).splitlines()), strict=True
    )
    return [(question, one["answer"] or "—", f"{one['score']:.0%}") for question, one in said]


def pairs(folder: Path, articles: list[dict], *, steps: list[object]) -> tuple[list[tuple[str, ...]], dict]:
    """The second way, and the scores on the articles kept aside."""
    columns = ["--text-column", "question", "--pair-column", "passage"]
    train, test = (
        rows_to(folder / f"{name}.jsonl", yes_or_no(some))
        for name, some in (("yes-train", articles[:-8]), ("yes-test", articles[-8:]))
    )
    labels = [*columns, "--label-column", "answer"]
    command(
        "train", "classify", "--data", train, "--validation", test, "--out", folder / "yesno",
        "--no-baseline", "--from", folder / "answers", *labels, *steps,
    )  # fmt: skip
    scores = json.loads(command("evaluate", folder / "yesno", "--data", test, *labels, "--json"))
    asked = rows_to(folder / "asked.jsonl", [{"question": one, "passage": PASSAGE} for one in QUESTIONS])
    lines = command("predict", folder / "yesno", asked, *columns, "--evidence").splitlines()
    found = []
    for (question, right), one in zip(QUESTIONS.items(), map(json.loads, lines), strict=True):
        said = f"{one['label']} ({one['score']:.0%}){'' if one['label'] == right else ' ✗'}"
        found.append((question, right, said, one["evidence"]["text"]))
    return found, scores


def choices() -> list[tuple[str, ...]]:
    """The third way."""
    import clearhead as ch
    from clearhead.infer.choose import choose
    from clearhead.text.chat import conversation

    model, found = ch.load("smollm2"), []
    for question, right in QUESTIONS.items():
        message = {"role": "user", "content": f"{PASSAGE} {question} Answer yes or no."}
        best = choose(model, conversation(model.tokenizer, [message]), options=["Yes", "No"])[0]
        mark = "" if best.text.lower() == right else " ✗"
        found.append((question, right, f"{best.text} ({best.share:.0%}){mark}"))
    return found


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--seed", type=int, default=0)
    options = measuring.options_of(parser, {})
    for name in ("minilm", "smollm2"):
        command("get", name)
    articles = json.loads(DATA.read_text(encoding="utf-8"))["data"]
    steps: list[object] = ["--epochs", 3, "--learning-rate", "1e-4", "--batch-tokens", 4096]
    steps += ["--seed", options.seed]
    if options.quick:
        articles = [one | {"paragraphs": one["paragraphs"][:2]} for one in articles[:16]]
        steps += ["--max-steps", 1]
    with tempfile.TemporaryDirectory() as folder:
        answers = places(Path(folder), articles, steps=steps)
        said, scores = pairs(Path(folder), articles, steps=steps)
    chosen = choices()
    found = {"places": answers, "pairs": said, "scores": scores, "choices": chosen}
    measuring.report(measuring.facts(options.cores), found, file=options.json)
    print(f"\n{measuring.table(('question', 'its answer', 'score'), answers)}\n")
    print(f"{measuring.table(('question', 'right', 'it says', 'what weighs most'), said)}\n{scores}\n")
    print(measuring.table(("question", "right", "it says"), chosen))


if __name__ == "__main__":
    main()
