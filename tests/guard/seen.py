"""What a run recorded, where a test knows that both streams were observed."""

from __future__ import annotations

from gatescore.guard import Run
from gatescore.model import Execution, Proposal, Record


def proposed(run: Run) -> list[Proposal]:
    return list(run.session().proposed or ())


def executed(run: Run) -> list[Execution]:
    return list(run.session().executed or ())


def record(run: Run) -> Record:
    found = run.session().record
    assert found is not None
    return found
