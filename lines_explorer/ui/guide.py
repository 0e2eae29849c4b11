"""Stories and lesson of one suite as the page gets them, and what has to be evaluated before they can be told."""

import threading
from typing import Any

from lines_explorer.errors import ExplorerError
from lines_explorer.ui import lessons, stories, story_texts
from lines_explorer.ui.facts import Facts, Row
from lines_explorer.ui.links import Links, Page

STORY, STEP = "story-", "lesson-"


class Guide:
    """Tells every story and step of one suite."""

    def __init__(self, facts: Facts, links: Links) -> None:
        self.facts, self.links = facts, links
        self._lock, self._last = threading.Lock(), (-1, {})

    def names(self) -> dict[str, list[list[str]]]:
        """(name, title) of each story and step that this suite can tell, without reading results."""
        told = [[name, story_texts.TITLES[name]] for name in stories.tellable(self.facts)]
        steps = [[name, lessons.say.TITLES[name]] for name in lessons.steps(self.facts)]
        return {"stories": told, "lesson": steps}

    def told(self) -> dict[str, Any]:
        """Everything from what is stored now: ``stories`` and ``lesson``, by name; told anew when more is stored."""
        with self._lock:
            stored = len(self.facts.results.engine.store)
            if self._last[0] != stored:
                told = {story.name: self._story(story) for story in stories.all_stories(self.facts)}
                steps = {step.name: _step(step) for step in lessons.lesson(self.facts)}
                self._last = (stored, {"stories": told, "lesson": steps})
            return self._last[1]

    def needs(self, name: Any) -> tuple[Row, ...]:
        """What ``story-NAME`` or ``lesson-NAME`` needs before it can be told; empty when it is.

        Raises:
            ExplorerError: there is no such story or step.
        """
        kind, _, own = name.partition("-") if isinstance(name, str) else ("", "", "")
        if f"{kind}-" == STORY and own in stories.tellable(self.facts):
            return stories.tell(self.facts, own).needs
        if f"{kind}-" == STEP and own in lessons.steps(self.facts):
            return lessons.step(self.facts, own).needs
        raise ExplorerError("The page asked for an unknown story or lesson; reload it.")

    def _story(self, story: stories.Story) -> dict[str, Any]:
        page = Page(pin=story.pin, guide=STORY + story.name)
        told = {"title": story.title, "caption": story.caption, "view": story.view.as_json()}
        told |= {"pin": story.pin and story.pin.as_json(), "needs": len(story.needs)}
        return told | {"link": self.links.write(story.view, page)}


def _step(step: lessons.Step) -> dict[str, Any]:
    told = {"title": step.title, "question": step.question, "choices": list(step.choices), "scale": step.scale}
    told |= {"right": step.right, "move": step.move, "answer": step.answer, "needs": len(step.needs)}
    return told | {name: (view := getattr(step, name)) and view.as_json() for name in ("start", "end")}
