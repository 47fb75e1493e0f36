/*
 * A Ruby extension that publishes spans for readers outside as tracers do: a process context (OTEL_CTX) that says so, and for each
 * native thread a record that the thread-local variable otel_thread_ctx_v1 points to.
 *
 * The few declarations of Ruby's C API that it needs are made here, as in eventlog.c.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef unsigned long VALUE;
extern void rb_define_global_function(const char *, VALUE (*)(), int);
extern unsigned long rb_num2ulong(VALUE);
extern VALUE rb_eRuntimeError;
extern void rb_raise(VALUE, const char *, ...) __attribute__((noreturn));

#ifdef MORE
__thread char published_more[1 << 15] = {1};
#endif
__attribute__((visibility("default"))) __thread void *otel_thread_ctx_v1;

struct record {
    uint8_t trace[16], span[8], valid, flags;
    uint16_t size;
    uint8_t attributes[];
} __attribute__((packed, aligned(2)));

enum { ROOT = 1, OTHER = 0, ROOM = 64, SLOTS = 4, FULL = 2 + 3 + 2 + 16 };

static void put(uint8_t *at, uint64_t n)
{
    for (int i = 0; i < 8; i++) at[i] = (uint8_t)(n >> (56 - 8 * i));
}

static void fill(struct record *r, uint64_t span, uint64_t root)
{
    char hex[17];
    put(r->trace, 0x0123456789abcdef);
    put(r->trace + 8, root);
    put(r->span, span);
    r->flags = 1;
    r->size = FULL;
    r->attributes[0] = OTHER;
    r->attributes[1] = 3;
    for (int i = 0; i < 3; i++) r->attributes[2 + i] = 'x';
    r->attributes[5] = ROOT;
    r->attributes[6] = 16;
    for (int i = 0; i < 16; i++) hex[i] = "0123456789abcdef"[root >> (60 - 4 * i) & 15];
    for (int i = 0; i < 16; i++) r->attributes[7 + i] = (uint8_t)hex[i];
}

#define BARRIER() __asm__ volatile("" ::: "memory")

/* In place: not valid meanwhile. */
static void update(struct record *r, uint64_t span, uint64_t root)
{
    *(volatile uint8_t *)&r->valid = 0;
    BARRIER();
    fill(r, span, root);
    BARRIER();
    *(volatile uint8_t *)&r->valid = 1;
}

static struct record *fresh(uint64_t span, uint64_t root)
{
    struct record *r = calloc(1, sizeof *r + ROOM);
    update(r, span, root);
    return r;
}

static VALUE attach(VALUE self, VALUE span, VALUE root)
{
    otel_thread_ctx_v1 = fresh(rb_num2ulong(span), rb_num2ulong(root));
    return self;
}

static VALUE detach(VALUE self)
{
    otel_thread_ctx_v1 = 0;
    return self;
}

/* What no tracer should do, by a number; the span is 66 of root 55 where there is one. */
static VALUE hostile(VALUE self, VALUE kind)
{
    struct record *r = fresh(66, 55);
    char *page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page + 4096, 4096);
    switch (rb_num2ulong(kind)) {
    case 0: r->valid = 0; break;
    case 1: r->valid = 2; break;
    case 2: r->size = 65535; break;                /* more than is read: no root */
    case 3: r->size = FULL - 1; break;             /* the last attribute is not whole */
    case 4: r->attributes[6] = 255; break;         /* longer than what is left */
    case 5: r = (struct record *)0xdead0000; break; /* no memory */
    case 6: r = (struct record *)~1UL; break;
    case 7: r = (struct record *)(page + 4096 - 20); break; /* it ends with the page */
    case 8:                                        /* the head ends with the page, attributes are claimed */
        memcpy(page + 4096 - sizeof *r, r, sizeof *r);
        r = (struct record *)(page + 4096 - sizeof *r);
        break;
    case 9: memset(r->span, 0, 8); break;
    case 10: memset(r->trace, 0, 16); break;
    case 11: r = (struct record *)((char *)memmove((char *)r + 1, r, sizeof *r + FULL)); break; /* at an odd address */
    case 12: r->attributes[7] = 'g'; break;        /* no number */
    case 13: memset(r, 0, sizeof *r); break;
    case 14:                                       /* said twice: the last one counts */
        r->size = 2 * FULL;
        memmove(r->attributes + FULL, r->attributes, FULL);
        r->attributes[7] = 'f';
        break;
    case 15: r->attributes[5] = 7; break;          /* a number without a name */
    default: rb_raise(rb_eRuntimeError, "no such kind");
    }
    otel_thread_ctx_v1 = r;
    return self;
}

/* published_race(thread, n): goes through some spans as fast as it can, in records that are written in place and in others that take
   their place, in memory that is used again. A span's number says thread, trace and its place in that. */
static VALUE race(VALUE self, VALUE thread, VALUE number)
{
    uint64_t base = rb_num2ulong(thread) << 40, n = rb_num2ulong(number);
    for (int i = 0; i < 200; i++, n++) {
        uint64_t root = base | n << 8;
        struct record *r = otel_thread_ctx_v1, *old = r;
        if (!r || n % 8 == 0) {
            /* The ids end with a page: a reader has them some time before the rest. */
            static __thread char *pages;
            if (!pages) pages = mmap(0, SLOTS * 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            r = (struct record *)(pages + n / 8 % SLOTS * 8192 + 4096 - 24);
            update(r, root, root);
            *(void *volatile *)&otel_thread_ctx_v1 = r;
            if (old) memset(old->span, 0xaa, sizeof old->span); /* it is another one's memory now */
        }
        for (int k = 0; k < 4; k++) {
            update(r, root | (uint64_t)k, root);
            /* From nothing to some 10 us: readers take about one. */
            int pause = (int)((n * 7 + (uint64_t)k * 13) % 97);
            for (volatile int spin = 0; spin < pause * pause; spin++);
        }
    }
    return self;
}

static struct { char signature[8]; uint32_t version, size; uint64_t published; const void *payload; } *header;

/* Attributes: threadlocal.schema_version, threadlocal.attribute_key_map (other, datadog.local_root_span_id). */
static const char payload[] =
    "\x12\x26\x0a\x1athreadlocal.schema_version\x12\x08\x0a\x06tls_v1"
    "\x12\x4a\x0a\x1dthreadlocal.attribute_key_map\x12\x29\x2a\x27\x0a\x07\x0a\x05other\x0a\x1c\x0a\x1a" "datadog.local_root_span_id";

static VALUE context(VALUE self)
{
    int fd = (int)syscall(SYS_memfd_create, "OTEL_CTX", 1);
    if (fd < 0 || ftruncate(fd, 4096)) rb_raise(rb_eRuntimeError, "no memfd");
    header = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    header->version = 2;
    header->size = sizeof payload - 1;
    header->published = 1;
    header->payload = payload;
    BARRIER();
    memcpy(header->signature, "OTEL_CTX", 8);
    return self;
}

__attribute__((visibility("default"))) void Init_published(void)
{
    rb_define_global_function("published_attach", attach, 2);
    rb_define_global_function("published_detach", detach, 0);
    rb_define_global_function("published_hostile", hostile, 1);
    rb_define_global_function("published_race", race, 2);
    rb_define_global_function("published_context", context, 0);
}
