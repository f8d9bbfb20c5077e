"""Prior change rates of pages with few visits, from pages of the same kind, the same host, and all pages.

Ten visits leave an error of half the rate, and plans made from such rates are worse than none (docs/rates.md). So each
page begins from a Gamma prior: that of similar pages on its host (`page_type`: path template, depth, media type). That
prior is drawn towards the one of its host, which is drawn towards the one of all pages.

A group's prior is the Gamma distribution that fits the posteriors of its pages: the one with their mean and their mean
logarithm, which are sufficient for a Gamma's likelihood. Posteriors depend on the prior, so the fit is iterated (the EM
algorithm). A group of few pages has little evidence: its parent counts as `PARENT_PAGES` more pages. How many pages a
host counts for in the priors of its kinds is learnt: many if its kinds change alike, few if they do not.
"""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass

import numpy as np
import numpy.typing as npt

from teia.refresh.history import DAY_S, Histories
from teia.refresh.rates import FASTEST, SLOWEST, Flags, Floats, Gamma, estimate, fresh_probability_of, repeat_prior

Groups = npt.NDArray[np.int64]

WIDEST, NARROWEST = 0.3, 20.0
"""Limits of a prior's shape: rates that differ by orders of magnitude, and rates within a fifth of their mean."""

# Weight of the parent's prior in that of a group, in pages (docs/rates.md).
PARENT_PAGES = 5.0
LEAST_PARENT_PAGES = 1.0
USUAL_KINDS = 1.0
LONGEST_SHIFT = 2.0
ROUNDS = 10
LONGEST_STEP = 8.0

FIRST_CHANGES, FIRST_TIME_S = 0.5, 15 * DAY_S
"""Prior for a completely unknown web: a change a month, give or take a factor of ten."""

FIRST_INFORMATION = 0.2
"""Information of that prior on the logarithm of the mean rate of all pages: 1 / (ln 10) squared."""

MODEL_ERROR = 0.05
"""Standard deviation of the logarithm of all rates together, because pages need not change as a Poisson process."""

LONGEST_S = 365 * DAY_S
MAX_SEGMENTS = 3

_NO_SPREAD = 1e-6
_NUMBERS = re.compile(r"\d+")


def fit(found: Gamma, counts: Floats, group: Groups, parent: Gamma, parent_pages: float = PARENT_PAGES) -> Gamma:
    """Return the prior of every group; `group` numbers the group of each page, `parent` has one prior per group.

    `counts` is 1 for a page that has been observed, and 0 for one without observations. The parent counts as
    `parent_pages` more pages.
    """
    groups = parent.changes.size
    columns = (counts, counts * found.mean, counts * mean_log(found))
    sums = np.array([np.bincount(group, each, groups) for each in columns], dtype=np.float64)
    return fit_sums(sums, parent, parent_pages)


def fit_sums(sums: Floats, parent: Gamma, parent_pages: float = PARENT_PAGES) -> Gamma:
    """Like `fit`, from three rows of sums per group: pages, their mean rates, the means of their logarithms.

    The logarithm of the group's mean rate is drawn towards the parent's, because rates differ by factors: a few pages
    at the mean rate of all hosts would make a slow host look many times as fast. Its spread is drawn apart from that,
    because the distance of the two means is no spread within the group.
    """
    counts, rates, logs = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        log_mean = np.where(counts > 0.0, np.log(rates / counts), 0.0)
        spread = np.where(counts > 0.0, log_mean - logs / counts, 0.0)
    share, log_parent = parent_pages / (counts + parent_pages), np.log(parent.mean)
    mean = np.exp(log_mean + share * (log_parent - log_mean))
    spread = np.maximum(spread + share * (log_parent - mean_log(parent) - spread), _NO_SPREAD)
    # Minka's initial value for the root of ln a - digamma(a) = spread; it is within 1.5% of it.
    shape = (3.0 - spread + np.sqrt((spread - 3.0) ** 2 + 24.0 * spread)) / (12.0 * spread)
    shape = np.clip(shape, WIDEST, NARROWEST)
    return Gamma(shape, shape / np.clip(mean, SLOWEST, FASTEST))


def mean_log(gamma: Gamma) -> Floats:
    """Return the mean of the logarithm of a rate."""
    from scipy.special import digamma

    found: Floats = digamma(gamma.changes) - np.log(gamma.time_s)
    return found


