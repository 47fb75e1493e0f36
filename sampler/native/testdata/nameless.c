// Waits in functions whose names strip removes.
#include <stdio.h>
#include <unistd.h>

__attribute__((noinline)) static int inner_nameless(void) {
  puts("ready");
  fflush(stdout);
  return pause() + 1;
}

__attribute__((noinline)) static int outer_nameless(void) { return inner_nameless() + 1; }

int main(void) { return outer_nameless(); }
