"""Translation of English sentences with inserted values, written by other modules (`|told`).

`sentences.py` has the fixed sentences. Here `{name}` stands for an inserted value, which may itself be a sentence.
Sentences joined with `; ` are translated one by one. JSON has all of them in English, and the modules that write them
know nothing of languages. tests/web/language/test_phrases.py checks that they still write these sentences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from teia.web.language.numbers import Locale

Translate = Callable[[str], str]
_PLACE = re.compile(r"\{(\w+)\}")
_DEEPEST = 5
"""Most levels of sentences inside sentences; real ones have fewer."""

MAX_CHARS = 4_000
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DATE = re.compile(rf"(?:([A-Z][a-z]+) )?(\d{{1,2}}) ({'|'.join(_MONTHS)}) (\d{{4}})(.*)", re.DOTALL)
_NUMBER = re.compile(r"(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d+))?((?: [a-zA-Z/%]+)?)", re.ASCII)
_NUMBERS = frozenset({"n", "most", "least", "low", "high", "total", "enough", "amount"})
"""Placeholders that hold a number.

In other placeholders only numbers with thousands separators are reformatted: 1.5 may be a version.
"""
_AMOUNT = re.compile(r"(?:([\d,.]+) )?(second|minute|hour|day|week|month)(s?)")


def phrases(_: Translate) -> tuple[str, ...]:
    """Return all phrases."""
    return (
        *_waiting(_),
        *_trying(_),
        *_settings(_),
        *_rules(_),
        *_schedules(_),
        *_refusals(_),
        *_places(_),
        *_lab(_),
        *_deeds(_),
        *_operators(_),
    )


def _waiting(_: Translate) -> tuple[str, ...]:
    """Return reasons why a URL waits or is unknown.

    They are written by why_waiting.py, page.py and links.py of views/, and by lookup.py and soft404.py of crawler/.
    """
    return (
        _("robots.txt forbids it"),
        _("it looks like a trap"),
        _("it looks like a trap: {why}"),
        _("its host or site has used up its requests or bytes"),
        _("its host was taken for another name of a site; it is queued again"),
        _("its host is at an address that may not be asked (--allow-net)"),
        _("it is of a type that the collection does not keep"),
        _("it was out of scope; the next crawl looks at it again"),
        _("failed ({outcome}), {times}; not tried again"),
        _("failed {times} ({outcome}), tried again at {time}"),
        _("failed {times} ({outcome}), due to be tried again"),
        *(_("once"), _("{n} times")),
        _("{why}; it will not be fetched"),
        _("next in line; waits for a crawl to run"),
        _("it is out of scope: {why}"),
        _("it would be taken for a trap ({why})"),
        _("no page that was read links to it"),
        _("whether it is in scope cannot be told: {why}"),
        _("{n} hops from a seed are more than scope.max_depth = {most}"),
        _("its language is {language}"),
        _("its host is parked: {why}"),
        _("its host rests until {time}"),
        _("it may be a trap and comes last: {why}"),
        _("behind {n} other of its host"),
        _("behind {n} others of its host"),
        _("behind {n} or more others of its host"),
        _("its host is another name of {host}: see {url}"),
        _("longer than {n} characters"),
        _("more than {n} path segments"),
        _("of {total} pages that link here {n} are listed"),
        _("pages that are not in the index yet may link here too: {n}"),
        _("only the first {n} pages of the archive were looked through for links"),
        _("a soft 404: it looks like what its host shows for a page that cannot exist{like}, so it is not indexed"),
        _("{url} is not known in {collection}: {why}"),
        _("did you mean {what}"),
        _("did you mean {what}?"),
        _("`teia export urls --data {path}` lists all"),
        _("{url} is not visited: {why}"),
        _("asked to"),
        _("robots.txt asks for a Crawl-delay of {n} s"),
        _("only {n} MiB are free at {path}; fetching goes on when {enough} MiB are"),
    )


def _trying(_: Translate) -> tuple[str, ...]:
    """Return the steps of the URL tester (collections/preview_url.py)."""
    return (
        _("it is no http or https URL"),
        _("port {port} is never asked"),
        _("rule {n} skips it: {rule}"),
        _("rule {n} keeps it: {rule}"),
        _("it is a seed"),
        _("its ending is that of a type that is not kept"),
        _("it has a query, and those are not followed"),
        _("no rule keeps it"),
        _("everything is kept"),
        _("it is of a seed's host: {rule}"),
        _("robots.txt is not obeyed"),
        _("robots.txt was not asked for yet"),
        _("robots.txt could not be read, so nothing is allowed"),
        _("robots.txt allows it"),
        _("its host is another name of {host}"),
        _("it is {n} hops from a seed, and {most} is the most"),
        _("{rule} excludes it"),
        _("it has a query"),
        _("it matches no rule of scope.include"),
    )


def _settings(_: Translate) -> tuple[str, ...]:
    """Return errors of settings (settings.py, config.py, collections/drafts.py, web/forms)."""
    return (
        _("{key} = {value}: {why}"),
        _("must be a list"),
        _("must be a whole number"),
        _("must be true or false"),
        _("must be a number"),
        _("must be text"),
        _("must be a number below 2^63"),
        _("must be at least {low}"),
        _("must be at most {high}"),
        _("must be valid UTF-8"),
        _("must be one of {choices}"),
        _("must look like {pattern}"),
        _("must be plain ASCII on one line; it is sent in a header"),
        _("unknown setting {key}"),
        _("unknown setting {key}; {hint}"),
        _("not valid TOML: {why}"),
        _("{key} has a field of its own above"),
        _("{key} is fixed when a collection is made"),
        _("the rule that keeps {rule} counts with “my rules” alone"),
        _("names files or code of this machine and is set there, with `teia set`"),
        _("{name} cannot name a collection; choose another"),
        _("{name} cannot name a collection: use up to 63 of a-z, 0-9, _ and -, the first no sign"),
        _("{name} cannot name a collection: the data folder has a file of that name; choose another"),
        _("at least one seed is needed, like https://example.org/"),
        _("{n} seeds are more than {most}"),
        _("{url} is not http or https"),
        _("servers rest less than {n} s"),
        _("a host is asked for several pages at once"),
        _("there is a collection {name} already"),
        _("an admin has to decide this: {what}"),
        _("say who consented; it is written down"),
        _("{what}: say in `consent` who consented; it is written down"),
        _("this needs the role admin: {what}"),
        _("{key} cannot be changed: it was fixed when the collection was made"),
        _("the running crawl of {name} does not take it: {why}"),
        _("the settings of {name} are changed, but its crawl did not answer in time; is its process stopped?"),
    )


def _rules(_: Translate) -> tuple[str, ...]:
    """Return errors and likely mistakes of rules (frontier/rules/scope.py, lint.py)."""
    return (
        _("scope rule {rule}: {why}"),
        _("scope rules: composed too deeply"),
        _("{n} rules are more than {most}; block them on the machine: @FILE"),
        _("names a file or code of this machine and is set there, with `teia set`"),
        _("looks ahead or behind; say it with two rules, like and(regex:A, not(regex:B)) ({where})"),
        _("refers back to a group; write out what it may be ({where})"),
        _("has an atomic group or a possessive repeat; write (?:…) and a plain repeat ({where})"),
        _("has a flag that is not known; i, m and s are ({where})"),
        _("repeats more than 1,000 times, or repeats inside repeats do ({where})"),
        _("is too large; write fewer or smaller repeats, or several rules"),
        _("the expressions are too large together; write fewer or smaller repeats"),
        _("not tried: the rules take too long on the URLs before it"),
        _("must name a media type"),
        _("must name a language"),
        _("{kind} must stand alone in the include list; it judges answers"),
        _("list must stand alone and name a file"),
        _("must be KIND:VALUE with KIND one of {kinds}"),
        _("{operator} needs {what} inside"),
        *(_("one rule"), _("rules")),
        _("must be a host name, like example.org"),
        _("must be an http or https URL"),
        _("must be query:no or query:yes"),
        _("these rules only narrow: every site that is linked to belongs to the collection"),
        _("host:{name} does not match {other}; domain:{name} does"),
        _("rule {n} can never decide: rule {other}, {rule}, already holds all of it"),
        _("rule {n} can never decide: rule {other}, {rule}, skips all of it"),
    )


def _schedules(_: Translate) -> tuple[str, ...]:
    """Return descriptions and errors of schedules (collections/calendar.py, collections/overview.py)."""
    return (
        _("Once, on {date} at {clock} ({zone}){rest}."),
        _("Every {amount} from {date} ({zone}) on{rest}."),
        _("Every {amount} at {clock} ({zone}) from {date} on{rest}."),
        _("{amount} at most"),
        _("until {date}"),
        _("kept fresh in between"),
        _("{n} known pages of {host}, one every {delay} s, need {span}: runs will stop before the end"),
        _("is before schedule.start = {start}, so nothing would run"),
        _("is longer than schedule.every = {every}; a run has to end before the next begins"),
        _("there is no such time zone; {hint}"),
        _("write it like America/Sao_Paulo, or UTC"),
        _("must be {once}a number of {units}, like 7 days"),
        _("once, or "),
        _("must be between 1 and {amount}"),
        _("must be between {low} and {high}"),
        _("must be a date and time, like {example} ({why})"),
        _("write it like {example}; the zone goes to schedule.zone"),
        _("a run is due, and nobody crawls: start `{command}`"),
        _("nobody waits for the next start: start `{command}`"),
        *(_("second"), _("seconds"), _("minute"), _("minutes"), _("hour"), _("hours")),
        *(_("day"), _("days"), _("week"), _("weeks"), _("month"), _("months")),
        *(_("Mon"), _("Tue"), _("Wed"), _("Thu"), _("Fri"), _("Sat"), _("Sun")),
        *(_("Monday"), _("Tuesday"), _("Wednesday"), _("Thursday"), _("Friday"), _("Saturday"), _("Sunday")),
    )


def _refusals(_: Translate) -> tuple[str, ...]:
    """Return refusals, and the actions suggested instead (web/server, web/access, web/pages)."""
    return (
        _("this token is not known here"),
        _("make one under Settings > Tokens"),
        _("this needs the role {role}"),
        _("this needs the role {role}; you are {own}"),
        *(_("viewer"), _("operator"), _("admin")),
        *(_("ask an admin"), _("sign in"), _("try again"), _("try again in a moment")),
        _("this was sent by a page of another site"),
        _("this form is too old"),
        _("load the page again and repeat what you did"),
        _("name or password are not right"),
        _("too many attempts; the next one is taken in {n} s"),
        _("this invitation was used already, or is older than ten minutes"),
        _("there is a user {name} already"),
        _("there is no user {name}"),
        _("the old password is not right"),
        _("{name} is the only admin; make another one first"),
        _("there are {n} tokens already; remove some first"),
        _("{user} has a token {name} already"),
        _("{user} has no token {name}"),
        _("a name has 1 to {n} letters, digits, - and _"),
        _("a password has {least} to {most} characters"),
        _("a token has no password; sign in to change one"),
        _("the account was removed while it was made"),
        _("{word} is not a role: viewer, operator or admin"),
        _("something went wrong here (event {event}); the crawl is not affected"),
        _("{field}: {why}"),
        _("Not Found"),
        _("Method Not Allowed"),
        _("Field required"),
        _("Input should be a valid integer{more}"),
        _("Input should be a valid number{more}"),
        _("Input should be a valid boolean{more}"),
        _("Input should be greater than or equal to {n}"),
        _("Input should be less than or equal to {n}"),
        _("Input should be {choices}"),
        _("String should have at most {n} characters"),
        _("String should have at least {n} character"),
        _("String should have at least {n} characters"),
    )


def _places(_: Translate) -> tuple[str, ...]:
    """Return messages about missing or unavailable things (web/server, web/pages, views, store/sql.py)."""
    return (
        _("there is no collection {name}"),
        _("there is no collection yet"),
        _("{path} holds no collection yet"),
        _("copies of {name} are for people who signed in"),
        _("nothing can be searched yet: no collection has an index"),
        _("{url} is not an http or https URL; write it like https://example.org/page"),
        _("{url} is not an http or https URL"),
        _("time: {time} is not a moment; write it like 2026-11-04T06:12:00Z"),
        _("choose two versions to compare"),
        _("there is no copy of {url} in {name}"),
        _("there is no copy of {url} of that time in {name}"),
        _("the copy of {url} could not be read in time"),
        _("the copy of {url} cannot be read ({why})"),
        _("too many copies are being read"),
        _("the copy of {url} repeats an earlier one that is not in {name}"),
        _("no host {host} is known; names are written as in URLs, without port"),
        _("no crawl of {name} is running"),
        _("this server starts no crawler (--no-crawler)"),
        _("type the name {name} to remove it; nothing was removed"),
        _("process {pid} is crawling this folder; stop it first"),
        _("there is no report {name}; there is {names}"),
        _("others are asking in SQL just now"),
        _("the query took longer than {n} s; narrow it, e.g. with WHERE host = …"),
        _("the query needs more than {n} MiB of memory; narrow it, e.g. with WHERE host = …"),
        _("the answer is longer than {n} MiB; name fewer columns, or narrow it with LIMIT"),
        _("the query is longer than {n} characters"),
        _("stopped after {n} s: there are too many URLs; ask `fetches`, or use teia sql"),
        _("it ended with status {n}"),
        _("at this delay a full pass needs {span}"),
        _("{n} of the pages cannot be kept within a week"),
        _("{n} s would do"),
        _("no delay would do, it answers too slowly"),
        _("{name} was crawled without an index; {hint}"),
        *(_("the address is too long"), _("too many requests"), _("at most {n} bytes are taken")),
        *(_("too many requests at the same time"), _("a request has one Host header")),
        _("this server does not answer to {host}"),
        _("{name} has no index yet; crawl some pages first, or {hint}"),
    )


def _lab(_: Translate) -> tuple[str, ...]:
    """Return errors of the lab's forms, and results of runs (web/background/lab, web/pages/lab)."""
    return (
        _("must be a whole number from {low} to {high}"),
        _("must be a number from {low} to {high}"),
        _("must be uniform, or zipf:X with a number X from 0 to 99"),
        _("must not be more than the {n} pages"),
        _("{n} visits are more than a run can make: ask for {days} days at most"),
        _("{name} is not a policy; there are {names}"),
        *(_("choose at least one"), _("choose one")),
        _("choose {low} to {high} runs to compare, not {n}"),
        _("choose runs of one kind: simulations, what-ifs, plans, or experiments"),
        _("choose a file, or write pages here"),
        _("choose the file again: it is too long to be shown here"),
        _("the file is not a text in UTF-8"),
        _("must be empty, example, or the number of a run of plans that is kept"),
        _("is needed where servers do not rest"),
        _("{n} visits are more than a plan can list: {hours} hours, or a budget"),
        _("line {n}: {why}"),
        _("{why} (and {n} more broken rows)"),
        _("the header lacks {names}; columns are {needed} and, if wanted, {optional}"),
        _("the header has {names}; columns are {needed} and, if wanted, {optional}"),
        *(_("there are no pages in it"), _("{n} fields instead of {width}"), _("page {name} is there already")),
        *(_("no name of the page"), _("no name of the server"), _("{name} is {value}, not a number >= 0")),
        _("{n} runs wait already; cancel one, or come back later"),
        _("look at /lab"),
        _("another server of this folder has the lab; ask that one"),
        _("there is no run {n} of the lab; the newest {most} are kept"),
        *(_("run {n} has no report"), _("run {n} has no chart"), _("run {n} has no file {name}")),
        _("the server ended before it did"),
        _("the server ended before its turn"),
        _("stopped after {n} minutes"),
        _("it needed more memory than the {n} GiB a run may have; ask for less"),
        _("it wrote more than a report can hold"),
        _("it ended with status {n} and said nothing"),
        _("no page was visited twice yet, so nothing is known of how they change; let {command} run for a while"),
    )


