/*
 * A Ruby extension that logs what Ruby itself says about its threads and the GVL: the events of the internal thread API
 * (3.2 and later) and the collector's (any release), each with its time, its thread and the native thread it was said
 * on. Tests compare ddtop with it.
 *
 * require "./eventlog" installs the hooks; from then on each event is a record of 24 bytes in memory, which takes some
 * ten nanoseconds. eventlog_write puts them into the file EVENTLOG_FILE.
 *
 * The few declarations of Ruby's C API that it needs are made here: so it is compiled once, without the headers of any
 * release, for every Ruby at hand. They are the same from 2.5 to 4.0 (include/ruby/thread.h, include/ruby/debug.h,
 * include/ruby/internal/event.h).
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long VALUE;
typedef uint32_t rb_event_flag_t;
struct thread_event_data { VALUE thread; }; /* rb_internal_thread_event_data_t of 3.3; 3.2 passes NULL */
typedef void (*thread_event_callback)(rb_event_flag_t, const struct thread_event_data *, void *);

extern void rb_define_global_function(const char *, VALUE (*)(), int);
extern VALUE rb_tracepoint_new(VALUE, rb_event_flag_t, void (*)(VALUE, void *), void *);
extern VALUE rb_tracepoint_enable(VALUE);
extern void *rb_tracearg_from_tracepoint(VALUE);
extern rb_event_flag_t rb_tracearg_event_flag(void *);
extern void rb_gc_register_address(VALUE *);
extern VALUE rb_eRuntimeError;
extern void rb_raise(VALUE, const char *, ...) __attribute__((noreturn));
/* Missing before 3.2: then only the collector is logged. */
extern void *rb_internal_thread_add_event_hook(thread_event_callback, rb_event_flag_t, void *) __attribute__((weak));

enum {
    THREAD_EVENTS = 0x1f, /* STARTED 1, READY 2, RESUMED 4, SUSPENDED 8, EXITED 16 */
    GC_ENTER = 0x2000000,
    GC_EXIT = 0x4000000,
};

struct record {
    int64_t ns;      /* CLOCK_MONOTONIC */
    uint64_t thread; /* the Thread object; 0: that of the native thread */
    uint32_t tid;    /* the native thread that said it, which for READY can be another one */
    uint32_t event;  /* the API's flag */
};

enum { CAPACITY = 1 << 25 }; /* 800 MB of addresses, of which what is used becomes memory: 3.2 can say 2 million events a second */

static struct record *records;
static uint64_t used;
static int closed;
static VALUE tracepoint;
static __thread uint32_t own_tid;

static void note(uint32_t event, uint64_t thread)
{
    struct timespec ts;
    if (__atomic_load_n(&closed, __ATOMIC_RELAXED)) return;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    if (!own_tid) own_tid = (uint32_t)syscall(SYS_gettid);
    uint64_t at = __atomic_fetch_add(&used, 1, __ATOMIC_RELAXED);
    if (at >= CAPACITY) return; /* counted, and the reader refuses the log */
    records[at] = (struct record){ts.tv_sec * 1000000000LL + ts.tv_nsec, thread, own_tid, event};
}

static void on_thread_event(rb_event_flag_t event, const struct thread_event_data *data, void *unused)
{
    (void)unused;
    note(event, data ? data->thread : 0);
}

static void on_gc_event(VALUE tracepoint_value, void *unused)
{
    (void)unused;
    note(rb_tracearg_event_flag(rb_tracearg_from_tracepoint(tracepoint_value)), 0);
}

/* eventlog_write: ends the log and writes it. */
static VALUE write_log(VALUE self)
{
    const char *path = getenv("EVENTLOG_FILE");
    struct { char magic[8]; uint64_t noted, capacity; } head = {"DDTOPEV1", 0, CAPACITY};
    FILE *f;
    size_t n;
    __atomic_store_n(&closed, 1, __ATOMIC_SEQ_CST);
    head.noted = __atomic_load_n(&used, __ATOMIC_SEQ_CST);
    n = head.noted < CAPACITY ? head.noted : CAPACITY;
    if (!path || !(f = fopen(path, "wb"))) rb_raise(rb_eRuntimeError, "eventlog: can't create %s", path ? path : "(EVENTLOG_FILE is not set)");
    if (fwrite(&head, sizeof head, 1, f) != 1 || fwrite(records, sizeof *records, n, f) != n || fclose(f) != 0)
        rb_raise(rb_eRuntimeError, "eventlog: can't write %s", path);
    return self;
}

/* Development builds of Ruby ask each extension for the ABI it was made for; RUBY_ABI_CHECK=0 has them take any. */
__attribute__((visibility("default"))) unsigned long long ruby_abi_version(void) { return 0; }

__attribute__((visibility("default"))) void Init_eventlog(void)
{
    records = mmap(NULL, CAPACITY * sizeof *records, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (records == MAP_FAILED) rb_raise(rb_eRuntimeError, "eventlog: no memory for %d records", CAPACITY);
    rb_define_global_function("eventlog_write", (VALUE(*)())write_log, 0);
    tracepoint = rb_tracepoint_new(0, GC_ENTER | GC_EXIT, on_gc_event, NULL);
    rb_gc_register_address(&tracepoint);
    rb_tracepoint_enable(tracepoint);
    if (rb_internal_thread_add_event_hook) rb_internal_thread_add_event_hook(on_thread_event, THREAD_EVENTS, NULL);
}
