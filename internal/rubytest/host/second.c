/* Preloaded, it has a program's main run in a second thread, while the first one waits: as in a host program that embeds Ruby. It is linked
   without a C library, so that it takes the one of the program. */
typedef unsigned long size_t;
extern void *dlsym(void *, const char *);
extern int pthread_create(void *, const void *, void *(*)(void *), void *);
extern int pthread_attr_init(void *);
extern int pthread_attr_setstacksize(void *, size_t);
extern int pause(void);
extern void exit(int);
extern char **environ;

static int (*program)(int, char **, char **);
static int argc;
static char **argv;

static void *second(void *unused)
{
	exit(program(argc, argv, environ));
	return unused;
}

static int first(int count, char **args, char **env)
{
	long attr[16], thread;
	argc = count;
	argv = args;
	pthread_attr_init(attr);
	pthread_attr_setstacksize(attr, 8 << 20);
	if (pthread_create(&thread, attr, second, 0))
		return 111;
	for (;;)
		pause();
}

int __libc_start_main(int (*main)(int, char **, char **), int count, char **args, void (*init)(void), void (*fini)(void),
		      void (*rtld_fini)(void), void *stack_end)
{
	int (*real)(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
	real = dlsym((void *)-1L, "__libc_start_main"); /* RTLD_NEXT */
	program = main;
	return real(first, count, args, init, fini, rtld_fini, stack_end);
}
