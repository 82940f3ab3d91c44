/* A recorder of file changes: preload this library, and every change of files in the directory POWER_CUT_ROOT is
   written to the log POWER_CUT_LOG.

   cc -shared -fPIC -O2 -o power_cut.so power_cut.c -ldl -lpthread
   POWER_CUT_ROOT=/tmp/store POWER_CUT_LOG=/tmp/log LD_PRELOAD=./power_cut.so python ...

   The log is one total order for all threads and processes. A change and its record are made under one lock. A sync
   has two records, one before it begins and one after it has ended, so that syncs can overlap with other changes. A
   sync covers only the changes that are recorded before its beginning.

   Syncs do not call the kernel. They wait for a random time up to POWER_CUT_SYNC_MS milliseconds, because the log
   defines what is durable. POWER_CUT_SEED makes the times different for each run.

   A program adds its own records with `power_cut_mark(data, size)`. An operation that changes a file in the directory
   and is not supported here (such as a shared writable mapping) is recorded as `unsupported`.

   Each record is a line `kind a b size` followed by `size` bytes and a newline. Files and directories are inode
   numbers. A new name follows its operation, so inode numbers that are used again are not ambiguous:

   create      a: directory, b: new file                        data: name
   mkdir       a: directory, b: new directory                   data: name
   symlink     a: directory, b: new link                        data: name, NUL, target
   link        a: directory, b: file                            data: name
   unlink      a: directory, b: file or directory               data: name
   rename      a: old directory, b: new directory               data: old name, NUL, new name
   write       a: file, b: offset                               data: the written bytes
   truncate    a: file, b: size
   begin       a: file or directory, b: number of the sync      data: fsync, fdatasync or syncfs
   end         a: file or directory, b: number of the sync      data: fsync, fdatasync or syncfs
   mark                                                         data: from the program
   unsupported                                                  data: the operation */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REAL(result, name, ...)                             \
    static result (*real_##name)(__VA_ARGS__);              \
    if (!real_##name)                                       \
        real_##name = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX]; /* real path; empty if nothing is recorded */
static size_t root_length;
static dev_t root_device;
static int log_fd = -1;
static pid_t log_owner; /* the process that has opened the log; each process opens its own description for its lock */
static unsigned long syncs;
static double longest_sync;

/* The recorder's own calls must not be recorded. */
static ssize_t raw_write(int fd, const void *data, size_t size)
{
    REAL(ssize_t, write, int, const void *, size_t)
    return real_write(fd, data, size);
}

static int raw_openat(int directory, const char *path, int flags, mode_t mode)
{
    REAL(int, openat64, int, const char *, int, ...)
    return real_openat64(directory, path, flags, mode);
}

static void fail(const char *what)
{
    fprintf(stderr, "power_cut: %s: %s\n", what, strerror(errno));
    abort();
}

/* A child must not inherit a locked mutex from another thread of its parent. */
static void before_fork(void) { pthread_mutex_lock(&mutex); }
static void after_fork(void) { pthread_mutex_unlock(&mutex); }

__attribute__((constructor)) static void begin(void)
{
    const char *given = getenv("POWER_CUT_ROOT"), *delay = getenv("POWER_CUT_SYNC_MS");
    struct stat found;
    if (!given || !getenv("POWER_CUT_LOG"))
        return;
    if (!realpath(given, root) || stat(root, &found) != 0)
        fail(given);
    root_length = strlen(root);
    root_device = found.st_dev;
    longest_sync = delay ? atof(delay) : 0.0;
    pthread_atfork(before_fork, after_fork, after_fork);
}

static void lock_log(void)
{
    pthread_mutex_lock(&mutex);
    if (log_owner != getpid()) {
        log_fd = raw_openat(AT_FDCWD, getenv("POWER_CUT_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        log_owner = getpid();
        if (log_fd < 0)
            fail("cannot open the log");
    }
    while (flock(log_fd, LOCK_EX) != 0)
        if (errno != EINTR)
            fail("cannot lock the log");
}

static void unlock_log(void)
{
    int saved = errno;
    flock(log_fd, LOCK_UN);
    pthread_mutex_unlock(&mutex);
    errno = saved;
}

static void record(const char *kind, unsigned long a, unsigned long b, const void *data, size_t size)
{
    int saved = errno;
    char head[160];
    int length = snprintf(head, sizeof head, "%s %lu %lu %zu\n", kind, a, b, size);
    size_t total = (size_t)length + size + 1;
    char *whole = malloc(total);
    if (!whole)
        fail("no memory");
    memcpy(whole, head, (size_t)length);
    if (size)
        memcpy(whole + length, data, size);
    whole[total - 1] = '\n';
    for (size_t done = 0; done < total;) {
        ssize_t written = raw_write(log_fd, whole + done, total - done);
        if (written < 0)
            fail("cannot write the log");
        done += (size_t)written;
    }
    free(whole);
    errno = saved;
}

static void record_names(const char *kind, unsigned long a, unsigned long b, const char *first,
                         const char *second)
{
    char both[2 * PATH_MAX];
    size_t size = strlen(first);
    memcpy(both, first, size);
    if (second) {
        both[size++] = 0;
        memcpy(both + size, second, strlen(second));
        size += strlen(second);
    }
    record(kind, a, b, both, size);
}

static int is_below_root(const char *path)
{
    return strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || path[root_length] == 0);
}

/* Return whether an open file is a regular file in the directory, or a directory if `directories` is true. */
static int is_ours(int fd, struct stat *found, int directories)
{
    char name[64], path[PATH_MAX];
    int saved = errno;
    ssize_t length = -1;
    if (root_length && fd >= 0 && fstat(fd, found) == 0 && found->st_dev == root_device &&
        (S_ISREG(found->st_mode) || (directories && S_ISDIR(found->st_mode)))) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        length = readlink(name, path, sizeof path - 1);
    }
    errno = saved;
    if (length < 0)
        return 0;
    path[length] = 0;
    return is_below_root(path);
}

/* A place in the directory: the inode of the parent directory, and the name. */
struct place {
    unsigned long directory;
    char name[NAME_MAX + 1];
    int is_known;           /* whether the place is in the directory */
    int exists;             /* whether the name exists */
    unsigned long inode;    /* inode of the existing file */
};

static void look(struct place *place, int directory, const char *path)
{
    struct stat found;
    memset(place, 0, sizeof *place);
    if (fstatat(directory, path, &found, AT_SYMLINK_NOFOLLOW) == 0) {
        place->exists = 1;
        place->inode = found.st_ino;
    }
}

static void locate(struct place *place, int directory, const char *path)
{
    char parent[PATH_MAX], real[PATH_MAX], name[64];
    struct stat found;
    int saved = errno;
    memset(place, 0, sizeof *place);
    if (!root_length || strlen(path) >= PATH_MAX)
        return;
    strcpy(parent, path);
    size_t length = strlen(parent);
    while (length > 1 && parent[length - 1] == '/')
        parent[--length] = 0;
    char *slash = strrchr(parent, '/');
    const char *last = slash ? slash + 1 : parent;
    if (strlen(last) > NAME_MAX) {
        errno = saved;
        return;
    }
    char kept[NAME_MAX + 1];
    strcpy(kept, last);
    if (slash)
        slash[slash == parent] = 0;
    int fd = raw_openat(directory, slash ? parent : ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd >= 0) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        ssize_t size = readlink(name, real, sizeof real - 1);
        if (size > 0 && fstat(fd, &found) == 0) {
            real[size] = 0;
            if (is_below_root(real)) {
                look(place, fd, kept);
                place->is_known = 1;
                place->directory = found.st_ino;
                strcpy(place->name, kept);
            }
        }
        close(fd);
    }
    errno = saved;
}

/* Marks ------------------------------------------------------------------------------------------------------------ */

/* Add a record of the program. */
void power_cut_mark(const void *data, size_t size)
{
    lock_log();
    record("mark", 0, 0, data, size);
    unlock_log();
}

/* Opening ---------------------------------------------------------------------------------------------------------- */

static int open_recorded(int directory, const char *path, int flags, mode_t mode)
{
    struct place place;
    struct stat found;
    if (!root_length || !(flags & (O_CREAT | O_TRUNC)) || (flags & O_TMPFILE) == O_TMPFILE) {
        int fd = raw_openat(directory, path, flags, mode);
        if (fd >= 0 && root_length && (flags & O_TMPFILE) == O_TMPFILE && is_ours(fd, &found, 0)) {
            lock_log();
            record("unsupported", 0, 0, "O_TMPFILE", 9);
            unlock_log();
        }
        return fd;
    }
    lock_log();
    locate(&place, directory, path);
    int fd = raw_openat(directory, path, flags, mode);
    if (fd >= 0 && place.is_known && fstat(fd, &found) == 0 && S_ISREG(found.st_mode)) {
        if (place.exists && place.inode != found.st_ino)
            record("unsupported", 0, 0, "open through a link", 19);
        else if (!place.exists)
            record_names("create", place.directory, found.st_ino, place.name, NULL);
        else if (flags & O_TRUNC)
            record("truncate", found.st_ino, 0, "", 0);
    }
    unlock_log();
    return fd;
}

#define MODE_OF(flags)                                        \
    mode_t mode = 0;                                          \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                    \
        va_list given;                                        \
        va_start(given, flags);                               \
        mode = va_arg(given, mode_t);                         \
        va_end(given);                                        \
    }

