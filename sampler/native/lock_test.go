package native

import (
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// named makes a stack from words such as "libc:read", each with a library and a function.
func named(text string) (frames []sampler.NativeFrame) {
	for _, word := range strings.Fields(text) {
		library, name, _ := strings.Cut(word, ":")
		frames = append(frames, sampler.NativeFrame{Library: library, Name: name, Path: "/lib/" + library})
	}
	return frames
}

// TestWaitsFor: the functions on a stack show which kind of lock a thread waits for, and in which library.
func TestWaitsFor(t *testing.T) {
	for stack, want := range map[string]LockWait{
		"libc: libc:__lll_lock_wait libc:pthread_mutex_lock shim:getaddrinfo socket:": {
			Mutex: true, Function: "getaddrinfo", Library: "shim", Path: "/lib/shim"},
		"libc:__lll_lock_wait_private libc:__resolv_context_get libc: libc:getaddrinfo libruby:": {
			LowLevel: true, Function: "getaddrinfo", Library: "libc", Path: "/lib/libc"},
		"libc:__lll_lock_wait libc: libc:pthread_cond_wait libgrpc:": {
			Mutex: true, Library: "libgrpc", Path: "/lib/libgrpc"},
		"libc: libc: libx:":             {LowLevel: true, Library: "libc", Path: "/lib/libc"},
		"libc: libc: libc:syslog libx:": {LowLevel: true, Function: "syslog", Library: "libc", Path: "/lib/libc"},
		"go: go: libc:":                 {Library: "go", Path: "/lib/go"},
		"libc:__lll_lock_wait_private":  {LowLevel: true},
	} {
		if got := WaitsFor(named(stack)); got != want {
			t.Errorf("%s: %+v, want %+v", stack, got, want)
		}
	}
}

// TestMayHold: a thread that sleeps in a function of the C library, such as poll, holds no lock of the library. This is
// true only if code outside the library called this function directly. A thread that runs no code of the C library
// holds no lock, either. If other C library code is on the stack, or the stack is unknown, the thread may hold a lock.
func TestMayHold(t *testing.T) {
	outside := []string{
		"libc:poll libruby: libc: libc:clone3",
		"libc: libc: libc:__poll libruby: ruby:main libc: libc:__libc_start_main ruby:_start",
		"libruby: libruby: libc:start_thread libc:clone",
		"libc:pthread_cond_timedwait libruby: libc: libc:",
	}
	inside := []string{
		"", "libc:", "libc: libruby:", "libc:poll",
		"libc:poll libc:__res_context_send libc:getaddrinfo libruby: libc:clone3",
		"libc:poll nss:_nss_x libc:getaddrinfo libruby: libc:clone3",
		"libruby: libc:qsort_r libruby: libc:clone3",
		"libc: libc:malloc libruby: libc:clone3",
	}
	for _, stack := range slices.Concat(outside, inside) {
		if got, want := MayHold(named(stack), nil, "/lib/libc"), slices.Contains(inside, stack); got != want {
			t.Errorf("%s: %v", stack, got)
		}
	}
	for _, c := range []struct {
		stack string
		err   error
		want  bool
	}{
		{"libc:poll libruby:", errJIT, false}, {"libc:poll libruby:", errStack, true},
		{"libc:poll libpq:", unknownRegister(regRBP), false}, {"libc:poll libnss_x:", unknownRegister(regRBP), true},
		{"libc:poll libpq: libc:", unknownRegister(regRBP), true}, {"libc:malloc libpq:", unknownRegister(regRBP), true},
		{"libc:poll", unknownRegister(regRBP), true},
	} {
		if got := MayHold(named(c.stack), &Stop{Err: c.err}, "/lib/libc"); got != c.want {
			t.Errorf("%s stopped by %v: %v", c.stack, c.err, got)
		}
	}
}
