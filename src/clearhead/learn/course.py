"""A course of training: train, evaluate, keep the best, save. An iterator; whoever runs it prints.

What is learned from, and what an evaluation says, is the matter of the task that goes on from here.
"""

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from clearhead.checkpoint.card import CARD
from clearhead.checkpoint.files import finish_move, leftovers, read_json, remove, write_json
from clearhead.checkpoint.folder import Loaded, write_folder
from clearhead.checkpoint.lock import check_free
from clearhead.errors import ClearheadError, Interrupted, NotFinite, SettingError
from clearhead.infer.model import Model
from clearhead.learn import place
from clearhead.learn.aside import forget, go_on_aside, set_aside, worded
from clearhead.learn.once import Once
from clearhead.learn.schedule import Schedule
from clearhead.learn.start import digest_of_base, learn_leanly, named_base, usual_rate
from clearhead.learn.state import (
    Restored,
    Standing,
    load_state,
    put_back_best,
    remove_states,
    save_state,
    states,
)
from clearhead.learn.trainer import USUAL, Objective, Plan, Step, Trainer
from clearhead.learn.windowed import Windowed
from clearhead.settings import Learning, flag

FEW = 50  # steps below which a person is told


@dataclass(frozen=True)
class Progress:
    """One step of a run. `metrics` stands where the validation texts were evaluated after it."""

    step: Step
    steps: int
    tokens_per_second: float
    seconds: float  # since the run's start, pauses left out
    remaining: float
    metrics: Any = None
    best: bool = False  # the model is the best so far, and was saved


