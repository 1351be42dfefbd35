"""The calls that serve the files of the console. Everybody gets them, because a page has to be there before its user
can log in; the files hold nothing of this cluster."""

from magnetar.server.console.static_files import StaticFiles
from magnetar.server.web.calls import Answer, Call, Route
from magnetar.server.web.needs import EVERYBODY
from magnetar.server.web.places import Place

FILES = StaticFiles()


async def static_file(call: Call) -> Answer:
    """Answers with a file of the console: `console/main.js`, or one level deeper `console/pages/topic.js`."""
    folder = call.parts.get("folder")
    file = call.parts["file"]
    return await FILES.answer(call, file if folder is None else f"{folder}/{file}")


ROUTES = (
    Route("GET", "/console/{file}", static_file, EVERYBODY, Place.ASKED_BROKER),
    Route("GET", "/console/{folder}/{file}", static_file, EVERYBODY, Place.ASKED_BROKER),
)
