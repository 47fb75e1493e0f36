// A program that publishes what a test gives it, as tracers do. Arguments:
//   mapped memfd|anon FILE [HEADER]   FILE is the payload, HEADER, another file, takes the place of the header
//   race FILE FILE                    publishes one after the other as fast as it can, in memory that is freed and used again
//   files (NAME FILE)...              memfds of these names; "fork" on standard input forks
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

struct header {
	char signature[8];
	uint32_t version, size;
	uint64_t published;
	char *payload;
};

static char *slurp(const char *path, uint32_t *size) {
	FILE *f = fopen(path, "r");
	if (!f) exit(2);
	char *b = malloc(1 << 21);
	*size = fread(b, 1, 1 << 21, f);
	fclose(f);
	return b;
}

static struct header *map(int anonymous) {
	struct header *h;
	if (anonymous) {
		h = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (prctl(0x53564d41, 0, h, 4096, "OTEL_CTX")) puts("unnamed");
	} else {
		int fd = memfd_create("OTEL_CTX", MFD_CLOEXEC);
		if (fd < 0 || ftruncate(fd, 4096)) exit(3);
		h = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
	}
	madvise(h, 4096, MADV_DONTFORK);
	return h;
}

static void publish(struct header *h, char *payload, uint32_t size, uint64_t at) {
	*(volatile uint64_t *)&h->published = 0;
	__sync_synchronize();
	h->version = 2;
	h->size = size;
	h->payload = payload;
	__sync_synchronize();
	*(volatile uint64_t *)&h->published = at;
	__sync_synchronize();
	memcpy(h->signature, "OTEL_CTX", 8);
}

int main(int argc, char **argv) {
	setlinebuf(stdout);
	char line[100];
	uint32_t size;
	if (!strcmp(argv[1], "mapped")) {
		struct header *h = map(!strcmp(argv[2], "anon"));
		char *payload = slurp(argv[3], &size);
		publish(h, payload, size, 1);
		if (argc > 4) memcpy(h, slurp(argv[4], &size), sizeof *h);
	} else if (!strcmp(argv[1], "race")) {
		struct header *h = map(0);
		uint32_t sizes[2];
		char *from[2] = {slurp(argv[2], &sizes[0]), slurp(argv[3], &sizes[1])};
		char *last = 0;
		puts("ready");
		for (uint64_t n = 1;; n++) {
			char *b = malloc(sizes[n & 1]);
			memcpy(b, from[n & 1], sizes[n & 1]);
			publish(h, b, sizes[n & 1], n);
			if (last) free(last);
			last = b;
			for (volatile int i = 0; i < (int)(n % 50000); i++);
		}
	} else {
		for (int i = 2; i + 1 < argc; i += 2) {
			int fd = memfd_create(argv[i], MFD_CLOEXEC | MFD_ALLOW_SEALING);
			char *b = slurp(argv[i + 1], &size);
			if (argv[i][0] == '/') fd = open(argv[i], O_CREAT | O_RDWR, 0600); // a file that looks like one
			if (fd < 0 || write(fd, b, size) != size) exit(3);
			if (argv[i][0] == '/') unlink(argv[i]);
		}
	}
	puts("ready");
	while (fgets(line, sizeof line, stdin)) {
		if (!strcmp(line, "fork\n")) {
			sleep(1);
			int pid = fork();
			if (!pid) pause();
			printf("%d\n", pid);
		}
	}
}
