"""Reads which encodings of a body a client takes."""


def takes_gzip(accept_encoding: str) -> bool:
    """Returns whether a client with this Accept-Encoding takes gzip. A weight of 0 refuses an encoding, and `*` stands
    for all encodings that are not named (RFC 9110, 12.5.3)."""
    weights: dict[str, float] = {}
    for item in accept_encoding.split(","):
        name, _, parameters = item.partition(";")
        weight = parameters.strip().removeprefix("q=")
        try:
            weights[name.strip().lower()] = float(weight) if weight else 1.0
        except ValueError:
            continue
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0))) > 0
