"""The calls that change the log of a running broker: the level of one logger, or of all of them. Apache's broker has no
such call; there, log4j2 reads its file again.

A change holds until the broker stops. Loggers are named like modules: `magnetar.server.topics` is the logger of a whole
room, `magnetar` that of everything here, and `root` that of the libraries too.
"""

import logging
import sys

from magnetar.server.admin import bodies
from magnetar.server.web.calls import NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import SUPERUSER
from magnetar.server.web.places import Place

log = logging.getLogger(__name__)

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
ROOT = "root"


async def levels(call: Call) -> Answer:
    """Answers with the level of `root` and of each logger that has a level of its own. Any other logger has the level
    of its nearest ancestor in the answer: `a.b.c` has the level of `a.b`, or else of `a`, or else of `root`."""
    found = {ROOT: logging.getLevelName(logging.root.level)}
    for name, logger in sorted(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and logger.level != logging.NOTSET:
            found[name] = logging.getLevelName(logger.level)
    return found


async def change_level(call: Call) -> Answer:
    """Gives a logger the level in the body. Raises Refusal 404 for a name that no logger of this process has, and 400
    for a text that is no level."""
    logger = _logger(call.parts["logger"])
    level = bodies.word(call.body).upper()
    if level not in LEVELS:
        raise Refusal(400, f"{level or 'An empty body'} is no level: one of {', '.join(LEVELS)} is expected")
    log.warning("the level of the logger %s is %s from now on", logger.name, level)
    logger.setLevel(level)
    return NO_CONTENT


async def restore_level(call: Call) -> Answer:
    """Takes a logger's own level away, so that the level of the logger above it holds. Raises Refusal 404 for a name
    that no logger of this process has, and 400 for the root logger, which has none above it."""
    logger = _logger(call.parts["logger"])
    if logger is logging.root:
        raise Refusal(400, "The root logger always has a level of its own: set another one")
    log.warning("the level of the logger %s is that of the logger above it from now on", logger.name)
    logger.setLevel(logging.NOTSET)
    return NO_CONTENT


def _logger(name: str) -> logging.Logger:
    """Returns a logger. Only names of loggers and modules that exist are taken, because Python keeps a logger for ever
    once it was asked for."""
    if name == ROOT:
        return logging.root
    if name not in logging.root.manager.loggerDict and name not in sys.modules:
        raise Refusal(404, f"There is no logger {name}; loggers are named like modules, such as magnetar.server.topics")
    return logging.getLogger(name)


ROUTES = (
    Route("GET", "/admin/v2/brokers/log-levels", levels, SUPERUSER, Place.ASKED_BROKER),
    Route("PUT", "/admin/v2/brokers/log-levels/{logger}", change_level, SUPERUSER, Place.ASKED_BROKER),
    Route("DELETE", "/admin/v2/brokers/log-levels/{logger}", restore_level, SUPERUSER, Place.ASKED_BROKER),
)
