# The most valuable page of a server: only pages that can become it within a block of slots are looked at.

cdef enum:
    SHORTEST_BLOCK = 8


cdef struct Candidate:
    double most
    double weight
    double rate
    double fresh
    int32_t row


cdef struct Block:
    double end
    int64_t left
    int64_t chosen


cdef int by_most(const void* one, const void* other) noexcept nogil:
    cdef double first = (<const Candidate*>one).most, second = (<const Candidate*>other).most
    return -1 if first > second else 1 if first < second else 0


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


@cython.final
cdef class Values:
    """What visits of pages are worth, and whose is worth most; the loop says which pages a server has, and its slot."""

    cdef bint by_divergence
    cdef const Page* pages
    cdef Room candidates_room, blocks_room
    cdef Candidate* candidates
    cdef Block* blocks
    cdef double[::1] scratch

    def __init__(self, bint by_divergence, Py_ssize_t pages, Py_ssize_t servers, Py_ssize_t widest):
        cdef Py_ssize_t server
        self.by_divergence = by_divergence
        self.candidates_room, self.blocks_room = Room(pages, sizeof(Candidate)), Room(servers, sizeof(Block))
        self.candidates = <Candidate*>self.candidates_room.at
        self.blocks = <Block*>self.blocks_room.at
        for server in range(servers):
            self.blocks[server].end, self.blocks[server].left, self.blocks[server].chosen = -INFINITY, 0, 0
        self.scratch = np.empty(max(1, widest))

    cdef inline double worth(self, double weight, double rate, double age) noexcept nogil:
        """What a visit is worth; `ByValue.of` has the formulas."""
        cdef double u
        if rate <= 0.0 or rate == INFINITY:
            return 0.0
        if age < 0.0:
            age = 0.0
        if self.by_divergence:
            return weight * rate * (age * age) / 2
        u = rate * age
        if u < 0.02:
            u = u * u * (1.0 / 2 - u * (1.0 / 3 - u * (1.0 / 8 - u * (1.0 / 30 - u * (1.0 / 144 - u / 840)))))
        elif u == INFINITY:
            u = 1.0
        else:
            u = 1.0 - (1.0 + u) * exp(-u)
        return weight / rate * u

    cdef int32_t most_valuable(self, int32_t server, int64_t a, int64_t b, double slot, double now) noexcept nogil:
        """Of the server's pages, from row a to row b; -1 if none is worth a visit."""
        cdef int64_t at, place = -1
        cdef int32_t best = -1
        cdef double worth, most = 0.0
        cdef Candidate* it
        cdef Block* block = &self.blocks[server]
        if block.left == 0 or now > block.end:
            self.begin_block(block, a, b - a, slot, now)
        block.left -= 1
        for at in range(a, a + block.chosen):
            it = &self.candidates[at]
            if it.most < most:
                break
            worth = self.worth(it.weight, it.rate, now - it.fresh)
            if worth > most or (worth == most and it.row < best):
                most, best, place = worth, it.row, at
        if best >= 0:
            self.candidates[place].fresh = now
        return best

    cdef void begin_block(self, Block* block, int64_t a, int64_t pages, double slot, double now) noexcept nogil:
        """Choose whom to look at in the next `length` slots.

        Values only grow until a visit, and fewer than `length` pages are visited before the last slot: so one of the
        `length` most valuable now is still there, and who cannot be worth as much at the end of the block is out. Who
        can be worth most then is looked at first, and the others only until nobody can be worth more.
        """
        cdef int64_t row, chosen = 0
        cdef int64_t length = max(<int64_t>SHORTEST_BLOCK, <int64_t>sqrt(<double>pages))
        cdef double threshold = -1.0, end, most
        cdef const Page* page
        cdef Candidate* it
        end = now + length * slot
        block.left, block.end = length, end
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
        block.chosen = chosen
        if chosen > 1:
            qsort(&self.candidates[a], <size_t>chosen, sizeof(Candidate), &by_most)
