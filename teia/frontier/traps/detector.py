"""Trap patterns: learnt from the text of their pages and from the pages they lead to.

A calendar, a list that continues behind its end, or a maze of generated text has no telling shape. In all of them,
pages lead to more of their own pattern and to nothing else. So each pattern of a host (patterns.py) has a state,
which its pages change:

    OPEN      its URLs are taken in the collection's order
    WAITING   its pages look worthless; its URLs wait behind everything else of the host. When nothing else is left, a
              few are read, the newest and deepest first, and that decides: OPEN again, or
    PARKED    a trap. Its queued URLs are given up (`trap`), and URLs that only its own pages link to are not stored.
              URLs that other pages link to wait, and some are read once more when nothing else is left: a pattern
              that has become useful is open again, with all URLs that were given up.

A pattern is in doubt for one of these reasons (`WatchReason`), and none of them alone is enough. *Alike*: nearly all
its pages were seen before, or equal the last pages of the pattern except for numbers. *Barren*: lists and calendars
that lead to no new page of another pattern, however new their words. *Breeding*: each page links to several URLs of the
pattern that were never seen, and to hardly any that another page links to. *Spelling*: URLs that differ from known ones
only in their spelling. *Far*: dates many years away. *Repeats*: paths with a part that stands twice in a row. To be
parked, a pattern must also continue to produce its own URLs when all other links have been followed, or be nothing but
duplicates. An honest archive of a hundred thousand alike articles does not, because its lists have named them all by
then.

This module is arithmetic on a few numbers per pattern. watch.py stores them on disk and moves the URLs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from teia.frontier.traps.patterns import is_list, is_variant
from teia.lib.message import Message

FIRST_CREDIT = 3.0
MAX_CREDIT = 12.0
"""Initial and greatest credit of a pattern; variants of pages (patterns.is_variant) never exceed the initial one."""

BARREN_COST = 0.25
COMBINATION_COST = 0.5
"""Costs. A duplicate page costs one; a new page, or one that leads to something new, earns one; at zero it waits.

A list whose words are new but lead nowhere costs a quarter, one of ever new combinations of parameters a half.
"""

FOREIGN_COST = 2.0
DOUBT_COST = 3.0
"""Cost of a page that repeats one of another pattern, and of a pattern in doubt: a trap under another name."""

WORTHLESS = 0.6
"""Share of the pages of a pattern that must be worthless for it to be parked."""

MAX_DOUBLINGS = 5
MAX_CONVICTIONS = 3
"""A pattern that was parked so often is not tried again."""

TRIAL = 6
"""Number of pages after which a pattern may be called breeding; until then few of its URLs are under way at a time."""

BROOD = 2
"""Average number of never seen URLs of its own that each page of a breeding pattern links to."""

LINKED_TWICE_SHARE = 8
"""Breeding patterns have at most one URL with a second linking page in this many pages."""

AT_FIRST, OF_DOUBTFUL = 6, 3
"""Number of URLs that may go before any was read, and again for each unanswered request.

`OF_DOUBTFUL` holds for lists, for additions to the address of a page, and for other spellings: most traps are among
these, and with six of each a thousand pages among eight kinds of traps took more than a tenth of the requests for them.

An unanswered request says nothing about the pattern, and a dead host should be recognised soon.
"""

SPELLING = "spelling: "
SHAPE = "shape: "
"""Prefixes of the patterns for other spellings of known URLs, and for links refused by a shape rule (url_shapes.py)."""

RECENT = 16
"""Number of last pages whose outlines are kept; a page with one of these outlines counts as alike."""


class PatternState(IntEnum):
    """Disjoint states of a pattern; see the module's docstring."""

    OPEN = 0
    WAITING = 1
    PARKED = 2


