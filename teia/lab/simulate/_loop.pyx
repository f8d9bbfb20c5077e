# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The simulator's inner loop, compiled: what `timeline` does event by event, some twenty times as fast.

Both make the same visits at the same instants, which tests/lab/test_simulate_timeline.py holds them to; `timeline` is
what is used where there was no compiler, and the one to read first. Here crawlers, servers and documents have a heap
each instead of one timeline for all: whichever is next goes on. Columns are those of `teia.refresh.model.World`;
indexes are not checked, since everything comes from a checked world and a plan for it (`compiled.py`).
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.math cimport INFINITY, exp, log, nextafter, pow, sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport qsort

import numpy as np

cdef enum:
    TIMETABLE, INTERVALS, FRESHNESS, DIVERGENCE
    STILL = 0, POISSON, PARETO, REGULAR
    SHORTEST_BLOCK = 8

cdef extern from *:
    """
    /* without the empty instruction a function that only asks for memory counts as one that does nothing */
    #define ask_for(place) do { __builtin_prefetch(place); __asm__ volatile (""); } while (0)
    """
    void ask_for(const void* place) noexcept nogil  # any address will do, also none of ours

include "_heap.pxi"


cdef inline double rested(double now, double rest_s) noexcept nogil:
    """The first instant that is not before `rest_s` from now, also when the difference is taken again."""
    cdef double then = now + rest_s
    return nextafter(then, INFINITY) if then - now < rest_s else then


cdef inline uint64_t mixed(uint64_t x) noexcept nogil:
    x ^= x >> 30
    x *= <uint64_t>0xBF58476D1CE4E5B9
    x ^= x >> 27
    x *= <uint64_t>0x94D049BB133111EB
    return x ^ (x >> 31)


