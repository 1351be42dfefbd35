"""Whether a client takes gzip, by its Accept-Encoding."""

import pytest

from magnetar.server.web.content_encodings import takes_gzip


@pytest.mark.parametrize(
    "accepts", ["gzip", "deflate, GZIP", "gzip;q=0.1", "br;q=1.0, gzip; q=0.8", "*", "x-gzip", "*;q=0, gzip"]
)
def test_it_does(accepts: str) -> None:
    assert takes_gzip(accepts)


@pytest.mark.parametrize("accepts", ["", "identity", "gzip;q=0", "deflate, br", "*;q=0", "gzip;q=0, *", "gzip;q=x"])
def test_it_does_not(accepts: str) -> None:
    assert not takes_gzip(accepts)
