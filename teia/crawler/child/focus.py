"""A focused crawl (A6): its topic, the relevance of pages and the scores of their links.

The topic is learnt once from the settings, and stored with the collection as `focus.json`. Examples are files, or pages
that the collection holds. Both may change or disappear, and the order of a crawl must not follow them. So the learnt
model is stored, and learnt again only when the settings name other words or examples. The file is readable: it gives
the weight of each word. Example pages are pages like any other: a parse child reads them.

Parse children judge pages. A relevant page vouches for its links (the radius-1 hypothesis of Chakrabarti et al., 1999).
An irrelevant page passes on half of its relevance or of its own score, whichever is greater, so a promise fades on the
way. The words of a link, in its text and in its URL, count as much as the page that contains it.

Soft focus changes only the order. Hard focus drops links to which more than `tunnel` consecutive irrelevant pages lead,
including the page that contains them. Page requisites are never dropped. URLs that only a sitemap names always are: a
sitemap has no topic, and names everything. The fate of an irrelevant page's links depends on the number of such pages
before it. So when a shorter path to the page is found, it is fetched again (frontier/cell/trails.py).

Only focused crawls load this module, because it imports all the code that parses pages.
"""

from __future__ import annotations

import asyncio
import mimetypes
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import msgspec

from teia.clock import Clock
from teia.config.sections import Config, FocusSettings
from teia.crawler.child.messages import Focus, FocusJudgement, FoundLink, encode
from teia.crawler.lookup import Lookup
from teia.durable import disk_errors, write_atomically
from teia.errors import ConfigError, CorruptFile, StoreError, WrongValue
from teia.frontier.cell.schema import AS_SITEMAP, BY_REQUISITE, BY_SITEMAP
from teia.frontier.queue.order import NO_KIND, TOP_SCORE, Hint
from teia.lib.topic import MAX_TEXT_CHARS, SCALE, TopicModel, learn_topic, stems
from teia.lib.undecodable import UNDECODABLE
from teia.parse.children.child import Job, LostAnswer
from teia.parse.children.pool import ChildLimits, ChildPool
from teia.parse.headers import parse_head
from teia.parse.parse import parse_document
from teia.parse.text.normal import normalised
from teia.records import Page
from teia.store.root import CollectionFolder, Root

FILE_NAME = "focus.json"
MAX_EXAMPLES = 1_000
MAX_EXAMPLE_BYTES = 4 << 20
MAX_KINDS = 30
OTHERS = "others"
"""Name of the class of examples without a name."""

_NAMED = re.compile(r"([a-z][a-z0-9_-]{0,30})=(.+)")


class LearntTopic(msgspec.Struct, frozen=True):
    """The file: the learnt model, and the settings it was learnt from."""

    words: tuple[str, ...]
    examples: tuple[str, ...]
    others: tuple[str, ...]
    classes: tuple[str, ...]
    rest: tuple[int, ...]
    weights: dict[str, tuple[int, ...]]

    def matches(self, settings: FocusSettings) -> bool:
        current = (settings.words, settings.examples, settings.others)
        return current == (self.words, self.examples, self.others)


@dataclass(frozen=True, slots=True)
class TopicExample:
    """A page to learn from: a file, or a URL of the collection. `kind` is its class, empty for the topic."""

    kind: str
    path: Path | None
    url: str = ""

    @property
    def name(self) -> str:
        return str(self.path or self.url)


# ---- settings -------------------------------------------------------------------------------------------------------


def check_focus(config: Config) -> None:
    """Raise ConfigError for settings from which nothing can be learnt."""
    focus = config.focus
    if not focus.words and not focus.examples:
        raise ConfigError(
            "order = 'focused' has no topic: set keywords in focus.words, or example pages in focus.examples and"
            " focus.others"
        )
    if focus.examples and not focus.others:
        raise ConfigError(
            "focus.examples requires example pages of other topics (focus.others): examples alone cannot separate"
            " the topic from its language"
        )
    for word in focus.words:
        if not stems(normalised(word)):
            raise WrongValue("focus.words", word, "must contain a word of three letters or more")
    if not config.parse.text:
        raise ConfigError("order = 'focused' needs the text of pages: set parse.text to true")


