package gvl

import (
	"os"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// unclassed lists the system calls of Linux that callsOf leaves out on purpose. They handle memory, read or set data in
// the kernel, create objects, send signals, end a thread, or are obsolete.
const unclassed = `
mmap mprotect munmap brk mremap mincore madvise process_madvise mlock mlock2 munlock mlockall munlockall mbind set_mempolicy get_mempolicy
set_mempolicy_home_node migrate_pages move_pages remap_file_pages pkey_mprotect pkey_alloc pkey_free memfd_create memfd_secret mseal
map_shadow_stack userfaultfd membarrier process_mrelease shmget shmat shmctl shmdt semget semctl msgget msgctl mq_notify mq_getsetattr
rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigqueueinfo rt_tgsigqueueinfo sigaltstack kill tkill tgkill pidfd_send_signal
restart_syscall sched_yield fork exit exit_group pipe pipe2 dup eventfd eventfd2 signalfd signalfd4 timerfd_create timerfd_settime
timerfd_gettime epoll_create epoll_create1 epoll_ctl_old inotify_init inotify_init1 inotify_rm_watch fanotify_init io_setup io_uring_setup
io_uring_register pidfd_open pidfd_getfd futex_wake futex_requeue alarm getitimer setitimer timer_create timer_settime timer_gettime
timer_getoverrun timer_delete clock_settime clock_gettime clock_getres clock_adjtime adjtimex time times gettimeofday settimeofday
getpid getppid gettid getpgid getpgrp getsid setsid setpgid getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid
setreuid setregid setresuid setresgid setfsuid setfsgid setgroups capget capset umask getrlimit setrlimit prlimit64 getrusage getpriority
setpriority ioprio_set ioprio_get sched_setparam sched_getparam sched_setscheduler sched_getscheduler sched_setattr sched_getattr
sched_get_priority_max sched_get_priority_min sched_rr_get_interval sched_setaffinity sched_getaffinity getcpu uname sysinfo sysfs
personality prctl arch_prctl set_tid_address set_robust_list get_robust_list set_thread_area get_thread_area modify_ldt rseq
rseq_slice_yield unshare setns ptrace kcmp seccomp bpf perf_event_open uretprobe uprobe landlock_create_ruleset landlock_add_rule
landlock_restrict_self lsm_get_self_attr lsm_set_self_attr lsm_list_modules listns add_key request_key keyctl vhangup iopl ioperm reboot
sethostname setdomainname kexec_load kexec_file_load init_module finit_module delete_module create_module get_kernel_syms query_module
nfsservctl getpmsg putpmsg afs_syscall tuxcall security lookup_dcookie vserver _sysctl`

// TestCallsAreClassed: each system call of both supported machines has a class in callsOf, or is listed in unclassed.
func TestCallsAreClassed(t *testing.T) {
	none := make(map[string]bool)
	for _, name := range strings.Fields(unclassed) {
		none[name] = true
	}
	known := make(map[string]bool)
	for _, machine := range []string{"x86_64", "aarch64"} {
		b, err := os.ReadFile("../sampler/kernel/syscalls-" + machine + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			number, name, ok := strings.Cut(strings.TrimSpace(line), " ")
			if !ok || number == "#" {
				continue
			}
			known[name] = true
			if _, classed := callClasses[name]; classed == none[name] {
				t.Errorf("%s of %s: classed %v, among those without a class %v", name, machine, classed, none[name])
			}
		}
	}
	seen := make(map[string]callClass)
	for class, names := range callsOf {
		for _, name := range names {
			if strings.HasPrefix(name, "(") {
				continue // ddtop's own name, not a system call
			}
			if other, twice := seen[name]; twice || !known[name] {
				t.Errorf("%s: of class %d and %d, known %v", name, class, other, known[name])
			}
			seen[name] = class
		}
	}
}

// TestCallsAreNamed: if a thread without the GVL sleeps in a system call, its description names the call or what the
// thread does there.
func TestCallsAreNamed(t *testing.T) {
	for _, c := range []struct{ call, want string }{
		{"msgrcv", "io ← read msgrcv"}, {"msgsnd", "io → write msgsnd"}, {"mq_timedreceive", "io ← read mq_timedreceive"},
		{"semop", "io ← semaphore semop"}, {"semtimedop", "io ← semaphore semtimedop"}, {"setsockopt", "io ← io setsockopt"},
		{"vfork", "io ← child"}, {"poll", "sleeping 0 µs"}, {"select", "sleeping 0 µs"}, {"chmod", "io ← file chmod"},
		{"mmap", "unknown: in the system call mmap"}, {"syscall_600", "unknown: in the system call syscall_600"},
	} {
		th := gvltest.Released(1)
		th.Bits |= sampler.BitBlockingRegion
		th.Kernel = sampler.Kernel{StateAtNS: gvltest.Base, Syscall: c.call, FD: -1}
		got := NewClassifier(gvltest.ProcOf(sampler.EraSched), nil).Classify(gvltest.SampleAt(gvltest.Base, 0, th))
		if words := Describe(got[0], nil); words != c.want {
			t.Errorf("%s: %q, want %q", c.call, words, c.want)
		}
	}
}