int open(const char *path, int flags, ...) { MODE_OF(flags) return open_recorded(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE_OF(flags) return open_recorded(AT_FDCWD, path, flags, mode); }
int openat(int fd, const char *path, int flags, ...) { MODE_OF(flags) return open_recorded(fd, path, flags, mode); }
int openat64(int fd, const char *path, int flags, ...) { MODE_OF(flags) return open_recorded(fd, path, flags, mode); }
int creat(const char *path, mode_t mode) { return open_recorded(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return open_recorded(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

/* Content ---------------------------------------------------------------------------------------------------------- */

/* Return the offset of the next write. The log is locked, so the end of a file does not move. */
static unsigned long position(int fd, const struct stat *found)
{
    return fcntl(fd, F_GETFL) & O_APPEND ? (unsigned long)found->st_size : (unsigned long)lseek(fd, 0, SEEK_CUR);
}

ssize_t write(int fd, const void *data, size_t size)
{
    struct stat found;
    if (!is_ours(fd, &found, 0))
        return raw_write(fd, data, size);
    lock_log();
    fstat(fd, &found);
    unsigned long offset = position(fd, &found);
    ssize_t written = raw_write(fd, data, size);
    if (written > 0)
        record("write", found.st_ino, offset, data, (size_t)written);
    unlock_log();
    return written;
}

static ssize_t pwrite_recorded(int fd, const void *data, size_t size, off64_t offset)
{
    struct stat found;
    REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t)
    if (!is_ours(fd, &found, 0))
        return real_pwrite64(fd, data, size, offset);
    lock_log();
    fstat(fd, &found);
    if (fcntl(fd, F_GETFL) & O_APPEND)
        offset = found.st_size; /* Linux ignores the offset */
    ssize_t written = real_pwrite64(fd, data, size, offset);
    if (written > 0)
        record("write", found.st_ino, (unsigned long)offset, data, (size_t)written);
    unlock_log();
    return written;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { return pwrite_recorded(fd, data, size, offset); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) { return pwrite_recorded(fd, data, size, offset); }

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    struct stat found;
    REAL(ssize_t, writev, int, const struct iovec *, int)
    if (!is_ours(fd, &found, 0))
        return real_writev(fd, parts, count);
    size_t size = 0;
    for (int i = 0; i < count; i++)
        size += parts[i].iov_len;
    char *whole = malloc(size + 1);
    if (!whole)
        fail("no memory");
    size = 0;
    for (int i = 0; i < count; i++) {
        memcpy(whole + size, parts[i].iov_base, parts[i].iov_len);
        size += parts[i].iov_len;
    }
    lock_log();
    fstat(fd, &found);
    unsigned long offset = position(fd, &found);
    ssize_t written = real_writev(fd, parts, count);
    if (written > 0)
        record("write", found.st_ino, offset, whole, (size_t)written);
    unlock_log();
    free(whole);
    return written;
}

static int truncated(int fd, off64_t size)
{
    struct stat found;
    REAL(int, ftruncate64, int, off64_t)
    if (!is_ours(fd, &found, 0))
        return real_ftruncate64(fd, size);
    lock_log();
    int result = real_ftruncate64(fd, size);
    if (result == 0)
        record("truncate", found.st_ino, (unsigned long)size, "", 0);
    unlock_log();
    return result;
}

int ftruncate(int fd, off_t size) { return truncated(fd, size); }
int ftruncate64(int fd, off64_t size) { return truncated(fd, size); }

static int truncated_by_name(const char *path, off64_t size)
{
    int fd = raw_openat(AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    int result = truncated(fd, size), saved = errno;
    close(fd);
    errno = saved;
    return result;
}

int truncate(const char *path, off_t size) { return truncated_by_name(path, size); }
int truncate64(const char *path, off64_t size) { return truncated_by_name(path, size); }

/* Names ------------------------------------------------------------------------------------------------------------ */

/* `call` changes the name `path` of the directory `base`. */
#define CHANGE_OF_A_NAME(kind, base, path, call)                                                                \
    struct place before, after;                                                                                 \
    if (!root_length)                                                                                           \
        return call;                                                                                            \
    lock_log();                                                                                                 \
    locate(&before, base, path);                                                                                \
    int result = call;                                                                                          \
    if (result == 0 && before.is_known) {                                                                       \
        locate(&after, base, path);                                                                             \
        record_names(kind, before.directory, before.exists ? before.inode : after.inode, before.name, NULL);    \
    }                                                                                                           \
    unlock_log();                                                                                               \
    return result;

static int make_directory(int fd, const char *path, mode_t mode)
{
    REAL(int, mkdirat, int, const char *, mode_t)
    return real_mkdirat(fd, path, mode);
}

static int remove_name(int fd, const char *path, int flags)
{
    REAL(int, unlinkat, int, const char *, int)
    return real_unlinkat(fd, path, flags);
}

static int make_symlink(const char *target, int fd, const char *path)
{
    REAL(int, symlinkat, const char *, int, const char *)
    return real_symlinkat(target, fd, path);
}

static int make_link(int from, const char *old, int to, const char *path, int flags)
{
    REAL(int, linkat, int, const char *, int, const char *, int)
    return real_linkat(from, old, to, path, flags);
}

int mkdirat(int fd, const char *path, mode_t mode) { CHANGE_OF_A_NAME("mkdir", fd, path, make_directory(fd, path, mode)) }
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
int unlinkat(int fd, const char *path, int flags) { CHANGE_OF_A_NAME("unlink", fd, path, remove_name(fd, path, flags)) }
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int linkat(int from, const char *old, int to, const char *path, int flags)
{
    CHANGE_OF_A_NAME("link", to, path, make_link(from, old, to, path, flags))
}

int link(const char *old, const char *path) { return linkat(AT_FDCWD, old, AT_FDCWD, path, 0); }

int symlinkat(const char *target, int fd, const char *path)
{
    struct place place, after;
    if (!root_length)
        return make_symlink(target, fd, path);
    lock_log();
    locate(&place, fd, path);
    int result = make_symlink(target, fd, path);
    if (result == 0 && place.is_known) {
        locate(&after, fd, path);
        record_names("symlink", place.directory, after.inode, place.name, target);
    }
    unlock_log();
    return result;
}

int symlink(const char *target, const char *path) { return symlinkat(target, AT_FDCWD, path); }

int renameat2(int from, const char *old, int to, const char *path, unsigned int flags)
{
    struct place before, after;
    REAL(int, renameat2, int, const char *, int, const char *, unsigned int)
    if (!root_length)
        return real_renameat2(from, old, to, path, flags);
    lock_log();
    locate(&before, from, old);
    locate(&after, to, path);
    int result = real_renameat2(from, old, to, path, flags);
    if (result == 0 && (before.is_known || after.is_known)) {
        if (!before.is_known || !after.is_known || flags & ~(unsigned int)RENAME_NOREPLACE)
            record("unsupported", 0, 0, "rename across the root, or an exchange", 38);
        else if (!(after.exists && after.inode == before.inode)) /* two names of one file: nothing happens */
            record_names("rename", before.directory, after.directory, before.name, after.name);
    }
    unlock_log();
    return result;
}

int renameat(int from, const char *old, int to, const char *path) { return renameat2(from, old, to, path, 0); }
int rename(const char *old, const char *path) { return renameat2(AT_FDCWD, old, AT_FDCWD, path, 0); }

/* Syncs ------------------------------------------------------------------------------------------------------------ */

static void wait_for_the_disk(void)
{
    static __thread unsigned int seed = 0;
    if (longest_sync <= 0)
        return;
    if (!seed) {
        const char *given = getenv("POWER_CUT_SEED");
        seed = (unsigned int)(size_t)&seed ^ (given ? (unsigned int)atoi(given) * 0x9e3779b9u : 0x9e3779b9u);
    }
    long nanoseconds = (long)(longest_sync * rand_r(&seed) / RAND_MAX * 1e6);
    struct timespec left = {nanoseconds / 1000000000, nanoseconds % 1000000000};
    while (nanosleep(&left, &left) != 0)
        ;
}

static int synced(int fd, const char *kind)
{
    struct stat found;
    lock_log();
    fstat(fd, &found);
    unsigned long number = (unsigned long)getpid() * 1000000 + ++syncs;
    record("begin", found.st_ino, number, kind, strlen(kind));
    unlock_log();
    wait_for_the_disk();
    lock_log();
    record("end", found.st_ino, number, kind, strlen(kind));
    unlock_log();
    return 0;
}

#define SYNC(name)                                        \
    int name(int fd)                                      \
    {                                                     \
        struct stat found;                                \
        REAL(int, name, int)                              \
        return is_ours(fd, &found, 1) ? synced(fd, #name) : real_##name(fd); \
    }

SYNC(fsync)
SYNC(fdatasync)
SYNC(syncfs)

/* Operations that are not supported -------------------------------------------------------------------------------- */

static void refuse(int fd, const char *what)
{
    struct stat found;
    if (is_ours(fd, &found, 0)) {
        lock_log();
        record("unsupported", 0, 0, what, strlen(what));
        unlock_log();
    }
}

void sync(void)
{
    REAL(void, sync, void)
    real_sync(); /* no promise of the store may depend on it, so it does not count */
}

ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *where, size_t size, unsigned int flags)
{
    REAL(ssize_t, copy_file_range, int, off64_t *, int, off64_t *, size_t, unsigned int)
    refuse(to, "copy_file_range");
    return real_copy_file_range(from, at, to, where, size, flags);
}

ssize_t sendfile64(int to, int from, off64_t *at, size_t size)
{
    REAL(ssize_t, sendfile64, int, int, off64_t *, size_t)
    refuse(to, "sendfile");
    return real_sendfile64(to, from, at, size);
}

ssize_t splice(int from, off64_t *at, int to, off64_t *where, size_t size, unsigned int flags)
{
    REAL(ssize_t, splice, int, off64_t *, int, off64_t *, size_t, unsigned int)
    refuse(to, "splice");
    return real_splice(from, at, to, where, size, flags);
}

int posix_fallocate64(int fd, off64_t offset, off64_t size)
{
    REAL(int, posix_fallocate64, int, off64_t, off64_t)
    refuse(fd, "posix_fallocate");
    return real_posix_fallocate64(fd, offset, size);
}

ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t offset, int flags)
{
    REAL(ssize_t, pwritev64v2, int, const struct iovec *, int, off64_t, int)
    refuse(fd, "pwritev2");
    return real_pwritev64v2(fd, parts, count, offset, flags);
}

void *mmap64(void *address, size_t length, int protection, int flags, int fd, off64_t offset)
{
    REAL(void *, mmap64, void *, size_t, int, int, int, off64_t)
    if (fd >= 0 && (flags & MAP_SHARED) && (protection & PROT_WRITE))
        refuse(fd, "mmap");
    return real_mmap64(address, length, protection, flags, fd, offset);
}