def examples_of(settings: FocusSettings) -> list[TopicExample]:
    """Return the example pages that the settings name, in their order; ConfigError for one that is missing."""
    found = [each for entry in settings.examples for each in _examples("", entry, "examples")]
    for entry in settings.others:
        match = None if _is_url(entry) else _NAMED.fullmatch(entry)
        kind, what = (match[1], match[2]) if match else (OTHERS, entry)
        if kind == "topic":
            raise WrongValue("focus.others", entry, "the name 'topic' is reserved; choose another")
        found += _examples(kind, what, "others")
    if len({each.kind for each in found}) > MAX_KINDS:
        raise ConfigError(f"focus.others: more than {MAX_KINDS} classes of pages")
    if len(found) > MAX_EXAMPLES:
        raise ConfigError(f"focus.examples and focus.others: more than {MAX_EXAMPLES:,} pages")
    return found


def _is_url(entry: str) -> bool:
    return entry.startswith(("http://", "https://"))


def _examples(kind: str, entry: str, key: str) -> list[TopicExample]:
    if _is_url(entry):
        return [TopicExample(kind, None, entry)]
    path = Path(entry).expanduser()
    if path.is_dir():
        paths = sorted(each for each in path.iterdir() if each.is_file() and not each.name.startswith("."))
    else:
        # pathlib expands a pattern only below a folder, so that begins at the root.
        paths = [path] if path.is_file() else sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
    files = [each for each in paths if each.is_file()]
    if not files:
        raise ConfigError(f"focus.{key} = {entry!r}: is neither a file nor a URL")
    return [TopicExample(kind, each) for each in files]


# ---- learning -------------------------------------------------------------------------------------------------------


def focus_of(root: Root, config: Config, clock: Clock) -> Focus:
    """Return the topic of a collection whose order is focused; learn it if that was not done yet."""
    check_focus(config)
    settings = config.focus
    path = _file(root.collection(config.collection.name))
    learnt = _load(path)
    if learnt is None or not learnt.matches(settings):
        write_atomically(path, data := learn_topic_file(root, config, clock))
        learnt = msgspec.json.decode(data, type=LearntTopic)
    threshold = round(settings.threshold * SCALE)
    return Focus(learnt.classes, learnt.rest, learnt.weights, settings.mode == "hard", settings.tunnel, threshold)


def _file(folder: CollectionFolder) -> Path:
    return folder.path / FILE_NAME


def _load(path: Path) -> LearntTopic | None:
    if not path.exists():
        return None
    with disk_errors(path, "read"):
        data = path.read_bytes()
    try:
        return msgspec.json.decode(data, type=LearntTopic)
    except UNDECODABLE as error:
        raise CorruptFile(path, f"{error}; delete it to train the topic again") from error


def learn_topic_file(root: Root, config: Config, clock: Clock) -> bytes:
    """Learn the topic that the settings describe; return the content of the file."""
    check_focus(config)
    settings = config.focus
    examples = examples_of(settings)
    texts = _texts(root, config, examples, clock)
    of_kind: dict[str, list[str]] = {}
    for example, text in zip(examples, texts, strict=True):
        of_kind.setdefault(example.kind, []).append(text)
    topic = of_kind.pop("", [])
    model = learn_topic([normalised(word) for word in settings.words], topic, of_kind)
    current = (settings.words, settings.examples, settings.others)
    learnt = LearntTopic(*current, model.classes, model.rest, dict(model.weights))
    return msgspec.json.format(msgspec.json.encode(learnt), indent=1) + b"\n"


def _texts(root: Root, config: Config, examples: Sequence[TopicExample], clock: Clock) -> list[str]:
    """Read the examples in a thread with its own event loop, because the caller may or may not run one."""
    if not examples:
        return []
    answers = [_answer(root, config, example) for example in examples]
    pool = ChildPool(example_reader, 1, ChildLimits.from_settings(config.limits), clock)
    with ThreadPoolExecutor(1, "learning") as thread:
        texts = thread.submit(asyncio.run, _read_all(pool, answers)).result()
    for example, text in zip(examples, texts, strict=True):
        if isinstance(text, LostAnswer) or not stems(text):
            why = f"cannot be read ({text.reason})" if isinstance(text, LostAnswer) else "contains no text"
            raise ConfigError(f"focus: the example {example.name} {why}")
    return [text for text in texts if not isinstance(text, LostAnswer)]


