"""Translation of English sentences with inserted values, written by other modules (`|translate_sentence`).

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
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_MAX_DEPTH = 5
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
        _("robots.txt disallows it"),
        _("it looks like a trap"),
        _("it looks like a trap: {why}"),
        _("its host or site has reached its limit of requests or bytes"),
        _("its host was treated as an alias of another site; it is queued again"),
        _("the address of its host is blocked (see --allow-net)"),
        _("the collection does not store its type"),
        _("it was out of scope; the next crawl checks it again"),
        _("failed ({outcome}), {times}; no more retries"),
        _("failed {times} ({outcome}), next attempt at {time}"),
        _("failed {times} ({outcome}), next attempt due"),
        *(_("once"), _("{n} times")),
        _("{why}; it will not be fetched"),
        _("next in the queue; fetched when a crawl runs"),
        _("it is out of scope: {why}"),
        _("it would be treated as a trap ({why})"),
        _("no fetched page links to it"),
        _("the scope rules cannot be evaluated: {why}"),
        _("its depth of {n} is above scope.max_depth = {most}"),
        _("its language is {language}"),
        _("its host is parked: {why}"),
        _("delay of its host until {time}"),
        _("it may be a trap and is queued last: {why}"),
        _("queued behind 1 URL of its host"),
        _("queued behind {n} URLs of its host"),
        _("queued behind {n} or more URLs of its host"),
        _("its host is an alias of {host}: see {url}"),
        _("longer than {n} characters"),
        _("more than {n} path segments"),
        _("showing {n} of {total} pages that link here"),
        _("pages that are not indexed yet may link here too: {n}"),
        _("only the first {n} pages of the archive were searched for links"),
        _("a soft 404: it resembles the response of its host for a nonexistent page{like}, so it is not indexed"),
        _("{url} is not known in {collection}: {why}"),
        _("did you mean {what}"),
        _("did you mean {what}?"),
        _("`teia export urls --data {path}` lists all"),
        _("{url} is not fetched: {why}"),
        _("asked to"),
        _("robots.txt asks for a Crawl-delay of {n} s"),
        _("only {n} MiB are free at {path}; fetching resumes at {enough} MiB"),
    )


def _trying(_: Translate) -> tuple[str, ...]:
    """Return the steps of the URL tester (collections/preview_url.py)."""
    return (
        _("it is not an http or https URL"),
        _("port {port} is not allowed"),
        _("excluded by rule {n}: {rule}"),
        _("included by rule {n}: {rule}"),
        _("it is a seed"),
        _("its file extension is of a type that is not stored"),
        _("it has a query string, and those are not followed"),
        _("no rule includes it"),
        _("everything is included"),
        _("it is on the host of a seed: {rule}"),
        _("robots.txt is ignored"),
        _("robots.txt was not fetched yet"),
        _("robots.txt could not be fetched, so nothing is allowed"),
        _("robots.txt allows it"),
        _("its host is an alias of {host}"),
        _("its depth is {n}, and the maximum is {most}"),
        _("{rule} excludes it"),
        _("it has a query string"),
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
        _("{key} has its own field above"),
        _("{key} is fixed when a collection is created"),
        _("the include rule {rule} needs the scope “my rules”"),
        _("refers to files or code on the server; set it there with `teia set`"),
        _("{name} cannot be the name of a collection; choose another"),
        _(
            "{name} cannot be the name of a collection: use only a-z, 0-9, _ and -; start with a letter or digit;"
            " 63 characters at most"
        ),
        _("{name} cannot be the name of a collection: the data folder contains a file of that name; choose another"),
        _("at least one seed is required, such as https://example.org/"),
        _("{n} seeds exceed the maximum of {most}"),
        _("the delay between requests is below {n} s"),
        _("parallel requests are sent to one host"),
        _("a collection named {name} already exists"),
        _("an admin must approve this: {what}"),
        _("enter who approved this; it is logged"),
        _("{what}: enter in `consent` who approved it; it is logged"),
        _("this requires the role admin: {what}"),
        _("{key} cannot be changed: it was fixed when the collection was created"),
        _("the running crawl of {name} rejected it: {why}"),
        _(
            "the settings of {name} were saved, but its crawl did not respond in time; check whether its process is"
            " stopped"
        ),
    )


def _rules(_: Translate) -> tuple[str, ...]:
    """Return errors and likely mistakes of rules (frontier/rules/scope.py, lint.py)."""
    return (
        _("scope rule {rule}: {why}"),
        _("scope rules: nested too deeply"),
        _("{n} rules exceed the maximum of {most}; use a rule file on the server: @FILE"),
        _("refers to a file or code on the server; set it there with `teia set`"),
        _("uses look-ahead or look-behind; use two rules instead, such as and(regex:A, not(regex:B)) ({where})"),
        _("uses a back-reference; write out the alternatives ({where})"),
        _("uses an atomic group or a possessive quantifier; use (?:…) and a plain quantifier ({where})"),
        _("uses an unknown flag; i, m and s are supported ({where})"),
        _("repeats more than 1,000 times, possibly by nested repetitions ({where})"),
        _("is too large; use fewer or smaller repetitions, or several rules"),
        _("the regular expressions are too large together; use fewer or smaller repetitions"),
        _("not tested: the rules took too long for the URLs before it"),
        _("must name a media type"),
        _("must name a language"),
        _("{kind} must be a rule of its own in the include list, because it is checked after the response"),
        _("list must be a rule of its own, with a file"),
        _("must be KIND:VALUE, where KIND is one of {kinds}"),
        _("{operator} needs {what} in parentheses"),
        *(_("one rule"), _("rules")),
        _("must be a host name, such as example.org"),
        _("must be an http or https URL"),
        _("must be query:no or query:yes"),
        _("these rules only exclude: all other linked sites belong to the collection"),
        _("host:{name} does not match {other}; domain:{name} does"),
        _("rule {n} has no effect: rule {other}, {rule}, covers it completely"),
        _("rule {n} has no effect: rule {other}, {rule}, excludes it completely"),
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
        _("{n} known pages of {host} at one every {delay} s take {span}: runs will stop before they are complete"),
        _("is before schedule.start = {start}, so no run would start"),
        _("is longer than schedule.every = {every}; a run must end before the next one starts"),
        _("unknown time zone; {hint}"),
        _("write it like America/Sao_Paulo, or UTC"),
        _("must be {once}a number of {units}, such as 7 days"),
        _("once, or "),
        _("must be between 1 and {amount}"),
        _("must be between {low} and {high}"),
        _("must be a date and time, such as {example} ({why})"),
        _("write it like {example}; set the time zone in schedule.zone"),
        _("a run is due, but no crawler is running: start `{command}`"),
        _("no crawler is waiting for the next run: start `{command}`"),
        *(_("second"), _("seconds"), _("minute"), _("minutes"), _("hour"), _("hours")),
        *(_("day"), _("days"), _("week"), _("weeks"), _("month"), _("months")),
        *(_("Mon"), _("Tue"), _("Wed"), _("Thu"), _("Fri"), _("Sat"), _("Sun")),
        *(_("Monday"), _("Tuesday"), _("Wednesday"), _("Thursday"), _("Friday"), _("Saturday"), _("Sunday")),
    )


def _refusals(_: Translate) -> tuple[str, ...]:
    """Return refusals, and the actions suggested instead (web/server, web/access, web/pages)."""
    return (
        _("unknown token"),
        _("create one under Settings > Tokens"),
        _("this requires the role {role}"),
        _("this requires the role {role}; your role is {own}"),
        *(_("viewer"), _("operator"), _("admin")),
        *(_("ask an admin"), _("sign in"), _("try again"), _("try again in a moment")),
        _("this request was sent by a page of another site"),
        _("this form has expired"),
        _("reload the page and repeat the action"),
        _("wrong user name or password"),
        _("too many attempts; try again in {n} s"),
        _("this invitation was already used, or is older than ten minutes"),
        _("a user named {name} already exists"),
        _("there is no user {name}"),
        _("the old password is wrong"),
        _("{name} is the only admin; create another one first"),
        _("there are already {n} tokens; remove some first"),
        _("{user} already has a token {name}"),
        _("{user} has no token {name}"),
        _("a name must have 1 to {n} letters, digits, - and _"),
        _("a password must have {least} to {most} characters"),
        _("a token has no password; sign in to change one"),
        _("the account was removed during sign-up"),
        _("{word} is not a role; choose viewer, operator or admin"),
        _("internal error (event {event}); the crawl is not affected"),
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
        _("{path} contains no collection yet"),
        _("sign in to read captures of {name}"),
        _("nothing to search yet: no collection has an index"),
        _("{url} is not an http or https URL; write it like https://example.org/page"),
        _("{url} is not an http or https URL"),
        _("time: {time} is not a time; write it like 2026-11-04T06:12:00Z"),
        _("choose two versions to compare"),
        _("there is no capture of {url} in {name}"),
        _("there is no capture of {url} at that time in {name}"),
        _("the capture of {url} could not be read in time"),
        _("the capture of {url} cannot be read ({why})"),
        _("too many captures are being read"),
        _("the capture of {url} refers to an earlier one that is not in {name}"),
        _("unknown host {host}; write the name as in URLs, without the port"),
        _("no crawl of {name} is running"),
        _("this server starts no crawler (--no-crawler)"),
        _("type the name {name} to remove it; nothing was removed"),
        _("process {pid} is crawling this folder; stop it first"),
        _("unknown report {name}; available: {names}"),
        _("too many SQL queries are running"),
        _("the query took longer than {n} s; narrow it, e.g. with WHERE host = …"),
        _("the query needs more than {n} MiB of memory; narrow it, e.g. with WHERE host = …"),
        _("the result is larger than {n} MiB; select fewer columns, or narrow it with LIMIT"),
        _("the query is longer than {n} characters"),
        _("stopped after {n} s: there are too many URLs; query `fetches`, or use teia sql"),
        _("it exited with status {n}"),
        _("at this delay a full pass takes {span}"),
        _("{n} of the pages cannot be revisited within a week"),
        _("a delay of {n} s would be short enough"),
        _("no delay would be short enough, its responses are too slow"),
        _("{name} was crawled without an index; {hint}"),
        *(_("the URL is too long"), _("too many requests"), _("at most {n} bytes are accepted")),
        *(_("too many requests at the same time"), _("a request must have exactly one Host header")),
        _("this server does not accept requests for {host}"),
        _("{name} has no index yet; crawl some pages first, or {hint}"),
    )


def _lab(_: Translate) -> tuple[str, ...]:
    """Return errors of the lab's forms, and results of runs (web/background/lab, web/pages/lab)."""
    return (
        _("must be a whole number from {low} to {high}"),
        _("must be a number from {low} to {high}"),
        _("must be uniform, or zipf:X with a number X from 0 to 99"),
        _("must be at most the {n} pages"),
        _("{n} visits exceed the maximum of a run: choose at most {days} days"),
        _("unknown policy {name}; available: {names}"),
        *(_("choose at least one"), _("choose one")),
        _("choose {low} to {high} runs to compare, not {n}"),
        _("choose runs of one kind: simulations, what-ifs, plans, or experiments"),
        _("choose a file, or enter pages here"),
        _("choose the file again: it is too long to be displayed here"),
        _("the file is not UTF-8 text"),
        _("must be empty, example, or the number of a stored run of plans"),
        _("is required where servers have no delay"),
        _("{n} visits exceed the maximum of a plan: choose {hours} hours, or a budget"),
        _("line {n}: {why}"),
        _("{why} (and {n} more invalid rows)"),
        _("the header is missing {names}; columns are {needed} and optionally {optional}"),
        _("the header has {names}; columns are {needed} and optionally {optional}"),
        *(_("contains no pages"), _("{n} fields instead of {width}"), _("duplicate page {name}")),
        *(_("missing name of the page"), _("missing name of the server"), _("{name} is {value}, not a number >= 0")),
        _("{n} runs are already queued; cancel one, or try again later"),
        _("see /lab"),
        _("another server of this folder runs the lab; use that one"),
        _("there is no run {n} of the lab; only the newest {most} are stored"),
        *(_("run {n} has no report"), _("run {n} has no chart"), _("run {n} has no file {name}")),
        _("the server stopped before the run finished"),
        _("the server stopped before the run started"),
        _("stopped after {n} minutes"),
        _("it needed more memory than the {n} GiB of a run; choose a smaller size"),
        _("its output is larger than a report can be"),
        _("it exited with status {n} without a message"),
        _("no page was visited twice yet, so no change rates are known; run {command} for a while"),
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
        _("removed from the queue by a user"),
        _("its host is paused by an operator"),
        _("paused by an operator"),
        _("robots.txt of {host} was not fetched yet; it is fetched before its first page"),
        _("{text} must be a number of seconds from {least} to {most}"),
        _("{text} must be a whole number from {low} to {high}"),
        _("the usual delay is {n} s"),
        _("enter who approved a shorter delay, it is logged"),
        _("there is no such alert now"),
        _("{n} URLs exceed the maximum of {most} at a time"),
        _("enter at least one URL, such as https://example.org/page"),
        _("an audit is already running; start the next one when it has finished"),
        _("{n} exports are already running"),
        *(_("this requires the scope {scope}; the token has {scopes}"), _("create another token")),
        _("choose at least one scope for the token: {scopes}"),
        _("a token cannot grant scopes that it does not have: {scopes}"),
        _("unknown time zone {text}; write it like America/Sao_Paulo"),
        _("try again when one has finished"),
        _("{n} actions on {collection} are already pending; wait until they are done"),
        _("pages that are kept fresh cannot be dropped; exclude them from the scope instead"),
        _("the search text for URLs may have at most {n} characters"),
    )


