"""Forms on pages, filled in as a browser would send them."""

from __future__ import annotations

import html
import re

from tests.web.client import Answer


def hidden(answer: Answer) -> dict[str, str]:
    """The hidden fields of the forms on a page."""
    found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', answer.text)
    return {html.unescape(name): html.unescape(value) for name, value in found}
