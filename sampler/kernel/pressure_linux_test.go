package kernel

import (
	"os"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestPressure: ddtop's figures for pressure, of the cgroup or of the machine, are right. The test reads the kernel's
// files before and after ddtop does. ddtop's values must lie in between.
func TestPressure(t *testing.T) {
	p, err := OpenProc(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	all := func(dir, suffix string) sampler.Pressure {
		var out sampler.Pressure
		for name, to := range map[string][2]*int64{
			"cpu": {&out.CPUSomeNS, new(int64)}, "memory": {&out.MemorySomeNS, &out.MemoryFullNS}, "io": {&out.IOSomeNS, &out.IOFullNS},
		} {
			b, err := os.ReadFile(dir + "/" + name + suffix)
			if err != nil {
				t.Fatal(err)
			}
			*to[0], *to[1] = parsePressure(b)
		}
		return out
	}
	first, err := p.Read(1)
	if err != nil {
		t.Fatal(err)
	}
	var dir, suffix string
	switch first.Pressure.Source {
	case sampler.PressureCgroup:
		var ok bool
		if dir, ok = unifiedCgroup(p.mounts, p.group.text); !ok {
			t.Fatalf("a cgroup's pressure without a cgroup: %q", p.group.text)
		}
		suffix = ".pressure"
	case sampler.PressureMachine:
		dir = "/proc/pressure"
	default:
		if _, err := os.ReadFile("/proc/pressure/memory"); err == nil {
			t.Fatal("the machine tells its pressure, and it was not read")
		}
		t.Skip("this kernel does not count pressure")
	}
	before := all(dir, suffix)
	read, err := p.Read(2)
	if err != nil {
		t.Fatal(err)
	}
	after := all(dir, suffix)
	got := read.Pressure
	for _, c := range []struct {
		name           string
		low, got, high int64
	}{
		{"cpu some", before.CPUSomeNS, got.CPUSomeNS, after.CPUSomeNS},
		{"memory some", before.MemorySomeNS, got.MemorySomeNS, after.MemorySomeNS},
		{"memory full", before.MemoryFullNS, got.MemoryFullNS, after.MemoryFullNS},
		{"io some", before.IOSomeNS, got.IOSomeNS, after.IOSomeNS},
		{"io full", before.IOFullNS, got.IOFullNS, after.IOFullNS},
	} {
		if c.got < c.low || c.got > c.high {
			t.Errorf("%s is %d, the kernel says %d before and %d after", c.name, c.got, c.low, c.high)
		}
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	if want, ok := memoryField(status, "VmSwap"); !ok && strings.Contains(string(status), "VmSwap") || want != read.SwapBytes {
		t.Errorf("swapped %d, status says %d", read.SwapBytes, want)
	}
}

// TestFiguresOfSharedCgroup: ProcReaders of one cgroup share its open files. If the cgroup has several processes, the
// files are read again only after sharedNS. If it has one process, they are read each time.
func TestFiguresOfSharedCgroup(t *testing.T) {
	open := func() *ProcReader {
		p, err := OpenProc(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	one, other := open(), open()
	readAt := func(p *ProcReader, ns, want int64) {
		t.Helper()
		if _, err := p.Read(ns); err != nil {
			t.Fatal(err)
		}
		if got := p.group.atNS; got != want {
			t.Errorf("at %d ns it has the figures of %d ns, not of %d", ns, got, want)
		}
	}
	const began = 1e9
	readAt(one, began, began)
	readAt(one, began+1, began+1) // now the cgroup has one process
	readAt(other, began+2, began+1)
	readAt(one, began+sharedNS, began+1)
	readAt(other, began+1+sharedNS, began+1+sharedNS)
	if one.group != other.group || len(allFigures.of) != 1 {
		t.Errorf("the files of one cgroup are open %d times", len(allFigures.of))
	}
	one.Close()
	readAt(other, began+2+sharedNS, began+2+sharedNS)
	other.Close()
	if len(allFigures.of) != 0 {
		t.Errorf("%d cgroups are left open", len(allFigures.of))
	}
}
