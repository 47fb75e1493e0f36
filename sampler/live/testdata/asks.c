// Functions that ask the kernel for a known amount of memory, and return how much.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCK = 1 << 20, PAGE = 4096, SMALL = 50000 };

// Without this, malloc takes a block from the heap once a block of its size was freed.
void ask_prepare(void) { mallopt(M_MMAP_THRESHOLD, 128 << 10); }

// A block has its own mapping if malloc has no room. Its head says so, and has its size (struct malloc_chunk, glibc
// malloc/malloc.c).
static long block(char **p) {
  *p = malloc(BLOCK);
  memset(*p, 1, BLOCK);
  long head = ((long *)*p)[-1];
  return head & 2 ? ((head & ~7) + PAGE - 1) & -PAGE : 0;
}

long ask_keep(long times) {
  long sum = 0;
  for (char *p; times-- > 0;) sum += block(&p);
  return sum;
}

long ask_free(long times) {
  long sum = 0;
  for (char *p; times-- > 0; free(p)) sum += block(&p);
  return sum;
}

long ask_heap(long times) {
  char *before = sbrk(0);
  while (times-- > 0) memset(malloc(SMALL), 1, SMALL);
  return (char *)sbrk(0) - before;
}

long ask_grow(long times) {
  long sum = 0;
  char *p = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (long had = 1; times-- > 0; had += 256, sum += 256 * PAGE)
    p = mremap(p, had * PAGE, (had + 256) * PAGE, MREMAP_MAYMOVE);
  return sum + PAGE;
}

static void *arena(void *times) {
  for (long n = (long)times; n-- > 0;) memset(malloc(SMALL), 1, SMALL);
  return 0;
}

// A new thread has an arena of its own, which grows by mprotect.
long ask_arena(long times) {
  pthread_t t;
  pthread_create(&t, 0, arena, (void *)times);
  pthread_join(t, 0);
  return times * SMALL;
}

// What is no memory: a reservation, and a file.
long ask_nothing(long times) {
  for (; times-- > 0;) munmap(mmap(0, 64 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 64 << 20);
  return 0;
}

long ask_fast(long times) {
  long sum = 0;
  for (; times-- > 0; sum += PAGE) munmap(mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), PAGE);
  return sum;
}
