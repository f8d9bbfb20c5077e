"""The reliability of a host's Last-Modified and ETag, learnt from its answers.

Whenever a page is fetched again with a body, the crawler can compare two things: did the page change, and did the
validator? A host whose validators move when nothing changed (clocks, one tag a machine behind a balancer) costs a body
each time. A host whose validators stay the same while its pages change hides these changes behind 304s. Dates are used
for change rates (rates.py) only where both change together in at least 95% of at least 20 comparisons in which one of
them changed. Old comparisons lose half their weight whenever there are 400, so that a host can improve.

A 304 proves nothing, so a share of all revisits is *audited*: sent without conditions (`is_audit`). A host found to
hide changes gets no conditional request any more, until its validators have moved with its pages for long.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from struct import Struct

MIN_COMPARED = 20
SHARE = 0.95
MAX_COMPARED = 400
FIRST_AUDITS, AUDITS = 4, 25
"""One revisit in so many is an audit: until a host's validators were compared MIN_COMPARED times, and afterwards."""

MIN_HIDDEN = 2
"""Number of hidden changes from which on a host is not believed; one may be a change in the second of the visit."""

_RECORD = Struct("<6H")
_VISIT = Struct("<qq")
_MEANINGFUL = 0x8000
"""Mark of a record whose missed changes are meaningful ones; older versions counted all changes of bytes."""


@dataclass(slots=True)
class Validator:
    """One kind of validator of one host.

    `false_changes`: it moved though the bytes did not. `missed_changes`: the page changed and it did not.
    """

    compared: int = 0
    false_changes: int = 0
    missed_changes: int = 0

    def note(self, *, bytes_changed: bool, page_changed: bool, moved: bool) -> None:
        """Compare two answers with bodies, both with the validator; a page changes if it does so meaningfully."""
        if self.compared >= MAX_COMPARED:
            self.compared //= 2
            self.false_changes //= 2
            self.missed_changes //= 2
        self.compared += 1
        self.false_changes += moved and not bytes_changed
        self.missed_changes += page_changed and not moved

    @property
    def is_trusted(self) -> bool:
        agreed = self.compared - self.false_changes - self.missed_changes
        return self.compared >= MIN_COMPARED and agreed >= SHARE * self.compared

    @property
    def hides_changes(self) -> bool:
        return self.missed_changes >= max(MIN_HIDDEN, (1.0 - SHARE) * self.compared)


@dataclass(slots=True)
class Trust:
    """The statistics of a host's validators."""

    dates: Validator = field(default_factory=Validator)
    tags: Validator = field(default_factory=Validator)

    @property
    def hidden(self) -> int:
        """Number of changes that the validators hid."""
        return max(self.dates.missed_changes, self.tags.missed_changes)

    @property
    def hides_changes(self) -> bool:
        """True if the host answers 304 although pages changed. Where it sends an ETag, dates decide nothing."""
        return (self.tags if self.tags.compared else self.dates).hides_changes

    def is_audit(self, key: int, visits: int) -> bool:
        """Tell whether a page's next visit goes without conditions. The choice is fixed by the visit, as by chance."""
        from xxhash import xxh3_64_intdigest

        compared = max(self.tags.compared, self.dates.compared)
        one_in = AUDITS if compared >= MIN_COMPARED else FIRST_AUDITS
        return not xxh3_64_intdigest(_VISIT.pack(key, visits)) % one_in

    def note(
        self,
        *,
        bytes_changed: bool,
        page_changed: bool,
        modified: tuple[str, str] = ("", ""),
        etag: tuple[str, str] = ("", ""),
    ) -> bool:
        """Record an answer with a body: its previous and current validators, as sent; empty where there was none.

        Returns True if the validators hid a change: a conditional request would have been answered by a 304.
        """
        has_moved = True
        if all(modified):
            has_moved = modified[0] != modified[1]
            # Audits bring many unchanged pages, whose dates prove nothing.
            if bytes_changed or has_moved:
                self.dates.note(bytes_changed=bytes_changed, page_changed=page_changed, moved=has_moved)
        if all(etag):
            # Weak comparison (RFC 9110, 8.8.3.2): a server may send the same tag as weak after compression.
            before, now = (each.removeprefix("W/") for each in etag)
            has_moved = before != now
            self.tags.note(bytes_changed=bytes_changed, page_changed=page_changed, moved=has_moved)
        return page_changed and not has_moved

    def encode(self) -> bytes:
        compared, *missed = astuple(self.tags)
        return _RECORD.pack(*astuple(self.dates), compared | _MEANINGFUL, *missed)

    @classmethod
    def decode(cls, record: bytes) -> Trust:
        """Read the output of `encode`; an empty record gives empty statistics."""
        if not record:
            return cls()
        *dates, compared, false_changes, missed_changes = _RECORD.unpack(record)
        if not compared & _MEANINGFUL:
            return cls(Validator(*dates[:2]), Validator(compared, false_changes))
        return cls(Validator(*dates), Validator(compared & ~_MEANINGFUL, false_changes, missed_changes))