def _deeds(_: Translate) -> tuple[str, ...]:
    """Return actions of users as the log of changes names them (web/pages)."""
    return (
        *(_("start"), _("pause"), _("resume"), _("stop"), _("check now"), _("add"), _("remove collection")),
        *(_("make collection"), _("change settings"), _("change role"), _("remove user"), _("make token")),
        *(_("remove token"), _("change password"), _("first sign-in"), _("invite")),
        *(_("start lab run"), _("cancel lab run"), _("audit")),
    )


def _operators(_: Translate) -> tuple[str, ...]:
    """Return actions of operators on hosts, warnings and URLs in bulk, and their errors (web/pages, frontier)."""
    return (
        *(_("treat host: {deed}"), _("many URLs: {deed}"), _("warning: {deed}")),
        *(_("block"), _("unblock"), _("delay"), _("budget"), _("drop"), _("first"), _("retry")),
        *(_("dismiss"), _("restore")),
        _("somebody took it out of the queue"),
        _("its host is paused by an operator"),
        _("paused by an operator"),
        _("no robots.txt of {host} was read yet; it is read before its first page"),
        _("{text} must be a number of seconds from {least} to {most}"),
        _("{text} must be a whole number from {low} to {high}"),
        _("all hosts rest {n} s"),
        _("say who agreed to less, it is written down"),
        _("there is no such warning now"),
        _("{n} URLs are more than {most} at a time"),
        _("write at least one URL, like https://example.org/page"),
        _("an audit is being made already; the next one can begin when it has ended"),
        _("{n} exports are being made"),
        *(_("this needs the scope {scope}; the token has {scopes}"), _("make another token")),
        _("say what the token is for, at least one of {scopes}"),
        _("a token cannot give what it does not have: {scopes}"),
        _("{text} is no time zone that is known here, like America/Sao_Paulo"),
        _("try again when one has ended"),
        _("{n} deeds on {collection} wait already; let them be done first"),
        _("known pages that are kept fresh cannot be dropped; exclude them from the scope instead"),
        _("a text to look for in URLs has {n} characters at most"),
    )


