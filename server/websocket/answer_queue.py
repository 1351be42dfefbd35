"""The answers to the texts of one socket, in the order in which the texts came.

Messages of different partitions are stored in any order, and the answer to a malformed text is known at once. So each
answer waits until all earlier answers were sent. So a client that gives its messages no `context` can tell to which
message an answer belongs."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence


class Answer:
    """The answer to one text of the peer. `text` is the answer as JSON, or None while the answer is not known."""

    __slots__ = ("context", "size_bytes", "text")

    def __init__(self) -> None:
        self.context: str | None = None
        self.size_bytes = 0
        """The size in bytes of the message that the answer is for, while the message waits to be stored."""
        self.text: bytes | None = None


class AnswerQueue:
    """The answers to the texts of one socket that were not sent yet."""

    __slots__ = ("_answers", "_say_all", "size_bytes")

    def __init__(self, say_all: Callable[[list[bytes]], None]) -> None:
        """`say_all` sends texts to the peer."""
        self._say_all = say_all
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

    def waits(self, answer: Answer, size_bytes: int) -> None:
        """Called when the message of a text goes to the log, so that its answer has to wait."""
        answer.size_bytes = size_bytes
        self.size_bytes += size_bytes

    def give_all(self, answers: Sequence[Answer], texts: Iterable[bytes]) -> None:
        """Gives each answer its text, and sends it as soon as all earlier answers were sent. A second text for the same
        answer is dropped."""
        for answer, text in zip(answers, texts, strict=True):
            if answer.text is None:
                answer.text = text
                self.size_bytes -= answer.size_bytes
        waiting, said = self._answers, []
        while waiting and (known := waiting[0].text) is not None:
            waiting.popleft()
            said.append(known)
        if said:
            self._say_all(said)
