"""The reliability of a host's Last-Modified and ETag, learnt from its answers.

Whenever a page is fetched again with a body, the crawler can compare two things: did the bytes change, and did the
validator? A host whose validators move when nothing changed (clocks, one tag a machine behind a balancer) costs a body
each time. A host whose validators stay the same while the body changes hides its changes behind 304s. Dates are used
for change rates (rates.py) and tags for conditional requests only where both change together in at least 95% of at
least 20 comparisons. Old comparisons lose half their weight whenever there are 400, so that a host can improve.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct

NEEDED = 20
SHARE = 0.95
MOST = 400

_RECORD = Struct("<6H")


@dataclass(slots=True)
class Validator:
    """One kind of validator of one host.

    `strikes`: it moved though the bytes did not. `silences`: the bytes changed and it did not.
    """

    compared: int = 0
    strikes: int = 0
    silences: int = 0

    def note(self, *, content_changed: bool, moved: bool) -> None:
        """Compare two answers with bodies, both with the validator."""
        if self.compared >= MOST:
            self.compared, self.strikes, self.silences = self.compared // 2, self.strikes // 2, self.silences // 2
        self.compared += 1
        self.strikes += moved and not content_changed
        self.silences += content_changed and not moved

    @property
    def is_trusted(self) -> bool:
        agreed = self.compared - self.strikes - self.silences
        return self.compared >= NEEDED and agreed >= SHARE * self.compared


@dataclass(slots=True)
class Trust:
    """The statistics of a host's validators."""

    dates: Validator = field(default_factory=Validator)
    tags: Validator = field(default_factory=Validator)

    def note(
        self, *, content_changed: bool, modified: tuple[str, str] = ("", ""), etag: tuple[str, str] = ("", "")
    ) -> None:
        """Record an answer with a body: its previous and current validators, as sent; empty where there was none."""
        if all(modified):
            self.dates.note(content_changed=content_changed, moved=modified[0] != modified[1])
        if all(etag):
            # Weak comparison (RFC 9110, 8.8.3.2): a server may send the same tag as weak after compression.
            before, now = (each.removeprefix("W/") for each in etag)
            self.tags.note(content_changed=content_changed, moved=before != now)

    def encode(self) -> bytes:
        dates, tags = self.dates, self.tags
        return _RECORD.pack(dates.compared, dates.strikes, dates.silences, tags.compared, tags.strikes, tags.silences)

    @classmethod
    def decode(cls, record: bytes) -> Trust:
        """Read the output of `encode`; an empty record gives empty statistics."""
        if not record:
            return cls()
        numbers = _RECORD.unpack(record)
        return cls(Validator(*numbers[:3]), Validator(*numbers[3:]))
