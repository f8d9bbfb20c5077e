"""Rates and counts for thousands of millions of pages, on any library of `arrays`.

The plans are those of `intensities` and `counts`, ties included, for pages without ages and sizes. Those modules know
every kind of page and keep the columns of one block in a processor's cache; this one reads the columns as seldom as
possible. `RefreshWorld.device` chooses between them.

The pages of each server are cut into tiles of `WIDTH`. A kernel computes a value of every page of many tiles and adds
up those of each tile, so a pass over all pages reads the columns once and writes one number for a tile. Thresholds are
found for all servers at once (`threshold.narrow`), on the device. A column may have numbers of 4 octets; all arithmetic
has 8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from teia.errors import UsageError
from teia.refresh.arrays import Array, Arrays, open_arrays
from teia.refresh.formulas import CURVES, Objective, added_freshness, gap_from_table, gap_table
from teia.refresh.model import Numbers, RefreshWorld
from teia.refresh.threshold import Bracket, Flags, is_solved, narrow

WIDTH: Final = 64
"""Number of pages in a tile. The last tile of a server may have fewer; its other places are computed in vain."""

ALIGNED: Final = 16
"""Number of pages to which the beginning of a part of a column is rounded down; the compiler copies others first."""

FEW_CANDIDATES: Final = 4
CANDIDATES: Final = 1 / 256
"""A group with no more undecided visits than this, as a number or as a share of its pages, is settled by sorting."""

MOST: Final = 2.0**62
"""Number of visits of a page where nothing limits them."""

Kernel = Callable[..., Array]
Chunk = tuple[slice, slice]
"""The tiles of a part, and its pages."""


@dataclass(slots=True, eq=False)
class LargePages:
    """Pages as columns of a library, server by server; `passes` counts how often all of them were read.

    `page` are ids, where they are not the places in the columns; they decide between visits of equal gain.
    """

    arrays: Arrays
    starts: Array
    rate: Array
    weight: Array
    horizon_s: float
    page: Array | None = None
    passes: float = 0.0
    _tile_starts: Array = field(init=False)
    _server: Array = field(init=False)
    _first: Array = field(init=False)
    _length: Array = field(init=False)
    _chunks: list[Chunk] = field(init=False)
    _constants: tuple[Array, ...] = field(init=False)
    _kernels: dict[tuple[Kernel, bool], Kernel] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        arrays, xp = self.arrays, self.arrays.xp
        lengths = xp.diff(self.starts)
        per_server = (lengths + (WIDTH - 1)) // WIDTH
        self._tile_starts = xp.concatenate((arrays.full(1, 0, xp.int64), xp.cumsum(per_server, 0)))
        self._server = arrays.cast(arrays.repeat(arrays.arange(len(lengths)), per_server), xp.int32)
        tiles = len(self._server)
        done = (arrays.arange(tiles) - self._tile_starts[self._server]) * WIDTH
        self._first = self.starts[self._server] + done
        self._length = xp.clip(lengths[self._server] - done, max=WIDTH)
        cuts = list(range(0, tiles, max(1, arrays.pages_at_once // WIDTH)))
        begins = arrays.to_numpy(self._first[arrays.array(cuts)]).tolist()
        self._chunks = [
            (slice(cut, next_cut), slice(begin, next_begin))
            for cut, next_cut, begin, next_begin in zip(
                cuts, [*cuts[1:], tiles], begins, [*begins[1:], len(self)], strict=True
            )
        ]
        self._constants = (*map(arrays.array, gap_table()), arrays.full(1, self.horizon_s, xp.float64)[0])

    @classmethod
    def from_world(cls, world: RefreshWorld, visits_per_s: float) -> LargePages:
        """Move a world to its device; UsageError for pages that only the processor's plans know."""
        if world.has_ages or any(cost is not None for cost in (world.server_costs, world.crawler_costs(visits_per_s))):
            raise UsageError(
                f"device {world.device} plans pages without ages, and without sizes that make a visit cost more than "
                "one; use the device cpu"
            )
        arrays = open_arrays(world.device)
        starts, rate, weight, page = map(arrays.array, (world.starts, world.rate, world.weight, world.page))
        return cls(arrays, starts, rate, weight, world.horizon_s, page)

    def __len__(self) -> int:
        return len(self.rate)

    @property
    def servers(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Array:
        """The number of pages of each server."""
        return self.arrays.cast(self.arrays.xp.diff(self.starts), self.arrays.xp.float64)

    def sums(
        self,
        kernel: Kernel,
        *values: Array,
        columns: Sequence[Array] = (),
        wanted: Array | None = None,
        scale: Array | None = None,
    ) -> Array:
        """Return the sum of the kernel's values over the pages of each server, times the server's `scale`.

        A kernel gets the rate and the weight of pages, and of `columns` and `values` what belongs to a page and to its
        server. Servers that are not wanted have 0. Sums of different sizes beside each other cost digits on a GPU, so
        the scale is applied before the last of the additions.
        """
        by_tile = self.arrays.full(len(self._server), 0.0, self.arrays.xp.float64)
        for tiles, pages in self._parts(wanted):
            by_tile[tiles] = self._run(kernel, tiles, pages, values, columns, summed=True)
        if scale is not None:
            by_tile *= scale[self._server]
        return self.arrays.stretch_sums(by_tile, self._tile_starts)

    def parts(
        self, kernel: Kernel, *values: Sequence[Array], columns: Sequence[Array] = ()
    ) -> Iterator[tuple[slice, list[Array]]]:
        """Yield parts of the pages, and the kernel's value of each page with each of `values`."""
        for part, pages in self._chunks:
            found = [self._run(kernel, part, pages, each, columns, summed=False) for each in values]
            if (part.stop - part.start) * WIDTH > pages.stop - pages.start:
                inside = self.arrays.arange(WIDTH) < self._length[part][:, None]
                found = [each[inside] for each in found]
            yield pages, [each.reshape(-1) for each in found]

    def _parts(self, wanted: Array | None) -> Iterator[tuple[Array | slice, slice | None]]:
        """Yield the tiles of wanted servers and the stretch of pages that they lie in; None for few, far apart."""
        if wanted is None:
            yield from self._chunks
            return
        places = self.arrays.places(wanted[self._server])
        if len(places) * WIDTH <= self.arrays.pages_at_once:
            if len(places):
                yield places, None
            return
        cuts = self.arrays.array([part.start for part, _ in self._chunks])
        begins = self.arrays.to_numpy(self.arrays.xp.searchsorted(places, cuts)).tolist()
        for (part, pages), begin, end in zip(self._chunks, begins, [*begins[1:], len(places)], strict=True):
            if begin < end:
                yield part if end - begin == part.stop - part.start else places[begin:end], pages

    def _run(
        self,
        kernel: Kernel,
        tiles: Array | slice,
        pages: slice | None,
        values: Sequence[Array],
        columns: Sequence[Array],
        *,
        summed: bool,
    ) -> Array:
        """Run a kernel on tiles; their pages are a stretch of the columns, or are gathered from anywhere."""
        if (kernel, summed) not in self._kernels:
            fused = self.arrays.fuse(_over_tiles(self.arrays, kernel, summed=summed), len(self))
            self._kernels[kernel, summed] = fused
        server, read = self._server[tiles], (self.rate, self.weight, *columns)
        self.passes += len(server) / len(self._server)
        if pages is None:
            first = self.arrays.arange(len(server)) * WIDTH
            index = self._first[tiles][:, None] + self.arrays.arange(WIDTH)
            index = self.arrays.xp.clip(index.reshape(-1), max=len(self) - 1)
            read = tuple(column[index] for column in read)
        else:
            base = pages.start // ALIGNED * ALIGNED
            first = self._first[tiles] - base
            read = tuple(column[base : pages.stop] for column in read)
        return self._kernels[kernel, summed](
            self._constants, first, self._length[tiles], read, [each[server] for each in values]
        )


def _over_tiles(arrays: Arrays, kernel: Kernel, *, summed: bool) -> Kernel:
    """Return a function that computes the kernel for every page of tiles, or the sum of each tile."""
    xp = arrays.xp

    def compute(
        constants: Sequence[Array], first: Array, length: Array, columns: Sequence[Array], values: Sequence[Array]
    ) -> Array:
        lanes = arrays.arange(WIDTH, first)
        inside = lanes < length[:, None]
        index = first[:, None] + xp.where(inside, lanes, 0)
        rate, weight, *others = [arrays.cast(column[index], xp.float64) for column in columns]
        # Pages that no visit helps compute with 1 instead of their limits, and then get nothing.
        of_use = inside & (rate > 0) & xp.isfinite(rate) & (weight > 0)
        rate, weight = xp.where(of_use, rate, 1.0), xp.where(of_use, weight, 1.0)
        found = kernel(xp, constants, rate, weight, *others, *(each[:, None] for each in values))
        found = xp.where(of_use, found, 0.0)
        return found.sum(1) if summed else found

    return compute


# ---- kernels --------------------------------------------------------------------------------------------------------


def _root(xp: Array, constants: Sequence[Array], rate: Array, weight: Array) -> Array:  # noqa: ARG001
    """Return the root of w lam / 2, in proportion to which short gaps are visited."""
    return xp.sqrt(weight * rate / 2)


@cache
def _rates(objective: Objective) -> Kernel:
    """Return the kernel of visits per second at a price."""

    def visits(xp: Array, constants: Sequence[Array], rate: Array, weight: Array, price: Array) -> Array:
        return CURVES[objective](price, weight, rate, xp, constants[:2])

    return visits


@cache
def _rates_between(objective: Objective) -> Kernel:
    """Return the kernel of visits per second that are a share of the way from those at one price to another's."""
    curve = _rates(objective)

    def visits(
        xp: Array, constants: Sequence[Array], rate: Array, weight: Array, low: Array, high: Array, share: Array
    ) -> Array:
        few = curve(xp, constants, rate, weight, high)
        return few + share * (curve(xp, constants, rate, weight, low) - few)

    return visits


def _count(xp: Array, constants: Sequence[Array], rate: Array, weight: Array, threshold: Array) -> Array:
    """Return the number of visits that gain at least the threshold; see `counts.VisitablePages.counts_at`."""
    span = rate * constants[2]
    z = threshold / (weight / span)
    y = span / gap_from_table(z, (constants[0], constants[1]), xp) - 1.0
    k = xp.clip(xp.floor(y), min=0.0)
    k = xp.where((y >= 0) & (added_freshness(span, k + 1, xp) >= z), k + 1, k)
    return xp.clip(k, max=MOST)


def _count_up_to(
    xp: Array, constants: Sequence[Array], rate: Array, weight: Array, most: Array, threshold: Array
) -> Array:
    return xp.minimum(_count(xp, constants, rate, weight, threshold), most)


def taken(xp: Array, constants: Sequence[Array], rate: Array, weight: Array, counts: Array) -> Array:  # noqa: ARG001
    """Return the column itself."""
    return counts


# ---- rates ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class LargeRates:
    """The visits per second of all pages, by two prices of each server that are the same except for rounding.

    Rates are `share` of the way from those at `price` to those at `low`.
    """

    pages: LargePages
    objective: Objective
    low: Array
    price: Array
    share: Array

    def write(self, out: Array) -> None:
        """Write the rate of each page into a column."""
        for pages, (found,) in self.pages.parts(_rates_between(self.objective), (self.low, self.price, self.share)):
            out[pages] = found


def plan_large_rates(
    pages: LargePages, limits: Array | None, limit: float, objective: Objective = "periodic"
) -> LargeRates:
    """Find the visits per second that are best in the long run, as `intensities.plan_intensities` does without floors.

    `limits` are those of the servers; None is politeness left out.
    """
    arrays, xp = pages.arrays, pages.arrays.xp
    kernel, roots = _rates(objective), pages.sums(_root)
    zeros = xp.zeros_like(roots)
    low, price, share, total = zeros, zeros, zeros, zeros + math.inf
    if limits is not None:
        relevant = (roots > 0) & (limits > 0)
        each = xp.where(relevant, limits, 1.0)
        state = narrow(
            lambda at, wanted: pages.sums(kernel, xp.exp(at), wanted=wanted, scale=1.0 / each),
            zeros + 1.0,
            _price_guess(xp, roots, each),
            is_solved,
            relevant,
            xp,
        )
        low, price = (xp.where(relevant, xp.exp(end), math.inf) for end in state.ends_at(1.0, xp))
        share = state.share_at(1.0, xp)
        total = xp.where(relevant, each * (state.few + share * (state.many - state.few)), 0.0)
    if float(total.sum()) <= limit:
        return LargeRates(pages, objective, low, price, share)

    def visits(at: Array, wanted: Flags) -> Array:  # noqa: ARG001  # there is one group
        # A server whose own price is higher makes the visits of its own limit.
        common = xp.exp(at) + zeros
        is_common = price <= common
        return xp.where(is_common, pages.sums(kernel, common, wanted=is_common), total).sum().reshape(1) / limit

    one = arrays.full(1, 1.0, xp.float64)
    state = narrow(visits, one, _price_guess(xp, roots.sum().reshape(1), one * limit), is_solved, one > 0, xp)
    common_low, common = (xp.exp(end) + zeros for end in state.ends_at(1.0, xp))
    own = price > common
    return LargeRates(
        pages,
        objective,
        xp.where(own, low, common_low),
        xp.where(own, price, common),
        xp.where(own, share, state.share_at(1.0, xp) + zeros),
    )


def _price_guess(xp: Array, roots: Array, limits: Array) -> Array:
    """Guess the price as a logarithm: where pages are visited often, a visit is worth w lam / 2 rho^2."""
    return xp.where(roots > 0, 2.0 * xp.log(xp.clip(roots, min=1e-300) / limits), 0.0)


# ---- counts ---------------------------------------------------------------------------------------------------------


def plan_large_counts(pages: LargePages, caps: Numbers | None, budget: int | None) -> Array:
    """Return the number of visits of each page, as `counts.plan_counts` does; `caps` None is politeness left out."""
    arrays, xp = pages.arrays, pages.arrays.xp
    roots = pages.sums(_root) * math.sqrt(pages.horizon_s)
    counts, total = None, math.inf
    if caps is not None:
        room = arrays.cast(arrays.array(caps), xp.float64)
        counts = arrays.full(len(pages), 0, _smallest_type(xp, float(room.max())))
        _Best(pages, _count, room, roots, (room > 0) & (roots > 0), counts).choose()
        total = float(pages.sums(taken, columns=(counts,)).sum())
    if budget is None or total <= budget:
        assert counts is not None
        return counts
    columns = () if counts is None else (counts,)
    counts = arrays.full(len(pages), 0, _smallest_type(xp, float(budget))) if counts is None else counts
    if budget == 0:
        return counts * 0
    one = arrays.full(1, 1.0, xp.float64)
    kernel = _count_up_to if columns else _count
    _Best(pages, kernel, one * budget, roots.sum().reshape(1), one > 0, counts, columns).choose()
    return counts


def _smallest_type(xp: Array, most: float) -> Array:
    """Return the type of the fewest octets that holds such a number of visits."""
    return xp.int16 if most < 1 << 15 else xp.int32 if most < 1 << 31 else xp.int64


@dataclass(slots=True, eq=False)
class _Best:
    """The best visits of each group of pages, as many as its target; a group is a server, or all pages if there is one.

    They are written into `counts`, which may be the column that limits them.
    """

    pages: LargePages
    kernel: Kernel
    target: Array
    roots: Array
    relevant: Array
    counts: Array
    columns: Sequence[Array] = ()

    def choose(self) -> None:
        xp = self.pages.arrays.xp
        state = narrow(self._visits, self.target, self._guess(), self._is_settled, self.relevant, xp)
        # An infinite threshold leaves the pages of a group that does not bind without visits.
        low, high = (self._spread(xp.where(self.relevant, xp.exp(end), math.inf)) for end in state.ends(xp))
        self._distribute_rest(*self._between(high, low))

    @property
    def _is_whole(self) -> bool:
        return len(self.target) == 1 and self.pages.servers > 1

    @property
    def _sizes(self) -> Array:
        lengths = self.pages.lengths
        return lengths.sum().reshape(1) if self._is_whole else lengths

    def _spread(self, per_group: Array) -> Array:
        """Return a value for each server."""
        return per_group + self.pages.lengths * 0.0 if self._is_whole else per_group

    def _visits(self, at: Array, wanted: Array) -> Array:
        threshold = self._spread(self.pages.arrays.xp.exp(at))
        if self._is_whole:
            return self.pages.sums(self.kernel, threshold, columns=self.columns).sum().reshape(1)
        return self.pages.sums(self.kernel, threshold, columns=self.columns, wanted=wanted)

    def _is_settled(self, state: Bracket, round_: int) -> Array:  # noqa: ARG002  # the same in every round
        return state.many - state.few <= self.pages.arrays.xp.clip(self._sizes * CANDIDATES, min=FEW_CANDIDATES)

    def _guess(self) -> Array:
        """Guess the threshold: for short gaps, gains are w lam T / 2 (x + 1)^2, so the sum of x determines it."""
        xp = self.pages.arrays.xp
        guess = 2.0 * xp.log(xp.clip(self.roots, min=1e-300) / xp.clip(self.target + self._sizes, min=1.0))
        return xp.where(self.roots > 0, guess, 0.0)

    def _between(self, high: Array, low: Array) -> tuple[Array, Array, Array]:
        """Write the visits at the high thresholds.

        Returns the places of the pages that have more visits at the low ones, the number of extra visits of each, and
        the visits of each group that were written.
        """
        arrays, xp = self.pages.arrays, self.pages.arrays.xp
        rows, extra = [], []
        for pages, (sure, many) in self.pages.parts(self.kernel, (high,), (low,), columns=self.columns):
            self.counts[pages] = arrays.cast(sure, self.counts.dtype)
            places = arrays.places(many > sure)
            rows.append(places + pages.start)
            extra.append((many - sure)[places])
        written = self.pages.sums(taken, columns=(self.counts,))
        return xp.concatenate(rows), xp.concatenate(extra), written.sum().reshape(1) if self._is_whole else written

    def _distribute_rest(self, row: Array, extra: Array, written: Array) -> None:
        """Distribute the visits between the two thresholds, best first."""
        arrays, xp = self.pages.arrays, self.pages.arrays.xp
        left = self.target - written
        group = row * 0 if self._is_whole else xp.searchsorted(self.pages.starts, row, side="right") - 1
        candidates = xp.bincount(group, weights=extra, minlength=len(left))
        # Many visits between two thresholds that cannot be narrowed further have equal gains: ids decide.
        has_equal_gains = (candidates > xp.clip(self._sizes, min=FEW_CANDIDATES)) & (candidates > left)
        for distribute, chosen in (
            (self._distribute_by_id, has_equal_gains[group]),
            (self._distribute_by_gain, ~has_equal_gains[group]),
        ):
            some = row[chosen]
            if len(some):
                more = distribute(some, extra[chosen], group[chosen], left)
                self.counts[some] = self.counts[some] + arrays.cast(more, self.counts.dtype)

    def _ids(self, row: Array) -> Array:
        return row if self.pages.page is None else self.pages.page[row]

    def _distribute_by_id(self, row: Array, extra: Array, group: Array, left: Array) -> Array:
        """Return the visits of pages whose visits all gain the same: the smaller id has as many as it can."""
        arrays, xp = self.pages.arrays, self.pages.arrays.xp
        order = arrays.order((self._ids(row), group))
        of_order, wanted = group[order], extra[order]
        before = xp.cumsum(wanted, 0) - wanted
        within = before - before[xp.searchsorted(of_order, of_order)]
        more = xp.zeros_like(extra)
        more[order] = xp.minimum(xp.clip(left[of_order] - within, min=0.0), wanted)
        return more

    def _distribute_by_gain(self, row: Array, extra: Array, group: Array, left: Array) -> Array:
        arrays, xp = self.pages.arrays, self.pages.arrays.xp
        times = arrays.cast(extra, xp.int64)
        page = arrays.repeat(arrays.arange(len(row)), times)
        rate, weight, sure = (
            arrays.cast(column[row], xp.float64)[page] for column in (self.pages.rate, self.pages.weight, self.counts)
        )
        span = rate * self.pages.horizon_s
        gain = weight / span * added_freshness(span, sure + self._ranks(times) + 1, xp)
        order = arrays.order((self._ids(row)[page], -gain, group[page]))
        of_order = group[page][order]
        chosen = self._ranks(xp.bincount(of_order, minlength=len(left))) < left[of_order]
        return xp.bincount(page[order][chosen], minlength=len(row))

    def _ranks(self, sizes: Array) -> Array:
        """Return 0, 1, … within each of consecutive stretches of these sizes."""
        arrays, ends = self.pages.arrays, self.pages.arrays.xp.cumsum(sizes, 0)
        return arrays.arange(int(ends[-1])) - arrays.repeat(ends - sizes, sizes)
