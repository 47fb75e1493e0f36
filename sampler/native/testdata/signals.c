// Waits in a signal handler, which a signal has called in another handler that runs on a stack of its own.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void inner_handler(int s) {
  puts("ready");
  fflush(stdout);
  for (;;) pause();
}

static void outer_handler(int s) {
  raise(SIGUSR2);
  puts("not reached");
}

int main(void) {
  stack_t own = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
  struct sigaction outer = {.sa_handler = outer_handler, .sa_flags = SA_ONSTACK}, inner = {.sa_handler = inner_handler};
  sigaltstack(&own, 0);
  sigaction(SIGUSR1, &outer, 0);
  sigaction(SIGUSR2, &inner, 0);
  raise(SIGUSR1);
  return 0;
}
