"""The answers to one socket's texts, in the order in which the texts came.

Messages of different partitions are stored in any order, and a malformed text is answered at once; so each answer waits
until all earlier answers were sent. A client that sends without contexts then knows to which text an answer belongs.
"""

from collections import deque
from collections.abc import Callable


class Answer:
    """The answer to one text; `text` is None until it is known."""

    __slots__ = ("context", "size_bytes", "text")

    def __init__(self) -> None:
        self.context: str | None = None
        self.size_bytes = 0
        """The size of the message that waits to be stored."""
        self.text: bytes | None = None


class AnswerQueue:
    """The answers that were not sent yet."""

    __slots__ = ("_answers", "_say", "size_bytes")

    def __init__(self, say: Callable[[bytes], None]) -> None:
        self._say = say
        self._answers: deque[Answer] = deque()
        self.size_bytes = 0
        """The size of all messages that wait to be stored."""

    def __len__(self) -> int:
        return len(self._answers)

    def begin(self) -> Answer:
        """Called for each text of the peer. Returns the text's answer, which now has its place in the order."""
        answer = Answer()
        self._answers.append(answer)
        return answer

    def waits(self, answer: Answer, context: str | None, size_bytes: int) -> None:
        """Called when the message of a text goes to the log, so that its answer has to wait."""
        answer.context = context
        answer.size_bytes = size_bytes
        self.size_bytes += size_bytes

    def give(self, answer: Answer, text: bytes) -> None:
        """Sends the answer as soon as all earlier answers were sent. A second answer to the same text is dropped."""
        if answer.text is not None:
            return
        answer.text = text
        self.size_bytes -= answer.size_bytes
        answers = self._answers
        while answers and (said := answers[0].text) is not None:
            answers.popleft()
            self._say(said)