class WatchReason(StrEnum):
    """Reasons to watch a pattern; the text is shown to a user who asks why a URL is not fetched."""

    NONE = ""
    ALIKE = Message("pages that say nothing new")
    BARREN = Message("lists that lead to nothing new")
    BREEDING = Message("pages that only lead to more of their kind")
    SPELLING = Message("another spelling of a known URL")
    FAR = Message("a date far from today")
    REPEATS = Message("path segments that repeat")


FOLLOWED = 10
FOLLOWED_ALONE = 30
TRIES = {
    WatchReason.ALIKE: 2,
    WatchReason.BARREN: 2,
    WatchReason.SPELLING: 3,
    WatchReason.FAR: 2,
    WatchReason.REPEATS: 2,
}
"""Number of pages read of a waiting pattern before it is acquitted or parked.

It is greater where new words must be followed to see whether there is an end, or where the pattern looks like pages
and not like lists. It is greater still where the host has nothing else, because a site must have some pages. A
quarter of them is enough to park a pattern again.
"""


@dataclass(frozen=True, slots=True)
class PageImpression:
    """Properties of a page that was read.

    `is_dead`: it does not exist. `cost` is above 0 where its host had served the same text; see the costs above.
    `is_twin`: a plainer spelling of its URL serves the same. `outline` is a hash of its text without digits, 0
    where there is none. `is_deepest`: it lies at the greatest depth to which links are followed.
    """

    is_dead: bool = False
    cost: float = 0.0
    is_twin: bool = False
    outline: int = 0
    is_deepest: bool = False


@dataclass(slots=True)
class Tally:
    """Counts of a pattern's pages in one commit, or since it waits.

    `seen`, `twins` and `alike` count pages among those `read`. They linked to `own` URLs of the pattern that were
    never seen (`pages_with_own` of them did), `leads` that are known and queued, and `others`, never seen, of other
    patterns that are useful. `linked_twice` are URLs of the pattern that two pages linked to before they were read.
    """

    read: int = 0
    seen: int = 0
    twins: int = 0
    alike: int = 0
    cost: float = 0.0
    deepest: int = 0
    own: int = 0
    pages_with_own: int = 0
    leads: int = 0
    others: int = 0
    linked_twice: int = 0

    def add(self, other: Tally) -> None:
        self.read += other.read
        self.seen += other.seen
        self.twins += other.twins
        self.alike += other.alike
        self.cost += other.cost
        self.deepest += other.deepest
        self.own += other.own
        # Links are not counted by page: of the pages in this commit, at most `own` found a new URL.
        self.pages_with_own += min(other.read, other.own)
        self.leads += other.leads
        self.others += other.others
        self.linked_twice += other.linked_twice


