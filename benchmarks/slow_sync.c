/* A slow disk: preload this library, and each fsync, fdatasync and syncfs takes longer by SLOW_SYNC_MS milliseconds.

   cc -shared -fPIC -O2 -o slow_sync.so slow_sync.c -ldl
   SLOW_SYNC_MS=5 LD_PRELOAD=./slow_sync.so python ...

   With SLOW_SYNC_UP_TO_MS, the extra time is random, between 0 and this many milliseconds. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static double milliseconds(const char *name)
{
    const char *text = getenv(name);
    return text ? atof(text) : 0.0;
}

static void wait_longer(void)
{
    static __thread unsigned int seed = 0;
    double most = milliseconds("SLOW_SYNC_UP_TO_MS"), extra = milliseconds("SLOW_SYNC_MS");
    if (most > 0) {
        if (!seed)
            seed = (unsigned int)(size_t)&seed ^ 0x9e3779b9u;
        extra = most * rand_r(&seed) / RAND_MAX;
    }
    if (extra > 0) {
        struct timespec left = {(time_t)(extra / 1000), (long)((extra - 1000.0 * (long)(extra / 1000)) * 1e6)};
        while (nanosleep(&left, &left) != 0)
            ;
    }
}

#define SLOW(name)                                                  \
    int name(int fd)                                                \
    {                                                               \
        static int (*original)(int);                                \
        if (!original)                                              \
            original = (int (*)(int))dlsym(RTLD_NEXT, #name);       \
        int result = original(fd);                                  \
        wait_longer();                                              \
        return result;                                              \
    }

SLOW(fsync)
SLOW(fdatasync)
SLOW(syncfs)
