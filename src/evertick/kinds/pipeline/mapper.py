"""The map phase: asks the invoker about each item, or about batches of items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evertick.kinds.pipeline.answers import Unparsable, WrongCount, parse_answer, parse_batch
from evertick.kinds.pipeline.definition import Map
from evertick.kinds.pipeline.invoker import Answer, Caller, Cancelled, Question, TimedOut, in_order
from evertick.kinds.pipeline.items import Item
from evertick.kinds.pipeline.prompts import items_as_json, render, with_batch_fields, with_fields
from evertick.kinds.pipeline.result import ItemResult


@dataclass(frozen=True, slots=True)
class Mapper:
    """Asks about items with one prompt."""

    wanted: Map
    prompt: str
    caller: Caller
    directory: str

    def map_items(self, items: Sequence[Item], on_done: Callable[[int], object]) -> list[ItemResult]:
        everything = items_as_json(items) if "{{ITEMS}}" in self.prompt else ""
        return in_order(lambda item: self._one(item, everything), items, self.wanted.parallel, on_done)

    def map_batches(self, items: Sequence[Item], on_done: Callable[[int], object]) -> list[ItemResult]:
        size = self.wanted.batch_size
        batches = [items[start : start + size] for start in range(0, len(items), size)]
        found = in_order(self._batch, batches, self.wanted.parallel, lambda done: on_done(min(done * size, len(items))))
        return [result for batch in found for result in batch]

    def _one(self, item: Item, everything: str) -> ItemResult:
        fields = self.wanted.fields
        prompt = with_fields(render(self.prompt, {**item, "ITEMS": everything}), fields)
        question = Question(prompt, fields, model=self._model(item), directory=self.directory)
        try:
            answer = self.caller.ask(question, self.wanted.timeout_ms)
        except TimedOut as error:
            return self._failed(item, str(error), has_timed_out=True)
        if not answer.success or not answer.response:
            return self._failed(item, _error_of(answer), answer.response)
        if not fields:
            return ItemResult(item, {}, True, answer.response, raw_response=answer.response)
        try:
            output = parse_answer(answer.response, fields)
        except Unparsable as error:
            return self._failed(item, f"Failed to parse AI response: {error}", answer.response)
        return ItemResult(item, output, True, raw_response=answer.response)

    def _batch(self, batch: Sequence[Item]) -> list[ItemResult]:
        fields = self.wanted.fields
        values = {**batch[0], "ITEMS": items_as_json(batch)}
        prompt = with_batch_fields(render(self.prompt, values, keeps_unknown=True), fields, len(batch))
        question = Question(prompt, fields, len(batch), self._model(batch[0]), self.directory)
        try:
            answer = self.caller.ask(question, self.wanted.timeout_ms)
        except TimedOut as error:
            return self._failed_batch(batch, f"the batch {error}")
        except Cancelled as error:
            return self._failed_batch(batch, str(error))
        if not answer.success or not answer.response:
            return self._failed_batch(batch, _error_of(answer), answer.response)
        if not fields:
            return [ItemResult(item, {}, True, answer.response) for item in batch]
        try:
            rows = parse_batch(answer.response, fields, len(batch))
        except WrongCount as error:
            return self._failed_batch(batch, str(error), answer.response)
        except Unparsable as error:
            return self._failed_batch(batch, f"Failed to parse batch response: {error}", answer.response)
        return [
            self._failed(item, f"Result at index {place} is not an object", _first(place, answer.response))
            if row is None
            else ItemResult(item, row, True, raw_response=_first(place, answer.response))
            for place, (item, row) in enumerate(zip(batch, rows, strict=True))
        ]

    def _failed_batch(self, batch: Sequence[Item], error: str, response: str | None = None) -> list[ItemResult]:
        return [self._failed(item, error, _first(place, response)) for place, item in enumerate(batch)]

    def _model(self, item: Item) -> str | None:
        return render(self.wanted.model, item).strip() or None if self.wanted.model else None

    def _failed(
        self, item: Item, error: str, response: str | None = None, *, has_timed_out: bool = False
    ) -> ItemResult:
        nothing = dict.fromkeys(self.wanted.fields)
        return ItemResult(item, nothing, False, error=error, raw_response=response or None, has_timed_out=has_timed_out)


def _first(place: int, response: str | None) -> str | None:
    """The answer to a batch is kept with its first item only: with each it would fill the disk."""
    return response if place == 0 else None


def _error_of(answer: Answer) -> str:
    if answer.success:
        return "AI invocation failed: the answer is empty"
    return answer.error or "AI invocation failed"
