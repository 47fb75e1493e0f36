// A thread-local variable as tracers have it; with MORE it is among so many others that no room near the thread pointer is left.
#ifdef MORE
__thread char more[1 << 15] = {1};
char *others(void) { return more; }
#else
__thread long before = 5;
char *others(void) { return (char *)&before; }
#endif
#ifdef ALIGNED
__thread char aligned[3] __attribute__((aligned(64)));
char *alignedOnes(void) { return aligned; }
#endif
__attribute__((visibility(VISIBILITY))) __thread void *otel_thread_ctx_v1;
void **slot(void) { return &otel_thread_ctx_v1; }