@dataclass(slots=True, eq=False)
class Pattern:
    """One pattern of one host.

    `parent` is the pattern whose page first linked to one of its URLs. `all` counts since the beginning, `tries`
    since it waits, `now` since the last `evaluate`. `recent` are outlines of the last pages. `refused` counts links
    that were not stored, `given_up` stored URLs that were dropped; `unanswered` counts requests since the start
    without an answer.
    """

    number: int
    text: str
    parent: int = 0
    state: PatternState = PatternState.OPEN
    reason: WatchReason = WatchReason.NONE
    credit: float = FIRST_CREDIT
    acquittals: int = 0
    convictions: int = 0
    refused: int = 0
    given_up: int = 0
    is_alone: bool = False
    unanswered: int = 0
    all: Tally = field(default_factory=Tally)
    tries: Tally = field(default_factory=Tally)
    now: Tally = field(default_factory=Tally)
    recent: list[int] = field(default_factory=list)

    # -- what pages show -----------------------------------------------------------------------------------

    def count_page(self, page: PageImpression) -> None:
        """Count a page that was read for the first time."""
        alike = page.is_dead or page.cost > 0 or page.outline in self.recent
        self.now.read += 1
        self.now.seen += page.cost > 0
        self.now.twins += page.is_twin
        self.now.alike += alike
        # A dead or alike page costs at least one; a page that repeats another pattern costs more.
        self.now.cost += max(page.cost, 1.0) if alike else 0.0
        self.now.deepest += page.is_deepest
        if page.outline:
            self.recent = [*self.recent[1 - RECENT :], page.outline]

    def count_duplicate(self) -> None:
        """Count a page that seemed new as a duplicate after all: a plainer URL serves the same text."""
        self.now.seen += 1
        self.now.alike += 1
        self.now.cost += FOREIGN_COST

    def evaluate(self, parent: Pattern | None, *, is_alone: bool = False) -> bool:
        """Evaluate the counts since the last call; return True if the state changed.

        `is_alone`: no other pattern of the host has as many new pages.
        """
        self.is_alone = is_alone
        now, self.now = self.now, Tally()
        self.all.add(now)
        if self.state is PatternState.OPEN:
            most = FIRST_CREDIT if is_variant(self.text) else MAX_CREDIT
            self.credit = min(most * self._lenience, self.credit + self._credit_earned(now))
            self._suspect()
            return self.state is not PatternState.OPEN
        self.tries.add(now)
        # The pattern ends where pages above the depth limit link to no further URL of it.
        return self._decide(parent, ends=now.read > now.deepest and now.own + now.leads == 0)

    @property
    def _lenience(self) -> int:
        """Factor that makes the next suspicion slower after each acquittal."""
        return 1 << min(self.acquittals, MAX_DOUBLINGS)

    def _credit_earned(self, now: Tally) -> float:
        """Return the credit that the pages of a commit earn; an alike page that leads to a new one is excused."""
        # One for each new page; a list page without new targets costs instead. A duplicate costs, but one that
        # leads to a new page gets its cost back and earns one.
        new = now.read - now.alike
        idle = max(0, new - now.others) if is_list(self.text) else 0
        excused = min(now.alike - now.seen, now.others)
        idle_cost = COMBINATION_COST if self._is_combination else BARREN_COST
        return new - idle - idle_cost * idle - now.cost + 2 * excused

    # -- state ---------------------------------------------------------------------------------------------

    def _suspect(self) -> None:
        if self.credit <= 0:
            has_new_words = self.all.alike * 2 < self.all.read
            self.defer(WatchReason.BARREN if is_list(self.text) and has_new_words else WatchReason.ALIKE)
        elif self.all.read >= TRIAL * self._lenience and self._is_breeding(self.all):
            self.defer(WatchReason.BREEDING)

    @staticmethod
    def _is_breeding(tally: Tally) -> bool:
        return tally.own >= BROOD * tally.read and tally.linked_twice * LINKED_TWICE_SHARE <= tally.read

    def defer(self, reason: WatchReason) -> None:
        """Put the pattern behind everything else of its host."""
        self.state, self.tries = PatternState.WAITING, Tally()
        self.reason = WatchReason.SPELLING if self.text.startswith(SPELLING) else reason

    def _decide(self, parent: Pattern | None, *, ends: bool) -> bool:
        """Park it, acquit it, or wait for more tries.

        A maze or an endless list has no end, and no page with two paths to it.
        """
        # A single meeting may be chance.
        meets = self.reason is WatchReason.BREEDING and (self.all.linked_twice - 1) * LINKED_TWICE_SHARE > self.all.read
        if meets or (ends and self._is_followed):
            self.acquit()
        elif self.tries.read < self._tries_to_park:
            return False
        elif self._is_worthless() and (self._is_redundant() or self._finds_own() or self._is_child_of_a_trap(parent)):
            self._park()
        elif self.tries.read < self._tries_to_acquit:
            return False
        else:
            self.acquit()
        return True

    @property
    def _is_followed(self) -> bool:
        """True if its tries follow each other, ever deeper, to find an end."""
        has_new_words = self.tries.alike < WORTHLESS * max(1, self.tries.read)
        return self.reason is WatchReason.BREEDING or (
            self.reason is WatchReason.BARREN and has_new_words and not self._is_combination
        )

    @property
    def _is_combination(self) -> bool:
        return self.text.endswith("?*")

    @property
    def _tries_to_acquit(self) -> int:
        if self._is_followed:
            return FOLLOWED_ALONE if self.is_alone else FOLLOWED
        return FOLLOWED if self.reason is WatchReason.ALIKE and self._is_plain else TRIES[self.reason]

    @property
    def _is_plain(self) -> bool:
        """True if it looks like pages: no lists, and no additions to the address of a page."""
        return not (is_list(self.text) or is_variant(self.text))

    @property
    def _tries_to_park(self) -> int:
        # Each conviction leaves a quarter of the tries before the next one.
        return max(1, self._tries_to_acquit >> 2 * self.convictions)

    @property
    def is_hopeless(self) -> bool:
        return self.state is PatternState.PARKED and self.convictions >= MAX_CONVICTIONS

    def _is_worthless(self) -> bool:
        tries = self.tries
        most = WORTHLESS * tries.read
        if self.reason is WatchReason.SPELLING:
            return tries.twins >= most
        if self.reason is WatchReason.BREEDING:
            return self._is_breeding(tries) and not tries.linked_twice
        if self._is_plain and tries.linked_twice * LINKED_TWICE_SHARE > tries.read:
            return False  # duplicates or not, several paths lead to the same pages
        return tries.alike >= most or (is_list(self.text) and tries.others == 0)

    def _is_redundant(self) -> bool:
        """Tell whether the tried pages are available at plainer URLs."""
        tries, most = self.tries, WORTHLESS * self.tries.read
        return tries.twins >= most or (tries.seen >= most and is_variant(self.text))

    def _finds_own(self) -> bool:
        return self.tries.pages_with_own * 2 >= self.tries.read

    @staticmethod
    def _is_child_of_a_trap(parent: Pattern | None) -> bool:
        return parent is not None and parent.state is PatternState.PARKED

    def acquit(self) -> None:
        """Take its URLs like any others again; the next suspicion takes twice as long."""
        self.state, self.reason, self.tries = PatternState.OPEN, WatchReason.NONE, Tally()
        self.acquittals += 1
        self.credit = FIRST_CREDIT * self._lenience

    def _park(self) -> None:
        self.state, self.tries = PatternState.PARKED, Tally()
        self.convictions += 1

    # -- permission to fetch -------------------------------------------------------------------------------

    @property
    def new_pages(self) -> float:
        """Number of new pages it has shown; 0 if it is in doubt, or only leads to other pages."""
        if self.state is not PatternState.OPEN or is_list(self.text) or is_variant(self.text):
            return 0
        return self.all.read - self.all.alike

    @property
    def is_useful(self) -> bool:
        """True if links to this pattern count in favour of a page."""
        return self.state is PatternState.OPEN and self.credit > FIRST_CREDIT

    @property
    def is_urgent(self) -> bool:
        """True if it must be decided at once: most of a site may look like a maze to begin with."""
        return self.state is PatternState.WAITING and self.reason is WatchReason.BREEDING

    def allowance(self) -> float:
        """Return the number of its URLs that may be under way while nothing more is known about it."""
        if self.state is not PatternState.OPEN:
            enough = self._tries_to_park if self.tries.read < self._tries_to_park else self._tries_to_acquit
            return 1 if self._is_followed else max(1, enough - self.tries.read)
        if not self.all.read:
            is_doubtful = not self._is_plain or self.text.startswith(SPELLING)
            return (OF_DOUBTFUL if is_doubtful else AT_FIRST) * (1 + self.unanswered)
        # Until TRIAL pages were read, no more URLs are under way than the trial still needs.
        if self.all.read < TRIAL:
            return max(1, min(int(self.credit), TRIAL - self.all.read))
        is_trusted = self.credit >= FIRST_CREDIT and not is_variant(self.text)
        return float("inf") if is_trusted else max(1, int(self.credit))