class Phrases:
    """Translator of English sentences into one language."""

    def __init__(self, translate: Translate, locale: Locale) -> None:
        self._translate, self._locale = translate, locale
        known = phrases(lambda text: text)
        self._fixed = frozenset(text for text in known if "{" not in text)
        with_values = sorted((text for text in known if "{" in text), key=_fixed_length, reverse=True)
        self._with_values = [(_pattern(text), text) for text in with_values]
        # One cache per object: a decorator on the method would keep every translator alive.
        self.translate = lru_cache(2_000)(self._translate_sentence)

    def _translate_sentence(self, text: str) -> str | None:
        """Translate a sentence; return None if no phrase matches it."""
        return self._translate_nested(text[:MAX_CHARS], _MAX_DEPTH)

    def _translate_nested(self, text: str, depth: int) -> str | None:
        # gettext returns the text itself if it has no translation.
        known = self._translate(text) if text else ""
        if known != text or text in self._fixed:
            return known
        for pattern, phrase in self._with_values if depth else ():
            match = pattern.fullmatch(text)
            filled = match and self._fill(self._translate(phrase), match.groupdict(), depth - 1)
            if filled is not None:
                return filled
        return self._date(text) or (self._translate_joined(text, "; ", depth) if depth else None)

    def _translate_joined(self, text: str, by: str, depth: int) -> str | None:
        """Translate joined sentences; return None if none of them is known."""
        parts = text.split(by)
        translated = [self._translate_nested(part, depth - 1) for part in parts] if len(parts) > 1 else []
        if all(each is None for each in translated):
            return None
        return by.join(part if each is None else each for part, each in zip(parts, translated, strict=True))

    def _fill(self, phrase: str, parts: dict[str, str], depth: int) -> str | None:
        """Insert translated values into a phrase.

        Return None if the phrase has no words of its own and none of its values can be translated.
        """
        translated = {name: self._part(name, text, depth) for name, text in parts.items()}
        if translated == parts and not re.search(r"\w", _PLACEHOLDER.sub("", phrase)):
            return None
        return _PLACEHOLDER.sub(lambda placeholder: translated[placeholder[1]], phrase)

    def _part(self, name: str, text: str, depth: int) -> str:
        if name == "amount":
            return self._amount(text)
        number = _NUMBER.fullmatch(text)
        if number is not None and (name in _NUMBERS or "," in number[1]):
            return self._number(number)
        if name == "rest":  # for example `, 4 hours at most, until 5 Dec 2026`
            return self._translate_joined(text, ", ", depth + 1) or text
        return self._translate_nested(text, depth) or text

    def _number(self, match: re.Match[str]) -> str:
        """Reformat `1,204.5 s` for the reader's language; a number without thousands separators stays without."""
        thousands, decimal = self._locale.thousands, self._locale.decimal
        decimals = f"{decimal}{match[2]}" if match[2] else ""
        return f"{match[1].replace(',', thousands)}{decimals}{match[3]}"

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


def _fixed_length(phrase: str) -> int:
    """Return the length of a phrase's fixed text: the most specific phrases are tried first."""
    return len(_PLACEHOLDER.sub("", phrase))


def _pattern(phrase: str) -> re.Pattern[str]:
    return re.compile("".join(_pieces(phrase)), re.DOTALL)


def _pieces(phrase: str) -> Iterator[str]:
    seen: set[str] = set()
    for at, piece in enumerate(_PLACEHOLDER.split(phrase)):
        if at % 2 == 0:
            yield re.escape(piece)
        elif piece in seen:
            # A placeholder that occurs twice must hold the same text.
            yield f"(?P={piece})"
        else:
            seen.add(piece)
            yield f"(?P<{piece}>.*?)" if piece in {"rest", "more", "like", "once"} else f"(?P<{piece}>.+?)"
