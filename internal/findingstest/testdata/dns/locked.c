/* A resolver that asks no server: each call waits for a lock, and sleeps while it has it. */
#include <netdb.h>
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
	pthread_mutex_lock(&lock);
	usleep(2000000);
	pthread_mutex_unlock(&lock);
	return EAI_AGAIN;
}