class Course(Once[Progress]):
    """Reads and checks everything at once; nothing is written before iterating begins."""

    kind = "run"
    task_name: str
    metric: str
    notes: list[str]
    noun, batch_option = "text", "batch_tokens"  # what one example is to people; what makes steps larger
    embeds = False  # whether what its base says of vectors stays true
    adam = USUAL
    ask: str  # how the model is tried, {} being its folder

    def __init__(self, settings: Learning):
        self.settings, self.shown = settings, Path(settings.out)
        self.out = self.shown.absolute()  # wherever the process goes meanwhile
        check_free(self.shown)
        place.check_place(settings, self.shown)

    def ready(self, loaded: Loaded, objective: Objective) -> None:
        """Make the trainer, and bring it to where the run stands."""
        settings = self.settings
        self.base = digest_of_base(settings)
        self.model = Model(loaded if self.embeds else replace(loaded, embedding=None))
        self.epochs = settings.epochs or self.usual_epochs()
        values = {item.name: getattr(settings, item.name) for item in fields(Plan)} | {"epochs": self.epochs}
        learn_leanly(loaded.network, settings)
        self.trainer = Trainer(loaded.network, objective, plan=Plan(**values))
        self.learning_rate = self.usual_rate()
        self.trainer.prepare(
            Schedule.of(
                self.learning_rate,
                len(self.trainer.steps),
                warmup=settings.warmup,
                decay=settings.schedule,
            ),
            weight_decay=settings.weight_decay,
            max_grad_norm=settings.max_grad_norm,
            adam=self.adam,
        )
        if len(self.trainer.steps) < FEW:
            count, size = len(self.trainer.steps), getattr(settings, self.batch_option)
            self.notes.append(
                f"this run has only {count} steps, which is little to learn in; "
                f"more come from a smaller {flag(self.batch_option)} (now {size}) or more --epochs"
            )
        self.best: tuple[float, float] | None = None
        self.best_step: int | None = None
        self.seconds = 0.0
        self.stopping = False
        self.restored = self.restore() if settings.resume else None

    @abstractmethod
    def data(self) -> str:
        """SHA-256 of all that is learned from and chosen by."""

    @abstractmethod
    def resolved(self) -> dict[str, Any]:
        """What its settings came to, for settings.json."""

    @abstractmethod
    def made(self) -> str:
        """What the model will be, in a few words."""

    @abstractmethod
    def evaluation(self) -> Any:
        """The metrics of the model as it stands, on the validation texts."""

    @abstractmethod
    def value_of(self, metrics: Any) -> float:
        """What the best model is chosen by; the higher, the better."""

    @abstractmethod
    def share(self) -> float:
        """How much is chosen by, as a share of what is learned from."""

    @abstractmethod
    def card(self) -> bool:
        """Write the model card; False where a README.md that is not ours is in its place."""

    def usual_rate(self) -> float:
        """The peak learning rate: as asked for, or by what is trained."""
        return usual_rate(self.settings, self.model.config)

    def usual_epochs(self) -> int:
        """How often each text is seen, where nothing is asked for."""
        return 3

    def estimate(self) -> float:
        """Seconds that the rest will take on this machine."""
        return (seconds := self.trainer.estimate()) + self.evaluating(seconds) + self.saving()

    def evaluating(self, seconds: float) -> float:
        """Seconds that all evaluations take, where training takes so many: forward is a third of a step; of a
        body that stays, what it gave the training texts is known."""
        objective = self.trainer.objective
        if isinstance(objective, Windowed) and objective.freeze:
            return objective.body_seconds * self.share() * self.evaluations
        return seconds / self.epochs * self.share() * self.evaluations / 3

    @property
    def evaluations(self) -> float:
        """How often the run evaluates."""
        every = self.settings.eval_steps
        return len(self.trainer.steps) / every if every else float(self.epochs)

    def saving(self) -> float:
        """Seconds to write the weights after each epoch, at 300 MB a second."""
        return self.epochs * 4 * sum(one.numel() for one in self.model.loaded.network.parameters()) / 3e8

    def stop(self) -> None:
        """Stop after the step that is running, with the state saved."""
        self.stopping = True

    def work(self) -> Iterator[Progress]:
        """The whole of it."""
        try:
            self.begin()
            self.begun = True
            yield from self.steps()
            self.finish()
        except BrokenPipeError:
            raise
        except (ClearheadError, OSError) as error:
            raise worded(error, self.out, step=self.best_step) from error

    def steps(self) -> Iterator[Progress]:
        """Train from where the run stands to its end."""
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
                with self.trainer.averaged():
                    metrics, best = self.evaluate(step)
            self.seconds = perf_counter() - start
            self.log(step, metrics)
            saved = step.number % settings.save_steps == 0 or step.number == steps
            if saved:
                self.save()
            remaining = (steps - step.number) * self.seconds / step.number
            yield Progress(step, steps, tokens / moving, self.seconds, remaining, metrics, best)
            if self.stopping and step.number < steps:
                if not saved:
                    self.save()
                raise Interrupted(f"stopped after step {step.number} of {steps}; go on with --resume")

    def begin(self) -> None:
        """Make the folder what it is before the next step: nothing half-written, nothing of a later step."""
        finish_move(self.out)
        if self.restored:
            self.go_on(self.restored)
            return
        place.check_place(self.settings, self.out)  # once more, now that nobody else can begin
        for half in leftovers(self.out):
            remove(half)
        set_aside(self.out)
        resolved = {
            "learning_rate": self.learning_rate,
            "steps": len(self.trainer.steps),
            "epochs": self.epochs,
            "warmup_steps": self.trainer.schedule.warmup,
            "data": self.data(),
            "base": self.base,
            "metric": self.metric,
        }
        resolved |= self.resolved()
        values = {"task": self.task_name, "settings": place.chosen(self.settings), "resolved": resolved}
        write_json(self.out / place.SETTINGS, values)

    def go_on(self, restored: Restored) -> None:
        """Bring the folder to where the run was restored to."""
        if states(self.out) != list(restored.found):
            raise SettingError(
                f"--resume: another run has changed {self.shown} meanwhile; give the command again"
            )
        for half in leftovers(self.out):
            remove(half)
        remove_states(self.out, but=restored.state)
        if restored.state:
            put_back_best(self.out, restored.state)
        go_on_aside(self.out, restored.state)
        if self.best_step is not None:
            forget(self.out)
        place.cut_log(self.out, step=restored.standing.step)

    def finish(self) -> None:
        """What is made when all steps are done, or made again where a kill came between."""
        if not self.card():
            warnings.warn(f"{self.shown / CARD} is not ours and stays as it is; no model card", stacklevel=2)

    def evaluate(self, step: Step) -> tuple[Any, bool]:
        """Evaluate on the validation texts; the best model so far is saved at once."""
        try:
            metrics = self.evaluation()
        except NotFinite as error:
            raise NotFinite(f"validation at step {step.number}: {error}; lower --learning-rate") from error
        # On a small validation set many steps tie in accuracy; the one with the lower loss knows more.
        score = (self.value_of(metrics), -metrics.loss)
        better = self.best is None or score > self.best
        if better:
            self.keep()
            self.best, self.best_step = score, step.number
            forget(self.out)  # the run before, which has been replaced by now
        return metrics, better

    def keep(self) -> None:
        """Write the model as it stands, in place of the one before."""
        write_folder(self.out, self.model.loaded)

    def log(self, step: Step, metrics: Any) -> None:
        """Append a line to metrics.jsonl."""
        said = {"step": step.number, "epoch": step.epoch + 1, "loss": step.loss}
        said |= {"learning_rate": step.learning_rate, "grad_norm": step.grad_norm, "tokens": step.tokens}
        line = said | {"texts": step.texts, "seconds": self.seconds}
        place.append_log(self.out, line | (metrics.summary() if metrics else {}))

    def save(self) -> None:
        """Save the state, to go on from here; the log must be as safe as it."""
        place.settle_log(self.out)
        standing = Standing(self.trainer.done, self.best, self.best_step, self.seconds)
        save_state(self.out, self.trainer, standing=standing)

    def restore(self) -> Restored:
        """Go on from the newest whole state; nothing is written yet."""
        said = read_json(self.out / place.SETTINGS)["resolved"]
        again = "since the run began; start again with --overwrite"
        if said.get("data") != self.data():
            raise SettingError(f"--resume: the texts have changed {again}")
        if said.get("base") != self.base:
            raise SettingError(f"--resume: {named_base(self.settings)} has changed {again}")
        restored = load_state(self.out, self.trainer)
        standing = restored.standing
        self.best, self.best_step, self.seconds = standing.best, standing.best_step, standing.seconds
        self.notes += restored.notes
        if half := leftovers(self.out):
            self.notes.append(f"left half-written by a kill, and removed: {', '.join(p.name for p in half)}")
        logged = [line["step"] for line in place.read_log(self.out) if line["step"] <= standing.step]
        if logged != list(range(1, standing.step + 1)):
            self.notes.append(f"{self.shown / place.LOG} lacks lines of the {standing.step} steps done")
        return restored