cdef double kth_largest(double* values, Py_ssize_t size, Py_ssize_t k) noexcept nogil:
    """Quickselect; `values` change places."""
    cdef Py_ssize_t low = 0, high = size - 1, left, right
    cdef double pivot, swap
    while low < high:
        pivot = values[(low + high) // 2]
        left, right = low, high
        while left <= right:
            while values[left] > pivot:
                left += 1
            while values[right] < pivot:
                right -= 1
            if left <= right:
                swap = values[left]
                values[left] = values[right]
                values[right] = swap
                left += 1
                right -= 1
        if k <= right:
            high = right
        elif k >= left:
            low = left
        else:
            break
    return values[k]


cdef struct Page:  # what a visit needs of one, in half a line of the cache
    double fresh
    double interval
    double rate
    double weight


cdef struct Candidate:
    double most
    double weight
    double rate
    double fresh
    int32_t row


cdef int by_most(const void* one, const void* other) noexcept nogil:
    cdef double first = (<const Candidate*>one).most, second = (<const Candidate*>other).most
    return -1 if first > second else 1 if first < second else 0


# ---- the loop -------------------------------------------------------------------------------------------------------


cdef class Loop:
    """Crawlers, servers and documents of one world, from its beginning on."""

    cdef const int64_t[::1] starts
    cdef const double[::1] transfer_s, politeness_s
    cdef double[:, ::1] table
    cdef Page* pages
    cdef double service_s, clock
    cdef bint sends
    cdef int64_t budget
    cdef Heap free, waiting, ready, documents
    cdef double[::1] allowed, nominal, slot
    cdef readonly object fresh_s, seen
    # the plan
    cdef int kind
    cdef double base, slots_per_s
    cdef int64_t made, slack
    cdef const int32_t[::1] table_page
    cdef const double[::1] table_due
    cdef int64_t[::1] head, tail
    cdef Entries due
    cdef int64_t[::1] first_due
    cdef Candidate* candidates
    cdef double[::1] scratch, block_end
    cdef int64_t[::1] block_left, chosen
    # drawn changes
    cdef bint draws
    cdef uint64_t seed
    cdef double smallest, exponent, jitter
    cdef uint8_t[::1] process, is_fresh
    cdef int32_t[::1] drawn
    cdef int64_t[::1] found
    cdef double counted_to
    cdef readonly double fresh_weight, fresh_area

    def __init__(self, starts, weight, rate, age_s, transfer_s, politeness_s, int crawlers, double service_s):
        cdef int crawler
        servers = len(starts) - 1
        self.starts = starts
        table = np.empty((max(1, len(rate)), 4))
        self.table = table
        self.pages = <Page*>&self.table[0, 0]
        table[: len(rate)] = np.stack((-np.asarray(age_s), np.full(len(rate), np.inf), rate, weight), axis=1)
        self.fresh_s = table[: len(rate), 0]
        self.transfer_s, self.politeness_s, self.service_s = transfer_s, politeness_s, service_s
        self.sends = bool(np.any(transfer_s))
        self.free, self.waiting, self.ready = Heap(crawlers), Heap(servers), Heap(servers)
        self.documents = Heap(0)
        for crawler in range(crawlers):
            self.free.push(0.0, crawler)
        self.allowed = np.full(servers, -np.inf)
        self.clock, self.budget, self.draws = 0.0, 0, False

    def __cinit__(self):
        self.candidates = NULL

    def __dealloc__(self):
        PyMem_Free(self.candidates)

    def draw_changes(self, process, stale, uint64_t seed, double smallest, double exponent, double jitter):
        """Documents are modified from now on; `process` is the kind of each, `stale` whose copy is so already."""
        cdef int32_t page
        self.process, self.seed, self.draws = process, seed, True
        self.smallest, self.exponent, self.jitter = smallest, exponent, jitter
        fresh = ~np.asarray(stale)
        self.is_fresh = fresh.astype(np.uint8)
        self.drawn = np.zeros(len(process), dtype=np.int32)
        self.seen = np.zeros(len(process), dtype=np.int64)
        self.found = self.seen
        self.documents = Heap(len(process))
        self.fresh_weight = float((np.asarray(self.table)[:, 3] * fresh).sum())
        self.fresh_area, self.counted_to = 0.0, 0.0
        for page in range(<int32_t>len(process)):
            if process[page] != STILL:
                self.documents.push(self.gap(page), page)

    def follow_timetable(self, double now, head, tail, const int32_t[::1] page, const double[::1] due):
        """Visits of each server from `head` to `tail`; `due` counts from now."""
        self.kind, self.base, self.table_page, self.table_due = TIMETABLE, now, page, due
        self.slots_per_s = 0.0
        self.head, self.tail = np.array(head), np.array(tail)
        self.begin(now)

    def follow_intervals(self, double now, const double[::1] interval, due, slot, offset):
        """`due` counts from now; pages that are never due are left out."""
        cdef Py_ssize_t server, page, size
        cdef Entry* heap
        cdef double[::1] first = now + np.asarray(due)
        self.kind = INTERVALS
        rooms = (np.diff(self.starts) + 2 * (CHILDREN - 1)) // CHILDREN * CHILDREN  # from line to line
        self.first_due = np.concatenate(([0], np.cumsum(rooms))) + CHILDREN - 1
        self.due = Entries(CHILDREN + int(rooms.sum()))
        self.tail = np.zeros(len(slot), dtype=np.int64)
        for server in range(self.tail.shape[0]):
            heap, size = self.due.at + self.first_due[server], 0
            for page in range(self.starts[server], self.starts[server + 1]):
                self.pages[page].interval = interval[page]
                if interval[page] < INFINITY and first[page] < INFINITY:
                    heap[size].key, heap[size].number = first[page], <int32_t>page
                    size += 1
            heapify(heap, size)
            self.tail[server] = size
        self.take_slots(now, slot, offset)

    def follow_values(self, double now, bint by_divergence, of_use, slot, offset):
        """`of_use` counts the pages of each server that are worth a visit."""
        servers, widest = len(slot), int(np.diff(self.starts).max())
        self.kind = DIVERGENCE if by_divergence else FRESHNESS
        self.tail = np.array(of_use, dtype=np.int64)
        PyMem_Free(self.candidates)
        self.candidates = <Candidate*>PyMem_Malloc(self.table.shape[0] * sizeof(Candidate))
        if self.candidates == NULL:
            raise MemoryError
        self.scratch = np.empty(max(1, widest))
        self.block_end, self.block_left = np.full(servers, -np.inf), np.zeros(servers, dtype=np.int64)
        self.chosen = np.zeros(servers, dtype=np.int64)
        self.take_slots(now, slot, offset)

    def take_slots(self, double now, slot, offset):
        """A plan without a timetable uses every slot of a server; the first is `offset` from now."""
        self.slot, self.base = np.array(slot), now
        self.nominal = now + np.asarray(offset)
        used = np.asarray(self.slot)[np.asarray(self.tail) > 0]
        self.slots_per_s, self.slack = float((1.0 / used).sum()), len(used)
        self.begin(now)

    def begin(self, double now):
        cdef Py_ssize_t server
        self.clock, self.made = max(self.clock, now), 0
        self.waiting.size = self.ready.size = 0
        for server in range(self.allowed.shape[0]):
            self.offer(server)

    def grant(self, int64_t budget):
        """So many visits may be made from now on."""
        self.budget = budget

    def run(self, double until, int32_t[::1] page, double[::1] time, double[::1] late, double[::1] before):
        """Go on up to a time, or until the columns are full; return how many visits were made."""
        cdef Py_ssize_t made = 0, room = page.shape[0]
        cdef int32_t row
        cdef double now
        with nogil:
            while made < room:
                now = self.next_assignment(until)
                if now >= until:
                    break
                self.clock = now
                self.modify(now)
                row = self.assign(now, &late[made], &before[made])
                if row >= 0:
                    page[made] = row
                    time[made] = now
                    made += 1
            if made < room:
                self.clock = max(self.clock, until)
                self.modify(until)
        return made

    # ---- crawler free, scheduler ready

    cdef double next_assignment(self, double until) noexcept nogil:
        """When a crawler is free and a server's turn has come; servers that may be visited are then in `ready`."""
        cdef double now = max(self.clock, self.free.heap[0].key), turn
        while self.budget > 0 and now < until:
            self.wake(now)
            turn = INFINITY
            if self.ready.size:
                turn = max(now, min(self.ready.heap[0].key, self.behind_at()))
                if turn == now:
                    return now
            if self.waiting.size:
                turn = min(turn, self.waiting.heap[0].key)
            now = turn
        return INFINITY

    cdef inline double behind_at(self) noexcept nogil:
        """When visits will be fewer than slots so far, by one a server: from then on a slot may be used early."""
        return self.base + (self.made + self.slack) / self.slots_per_s if self.slots_per_s > 0 else INFINITY

    cdef void wake(self, double now) noexcept nogil:
        cdef int32_t server
        while self.waiting.size and self.waiting.heap[0].key <= now:
            server = self.waiting.heap[0].number
            self.waiting.drop_first()
            if self.kind == TIMETABLE:
                self.ready.push(self.base + self.table_due[self.head[server]], server)
            else:
                self.ready.push(self.nominal[server], server)

    cdef void offer(self, Py_ssize_t server) noexcept nogil:
        cdef double at = self.allowed[server]
        if self.kind == TIMETABLE:
            if self.head[server] == self.tail[server]:
                return
            at = max(at, self.base + self.table_due[self.head[server]])
        elif self.tail[server] == 0 or self.slot[server] == INFINITY:
            return
        self.waiting.push(at, <int32_t>server)

    cdef int32_t assign(self, double now, double* late, double* before) noexcept nogil:
        """The most overdue server gets a visit; -1 if none of its pages is worth one."""
        cdef int32_t server = self.ready.heap[0].number, row
        cdef double due = self.ready.heap[0].key, transfer_s
        self.ready.drop_first()
        if self.kind == TIMETABLE:
            row = self.table_page[self.head[server]]
            self.head[server] += 1
        elif self.kind == INTERVALS:
            row = self.due_first(server, now, &due)
            self.nominal[server] += self.slot[server]
        else:
            row = self.most_valuable(server, now)
            self.nominal[server] += self.slot[server]
        if row >= 0:
            transfer_s = self.transfer_s[row] if self.sends else 0.0
            self.free.first_becomes(now + max(self.service_s, transfer_s))
            self.allowed[server] = rested(now, max(self.politeness_s[server], transfer_s))
            late[0], before[0] = max(0.0, now - due), self.pages[row].fresh
            self.budget -= 1
            self.made += 1
            self.refresh(row, now)
        self.offer(server)
        return row

    cdef int32_t due_first(self, int32_t server, double now, double* due) noexcept nogil:
        """The page that is due first."""
        cdef Entry* heap = self.due.at + self.first_due[server]
        cdef int32_t row = heap[0].number
        self.ask_ahead(self.ready.heap, self.ready.size)
        self.ask_ahead(self.waiting.heap, self.waiting.size)
        due[0] = heap[0].key
        heap[0].key = now + self.pages[row].interval
        sink(heap, self.tail[server], 0)
        return row

    cdef inline void ask_ahead(self, Entry* servers, Py_ssize_t size) noexcept nogil:
        """Ask memory for what the next servers' visits will look at first: most of it is in no cache."""
        cdef Entry* heap
        cdef Py_ssize_t place, child
        for place in range(min(1 + CHILDREN, size)):
            heap = self.due.at + self.first_due[servers[place].number]
            if place == 0:
                ask_for(&self.pages[heap[0].number])
                for child in range(1, 1 + CHILDREN):
                    ask_for(heap + CHILDREN * child + 1)
            else:
                ask_for(heap)
                ask_for(heap + 1)

    # ---- by value: only pages that can become the most valuable within a block of slots are looked at

    cdef inline double worth(self, double weight, double rate, double age) noexcept nogil:
        """What a visit is worth; `ByValue.of` has the formulas."""
        cdef double u
        if rate <= 0.0 or rate == INFINITY:
            return 0.0
        if age < 0.0:
            age = 0.0
        if self.kind == DIVERGENCE:
            return weight * rate * (age * age) / 2
        u = rate * age
        if u < 0.02:
            u = u * u * (1.0 / 2 - u * (1.0 / 3 - u * (1.0 / 8 - u * (1.0 / 30 - u * (1.0 / 144 - u / 840)))))
        elif u == INFINITY:
            u = 1.0
        else:
            u = 1.0 - (1.0 + u) * exp(-u)
        return weight / rate * u

    cdef int32_t most_valuable(self, int32_t server, double now) noexcept nogil:
        cdef int64_t at, place = -1
        cdef int32_t best = -1
        cdef double worth, most = 0.0
        cdef Candidate* it
        if self.block_left[server] == 0 or now > self.block_end[server]:
            self.begin_block(server, now)
        self.block_left[server] -= 1
        for at in range(self.starts[server], self.starts[server] + self.chosen[server]):
            it = &self.candidates[at]
            if it.most < most:
                break
            worth = self.worth(it.weight, it.rate, now - it.fresh)
            if worth > most or (worth == most and it.row < best):
                most, best, place = worth, it.row, at
        if best >= 0:
            self.candidates[place].fresh = now
        return best

    cdef void begin_block(self, int32_t server, double now) noexcept nogil:
        """Choose whom to look at in the next `length` slots.

        Values only grow until a visit, and fewer than `length` pages are visited before the last slot: so one of the
        `length` most valuable now is still there, and who cannot be worth as much at the end of the block is out. Who
        can be worth most then is looked at first, and the others only until nobody can be worth more.
        """
        cdef int64_t row, a = self.starts[server], pages = self.starts[server + 1] - a, chosen = 0
        cdef int64_t length = max(<int64_t>SHORTEST_BLOCK, <int64_t>sqrt(<double>pages))
        cdef double threshold = -1.0, end, most
        cdef Page* page
        cdef Candidate* it
        end = now + length * self.slot[server]
        self.block_left[server], self.block_end[server] = length, end
        if pages > 2 * length:
            for row in range(a, a + pages):
                page = &self.pages[row]
                self.scratch[row - a] = self.worth(page.weight, page.rate, now - page.fresh)
            threshold = kth_largest(&self.scratch[0], pages, length) * (1.0 - 1e-9)
        for row in range(a, a + pages):
            page = &self.pages[row]
            most = self.worth(page.weight, page.rate, end - page.fresh)
            if most >= threshold:
                it = &self.candidates[a + chosen]
                it.most = most * (1.0 + 1e-9)
                it.weight, it.rate, it.fresh, it.row = page.weight, page.rate, page.fresh, <int32_t>row
                chosen += 1
        self.chosen[server] = chosen
        if chosen > 1:
            qsort(&self.candidates[a], <size_t>chosen, sizeof(Candidate), &by_most)

    # ---- document modified

    cdef void refresh(self, int32_t row, double now) noexcept nogil:
        self.pages[row].fresh = now
        if self.draws and not self.is_fresh[row]:
            self.found[row] += 1
            if self.pages[row].rate < INFINITY:
                self.is_fresh[row] = 1
                self.fresh_weight += self.pages[row].weight

    cdef void modify(self, double until) noexcept nogil:
        cdef double when
        cdef int32_t row
        if not self.draws:
            return
        while self.documents.size and self.documents.heap[0].key <= until:
            when, row = self.documents.heap[0].key, self.documents.heap[0].number
            self.count_to(when)
            if self.is_fresh[row]:
                self.is_fresh[row] = 0
                self.fresh_weight -= self.pages[row].weight
            self.documents.first_becomes(when + self.gap(row))
        self.count_to(until)

    cdef inline void count_to(self, double when) noexcept nogil:
        self.fresh_area += self.fresh_weight * (when - self.counted_to)
        self.counted_to = when

    cdef double gap(self, int32_t row) noexcept nogil:
        """The page's next gap between modifications, a function of the seed, the page and the gap's number alone."""
        cdef uint64_t bits
        cdef double chance
        self.drawn[row] += 1
        bits = mixed(self.seed + <uint64_t>(row + 1) * <uint64_t>0x9E3779B97F4A7C15)
        bits = mixed(bits + <uint64_t>self.drawn[row] * <uint64_t>0xD1B54A32D192ED03)
        chance = (<double>(bits >> 11) + 0.5) / 9007199254740992.0
        if self.process[row] == POISSON:
            return -log(chance) / self.pages[row].rate
        if self.process[row] == PARETO:
            return self.smallest * pow(chance, self.exponent) / self.pages[row].rate
        if self.drawn[row] == 1:
            return chance / self.pages[row].rate
        return (1.0 + self.jitter * (2.0 * chance - 1.0)) / self.pages[row].rate
