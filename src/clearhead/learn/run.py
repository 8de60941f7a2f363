"""A training run: read, train, evaluate, keep the best, save. An iterator; whoever runs it prints."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from clearhead.checkpoint.files import write_json
from clearhead.checkpoint.folder import write_folder
from clearhead.checkpoint.tensors import WEIGHTS
from clearhead.data.labels import check_known, label_names
from clearhead.data.rows import Row, read_rows
from clearhead.data.split import split, without_duplicates
from clearhead.errors import ClearheadError, Interrupted, SettingError
from clearhead.infer.evaluate import Evaluation, evaluate_rows
from clearhead.infer.model import Model
from clearhead.learn.schedule import Schedule
from clearhead.learn.start import starting_model, usual_rate
from clearhead.learn.state import Standing, load_state, remove_states, save_state, states
from clearhead.learn.trainer import Plan, Step, Trainer
from clearhead.settings import Asking, Training, made
from clearhead.tasks.classify import Classification
from clearhead.tasks.examples import encode_rows
from clearhead.tasks.scores import Metrics

SETTINGS, LOG, REPORT = "settings.json", "metrics.jsonl", "report.html"
FEW = 50  # steps below which a person is told
FREE = ("resume", "overwrite", "out")  # settings that do not change the run


@dataclass(frozen=True)
class Progress:
    """One step of a run. `metrics` stands where the validation texts were evaluated after it."""

    step: Step
    steps: int
    tokens_per_second: float
    seconds: float  # since the run's start, pauses left out
    remaining: float
    metrics: Metrics | None = None
    best: bool = False  # the model is the best so far, and was saved


def train(task: str, **options: Any) -> "Run":
    """Make a run of a task; iterate over it to train. Options as in `clearhead train TASK --help`."""
    if task not in ("classify", "text-classification"):
        raise SettingError(f"unknown task {task!r}; known: classify (also text-classification)")
    return Run(made(Training, options))


class Run:
    """Reads and checks everything at once; nothing is written before iterating begins."""

    def __init__(self, settings: Training):
        self.settings, self.out = settings, Path(settings.out)
        self.check_out()
        self.training, self.validation, self.notes = self.read()
        self.labels = label_names(self.training)
        check_known(self.validation, self.labels)
        loaded = starting_model(settings, self.training, labels=self.labels)
        self.model = Model(loaded)
        self.task = Classification(self.labels)
        self.encodings = encode_rows(
            self.training, self.model.tokenizer, limit=self.model.limit, long=settings.long
        )
        if cut := sum(encoding.dropped > 0 for encoding in self.encodings):
            self.notes.append(
                f"{cut} of {len(self.training)} texts are cut to the model's {self.model.limit} tokens"
            )
        targets = self.task.targets([row.label for row in self.training])
        names = ("epochs", "batch_tokens", "accumulate", "max_steps", "seed", "dropout")
        plan = Plan(**{name: getattr(settings, name) for name in names})
        self.trainer = Trainer(loaded.network, self.task, examples=self.encodings, targets=targets, plan=plan)
        self.learning_rate = usual_rate(settings, self.model.config)
        self.trainer.prepare(
            Schedule.of(self.learning_rate, len(self.trainer.steps), warmup=settings.warmup),
            weight_decay=settings.weight_decay,
            max_grad_norm=settings.max_grad_norm,
        )
        if len(self.trainer.steps) < FEW:
            count = len(self.trainer.steps)
            self.notes.append(
                f"this run has only {count} steps, which is little to learn in; "
                f"more come from a smaller --batch-tokens (now {settings.batch_tokens}) or more --epochs"
            )
        self.best: tuple[float, float] | None = None
        self.best_step: int | None = None
        self.seconds = 0.0
        self.stopping = False
        if settings.resume:
            self.restore()

    def check_out(self) -> None:
        """Refuse a folder whose content could be lost, before any work."""
        settings, run = self.settings, is_run(self.out)
        if self.out.is_file():
            raise SettingError(f"--out {self.out} is a file; give a folder")
        if settings.resume:
            if not run:
                raise SettingError(f"--resume: {self.out} holds no run to go on with; leave --resume out")
            if not states(self.out) and (self.out / WEIGHTS).is_file():
                raise SettingError(
                    f"--resume: {self.out} holds a model but no state: its run is finished, or was "
                    "killed before its first state was saved (--save-steps)"
                )
            old = json.loads((self.out / SETTINGS).read_text())["settings"]
            new = {name: value for name, value in asdict(settings).items() if name not in FREE}
            changed = [name for name, value in new.items() if old.get(name) != value]
            if changed:
                flags = ", ".join(f"{name} was {old.get(name)!r}" for name in changed)
                raise SettingError(f"--resume goes on with the same settings, but {flags}")
        elif settings.overwrite and self.out.exists() and not run and any(self.out.iterdir()):
            raise SettingError(f"--overwrite: {self.out} is not a run of this program; give another --out")
        elif not settings.overwrite and self.out.exists() and any(self.out.iterdir()):
            fix = (
                "--resume to go on, --overwrite to replace it, or another --out"
                if run
                else "give another --out"
            )
            raise SettingError(f"{self.out} is not empty; {fix}")

    def read(self) -> tuple[list[Row], list[Row], list[str]]:
        """Training rows, validation rows, and what a person should know about them."""
        s = self.settings
        notes: list[str] = []

        def rows(path: str) -> list[Row]:
            names: dict[str, Any] = {"text_column": s.text_column, "label_column": s.label_column}
            return read_rows(path, **names, format=s.format, empty=s.empty)

        training = rows(s.data)
        if s.validation:
            validation = rows(s.validation)
            known = {row.text for row in training}
            if both := sum(row.text in known for row in validation):
                notes.append(
                    f"{both} of {len(validation)} validation texts stand among the training texts too"
                )
            return training, validation, notes
        training, twice = without_duplicates(training)
        if twice.dropped:
            other = f", {twice.contradicting} of them with another label" if twice.contradicting else ""
            notes.append(f"{twice.dropped} rows repeat a text{other}; the first of each is used")
        label_names(training)  # one class only is named as such, before the split could fail over it
        return *split(training, part=0.1, seed=s.seed), notes

    def estimate(self) -> float:
        """Seconds that the rest of the run will take on this machine, evaluation included."""
        trained = sum(len(encoding.ids) for encoding in self.encodings)
        asked = sum(len(row.text) for row in self.validation) / max(
            1, sum(len(row.text) for row in self.training)
        )
        seconds = self.trainer.estimate()
        times = (
            len(self.trainer.steps) / self.settings.eval_steps
            if self.settings.eval_steps
            else self.settings.epochs
        )
        per_token = seconds / max(1, trained * self.settings.epochs)
        evaluating = per_token * trained * asked * times / 3  # forward is a third of a step
        return seconds + evaluating + self.saving()

    def saving(self) -> float:
        """Seconds to write the weights after each epoch, at 300 MB a second."""
        weights = sum(parameter.numel() for parameter in self.model.loaded.network.parameters())
        return self.settings.epochs * 4 * weights / 3e8

    def stop(self) -> None:
        """Stop after the step that is running, with the state saved."""
        self.stopping = True

    def __iter__(self) -> Iterator[Progress]:
        self.begin()
        start = perf_counter() - self.seconds
        tokens, moving = 0.0, 0.0
        steps = len(self.trainer.steps)
        settings = self.settings
        for step in self.trainer.run():
            # A moving mean, so that the figure follows the machine: the last steps weigh most.
            tokens, moving = 0.9 * tokens + step.tokens, 0.9 * moving + step.seconds
            due = (
                step.last_of_epoch if settings.eval_steps is None else step.number % settings.eval_steps == 0
            )
            metrics, best = None, False
            if due or step.number == steps:
                metrics, best = self.evaluate(step)
            self.seconds = perf_counter() - start
            self.log(step, metrics)
            if step.number % settings.save_steps == 0 and step.number < steps:
                self.save(step)
            remaining = (steps - step.number) * self.seconds / step.number
            yield Progress(step, steps, tokens / moving, self.seconds, remaining, metrics, best)
            if self.stopping and step.number < steps:
                self.save(step)
                raise Interrupted(f"stopped after step {step.number} of {steps}; go on with --resume")
        remove_states(self.out)

    def begin(self) -> None:
        """Make the folder, with what is known before the first step."""
        if self.settings.resume:
            return
        self.out.mkdir(parents=True, exist_ok=True)
        remove_states(self.out)
        # An older model stays until this run's first one takes its place.
        for name in (LOG, REPORT):
            (self.out / name).unlink(missing_ok=True)
        chosen = {name: value for name, value in asdict(self.settings).items() if name not in FREE}
        resolved = {
            "learning_rate": self.learning_rate,
            "steps": len(self.trainer.steps),
            "warmup_steps": self.trainer.schedule.warmup,
            "training_texts": len(self.training),
            "validation_texts": len(self.validation),
            "labels": list(self.labels),
        }
        write_json(self.out / SETTINGS, {"task": self.task.name, "settings": chosen, "resolved": resolved})

    def evaluate(self, step: Step) -> tuple[Metrics, bool]:
        """Evaluate the validation texts; the best model so far is saved at once."""
        metrics = self.evaluation().metrics
        value = -metrics.loss if self.settings.metric == "loss" else getattr(metrics, self.settings.metric)
        # On a small validation set many steps tie in accuracy; the one with the lower loss knows more.
        score = (value, -metrics.loss)
        better = self.best is None or score > self.best
        if better:
            self.best, self.best_step = score, step.number
            write_folder(self.out, self.model.loaded)
        return metrics, better

    def evaluation(self) -> Evaluation:
        """The model as it stands on the validation texts."""
        asking = Asking(batch_tokens=max(4096, self.settings.batch_tokens), long=self.settings.long)
        return evaluate_rows(self.model, self.validation, settings=asking)

    def log(self, step: Step, metrics: Metrics | None) -> None:
        """Append a line to metrics.jsonl."""
        line = {
            "step": step.number,
            "epoch": step.epoch + 1,
            "loss": step.loss,
            "learning_rate": step.learning_rate,
        }
        line |= {
            "grad_norm": step.grad_norm,
            "tokens": step.tokens,
            "texts": step.texts,
            "seconds": self.seconds,
        }
        line |= metrics.summary() if metrics else {}
        with (self.out / LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def save(self, step: Step) -> None:
        """Save the state, to go on from here."""
        standing = Standing(
            step.number, self.best, self.best_step, self.seconds, fingerprint(self.training + self.validation)
        )
        save_state(self.out, self.trainer, standing=standing)

    def restore(self) -> None:
        """Go on from the newest state; log lines after it are dropped."""
        standing = load_state(self.out, self.trainer)
        if standing.data != fingerprint(self.training + self.validation):
            raise ClearheadError(
                "--resume: the texts have changed since the run began; start again with --overwrite"
            )
        self.best, self.best_step, self.seconds = standing.best, standing.best_step, standing.seconds
        path = self.out / LOG
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.is_file() else []
        kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= standing.step]
        (self.out / LOG).write_text("".join(kept), encoding="utf-8")


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run of this program."""
    try:
        values = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(values, dict) and {"task", "settings", "resolved"} <= values.keys()


def fingerprint(rows: Sequence[Row]) -> str:
    """SHA-256 of texts and labels in order."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps([row.text, row.label]).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
