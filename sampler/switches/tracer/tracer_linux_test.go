package tracer

import (
	"errors"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/switches"
)

// TestCheck: if a machine lacks something that the programs need, the error of Check says in plain words what is
// missing. The error is bpf.ErrKernel if the kernel lacks it, and bpf.ErrRights if ddtop lacks a right.
func TestCheck(t *testing.T) {
	const first = 0xeffffffc // inode of the first PID namespace
	const rights = 1<<38 | 1<<39
	good := bpf.Machine{Release: "6.1.0-18-amd64", Arch: "amd64", Effective: rights, BTF: true, Namespace: first, Program: "/bin/ddtop"}
	for _, c := range []struct {
		name string
		set  func(*bpf.Machine)
		is   error
		says string
	}{
		{"a machine that has all", func(*bpf.Machine) {}, nil, ""},
		{"the first kernel", func(m *bpf.Machine) { m.Release = "5.15.0" }, nil, ""},
		{"root", func(m *bpf.Machine) { m.Effective = 1 << 21 }, nil, ""},
		{"a kernel before it", func(m *bpf.Machine) { m.Release = "5.14.21-default" }, bpf.ErrKernel, "need Linux 5.15, and this is 5.14.21-default"},
		{"no BTF", func(m *bpf.Machine) { m.BTF = false }, bpf.ErrKernel, "/sys/kernel/btf/vmlinux"},
		{"locked down", func(m *bpf.Machine) { m.Lockdown = "none integrity [confidentiality]" }, bpf.ErrKernel, "locked down"},
		{"arm64", func(m *bpf.Machine) { m.Arch = "arm64" }, bpf.ErrKernel, "not for arm64"},
		{"no name of a kernel", func(m *bpf.Machine) { m.Release = "?" }, bpf.ErrKernel, `"?"`},
		{"a container", func(m *bpf.Machine) { m.Namespace = 7 }, bpf.ErrRights, "--pid=host"},
		{"a time namespace", func(m *bpf.Machine) { m.ClockMoved = true }, bpf.ErrRights, "time namespace"},
		{"no rights", func(m *bpf.Machine) { m.Effective = 0 }, bpf.ErrRights, "lacks CAP_BPF and CAP_PERFMON. Run ddtop with sudo"},
		{"half of the rights", func(m *bpf.Machine) { m.Effective = 1 << 39 }, bpf.ErrRights, "lacks CAP_PERFMON. "},
	} {
		m := good
		c.set(&m)
		err := m.CheckRegisters()
		if !errors.Is(err, c.is) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestTry: the kernel's verifier accepts the programs. All Feeds share the programs. A second Feed for the same process
// is refused.
func TestTry(t *testing.T) {
	if err := Check(); err != nil {
		t.Skip(err)
	}
	if err := Try(); err != nil {
		t.Fatal(err)
	}
	const none = 1 << 22 // no process has this PID or a larger one (PID_MAX_LIMIT)
	a, err := Follow(Target{PID: none})
	if err != nil {
		t.Fatal(err)
	}
	b, err := Follow(Target{PID: none + 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Follow(Target{PID: none + 1}); err == nil {
		t.Error("a process is followed twice")
	}
	if a.t != b.t {
		t.Error("two processes have programs of their own")
	}
	first := a.t
	for _, f := range []*Feed{a, b} {
		if err := f.Drain(func(r *switches.Record) {
			t.Errorf("a record of no process: %+v", r)
		}); err != nil {
			t.Error(err)
		}
		if _, err := f.Counts(); err != nil {
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	again, err := Follow(Target{PID: none})
	if err != nil {
		t.Fatal(err)
	}
	if again.t == first {
		t.Error("the programs stayed after the last Close")
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestTimeNamespace: if ddtop runs in a time namespace of its own, it reports that it cannot follow threads. The
// records would have the machine's time, not the time of the namespace.
func TestTimeNamespace(t *testing.T) {
	const inside = "DDTOP_TEST_TIME_NAMESPACE"
	if os.Getenv(inside) != "" {
		if err := Check(); !errors.Is(err, bpf.ErrRights) || !strings.Contains(err.Error(), "time namespace") {
			t.Errorf("in a time namespace: %v", err)
		}
		return
	}
	if err := Check(); err != nil {
		t.Skip(err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--time", "--monotonic", "5000", "--fork", "--kill-child", os.Args[0], "-test.run=^TestTimeNamespace$")
	cmd.Env = append(os.Environ(), inside+"=1")
	out, err := cmd.CombinedOutput()
	switch {
	case strings.Contains(string(out), "unshare"):
		t.Skipf("a time namespace is not allowed here: %s", out)
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	}
}

// pointerOfThreads returns a distance in bytes from the thread pointer in this process. At this distance there is a
// word that contains an address. With a C library, a thread's storage begins with its own address, so the distance is
// 0. Without cgo, Go stores the goroutine's address just below the thread pointer.
func pointerOfThreads(t *testing.T) int64 {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("the test does not know how it was built")
	}
	if slices.Contains(info.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "0"}) {
		return -8
	}
	return 0
}

// TestUnreadWords: if some words of a thread's memory cannot be read, the records of the thread say so. The test makes
// three reads fail, one after the other. First it is the read of thread-local storage, then of the memory to which this
// storage points, and then of other memory.
func TestUnreadWords(t *testing.T) {
	if err := Check(); err != nil {
		t.Skip(err)
	}
	const nowhere = 1 << 46 // outside of all pages of a process
	pointer := pointerOfThreads(t)
	for name, target := range map[string]Target{
		"thread-local storage": {ExecutionContext: -nowhere, ThreadOfEC: -1},
		"execution context":    {ExecutionContext: pointer, ThreadOfEC: nowhere},
		"owner":                {ExecutionContext: pointer, ThreadOfEC: -1, Owner: nowhere},
	} {
		target.PID, target.Before33 = os.Getpid(), true
		f, err := Follow(target)
		if err != nil {
			t.Fatal(err)
		}
		records, failed := 0, 0
		for deadline := time.Now().Add(10 * time.Second); records == 0 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			if err := f.Drain(func(r *switches.Record) {
				if r.Kind == switches.Exited {
					return
				}
				if records++; r.Failed > 0 {
					failed++
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		if counts, err := f.Counts(); err != nil || records == 0 || failed != records || counts.Failed < uint64(failed) {
			t.Errorf("%s: %d records, %d of them say that words could not be read; %+v, %v", name, records, failed, counts, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestFetch: one Fetch takes the records of all processes from the ring. Each process's records are then kept until its
// own Drain. If the ring is large enough, no record is lost.
func TestFetch(t *testing.T) {
	if err := Check(); err != nil {
		t.Skip(err)
	}
	f, err := Follow(Target{PID: os.Getpid(), ExecutionContext: pointerOfThreads(t), ThreadOfEC: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for deadline := time.Now().Add(10 * time.Second); !f.Waiting(); time.Sleep(time.Millisecond) {
		if err := f.Fetch(); err != nil || time.Now().After(deadline) {
			t.Fatal("no record in 10 s", err)
		}
	}
	records := 0
	if err := f.Drain(func(*switches.Record) { records++ }); err != nil || records == 0 || f.Waiting() {
		t.Errorf("%d records, more wait: %v, %v", records, f.Waiting(), err)
	}
	if f.MayHaveLost() {
		t.Error("MayHaveLost, and the ring had room")
	}
	f.t.mu.Lock()
	f.t.filled++
	f.t.mu.Unlock()
	if !f.MayHaveLost() {
		t.Error("MayHaveLost is false, and the ring was full")
	}
	if _, err := f.Counts(); err != nil || f.MayHaveLost() {
		t.Errorf("losses are asked for once more after they were counted, %v", err)
	}
}
