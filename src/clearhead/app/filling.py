"""The command that trains a model to fill masks."""

from typing import Annotated

from cyclopts import Parameter

from clearhead.settings import Masked

Settings = Annotated[Masked, Parameter(name="*")]


def train_fill(settings: Settings) -> int:
    """Train a model to say which tokens are hidden in texts, from nothing or from another one, and write a
    report."""
    from clearhead.app import watch
    from clearhead.app.reporting import report_of_fill
    from clearhead.learn.fill import FillRun

    run = FillRun(settings)
    watch.training(run)
    watch.trained(run, report_of_fill(run))
    return 0
