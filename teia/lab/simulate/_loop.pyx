# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The simulator's inner loop, compiled: what `timeline` does event by event, some twenty times as fast.

Both make the same visits at the same instants, which tests/lab/simulate/test_timeline.py holds them to; `timeline` is
what is used where there was no compiler, and the one to read first. Here crawlers, servers and documents have a heap
each instead of one timeline for all: whichever is next goes on. Columns are those of `teia.refresh.model.RefreshWorld`;
indexes are not checked, since everything comes from a checked world and a plan for it (`compiled.py`).

When a server is visited does not depend on which of its pages is. So visits are first booked, some dozens a server, by
looking at servers alone, and then carried out server by server, while its pages are in the cache; in a large world
visits that follow each other have nothing in common. Where it does depend on the page (large pages keep crawlers busy,
drawn changes have an order, a server may have nothing that is worth a visit), a visit is carried out when it is booked.
"""

cimport cython
from libc.math cimport INFINITY, exp, log, nextafter, pow, sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport qsort

import numpy as np

cdef enum:
    TIMETABLE, INTERVALS, VALUES
    STILL = 0, POISSON, PARETO, REGULAR
    NOT_CHOSEN = -1
    AHEAD = 16  # bookings
    SPARSE = 4  # so few visits a server are not worth putting in order

# A copy that is a microsecond old is worth a visit, to the last bit, if weight and rate are between these.
cdef double SURELY_S = 1e-6
cdef double LEAST = 1e-100, MOST = 1e100

cdef extern from *:
    """
    /* without the empty instruction a function that only asks for memory counts as one that does nothing */
    #define ask_for(place) do { __builtin_prefetch(place); __asm__ volatile (""); } while (0)
    """
    void ask_for(const void* place) noexcept nogil  # any address will do, also none of ours

include "_heap.pxi"


cdef struct Server:  # in one line
    double allowed  # not to be visited before
    double nominal  # its next slot, or when its next visit is due
    double slot
    double politeness
    double latest  # no copy of a page of it is fresher, and one that is as old as this is worth a visit; or infinity
    int64_t head  # its next visit of a timetable
    double key  # in the wheel where it is
    int32_t behind  # the next server in its bucket there
    int32_t left  # visits of a timetable; otherwise how many pages are worth visits


include "_wheel.pxi"


cdef struct Page:  # what a visit needs of one, in half a line of the cache
    double fresh
    double interval
    double rate
    double weight


include "_values.pxi"


cdef struct Booking:
    double time
    double due
    int32_t server
    int32_t row


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


# ---- the loop -------------------------------------------------------------------------------------------------------


cdef class Loop:
    """Crawlers, servers and documents of one world, from its beginning on."""

    cdef const int64_t[::1] starts
    cdef const double[::1] transfer_s
    cdef double[:, ::1] table
    cdef Page* pages
    cdef double service_s, clock
    cdef bint sends
    cdef int64_t budget
    cdef Heap free, documents
    cdef Queue waiting
    cdef Wheel ready
    cdef Py_ssize_t count
    cdef Room servers_room
    cdef Server* servers
    cdef readonly object fresh_s, seen
    # visits that are booked
    cdef Py_ssize_t most_booked, booked, carried
    cdef bint sorted
    cdef Room bookings_room
    cdef Booking* bookings
    cdef int32_t[::1] order, ends
    cdef int64_t[::1] places  # where each server's heap is, or its first visit of a timetable that is not carried out
    # the plan
    cdef int kind
    cdef double base, slots_per_s
    cdef int64_t made, slack
    cdef const int32_t[::1] table_page
    cdef const double[::1] table_due
    cdef Room due_room
    cdef Entry* due
    cdef Values values
    # drawn changes
    cdef bint draws
    cdef uint64_t seed
    cdef double smallest, exponent, jitter
    cdef uint8_t[::1] process, is_fresh
    cdef int32_t[::1] drawn
    cdef int64_t[::1] found
    cdef double counted_to
    cdef readonly double fresh_weight, fresh_area

    def __init__(
        self, starts, weight, rate, age_s, transfer_s, const double[::1] politeness_s, int crawlers, double service_s,
        Py_ssize_t most_booked,
    ):
        cdef Py_ssize_t at
        self.count = len(starts) - 1
        self.starts = starts
        table = np.empty((max(1, len(rate)), 4))
        self.table = table
        self.pages = <Page*>&self.table[0, 0]
        table[: len(rate)] = np.stack((-np.asarray(age_s), np.full(len(rate), np.inf), rate, weight), axis=1)
        self.fresh_s = table[: len(rate), 0]
        self.transfer_s, self.service_s = transfer_s, service_s
        self.sends = bool(np.any(transfer_s))
        self.free, self.waiting, self.ready = Heap(crawlers), Queue(self.count), Wheel(self.count)
        self.documents = Heap(0)
        for at in range(crawlers):
            self.free.push(0.0, <int32_t>at)
        self.servers_room = Room(self.count, sizeof(Server))
        self.servers = <Server*>self.servers_room.at
        for at in range(self.count):
            self.servers[at].allowed, self.servers[at].politeness = -INFINITY, politeness_s[at]
            self.servers[at].head = 0
        self.most_booked, self.bookings_room = most_booked, Room(most_booked, sizeof(Booking))
        self.bookings = <Booking*>self.bookings_room.at
        self.order, self.ends = np.empty(most_booked, dtype=np.int32), np.empty(self.count + 1, dtype=np.int32)
        self.places = np.zeros(self.count, dtype=np.int64)
        self.booked = self.carried = 0
        self.waiting.wheel.servers = self.ready.servers = self.servers
        self.clock, self.budget, self.draws = 0.0, 0, False

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

    def follow_timetable(self, double now, const int64_t[::1] starts, const int32_t[::1] page, const double[::1] due):
        """Visits of each server, between two of `starts`; `due` counts from now."""
        cdef Py_ssize_t at
        cdef double last = np.max(due) if len(due) else 0.0
        self.check_carried()
        if np.diff(starts).max() >= 1 << 31:
            raise OverflowError("a timetable has more than two thousand million visits of one server")
        self.kind, self.base, self.table_page, self.table_due = TIMETABLE, now, page, due
        self.slots_per_s = 0.0
        self.ready.due = self.waiting.wheel.due = &due[0] if len(due) else NULL
        for at in range(self.count):
            self.servers[at].head = self.places[at] = starts[at]
            self.servers[at].left = <int32_t>(starts[at + 1] - starts[at])
        self.begin(now, len(due) / last if last > 0 else 0.0)

    def follow_intervals(self, double now, const double[::1] interval, due, slot, offset):
        """`due` counts from now; pages that are never due are left out."""
        cdef Py_ssize_t at, page, size
        cdef Entry* heap
        cdef double[::1] first = now + np.asarray(due)
        rooms = (np.diff(self.starts) + 2 * (CHILDREN - 1)) // CHILDREN * CHILDREN  # from line to line
        cdef int64_t[::1] begins = np.concatenate(([0], np.cumsum(rooms))) + CHILDREN - 1
        self.check_carried()
        self.kind = INTERVALS
        self.due_room = Room(CHILDREN + int(rooms.sum()), sizeof(Entry))
        self.due = <Entry*>self.due_room.at
        for at in range(self.count):
            self.places[at] = begins[at]
            heap, size = self.due + begins[at], 0
            for page in range(self.starts[at], self.starts[at + 1]):
                self.pages[page].interval = interval[page]
                if interval[page] < INFINITY and first[page] < INFINITY:
                    heap[size].key, heap[size].number = first[page], <int32_t>page
                    size += 1
            heapify(heap, size)
            self.servers[at].left = <int32_t>size
        self.take_slots(now, slot, offset)

    def follow_values(self, double now, bint by_divergence, const int64_t[::1] of_use, slot, offset):
        """`of_use` counts the pages of each server that are worth a visit."""
        cdef Py_ssize_t at, page
        cdef double latest
        cdef bint surely
        cdef Page* it
        self.check_carried()
        self.kind = VALUES
        self.values = Values(by_divergence, self.table.shape[0], self.count, int(np.diff(self.starts).max()))
        self.values.pages = self.pages
        for at in range(self.count):
            latest, surely = -INFINITY, False
            for page in range(self.starts[at], self.starts[at + 1]):
                it = &self.pages[page]
                latest = max(latest, it.fresh)
                surely |= LEAST < it.weight and it.weight < MOST and LEAST < it.rate and it.rate < MOST
            self.servers[at].left, self.servers[at].latest = <int32_t>of_use[at], latest if surely else INFINITY
        self.take_slots(now, slot, offset)

    cdef check_carried(self):
        """What is booked hangs on the plan and on its order."""
        if self.carried < self.booked:
            raise RuntimeError("visits that were booked before are not carried out")

    cdef take_slots(self, double now, const double[::1] slot, const double[::1] offset):
        """A plan without a timetable uses every slot of a server; the first is `offset` from now."""
        cdef Py_ssize_t at
        cdef uint8_t[::1] used = np.empty(self.count, dtype=np.uint8)
        for at in range(self.count):
            self.servers[at].slot, self.servers[at].nominal = slot[at], now + offset[at]
            used[at] = self.servers[at].left > 0
        used_s = np.asarray(slot)[np.asarray(used, dtype=np.bool_)]
        self.base, self.slots_per_s, self.slack = now, float((1.0 / used_s).sum()), len(used_s)
        self.begin(now, self.slots_per_s)

    cdef begin(self, double now, double visits_per_s):
        cdef Py_ssize_t at
        self.clock, self.made = max(self.clock, now), 0
        self.waiting.clear(now, visits_per_s)
        self.ready.clear(now, visits_per_s)
        for at in range(self.count):
            self.offer(<int32_t>at)

    def grant(self, int64_t budget):
        """So many visits may be made from now on."""
        self.budget = budget

    def run(
        self, double until, bint in_order,
        int32_t[::1] page, double[::1] time, double[::1] late, double[::1] before,
    ):
        """Go on up to a time, or until the columns are full; return how many visits were made.

        They are in the order in which they were made, or in any that keeps those of each server in theirs. What is
        booked and found no room is carried out by the next call, which must be for the same time.
        """
        cdef Py_ssize_t made = 0, room = page.shape[0], at, place
        cdef Booking* it
        if in_order:
            self.check_carried()
        with nogil:
            while made < room and self.has_booked(until, room - made if in_order else self.most_booked):
                for at in range(self.carried, min(self.booked, self.carried + room - made)):
                    place = self.in_turn(at)
                    it = &self.bookings[place]
                    if not self.choose(it):
                        with gil:
                            raise RuntimeError("a visit was booked that is worth nothing")
                    place = made + (place - at if in_order else 0)
                    page[place], time[place], late[place] = it.row, it.time, max(0.0, it.time - it.due)
                    before[place] = self.pages[it.row].fresh
                    self.refresh(it.row, it.time)
                    made += 1
                self.carried = at + 1
            if made < room:
                self.clock = max(self.clock, until)
                self.modify(until)
        return made

    cdef bint has_booked(self, double until, Py_ssize_t most) noexcept nogil:
        """Whether there are visits to carry out; if there are none, more are booked."""
        cdef Py_ssize_t booked = 0
        if self.carried < self.booked:
            return True
        while booked == 0:
            booked = self.book(until, min(most, self.most_booked))
        self.carried, self.booked = 0, max(0, booked)
        self.sorted = self.booked > SPARSE * self.count
        if self.sorted:
            self.sort_by_server(self.booked)
        return self.booked > 0

    cdef Py_ssize_t book(self, double until, Py_ssize_t most) noexcept nogil:
        """Settle when the next visits are, and to which servers; return how many, or -1 if there are none."""
        cdef Py_ssize_t booked = 0
        cdef bint at_once
        cdef double now
        while booked < most:
            now = self.next_assignment(until)
            if now >= until:
                return booked if booked else -1
            at_once = self.depends_on_page(now)
            if at_once and booked:
                break  # what is booked goes first
            self.clock = now
            self.modify(now)
            booked += self.assign(now, at_once, &self.bookings[booked])
            if at_once:
                break
        return booked

    cdef void sort_by_server(self, Py_ssize_t booked) noexcept nogil:
        """Bookings of one server stay in their order."""
        cdef Py_ssize_t at
        cdef int32_t* ends = &self.ends[0]
        for at in range(self.count + 1):
            ends[at] = 0
        for at in range(booked):
            ends[self.bookings[at].server + 1] += 1
        for at in range(self.count):
            ends[at + 1] += ends[at]
        for at in range(booked):
            self.order[ends[self.bookings[at].server]] = <int32_t>at
            ends[self.bookings[at].server] += 1

    cdef inline Py_ssize_t in_turn(self, Py_ssize_t at) noexcept nogil:
        """Where the next booking is, by server; memory is asked for a later one."""
        if not self.sorted:
            return at
        if at + AHEAD < self.booked:
            ask_for(&self.bookings[self.order[at + AHEAD]])
        return self.order[at]

    # ---- crawler free, scheduler ready

    cdef double next_assignment(self, double until) noexcept nogil:
        """When a crawler is free and a server's turn has come; servers that may be visited are then in `ready`."""
        cdef double now = max(self.clock, self.free.heap[0].key), turn
        cdef Entry* first
        while self.budget > 0 and now < until:
            self.wake(now)
            turn = INFINITY
            first = self.ready.first()
            if first.key < INFINITY:
                turn = max(now, min(first.key, self.behind_at()))
                if turn == now:
                    return now
            now = min(turn, self.waiting.first().key)
        return INFINITY

    cdef inline double behind_at(self) noexcept nogil:
        """When visits will be fewer than slots so far, by one a server: from then on a slot may be used early."""
        return self.base + (self.made + self.slack) / self.slots_per_s if self.slots_per_s > 0 else INFINITY

    cdef void wake(self, double now) noexcept nogil:
        cdef Entry* first = self.waiting.first()
        cdef int32_t server
        while first.key <= now:
            server = first.number
            self.waiting.drop(first)
            first = self.waiting.first()
            ask_for(&self.servers[first.number])
            self.ready.push(self.servers[server].nominal, server)
            if self.kind == TIMETABLE:  # what its visit will read
                ask_for(&self.table_due[self.servers[server].head] + 1)

    cdef void offer(self, int32_t server) noexcept nogil:
        cdef Server* it = &self.servers[server]
        cdef double at = it.allowed
        if self.kind == TIMETABLE:
            if it.left == 0:
                return
            it.nominal = self.base + self.table_due[it.head]
            at = max(at, it.nominal)
        elif it.left == 0 or it.slot == INFINITY:
            return
        self.waiting.push(at, server)

    cdef inline bint depends_on_page(self, double now) noexcept nogil:
        """Whether what follows depends on which page the next visit is to."""
        if self.kind == TIMETABLE:
            return self.draws
        if self.draws or self.sends:
            return True
        return self.kind == VALUES and not now - self.servers[self.ready.first().number].latest >= SURELY_S

    cdef bint assign(self, double now, bint at_once, Booking* booking) noexcept nogil:
        """The most overdue server gets a visit; false if none of its pages is worth one."""
        cdef Entry* first = self.ready.first()
        cdef int32_t server = first.number
        cdef Server* it = &self.servers[server]
        cdef double transfer_s = 0.0
        cdef Py_ssize_t at
        booking.time, booking.due, booking.server, booking.row = now, first.key, server, NOT_CHOSEN
        self.ready.drop_first()
        for at in range(min(1 + CHILDREN, self.ready.heap.size)):
            ask_for(&self.servers[self.ready.heap.heap[at].number])
        if self.kind == TIMETABLE:
            it.head += 1
            it.left -= 1
        else:
            it.nominal += it.slot
        if (at_once or self.sends) and not self.choose(booking):
            self.offer(server)
            return False
        if self.sends:
            transfer_s = self.transfer_s[booking.row]
        self.free.first_becomes(now + max(self.service_s, transfer_s))
        it.allowed = rested(now, max(it.politeness, transfer_s))
        it.latest = max(it.latest, now)
        self.budget -= 1
        self.made += 1
        self.offer(server)
        return True

    cdef inline bint choose(self, Booking* booking) noexcept nogil:
        """Whichever page of the server is due first, or is worth most; false if none is worth a visit."""
        cdef int32_t server = booking.server
        cdef Server* it = &self.servers[server]
        cdef Entry* heap
        if booking.row != NOT_CHOSEN:
            return True
        if self.kind == VALUES:
            booking.row = self.values.most_valuable(
                server, self.starts[server], self.starts[server + 1], it.slot, booking.time
            )
            return booking.row != NOT_CHOSEN
        if self.kind == TIMETABLE:
            booking.row = self.table_page[self.places[server]]
            self.places[server] += 1
            return True
        heap = self.due + self.places[server]
        booking.row, booking.due = heap[0].number, heap[0].key
        heap[0].key = booking.time + self.pages[booking.row].interval
        sink(heap, it.left, 0)
        return True

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