async def _read_all(pool: ChildPool, answers: Sequence[bytes]) -> list[str | LostAnswer]:
    await pool.start()
    try:
        loop = asyncio.get_running_loop()
        waiting: list[asyncio.Future[bytes | LostAnswer]] = [loop.create_future() for _ in answers]
        for answer, future in zip(answers, waiting, strict=True):
            pool.submit(answer, done=future.set_result)
        done = await asyncio.gather(*waiting)
    finally:
        await pool.close()
    return [each if isinstance(each, LostAnswer) else each.decode() for each in done]


def _answer(root: Root, config: Config, example: TopicExample) -> bytes:
    """Return an example in the form that a child takes: media type and body."""
    if example.path is not None:
        with disk_errors(example.path, "read"), example.path.open("rb") as file:
            body = file.read(MAX_EXAMPLE_BYTES)
        return encode((mimetypes.guess_type(example.path.name)[0] or "", body))
    name = config.collection.name
    try:
        with Lookup(root, name) as lookup:
            stored = lookup.capture(example.url)
    except StoreError as error:
        raise ConfigError(
            f"focus: the example {example.url} is not in {name} ({error}); crawl it first, or save it as a file"
        ) from error
    return encode((parse_head(stored.head).headers.first("content-type"), stored.payload[:MAX_EXAMPLE_BYTES]))


def example_reader() -> Job:
    """Return the job of children that read examples."""
    return read_example


def read_example(payload: bytes) -> bytes:
    """Return the words of one example, without case and accents; runs in a child."""
    media_type, body = msgspec.msgpack.decode(payload, type=tuple[str, bytes])
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\n\r\n" if media_type else "HTTP/1.1 200 OK\r\n\r\n"
    page = parse_document("http://example.invalid/", head.encode("latin-1", "replace"), body).page
    return normalised(f"{page.title}\n{page.text}").encode("utf-8", "replace")


# ---- the relevance of a page and the scores of its links -------------------------------------------------------------


MAX_ANCHORS = 4_096
"""Number of link texts whose score a child caches; menus are on every page of a site."""

FADING = 0.5
LINK_SHARE = 0.5
"""Share of a link's score that its own words give; the page that contains it gives the rest."""

ONLY_SITEMAPS = BY_SITEMAP | AS_SITEMAP

assert SCALE == TOP_SCORE, "relevance and scores are in the same unit"


@dataclass(frozen=True, slots=True)
class CompiledFocus:
    """A `Focus` made ready for use."""

    focus: Focus
    model: TopicModel
    score_of: Callable[[str], int | None]


def compile_focus(focus: Focus) -> CompiledFocus:
    model = TopicModel(focus.classes, focus.rest, focus.weights)
    return CompiledFocus(focus, model, lru_cache(maxsize=MAX_ANCHORS)(partial(_words_score, model=model)))


def judge(
    compiled: CompiledFocus, hint: Hint, page: Page, links: list[FoundLink], *, is_redirect: bool = False
) -> FocusJudgement:
    """Judge a page and its links, given the hint under which it was fetched. Hard focus removes links from `links`."""
    # With hard focus, a path with fewer irrelevant pages could save links of this page.
    is_far = compiled.focus.hard and hint.off_topic > 0
    if is_redirect:
        return FocusJudgement(0, NO_KIND, hint.off_topic, is_far, [hint.score] * len(links))
    judgement = compiled.model.judge(normalised(f"{page.title}\n{page.text[:MAX_TEXT_CHARS]}"))
    relevance, kind = judgement or (0, NO_KIND)
    is_relevant = relevance >= compiled.focus.threshold
    off_topic = 0 if is_relevant else hint.off_topic + 1
    promised = relevance if is_relevant else round(FADING * max(relevance, hint.score))
    if compiled.focus.hard:
        is_open = off_topic <= compiled.focus.tunnel
        links[:] = [link for link in links if link.by & BY_REQUISITE or (is_open and link.by & ~ONLY_SITEMAPS)]
    scores = [_link_score(compiled, link, promised, hint.score) for link in links]
    return FocusJudgement(relevance, kind, off_topic, is_far and not is_relevant, scores)


def _link_score(compiled: CompiledFocus, link: FoundLink, promised: int, of_page: int) -> int:
    # A requisite is needed whatever its words are.
    if link.by == BY_REQUISITE:
        return of_page
    own = compiled.score_of(f"{link.text} {link.tail}")
    return promised if own is None else round((1 - LINK_SHARE) * promised + LINK_SHARE * own)


def _words_score(text: str, model: TopicModel) -> int | None:
    judgement = model.judge(normalised(text))
    return None if judgement is None else judgement.score
