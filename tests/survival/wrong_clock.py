"""Processes whose clocks are wrong, each by its own number of seconds, which may change while they run.

A small library that is loaded before all others answers for the wall clock; the clock
that cannot be set is the system's. (libfaketime does more, and stumbles over the waits of
a threaded Python.)
"""

import struct
import subprocess
from pathlib import Path

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile long long *offset;

__attribute__((constructor)) static void prepare(void) {
    const char *file = getenv("CLOCK_OFFSET");
    int descriptor = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
    if (descriptor >= 0) {
        void *found = mmap(0, sizeof(long long), PROT_READ, MAP_SHARED, descriptor, 0);
        if (found != MAP_FAILED) offset = found;
    }
}

static long long wrong(void) { return offset ? *offset : 0; }

int clock_gettime(clockid_t which, struct timespec *at) {
    static int (*theirs)(clockid_t, struct timespec *);
    if (!theirs) theirs = dlsym(RTLD_NEXT, "clock_gettime");
    int result = theirs(which, at);
    if (!result && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) at->tv_sec += wrong();
    return result;
}

int gettimeofday(struct timeval *at, void *zone) {
    static int (*theirs)(struct timeval *, void *);
    if (!theirs) theirs = dlsym(RTLD_NEXT, "gettimeofday");
    int result = theirs(at, zone);
    if (!result && at) at->tv_sec += wrong();
    return result;
}

time_t time(time_t *at) {
    static time_t (*theirs)(time_t *);
    if (!theirs) theirs = dlsym(RTLD_NEXT, "time");
    time_t now = theirs(0) + wrong();
    if (at) *at = now;
    return now;
}
"""


def built(folder: Path) -> Path:
    """The library, for `LD_PRELOAD`; it reads its offset from the file that `CLOCK_OFFSET` names."""
    source, library = folder / "wrong_clock.c", folder / "wrong_clock.so"
    source.write_text(_SOURCE)
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True, capture_output=True
    )
    return library


def set_to(file: Path, offset: int) -> None:
    """Set the clock of the processes that read this file ahead by that many seconds."""
    with file.open("r+b" if file.exists() else "wb") as out:
        out.write(struct.pack("q", offset))
