/* A library for LD_PRELOAD that makes the n-th write, sync, truncation or change of names fail, of files whose path
 * matches a pattern. Built by bench.py; nothing of teia knows of it.
 *
 *   FAULT_PATH    extended regular expression over the whole path
 *   FAULT_DEEDS   which calls: some of write,sync,truncate,name,open, with commas
 *   FAULT_NTH     which of them fails, from 1; 0: none, they are counted
 *   FAULT_ERROR   the number of the error
 *   FAULT_STICKY  1: all that follow fail too
 *   FAULT_LOG     a file that gets a line for each call: number, deed, path
 *
 * A process can choose anew by `fault_set`, and ask how many there were by `fault_count` and whether one failed by
 * `fault_fired`. A write that fails for want of room has written half of its bytes the first time, as disks do.
 *
 * `trace_set(folder, file)` records every change of files below a folder, with its bytes, for powerloss.py: what a
 * machine that loses power may find afterwards follows from the order of writes and syncs. A record is one line, `deed at
 * size path|other`, and `size` bytes. `trace_mark` adds a mark.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <regex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static regex_t pattern;
static int is_on, is_sticky, log_fd = -1, error_number = EIO;
static char deeds[128];
static long nth, count, fired;
static __thread int is_inside;

static int trace_fd = -1;
static char traced[PATH_MAX];
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static ssize_t (*real_pwritev)(int, const struct iovec *, int, off_t);

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

int fault_set(const char *path, const char *which, long number, int error, int sticky, const char *log) {
    pthread_mutex_lock(&lock);
    if (is_on) regfree(&pattern);
    is_on = path && *path && regcomp(&pattern, path, REG_EXTENDED | REG_NOSUB) == 0;
    snprintf(deeds, sizeof deeds, ",%s,", which ? which : "");
    nth = number, error_number = error, is_sticky = sticky, count = fired = 0;
    if (log_fd >= 0) close(log_fd);
    int (*open_)(const char *, int, ...) = real("open");
    log_fd = log && *log ? open_(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    pthread_mutex_unlock(&lock);
    return is_on;
}

long fault_count(void) { return count; }
long fault_fired(void) { return fired; }

static long number_in(const char *name) {
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

static void begin(void) {
    real_write = real("write"), real_pwrite = real("pwrite64");
    real_writev = real("writev"), real_pwritev = real("pwritev64");
    const char *path = getenv("FAULT_PATH");
    if (path)
        fault_set(path, getenv("FAULT_DEEDS"), number_in("FAULT_NTH"), (int)number_in("FAULT_ERROR"),
                  (int)number_in("FAULT_STICKY"), getenv("FAULT_LOG"));
}

/* Whether a call on a path fails now. 2: it is the first to fail. */
static int fails(const char *deed, const char *path) {
    pthread_once(&once, begin);
    if (!is_on || is_inside) return 0;
    is_inside = 1;
    char wanted[32];
    snprintf(wanted, sizeof wanted, ",%s,", deed);
    int result = 0;
    pthread_mutex_lock(&lock);
    if (strstr(deeds, wanted) && regexec(&pattern, path, 0, NULL, 0) == 0) {
        count++;
        result = nth && (count == nth || (is_sticky && count > nth)) ? 1 + (count == nth) : 0;
        if (result) fired++;
        if (log_fd >= 0) {
            char line[PATH_MAX + 64];
            int size = snprintf(line, sizeof line, "%ld %s %s%s\n", count, deed, path, result ? " FAILS" : "");
            if (real_write(log_fd, line, (size_t)size) < 0) result = result;
        }
    }
    pthread_mutex_unlock(&lock);
    is_inside = 0;
    return result;
}

static void path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    path[size > 0 ? size : 0] = 0;
}

static void path_at(int folder, const char *name, char *path) {
    if (*name == '/') {
        snprintf(path, PATH_MAX, "%s", name);
    } else {
        if (folder == AT_FDCWD) {
            if (!getcwd(path, PATH_MAX)) *path = 0;
        } else {
            path_of(folder, path);
        }
        size_t size = strlen(path);
        snprintf(path + size, PATH_MAX - size, "/%s", name);
    }
}

