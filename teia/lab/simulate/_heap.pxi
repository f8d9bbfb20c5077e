# Heaps with four entries below each, by key, equal keys by number.
#
# The four share a line of the processor's cache when the first entry of all is at CHILDREN - 1 of memory that begins
# with a line. So going down a heap of a million entries waits for memory ten times, not forty.

cdef enum:
    CHILDREN = 4
    LINE = 64


cdef struct Entry:
    double key
    int32_t number


cdef inline bint before(const Entry* one, const Entry* other) noexcept nogil:
    return one.key < other.key or (one.key == other.key and one.number < other.number)


cdef void sink(Entry* heap, Py_ssize_t size, Py_ssize_t at) noexcept nogil:
    cdef Entry entry = heap[at]
    cdef Py_ssize_t child, best, last
    while True:
        child = CHILDREN * at + 1
        if child >= size:
            break
        best, last = child, min(child + CHILDREN, size)
        for child in range(best + 1, last):
            if before(&heap[child], &heap[best]):
                best = child
        if not before(&heap[best], &entry):
            break
        heap[at] = heap[best]
        at = best
    heap[at] = entry


cdef void heapify(Entry* heap, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t at
    for at in range((size - 2) // CHILDREN, -1, -1):
        sink(heap, size, at)


cdef class Entries:
    """Memory for entries, from the beginning of a line on."""

    cdef Entry* at
    cdef object room

    def __cinit__(self, Py_ssize_t count):
        cdef uint8_t[::1] room = np.empty(count * sizeof(Entry) + LINE, dtype=np.uint8)
        cdef size_t begin = <size_t>&room[0]
        self.room = room
        self.at = <Entry*>((begin + LINE - 1) // LINE * LINE)


@cython.final
cdef class Heap:
    cdef Entries entries
    cdef Entry* heap
    cdef Py_ssize_t size

    def __cinit__(self, Py_ssize_t room):
        self.entries = Entries(CHILDREN + room)
        self.heap = self.entries.at + CHILDREN - 1
        self.size = 0

    cdef void push(self, double key, int32_t number) noexcept nogil:
        cdef Py_ssize_t at = self.size, parent
        cdef Entry entry
        entry.key, entry.number = key, number
        self.size += 1
        while at > 0:
            parent = (at - 1) // CHILDREN
            if not before(&entry, &self.heap[parent]):
                break
            self.heap[at] = self.heap[parent]
            at = parent
        self.heap[at] = entry

    cdef void drop_first(self) noexcept nogil:
        self.size -= 1
        if self.size:
            self.heap[0] = self.heap[self.size]
            sink(self.heap, self.size, 0)

    cdef void first_becomes(self, double key) noexcept nogil:
        """The first entry gets another key."""
        self.heap[0].key = key
        sink(self.heap, self.size, 0)
