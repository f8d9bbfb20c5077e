"""The reliability of a host's Last-Modified and ETag, learnt from its answers.

Whenever a page is fetched again with a body, the crawler can compare two things: did the bytes change, and did the
validator? A host whose validators move when nothing changed (clocks, one tag a machine behind a balancer) costs a body
each time. A host whose validators stay the same while the body changes hides its changes behind 304s. Dates are used
for change rates (rates.py) and tags for conditional requests only where both change together in at least 95% of at
least 20 comparisons. Old comparisons lose half their weight whenever there are 400, so that a host can improve.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from struct import Struct

MIN_COMPARED = 20
SHARE = 0.95
MAX_COMPARED = 400

_RECORD = Struct("<6H")


@dataclass(slots=True)
class Validator:
    """One kind of validator of one host.

    `false_changes`: it moved though the bytes did not. `missed_changes`: the bytes changed and it did not.
    """

    compared: int = 0
    false_changes: int = 0
    missed_changes: int = 0

    def note(self, *, content_changed: bool, moved: bool) -> None:
        """Compare two answers with bodies, both with the validator."""
        if self.compared >= MAX_COMPARED:
            self.compared //= 2
            self.false_changes //= 2
            self.missed_changes //= 2
        self.compared += 1
        self.false_changes += moved and not content_changed
        self.missed_changes += content_changed and not moved

    @property
    def is_trusted(self) -> bool:
        agreed = self.compared - self.false_changes - self.missed_changes
        return self.compared >= MIN_COMPARED and agreed >= SHARE * self.compared


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
        return _RECORD.pack(*astuple(self.dates), *astuple(self.tags))

    @classmethod
    def decode(cls, record: bytes) -> Trust:
        """Read the output of `encode`; an empty record gives empty statistics."""
        if not record:
            return cls()
        numbers = _RECORD.unpack(record)
        return cls(Validator(*numbers[:3]), Validator(*numbers[3:]))