class Phrases:
    """Translator of English sentences into one language."""

    def __init__(self, translate: Translate, locale: Locale) -> None:
        self._translate, self._locale = translate, locale
        known = phrases(lambda text: text)
        self._fixed = frozenset(text for text in known if "{" not in text)
        moving = sorted((text for text in known if "{" in text), key=_told_apart, reverse=True)
        self._moving = [(_pattern(text), text) for text in moving]
        self.said = lru_cache(2_000)(self._said)

    def _said(self, text: str) -> str | None:
        """Translate a sentence; return None if no phrase matches it."""
        return self._of(text[:MAX_CHARS], _DEEPEST)

    def _of(self, text: str, depth: int) -> str | None:
        # gettext returns the text itself if it has no translation.
        known = self._translate(text) if text else ""
        if known != text or text in self._fixed:
            return known
        for pattern, phrase in self._moving if depth else ():
            match = pattern.fullmatch(text)
            filled = match and self._filled(self._translate(phrase), match.groupdict(), depth - 1)
            if filled is not None:
                return filled
        return self._date(text) or (self._strung(text, "; ", depth) if depth else None)

    def _strung(self, text: str, by: str, depth: int) -> str | None:
        """Translate joined sentences; return None if none of them is known."""
        parts = text.split(by)
        said = [self._of(part, depth - 1) for part in parts] if len(parts) > 1 else []
        if all(each is None for each in said):
            return None
        return by.join(part if each is None else each for part, each in zip(parts, said, strict=True))

    def _filled(self, phrase: str, parts: dict[str, str], depth: int) -> str | None:
        """Insert translated values into a phrase.

        Return None if the phrase has no words of its own and none of its values can be translated.
        """
        said = {name: self._part(name, text, depth) for name, text in parts.items()}
        if said == parts and not re.search(r"\w", _PLACE.sub("", phrase)):
            return None
        return _PLACE.sub(lambda place: said[place[1]], phrase)

    def _part(self, name: str, text: str, depth: int) -> str:
        if name == "amount":
            return self._amount(text)
        number = _NUMBER.fullmatch(text)
        if number is not None and (name in _NUMBERS or "," in number[1]):
            return self._number(number)
        if name == "rest":  # for example `, 4 hours at most, until 5 Dec 2026`
            return self._strung(text, ", ", depth + 1) or text
        return self._of(text, depth) or text

    def _number(self, match: re.Match[str]) -> str:
        """Reformat `1,204.5 s` for the reader's language; a number without thousands separators stays without."""
        thousands, decimal = self._locale.thousands, self._locale.decimal
        behind = f"{decimal}{match[2]}" if match[2] else ""
        return f"{match[1].replace(',', thousands)}{behind}{match[3]}"

    def _amount(self, text: str) -> str:
        match = _AMOUNT.fullmatch(text)
        if match is None:
            return text
        number = _NUMBER.fullmatch(match[1] or "")
        amount = match[1] if number is None else self._number(number)
        return " ".join(filter(None, (amount, self._translate(match[2] + match[3]))))

    def _date(self, text: str) -> str | None:
        """Translate the names of day and month in `Sat 21 Nov 2026 02:00 (UTC)`."""
        match = _DATE.fullmatch(text)
        if match is None:
            return None
        weekday = f"{self._translate(match[1])} " if match[1] else ""
        return f"{weekday}{match[2]} {self._locale.months[_MONTHS.index(match[3])]} {match[4]}{match[5]}"


def _told_apart(phrase: str) -> int:
    """Return the length of a phrase's fixed text: the most specific phrases are tried first."""
    return len(_PLACE.sub("", phrase))


def _pattern(phrase: str) -> re.Pattern[str]:
    return re.compile("".join(_pieces(phrase)), re.DOTALL)


def _pieces(phrase: str) -> Iterator[str]:
    seen: set[str] = set()
    for at, piece in enumerate(_PLACE.split(phrase)):
        if at % 2 == 0:
            yield re.escape(piece)
        elif piece in seen:
            # A placeholder that occurs twice must hold the same text.
            yield f"(?P={piece})"
        else:
            seen.add(piece)
            yield f"(?P<{piece}>.*?)" if piece in {"rest", "more", "like", "once"} else f"(?P<{piece}>.+?)"
