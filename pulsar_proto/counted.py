"""Numbers of things in sentences for people. All of the program's parts tell people what they counted."""


def counted(count: float, one: str, many: str = "", form: str = "") -> str:
    """Returns the number with its noun: `1 entry`, `3 entries`. By default `many` is `one` with an s. `form` is the
    number's format, such as a comma for commas between its thousands."""
    return f"{count:{form}} {one if count == 1 else many or one + 's'}"
