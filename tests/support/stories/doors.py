"""The doors through which a person answers what our assistant asks: each a small class, with a reason for every story that it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar

from midturn.web import inbox
from support.pages import ada, browsing
from support.stories.assistants import Assistant, Program
from support.stories.people import ApiPerson, CommandPerson, PagePerson, PrompterPerson, StorePerson
from support.stories.scene import Pair, Scene

LIVE = "here the person waits for the asker's next question: going away is the end of the program"


class Door:
    """A way to answer. `lacks` has the reason for each story that there is none of here, by its name."""

    name: ClassVar[str]
    lacks: ClassVar[Mapping[str, str]] = {}

    def __init__(self, closing: ExitStack) -> None:
        """Come to the door; what is opened there is closed at the end by `closing`."""
        self.closing = closing

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set a story up in a directory of its own."""
        raise NotImplementedError


class StoreDoor(Door):
    """A program answers what an agent asked, and goes on with it."""

    name = "`store.answer`"

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        asker = Program(scene, directory)
        return Pair(asker, StorePerson(asker.store))


class PrompterDoor(Door):
    """A program shows a question as its agent asks it."""

    name = "`Prompter`"
    lacks: ClassVar[Mapping[str, str]] = {"a form, half answered": LIVE}

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        person = PrompterPerson()
        asker = Program(scene, directory, person.prompter)
        return Pair(person.attached_to(asker), person)


class AnswerDoor(Door):
    """A person answers by a command with the answer in it."""

    name = "`midturn answer ID VALUE`"

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        asker = Assistant(scene, directory)
        return Pair(asker, CommandPerson(asker.store, asker.user, asker.address))


class PageDoor(Door):
    """A person answers on the page, which sends forms without a script."""

    name = "page"
    lacks: ClassVar[Mapping[str, str]] = {"reply": "a form on the page is sent as a whole: a reply before that is one to all of it"}

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        asker = Program(scene, directory)
        return Pair(
            asker, PagePerson(asker.store, self.closing.enter_context(browsing(inbox(asker.store, user=ada))), reviews=scene.by_model)
        )


class ApiDoor(Door):
    """A program of somebody answers through the API of the page."""

    name = "API"

    def meet(self, scene: Scene, directory: Path) -> Pair:
        """Set it up."""
        asker = Program(scene, directory)
        return Pair(asker, ApiPerson(asker.store, self.closing.enter_context(browsing(inbox(asker.store, user=ada)))))


ANSWERERS: Sequence[type[Door]] = (AnswerDoor, PageDoor, ApiDoor, StoreDoor)