def learn_priors(histories: Histories, host: Groups, kind: Groups, trusted: Flags | None = None) -> Gamma:
    """Return a prior for every page, learnt from all. `host` and `kind` number each page's host and its type there.

    A kind belongs to one host. Pages never visited twice take their prior from the others.
    """
    pages = len(histories)
    prior = repeat_prior(FIRST_CHANGES, FIRST_TIME_S, pages)
    if not pages:
        return prior
    hosts, kinds = int(host.max()) + 1, int(kind.max()) + 1
    host_of_kind = np.zeros(kinds, dtype=np.int64)
    host_of_kind[kind] = host
    counts = (histories.visits > 0.0).astype(np.float64)
    everywhere, nothing = np.zeros(pages, dtype=np.int64), repeat_prior(FIRST_CHANGES, FIRST_TIME_S, 1)
    # EM: estimate all pages under their priors, then refit the priors from the widest group to the narrowest.
    for _ in range(ROUNDS):
        found = estimate(histories, prior, trusted)
        of_all = fit(found, counts, everywhere, nothing)
        of_hosts = fit(found, counts, host, _select(of_all, np.zeros(hosts, dtype=np.int64)))
        of_kinds = fit(found, counts, kind, _select(of_hosts, host_of_kind))
        prior = _select(of_kinds, kind)
    return prior


def learn_common_prior(histories: Histories, trusted: Flags) -> Gamma:
    """Return the prior of all pages, whatever their hosts and kinds.

    While most pages were visited once or twice, the EM algorithm takes hundreds of rounds. So each pair of rounds is
    extrapolated (SQUAREM, the third scheme of Varadhan and Roland).
    """
    seen = (histories.visits > 0.0) | (histories.quiet_s > 0.0)
    first = repeat_prior(FIRST_CHANGES, FIRST_TIME_S, 1)
    if not seen.any():
        return first
    imaginary = FIRST_INFORMATION / FIRST_CHANGES * np.array([1.0, first.mean[0], mean_log(first)[0]])

    def next_round(logs: Floats) -> Floats:
        shape, time_s = np.exp(logs).tolist()
        found = estimate(histories, repeat_prior(shape, time_s, len(histories)), trusted)
        sums = np.array([seen.sum(), found.mean[seen].sum(), mean_log(found)[seen].sum()]) + imaginary
        # One visit of each page does not tell whether rates differ. So pages whose rates differ as usual are added.
        fitted = fit_sums(sums[:, None], repeat_prior(1.0, float(sums[0] / sums[1]), 1))
        refit: Floats = np.log(np.array([fitted.changes[0], fitted.time_s[0]]))
        return refit

    logs = np.log(np.array([FIRST_CHANGES, FIRST_TIME_S]))
    for _ in range(ROUNDS):
        once = next_round(logs)
        twice = next_round(once)
        step, bend = once - logs, twice - 2.0 * once + logs
        # Too long a step would leave the region where the model holds; the round after it repairs a moderate one.
        length = float(np.linalg.norm(step)) / max(float(np.linalg.norm(bend)), 1e-12)
        length = min(max(length, 1.0), LONGEST_STEP)
        logs = next_round(logs + 2.0 * length * step + length**2 * bend)
    shape, time_s = np.exp(logs).tolist()
    return repeat_prior(shape, time_s, 1)


def learn_host_priors(
    histories: Histories,
    kind: Groups,
    of_all: Gamma,
    seen: Flags | None = None,
    trusted: Flags | None = None,
    rounds: int = ROUNDS,
) -> tuple[Gamma, Gamma]:
    """Return the priors of one host's kinds, and that of the host, drawn towards the one of all pages.

    It learns for one host the priors that `learn_priors` learns for many hosts at once. `seen` marks the pages whose
    visits count, by default all that were visited twice.
    """
    of_kinds, of_host = _select(of_all, np.zeros(int(kind.max()) + 1, dtype=np.int64)), of_all
    counts = (histories.visits > 0.0 if seen is None else seen).astype(np.float64)
    together = np.zeros(len(histories), dtype=np.int64)
    for _ in range(rounds if counts.any() else 0):
        found = estimate(histories, _select(of_kinds, kind), trusted)
        pages = _pages_of_host(found, counts, kind, of_kinds, float(of_host.changes[0]))
        of_host = fit(found, counts, together, of_all)
        of_kinds = fit(found, counts, kind, _select(of_host, np.zeros(of_kinds.changes.size, dtype=np.int64)), pages)
    return of_kinds, of_host


