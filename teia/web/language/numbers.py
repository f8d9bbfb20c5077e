"""Numbers, sizes and times as people write them, in English and in Brazilian Portuguese."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
_WHOLE = re.compile(r"\d{1,18}|\d{1,3}([.,\u00a0\u202f ]\d{3}){1,5}", re.ASCII)


def whole_number(text: str) -> int | None:
    """Parse 1000, 1,000 or 1.000; return None for other texts, such as 1.5."""
    return int(re.sub(r"\D", "", text)) if _WHOLE.fullmatch(text) else None


@dataclass(frozen=True, slots=True)
class Locale:
    """Number and date formats of one language; `ago` and `ahead` are templates for a duration."""

    tag: str
    name: str
    thousands: str
    decimal: str
    months: tuple[str, ...]
    ago: str
    now: str
    ahead: str

    def number(self, value: float, digits: int = 0) -> str:
        """Format 1,204,511 or 1.204.511, with `digits` decimals."""
        plain = f"{value:,.{digits}f}"
        return plain.translate(str.maketrans(",.", self.thousands + self.decimal))

    def percent(self, share: float, digits: int = 0) -> str:
        return f"{self.number(100 * share, digits)}%"

    def size(self, octets: float) -> str:
        """Format a size: 512 B, 22 kB, 1.4 MB; decimal units, two significant digits."""
        for unit in ("B", "kB", "MB", "GB", "TB"):
            # From 999.5 on it would be rounded to 1,000.
            if octets < 999.5 or unit == "TB":
                return f"{self.number(octets, 1 if octets < 9.95 and unit != 'B' else 0)} {unit}"
            octets /= 1000
        raise AssertionError("there is a last unit")

    def span(self, seconds: float) -> str:
        """Format a duration in its two largest units: `1 h 12 min`, `3 d 4 h`, `0.4 s`."""
        if 0 < seconds < 0.995:
            return f"{self.number(seconds, 2).rstrip('0').rstrip(self.decimal) or '0'} s"
        if seconds < 10:
            return f"{self.number(seconds, 1 if seconds % 1 else 0)} s"
        if seconds < MINUTE:
            return f"{self.number(seconds)} s"
        for unit, size, below, part in (("min", MINUTE, HOUR, "s"), ("h", HOUR, DAY, "min"), ("d", DAY, 0.0, "h")):
            if seconds < below or not below:
                whole, rest = divmod(seconds, size)
                parts = int(rest // {"s": 1.0, "min": MINUTE, "h": HOUR}[part])
                return f"{self.number(whole)} {unit}" + (f" {parts} {part}" if parts and whole < 100 else "")
        raise AssertionError("there is a last unit")

    def since(self, seconds: float) -> str:
        """Format a time difference: `10 h ago`, `in 10 h`; below a second it is `now`."""
        if abs(seconds) < 1:
            return self.now
        return (self.ago if seconds > 0 else self.ahead).format(self.roughly(abs(seconds)))

    def roughly(self, seconds: float) -> str:
        """Format a duration in its largest unit."""
        for unit, size in (("d", DAY), ("h", HOUR), ("min", MINUTE)):
            if seconds >= size:
                return f"{self.number(seconds // size)} {unit}"
        return f"{self.number(seconds)} s"

    def moment(self, unix_s: float, zone: tzinfo = UTC, *, seconds: bool = False) -> str:
        """Format an instant: 21 Nov 2026 02:00, or 21 nov. 2026 02:00; with seconds on request."""
        at = datetime.fromtimestamp(unix_s, zone)
        return f"{at.day} {self.months[at.month - 1]} {at.year} {at:%H:%M}{f':{at:%S}' if seconds else ''}"


ENGLISH = Locale(
    "en", "English", ",", ".",
    ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
    "{} ago", "now", "in {}",
)  # fmt: skip
PORTUGUESE = Locale(
    "pt-BR", "Português", ".", ",",
    ("jan.", "fev.", "mar.", "abr.", "mai.", "jun.", "jul.", "ago.", "set.", "out.", "nov.", "dez."),
    "há {}", "agora", "em {}",
)  # fmt: skip
LOCALES = {locale.tag: locale for locale in (ENGLISH, PORTUGUESE)}


def choose_locale(chosen: str, accepted: str) -> Locale:
    """Return the user's chosen language, else the first available one the browser accepts, else English."""
    if chosen in LOCALES:
        return LOCALES[chosen]
    # Quality values are ignored: browsers list languages in the order of preference.
    for each in accepted.split(",")[:20]:
        tag = each.partition(";")[0].strip().lower()
        for locale in LOCALES.values():
            if tag.partition("-")[0] == locale.tag.lower().partition("-")[0]:
                return locale
    return ENGLISH
