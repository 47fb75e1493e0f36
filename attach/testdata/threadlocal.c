// Threads that have a thread-local variable: each prints its pthread_t and where it has it, 0 where it has not used it.
// Argument: the library to open, unless it is linked in.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#ifdef LINKED
void **slot(void);
#endif
static void **(*find)(void);

static void *run(void *user) {
	printf("%lu %lu\n", (unsigned long)pthread_self(), user ? (unsigned long)find() : 0);
	pause();
	return 0;
}

int main(int argc, char **argv) {
	setlinebuf(stdout);
	pthread_t t;
	pthread_create(&t, 0, run, 0); // before the library is there
#ifdef LINKED
	find = slot;
#else
	find = (void **(*)(void))dlsym(dlopen(argv[1], RTLD_NOW), "slot");
#endif
	pthread_create(&t, 0, run, 0);
	pthread_create(&t, 0, run, (void *)1);
	pthread_create(&t, 0, run, (void *)1);
	run((void *)1);
}
