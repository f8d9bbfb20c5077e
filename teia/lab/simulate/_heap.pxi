# Heaps with four entries below each, by key, equal keys by number.
#
# The four share a line of the processor's cache when the first entry of all is at CHILDREN - 1 of memory that begins
# with a line. So going down a heap of a million entries waits for memory ten times, not forty. Which of the four is
# first is found without a branch: it would be guessed wrong more often than not.

cdef enum:
    CHILDREN = 4
    LINE = 64


cdef struct Entry:
    double key
    int32_t number


cdef Entry NOTHING
NOTHING.key, NOTHING.number = INFINITY, -1


cdef inline bint before(const Entry* one, const Entry* other) noexcept nogil:
    return (one.key < other.key) | ((one.key == other.key) & (one.number < other.number))


cdef inline Py_ssize_t first_of_four(const Entry* four) noexcept nogil:
    cdef Py_ssize_t one = before(&four[1], &four[0]), other = 2 + before(&four[3], &four[2])
    return one + (other - one) * before(&four[other], &four[one])


cdef void sink(Entry* heap, Py_ssize_t size, Py_ssize_t at) noexcept nogil:
    cdef Entry entry = heap[at]
    cdef Py_ssize_t child, best, last
    while True:
        child = CHILDREN * at + 1
        if child + CHILDREN <= size:
            best = child + first_of_four(&heap[child])
        elif child < size:
            best, last = child, size
            for child in range(best + 1, last):
                if before(&heap[child], &heap[best]):
                    best = child
        else:
            break
        if not before(&heap[best], &entry):
            break
        heap[at] = heap[best]
        at = best
    heap[at] = entry


cdef void heapify(Entry* heap, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t at
    for at in range((size - 2) // CHILDREN, -1, -1):
        sink(heap, size, at)


cdef class Room:
    """Memory from the beginning of a line on."""

    cdef void* at
    cdef object room

    def __cinit__(self, Py_ssize_t count, Py_ssize_t size):
        cdef uint8_t[::1] room = np.empty(count * size + LINE, dtype=np.uint8)
        cdef size_t begin = <size_t>&room[0]
        self.room = room
        self.at = <void*>((begin + LINE - 1) // LINE * LINE)


@cython.final
cdef class Heap:
    cdef Room room
    cdef Entry* heap
    cdef Py_ssize_t size

    def __cinit__(self, Py_ssize_t most):
        self.room = Room(CHILDREN + most, sizeof(Entry))
        self.heap = <Entry*>self.room.at + CHILDREN - 1
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