def _pages_of_host(found: Gamma, counts: Floats, kind: Groups, of_kinds: Gamma, shape: float) -> float:
    """Return the number of pages for which a host counts in the priors of its kinds: the more, the more alike they are.

    A Newton step leads from the mean rate of each kind's prior to the likeliest one, with the information of
    `shared_error`. If the logarithms of these rates scatter more than such information allows, kinds differ by this
    variance (DerSimonian and Laird), and the host counts as 1 / (variance x shape) pages. Kinds with little information
    tell little about it. So `USUAL_KINDS` are added that differ as `PARENT_PAGES` say.
    """
    prior, kinds = _select(of_kinds, kind), of_kinds.changes.size
    unknown = np.minimum(prior.time_s / found.time_s, 1.0)
    information = np.bincount(kind, counts * unknown * (1.0 - unknown) * found.changes, kinds)
    slope = np.bincount(kind, counts * (prior.time_s * found.mean - prior.changes), kinds)
    known = information > 0.0
    if known.sum() < 2:
        return PARENT_PAGES
    weight = information[known]
    logs = np.log(of_kinds.mean[known]) + np.clip(slope[known] / weight, -LONGEST_SHIFT, LONGEST_SHIFT)
    scatter = float(np.sum(weight * (logs - np.average(logs, weights=weight)) ** 2))
    others, usual = weight.size - 1, PARENT_PAGES * shape
    variance = max(0.0, (scatter - others) / float(weight.sum() - np.sum(weight**2) / weight.sum()))
    telling = others * float(np.mean((weight / (weight + usual)) ** 2))
    variance = (telling * variance + USUAL_KINDS / usual) / (telling + USUAL_KINDS)
    return max(LEAST_PARENT_PAGES, 1.0 / (variance * shape))


def _select(gamma: Gamma, which: Groups) -> Gamma:
    return Gamma(gamma.changes[which], gamma.time_s[which])


# ---- error of priors ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SharedError:
    """Error that all pages have in common, because the mean rate of all of them is an estimate.

    `slope` is the change of a sum with the logarithm of that rate, `information` what the pages' visits tell of it.
    `doubt` is the error of the sum because it is not known how many hosts lie (unproven.py), `model` its error because
    pages need not change as a Poisson process.
    """

    slope: float = 0.0
    information: float = 0.0
    doubt: float = 0.0
    model: float = 0.0

    def __add__(self, other: SharedError) -> SharedError:
        return SharedError(*(one + two for one, two in zip(astuple(self), astuple(other), strict=True)))

    @property
    def variance(self) -> float:
        return self.slope**2 / (FIRST_INFORMATION + self.information) + self.doubt**2 + self.model**2


def shared_error(found: Gamma, prior: Gamma, age_s: Floats, weight: Floats, kind: Groups) -> tuple[float, SharedError]:
    """Return errors of the sum of the weights of one host's fresh captures: the variance of the host, and the rest.

    If the mean of a page's prior Gamma(a, b) grows by the factor e^m, the logarithm of the prior grows by -a m - b
    e^-m rate. So the slope of any posterior mean is its covariance with b rate. The information of a page on m is
    that of its rate, if it were known, less the part that is still unknown (Louis' identity). Kinds deviate from their
    host, and hosts from all pages, as much as PARENT_PAGES known pages would leave open.
    """
    fresh = fresh_probability_of(found, age_s)
    slope = -weight * fresh * prior.time_s * found.changes * age_s / (found.time_s * (found.time_s + age_s))
    unknown = np.minimum(prior.time_s / found.time_s, 1.0)
    information: Floats = np.bincount(kind, unknown * (1.0 - unknown) * found.changes).astype(np.float64)
    shape = np.bincount(kind, prior.changes) / np.bincount(kind)
    slopes: Floats = np.bincount(kind, slope).astype(np.float64)
    variance, slopes, known = _pass_up(slopes, information, PARENT_PAGES * shape)
    of_host = np.full(1, PARENT_PAGES * np.mean(prior.changes))
    host_variance, all_slope, all_known = _pass_up(np.full(1, slopes.sum()), np.full(1, known.sum()), of_host)
    model = MODEL_ERROR * float(np.sum(weight * fresh * found.changes * age_s / (found.time_s + age_s)))
    shared = SharedError(float(all_slope[0]), float(all_known[0]), model=model)
    return float(variance.sum() + host_variance[0]), shared


def _pass_up(slope: Floats, information: Floats, parent: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the variance that groups have of their own, and their slope and information with regard to the parent."""
    share = parent / (parent + information)
    return slope**2 / (parent + information), slope * share, information * share


# ---- new pages ------------------------------------------------------------------------------------------------------


def page_type(path: str, depth: int, media_type: str) -> str:
    """Return the kind of page a path leads to.

    Numbers become `#`, the last name becomes `*` with its ending, and deep paths are cut.

    `/news/2024/05/storm-in-may.html` of depth 3 is `news/#/#/*.html 3 text/html`.
    """
    plain, _, query = path.partition("?")
    *folders, name = _NUMBERS.sub("#", plain.lstrip("/")).split("/")
    _, dot, ending = name.rpartition(".")
    last = "" if not name else f"*.{ending}" if dot and len(ending) <= 5 else "*"
    names = sorted(pair.partition("=")[0] for pair in query.split("&")) if query else []
    query_names = f"?{'&'.join(names)}" if names else ""
    return f"{'/'.join([*folders[:MAX_SEGMENTS], last])}{query_names} {min(depth, MAX_SEGMENTS)} {media_type}"
