/* A Ruby extension that spends CPU time in known functions, and counts it by the kernel's clock of the thread. It needs
 * no headers of Ruby. */
#include <time.h>

typedef unsigned long VALUE;
VALUE rb_define_module(const char *);
void rb_define_module_function(VALUE, const char *, VALUE (*)(), int);
long rb_num2long(VALUE);
VALUE rb_ll2inum(long long);
void *rb_thread_call_without_gvl(void *(*)(void *), void *, void (*)(void *), void *);

static long total[3];
static volatile unsigned sink;

static long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

/* SPEND defines a function that spends ns. It differs from the others, so that the compiler does not join them. */
#define SPEND(name, factor) \
	__attribute__((noinline, visibility("default"))) long name(long ns) \
	{ \
		long from = now(), to; \
		do \
			for (int i = 0; i < 20000; i++) \
				sink = sink * factor + 1; \
		while ((to = now()) - from < ns); \
		return to - from; \
	}

SPEND(spend_first, 3)
SPEND(spend_second, 5)
SPEND(spend_outside, 7)

static void *outside(void *ns)
{
	total[2] += spend_outside(*(long *)ns);
	return 0;
}

/* Both functions are below one frame of Ruby's. */
static VALUE both(VALUE self, VALUE a, VALUE b)
{
	total[0] += spend_first(rb_num2long(a));
	total[1] += spend_second(rb_num2long(b));
	return self;
}

static VALUE without(VALUE self, VALUE ns)
{
	long n = rb_num2long(ns);
	rb_thread_call_without_gvl(outside, &n, 0, 0);
	return self;
}

static VALUE spent(VALUE self, VALUE i)
{
	return rb_ll2inum(total[rb_num2long(i)]);
}

__attribute__((visibility("default"))) void Init_spend(void)
{
	VALUE m = rb_define_module("Spend");
	rb_define_module_function(m, "both", both, 2);
	rb_define_module_function(m, "without", without, 1);
	rb_define_module_function(m, "spent", spent, 1);
}
