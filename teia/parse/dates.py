"""Times as the web writes them: ISO 8601 and its W3C profile, and RFC 822 as in mail and feeds."""

from __future__ import annotations

import re
from datetime import UTC, datetime

MAX_DATE_CHARS = 64
_YEAR_OR_MONTH = re.compile(r"(\d{4})(?:-(\d{2}))?")


def parse_date(text: str) -> float | None:
    """Return Unix seconds, or None for a text that is no date. Without a zone, UTC; without a day, the first."""
    text = text.strip()
    if not 4 <= len(text) <= MAX_DATE_CHARS:
        return None
    try:
        # The libraries raise several kinds of errors for odd dates, such as year 0 or a zone of 99 hours.
        return _moment(text).astimezone(UTC).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _moment(text: str) -> datetime:
    partial = _YEAR_OR_MONTH.fullmatch(text)
    if partial:
        return datetime(int(partial.group(1)), int(partial.group(2) or 1), 1, tzinfo=UTC)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        from email.utils import parsedate_to_datetime  # every parse child would wait for its import at the start

        moment = parsedate_to_datetime(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
