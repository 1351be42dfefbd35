"""Shows tests what the charts of a page draw: the points of each, and how many were drawn so far."""

from typing import Any

from compat_tests.chromium import Page

WATCH = """
let real;
window.drawings = 0;
Object.defineProperty(window, "uPlot", {
  set: (made) => (real = made),
  get: () => function (options, data, element) {
    const plot = new real(options, data, element);
    const draw = plot.setData;
    plot.setData = (...all) => (window.drawings++, draw(...all));
    element.plot = plot;
    return plot;
  },
});
"""


def watch_charts(page: Page) -> None:
    """Watches the charts of all documents that the page loads from now on. `window.drawings` counts their points."""
    page.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)


def points_of(page: Page, panel: str) -> list[list[Any]]:
    """Returns what the chart of a panel draws: the times, and the values of each line."""
    found: list[list[Any]] = page.value(f"document.querySelector('[data-panel={panel}] .chart-frame').plot.data")
    return found