int trace_set(const char *folder, const char *file) {
    int (*open_)(const char *, int, ...) = real("open");
    snprintf(traced, sizeof traced, "%s", folder);
    trace_fd = open_(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    return trace_fd;
}

static void trace(const char *deed, long at, const void *data, size_t size, const char *path, const char *other) {
    char line[2 * PATH_MAX + 96];
    if (trace_fd < 0 || is_inside || (strncmp(path, traced, strlen(traced)) && *deed != '!')) return;
    is_inside = 1;
    pthread_mutex_lock(&lock);
    int length = snprintf(line, sizeof line, "%s %ld %zu %s|%s\n", deed, at, size, path, other);
    if (real_write(trace_fd, line, (size_t)length) < 0 || (size && real_write(trace_fd, data, size) < 0)) abort();
    pthread_mutex_unlock(&lock);
    is_inside = 0;
}

void trace_mark(long number) { trace("!", number, NULL, 0, "", ""); }

static void trace_fd_of(const char *deed, long at, const void *data, size_t size, int fd) {
    char path[PATH_MAX];
    if (trace_fd < 0 || is_inside) return;
    path_of(fd, path);
    trace(deed, at, data, size, path, "");
}

static void trace_names(const char *deed, int old, const char *from, int folder, const char *to) {
    char one[PATH_MAX], other[PATH_MAX], seen[PATH_MAX];
    if (trace_fd < 0 || is_inside) return;
    path_at(folder, to, other);
    *one = 0;
    if (from) {
        path_at(old, from, one);
        ssize_t size = readlink(one, seen, PATH_MAX - 1);
        if (size > 0) seen[size] = 0, snprintf(one, PATH_MAX, "%s", seen);
    }
    trace(deed, 0, NULL, 0, other, one);
}

static ssize_t traced_parts(ssize_t done, int fd, const struct iovec *parts, int number, off_t at) {
    off_t end = at >= 0 ? at + done : lseek(fd, 0, SEEK_CUR);
    off_t place = end - done;
    for (int each = 0; each < number && done > 0; each++) {
        size_t size = parts[each].iov_len < (size_t)done ? parts[each].iov_len : (size_t)done;
        trace_fd_of("write", place, parts[each].iov_base, size, fd);
        place += (off_t)size, done -= (ssize_t)size;
    }
    return end - place;
}

static int fails_fd(const char *deed, int fd) {
    char path[PATH_MAX];
    pthread_once(&once, begin);
    if (!is_on || is_inside) return 0;
    path_of(fd, path);
    return *path == '/' ? fails(deed, path) : 0;
}

static int fails_at(const char *deed, int folder, const char *name) {
    char path[PATH_MAX];
    pthread_once(&once, begin);
    if (!is_on || is_inside) return 0;
    path_at(folder, name, path);
    return fails(deed, path);
}

#define FAIL do { errno = error_number; return -1; } while (0)
#define HALF(how) (error_number == ENOSPC && how == 2)

ssize_t write(int fd, const void *data, size_t size) {
    int how = fails_fd("write", fd);
    if (HALF(how) && size > 1 && real_write(fd, data, size / 2) < 0) FAIL;
    if (how) FAIL;
    ssize_t done = real_write(fd, data, size);
    if (done > 0 && trace_fd >= 0 && fd != trace_fd)
        trace_fd_of("write", lseek(fd, 0, SEEK_CUR) - done, data, (size_t)done, fd);
    return done;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) {
    int how = fails_fd("write", fd);
    if (HALF(how) && size > 1 && real_pwrite(fd, data, size / 2, at) < 0) FAIL;
    if (how) FAIL;
    ssize_t done = real_pwrite(fd, data, size, at);
    if (done > 0) trace_fd_of("write", at, data, (size_t)done, fd);
    return done;
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return pwrite64(fd, data, size, at); }

ssize_t writev(int fd, const struct iovec *parts, int number) {
    if (fails_fd("write", fd)) FAIL;
    ssize_t done = real_writev(fd, parts, number);
    if (done > 0 && trace_fd >= 0) traced_parts(done, fd, parts, number, -1);
    return done;
}

ssize_t pwritev64(int fd, const struct iovec *parts, int number, off_t at) {
    if (fails_fd("write", fd)) FAIL;
    ssize_t done = real_pwritev(fd, parts, number, at);
    if (done > 0 && trace_fd >= 0) traced_parts(done, fd, parts, number, at);
    return done;
}
ssize_t pwritev(int fd, const struct iovec *parts, int number, off_t at) { return pwritev64(fd, parts, number, at); }

int fsync(int fd) {
    if (fails_fd("sync", fd)) FAIL;
    trace_fd_of("sync", 0, NULL, 0, fd);
    return ((int (*)(int))real("fsync"))(fd);
}

int fdatasync(int fd) {
    if (fails_fd("sync", fd)) FAIL;
    trace_fd_of("sync", 0, NULL, 0, fd);
    return ((int (*)(int))real("fdatasync"))(fd);
}

int ftruncate64(int fd, off_t size) {
    if (fails_fd("truncate", fd)) FAIL;
    trace_fd_of("truncate", size, NULL, 0, fd);
    return ((int (*)(int, off_t))real("ftruncate64"))(fd, size);
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int truncate64(const char *path, off_t size) {
    if (fails_at("truncate", AT_FDCWD, path)) FAIL;
    return ((int (*)(const char *, off_t))real("truncate64"))(path, size);
}
int truncate(const char *path, off_t size) { return truncate64(path, size); }

int posix_fallocate64(int fd, off_t at, off_t size) {
    if (fails_fd("write", fd)) return error_number;
    return ((int (*)(int, off_t, off_t))real("posix_fallocate64"))(fd, at, size);
}
int posix_fallocate(int fd, off_t at, off_t size) { return posix_fallocate64(fd, at, size); }

int rename(const char *from, const char *to) {
    if (fails_at("name", AT_FDCWD, to)) FAIL;
    trace_names("rename", AT_FDCWD, from, AT_FDCWD, to);
    return ((int (*)(const char *, const char *))real("rename"))(from, to);
}

int renameat(int old, const char *from, int folder, const char *to) {
    if (fails_at("name", folder, to)) FAIL;
    trace_names("rename", old, from, folder, to);
    return ((int (*)(int, const char *, int, const char *))real("renameat"))(old, from, folder, to);
}

int link(const char *from, const char *to) {
    if (fails_at("name", AT_FDCWD, to)) FAIL;
    return ((int (*)(const char *, const char *))real("link"))(from, to);
}

int linkat(int old, const char *from, int folder, const char *to, int flags) {
    if (fails_at("name", folder, to)) FAIL;
    trace_names("rename", old, from, folder, to); /* only unnamed files are linked: the name is their first */
    return ((int (*)(int, const char *, int, const char *, int))real("linkat"))(old, from, folder, to, flags);
}

int unlink(const char *path) {
    if (fails_at("name", AT_FDCWD, path)) FAIL;
    trace_names("unlink", 0, NULL, AT_FDCWD, path);
    return ((int (*)(const char *))real("unlink"))(path);
}

int unlinkat(int folder, const char *path, int flags) {
    if (fails_at("name", folder, path)) FAIL;
    trace_names("unlink", 0, NULL, folder, path);
    return ((int (*)(int, const char *, int))real("unlinkat"))(folder, path, flags);
}

int mkdir(const char *path, mode_t mode) {
    if (fails_at("name", AT_FDCWD, path)) FAIL;
    trace_names("mkdir", 0, NULL, AT_FDCWD, path);
    return ((int (*)(const char *, mode_t))real("mkdir"))(path, mode);
}

/* Only files that are made: they need a name and room. */
static int makes(int flags) { return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE; }

int open64(const char *path, int flags, ...) {
    mode_t mode = 0;
    if (makes(flags)) {
        va_list given;
        va_start(given, flags);
        mode = va_arg(given, mode_t);
        va_end(given);
        if (((flags & O_TMPFILE) == O_TMPFILE || access(path, F_OK)) && fails_at("open", AT_FDCWD, path)) FAIL;
        if ((flags & O_TMPFILE) != O_TMPFILE && access(path, F_OK)) trace_names("make", 0, NULL, AT_FDCWD, path);
    }
    if ((flags & O_TRUNC) && !access(path, F_OK)) trace_names("empty", 0, NULL, AT_FDCWD, path);
    return ((int (*)(const char *, int, ...))real("open64"))(path, flags, mode);
}

int open(const char *path, int flags, ...) {
    mode_t mode = 0;
    if (makes(flags)) {
        va_list given;
        va_start(given, flags);
        mode = va_arg(given, mode_t);
        va_end(given);
    }
    return open64(path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) {
    mode_t mode = 0;
    if (makes(flags)) {
        va_list given;
        va_start(given, flags);
        mode = va_arg(given, mode_t);
        va_end(given);
        if (((flags & O_TMPFILE) == O_TMPFILE || faccessat(folder, path, F_OK, 0)) && fails_at("open", folder, path))
            FAIL;
        if ((flags & O_TMPFILE) != O_TMPFILE && faccessat(folder, path, F_OK, 0))
            trace_names("make", 0, NULL, folder, path);
    }
    if ((flags & O_TRUNC) && !faccessat(folder, path, F_OK, 0)) trace_names("empty", 0, NULL, folder, path);
    return ((int (*)(int, const char *, int, ...))real("openat64"))(folder, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
    mode_t mode = 0;
    if (makes(flags)) {
        va_list given;
        va_start(given, flags);
        mode = va_arg(given, mode_t);
        va_end(given);
    }
    return openat64(folder, path, flags, mode);
}
