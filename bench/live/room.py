# SPDX-License-Identifier: MIT
"""The predictions of a room: one question at a time, and one prediction for each browser.

A prediction is the place of a choice in the list. So nothing that a student has typed is kept or
shown. Predictions are only in memory, without names, and the next question deletes them.
"""

import threading
from collections import Counter
from enum import IntEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bench.host.project import ROOT, declaration
from bench.records.store import Json

QUESTIONS = ROOT / "course" / "questions.toml"
PREDICTIONS_MOST = 500
FROM_ADDRESS_MOST = 100
"""All students have one address if the helper runs behind a NAT, such as that of a virtual
machine."""


class RoomQuestion(BaseModel):
    """One question of course/questions.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    """The text of its button."""
    ask: str
    choices: tuple[str, ...] = Field(min_length=2, max_length=6)
    measure: str
    """The button or the command for the experiment; shown with the predictions."""
    answer: str
    because: str

    @model_validator(mode="after")
    def _answer_is_a_choice(self) -> "RoomQuestion":
        if self.answer not in self.choices or len(set(self.choices)) < len(self.choices):
            raise ValueError(f"{self.name}: the answer must be one of the choices, which differ")
        return self


class RoomQuestions(BaseModel):
    """The file with the questions."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    question: tuple[RoomQuestion, ...] = Field(min_length=1)


def questions(file: Path = QUESTIONS) -> tuple[RoomQuestion, ...]:
    """Return the questions of a file. Raises UserError."""
    return declaration(RoomQuestions, file).question


class Shown(IntEnum):
    """The content of the lecturer's page."""

    ASKED = 0
    PREDICTIONS = 1
    ANSWER = 2


class Room:
    """The question that is asked, and the predictions so far."""

    def __init__(self, every: tuple[RoomQuestion, ...]) -> None:
        self.questions = every
        self._lock = threading.Lock()
        self._asked = 0
        self.ask(0)

    def ask(self, place: int) -> None:
        """Ask a question, and forget the predictions of the one before."""
        with self._lock:
            self.question = self.questions[place]
            self._asked += 1
            self._stage = Shown.ASKED
            self._predictions: dict[str, tuple[str, int]] = {}

    def show(self) -> None:
        """Show the predictions, then the answer. No prediction is accepted from now on."""
        with self._lock:
            self._stage = Shown(min(self._stage + 1, Shown.ANSWER))

    @property
    def state(self) -> str:
        """Return a text that changes when a student's page must change."""
        return f"{self._asked}{'' if self.is_open else ' closed'}"

    @property
    def is_open(self) -> bool:
        """Return whether predictions are accepted."""
        return self._stage is Shown.ASKED

    def prediction(self, browser: str) -> int | None:
        """Return the choice of a browser."""
        return self._predictions.get(browser, ("", None))[1]

    def predict(self, browser: str, address: str, state: str, choice: int) -> str:
        """Store or replace the prediction of a browser. Return the reason if it is rejected, or an
        empty text. `state`: of the page on which it was made."""
        with self._lock:
            if not self.is_open or state != self.state:
                return "Too late: the lecturer has continued."
            if choice not in range(len(self.question.choices)):
                return "There is no such choice."
            others = [place for one, (place, _) in self._predictions.items() if one != browser]
            if len(others) >= PREDICTIONS_MOST or others.count(address) >= FROM_ADDRESS_MOST:
                return "There are too many predictions already."
            self._predictions[browser] = (address, choice)
            return ""

    def told(self) -> dict[str, Json]:
        """Return the content of the lecturer's page. It gets no count before the predictions are
        shown, and no answer before the answer is."""
        with self._lock:
            question, stage = self.question, self._stage
            counts = Counter(choice for _, choice in self._predictions.values())
            places = range(len(question.choices))
            return {
                "name": question.name,
                "ask": question.ask,
                "choices": list(question.choices),
                "predictions": len(self._predictions),
                "addresses": len({address for address, _ in self._predictions.values()}),
                "counts": [counts[place] for place in places] if stage else None,
                "measure": question.measure if stage else "",
                "answer": question.answer if stage is Shown.ANSWER else None,
                "because": question.because if stage is Shown.ANSWER else "",
            }
