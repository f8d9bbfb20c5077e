# Queues of servers by time, for which a visit costs much the same however many servers there are.
#
# A wheel (a calendar queue) is a heap of what is next, and buckets of a few entries each for what is later. A bucket is
# poured into the heap when its time has come. So almost every entry goes through a heap of a few. What is before the
# buckets or beyond them goes into the heap at once: that costs more and changes nothing.

cdef enum:
    PER_BUCKET = 2  # entries, if they are spread evenly
    BUCKETS_EACH = 2  # for each entry that there can be
    WORD = 64
    NOBODY = -1

cdef extern from *:
    """
    #define lowest_bit(word) ((Py_ssize_t) __builtin_ctzll(word))
    """
    Py_ssize_t lowest_bit(uint64_t word) noexcept nogil  # of a word that is not 0


@cython.final
cdef class Wheel:
    """Servers by key, equal keys by number; each is in one wheel at most, and what that needs is in its own line."""

    cdef Heap heap
    cdef Room buckets_room, filled_room
    cdef Server* servers
    cdef const double* due  # of a timetable's visits
    cdef int32_t* buckets
    cdef uint64_t* filled  # a bit for each bucket
    cdef int64_t mask, poured, lowest  # buckets up to `poured` are in the heap; the first with entries is `lowest`
    cdef Py_ssize_t size  # of all buckets
    cdef double base, per_s

    def __cinit__(self, Py_ssize_t most):
        cdef Py_ssize_t at
        cdef int64_t count = max(WORD, 1 << int(BUCKETS_EACH * most).bit_length())
        self.mask = count - 1
        self.heap = Heap(most)
        self.buckets_room = Room(count, sizeof(int32_t))
        self.buckets = <int32_t*>self.buckets_room.at
        for at in range(count):
            self.buckets[at] = 0
        self.filled_room = Room(count // WORD, sizeof(uint64_t))
        self.filled = <uint64_t*>self.filled_room.at
        self.clear(0.0, 0.0)

    cdef void clear(self, double base, double per_s) noexcept nogil:
        """Nothing is left; from `base` on about so many will come in a second."""
        cdef Py_ssize_t at
        self.heap.size = self.size = 0
        self.base, self.per_s, self.poured = base, per_s / PER_BUCKET, 0
        for at in range((self.mask + 1) // WORD):
            self.filled[at] = 0

    cdef inline double place(self, double key) noexcept nogil:
        """Its whole part is the number of the bucket; larger keys are never before smaller ones."""
        return (key - self.base) * self.per_s

    cdef inline Entry* first(self) noexcept nogil:
        """The first of all; it has the key infinity if there is none."""
        while self.size and not (self.heap.size and self.place(self.heap.heap.key) < self.lowest):
            self.pour()
        return self.heap.heap if self.heap.size else &NOTHING

    cdef inline void drop_first(self) noexcept nogil:
        """Drop what `first` found."""
        self.heap.drop_first()

    cdef inline void push(self, double key, int32_t number) noexcept nogil:
        cdef double place = self.place(key)
        if not self.size and place > self.poured + self.mask:
            self.catch_up()
        if self.poured + 1 <= place and place <= self.poured + self.mask:
            self.put(<int64_t>place, key, number)
        else:
            self.heap.push(key, number)

    cdef inline void put(self, int64_t bucket, double key, int32_t number) noexcept nogil:
        cdef int64_t at = bucket & self.mask
        cdef uint64_t* word = &self.filled[at // WORD]
        cdef uint64_t bit = <uint64_t>1 << (at % WORD)
        self.servers[number].key = key
        self.servers[number].behind = self.buckets[at] if word[0] & bit else NOBODY
        self.buckets[at] = number
        word[0] |= bit
        if not self.size or bucket < self.lowest:
            self.lowest = bucket
        self.size += 1

    cdef void pour(self) noexcept nogil:
        """The lowest bucket becomes part of the heap."""
        cdef int64_t at = self.lowest & self.mask
        cdef int32_t number = self.buckets[at]
        while number != NOBODY:
            self.heap.push(self.servers[number].key, number)
            ask_for(&self.due[self.servers[number].head + 1])  # what its visit will read
            self.size -= 1
            number = self.servers[number].behind
        self.filled[at // WORD] &= ~(<uint64_t>1 << (at % WORD))
        self.poured = self.lowest
        if self.size:
            self.lowest = self.next_filled(self.lowest + 1)
            # for the two buckets after this one, which may be empty: then some server is asked for that nobody needs
            ask_for(&self.servers[self.buckets[self.lowest & self.mask]])
            ask_for(&self.servers[self.buckets[(self.lowest + 1) & self.mask]])

    cdef inline int64_t next_filled(self, int64_t bucket) noexcept nogil:
        """The first bucket with entries from this one on; there is one."""
        cdef int64_t at = bucket & self.mask
        cdef uint64_t word = self.filled[at // WORD] >> (at % WORD)
        if word:
            return bucket + lowest_bit(word)
        bucket += WORD - at % WORD
        while not self.filled[(bucket & self.mask) // WORD]:
            bucket += WORD
        return bucket + lowest_bit(self.filled[(bucket & self.mask) // WORD])

    cdef void catch_up(self) noexcept nogil:
        """Without entries in them the buckets may begin anywhere: with the first of the heap."""
        cdef double place = self.place(self.heap.heap.key) if self.heap.size else 0.0
        if self.poured < place and place < 1e15:
            self.poured = <int64_t>place


@cython.final
cdef class Queue:
    """A wheel, with a line beside it for what comes in the order in which it will go: that costs the same for any size.

    `most` is how many there can be at once.
    """

    cdef Wheel wheel
    cdef Room room
    cdef Entry* line
    cdef Py_ssize_t mask, begin, end

    def __cinit__(self, Py_ssize_t most):
        self.wheel = Wheel(most)
        self.mask = (1 << int(most).bit_length()) - 1
        self.room = Room(self.mask + 1, sizeof(Entry))
        self.line = <Entry*>self.room.at
        self.begin = self.end = 0

    cdef inline void clear(self, double base, double per_s) noexcept nogil:
        self.wheel.clear(base, per_s)
        self.begin = self.end = 0

    cdef inline Entry* first(self) noexcept nogil:
        """The first of all; it has the key infinity if there is none."""
        cdef Entry* other = self.wheel.first()
        cdef Entry* ahead = &self.line[self.begin & self.mask]
        return other if self.begin == self.end or before(other, ahead) else ahead

    cdef inline void push(self, double key, int32_t number) noexcept nogil:
        cdef Entry* last
        if self.begin == self.end or self.line[(self.end - 1) & self.mask].key <= key:
            last = &self.line[self.end & self.mask]
            last.key, last.number = key, number
            self.end += 1
        else:
            self.wheel.push(key, number)

    cdef inline void drop(self, const Entry* first) noexcept nogil:
        """Drop what `first` found."""
        if first == self.wheel.heap.heap:
            self.wheel.drop_first()
        else:
            self.begin += 1
