package probe

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ddtop/ddtop/sampler/exact"
)

// TestProbedIsEmulated: the function probed begins with an instruction that can have a probe. ddtop puts a probe on
// this function to measure the cost of a hit.
func TestProbedIsEmulated(t *testing.T) {
	if ownPlace == nil {
		t.Fatalf("not written for %s", runtime.GOARCH)
	}
	at := addressOfProbed()
	code := bytes.Clone(unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), 4))
	if n, err := ownPlace(code, firstArgument); n != 0 || err != nil {
		t.Errorf("% x: at %d, %v", code, n, err)
	}
	probed()
}

// TestProgramsOfEachSet: the kernel accepts the BPF programs for the registers of each instruction set, and for each
// kind of record.
func TestProgramsOfEachSet(t *testing.T) {
	needBPF(t)
	kernel, err := placesOfKernel()
	if err != nil {
		t.Fatal(err)
	}
	counts, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: counters, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer counts.Close()
	ring, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: ringBytes})
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	for _, name := range []string{"amd64", "arm64"} {
		kernel.set, _ = instructionSetOf(name)
		for _, target := range []Target{
			{PID: 1, Lock: 1 << 40, Owner: 1<<40 + 8, QueueTail: 1<<40 + 24, ReadyNode: 16, RunningNode: 48, ExecutionContext: 64, ThreadOfEC: 8},
			{PID: 1, Lock: 1 << 40, Owner: 1<<40 + 8, Before33: true, ExecutionContext: -1008, ThreadOfEC: -1},
		} {
			for _, f := range functions(true) {
				p, err := loadProgram(builder{target: &target, kernel: kernel, kind: f.kind, argument: f.argument, counters: counts.FD(), ring: ring.FD()}, false)
				if err != nil {
					t.Errorf("%s, %s: %v", name, f.libc, err)
					continue
				}
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// TestRegisters: a function's arguments are in different registers on x86-64 and aarch64. The program for each machine
// reads the right ones.
func TestRegisters(t *testing.T) {
	for _, c := range []struct {
		set  string
		arg  argument
		want int16
	}{{"x86_64", firstArgument, 112}, {"x86_64", secondArgument, 104}, {"aarch64", firstArgument, 0}, {"aarch64", secondArgument, 8}} {
		set, _ := instructionSetOf(c.set)
		b := builder{target: &Target{}, kernel: kernelPlaces{set: set}, kind: exact.Unlocked, argument: c.arg}
		found := false
		for _, in := range b.program() {
			found = found || in.Src == asm.R6 && in.OpCode.Class().IsLoad() && in.Offset == c.want
		}
		if !found {
			t.Errorf("%s, argument %d: nothing is read at %d", c.set, c.arg, c.want)
		}
	}
}

// TestPlacesOfARM: for aarch64, ddtop finds where the kernel stores a task's thread pointer. The test makes up a type
// description like the kernel's own (struct task_struct, and its inner structs in asm/processor.h).
func TestPlacesOfARM(t *testing.T) {
	long := &btf.Int{Name: "unsigned long", Size: 8}
	array := func(n uint32) btf.Type { return &btf.Array{Index: long, Type: long, Nelems: n} }
	member := func(name string, typ btf.Type, at uint32) btf.Member {
		return btf.Member{Name: name, Type: typ, Offset: btf.Bits(8 * at)}
	}
	uw := &btf.Struct{Size: 544, Members: []btf.Member{member("tp_value", long, 0), member("tp2_value", long, 8), member("fpsimd_state", array(66), 16)}}
	context := &btf.Struct{Name: "cpu_context", Size: 104, Members: []btf.Member{member("x19", array(13), 0)}}
	thread := &btf.Struct{Name: "thread_struct", Size: 648, Members: []btf.Member{member("cpu_context", context, 0), member("uw", uw, 104)}}
	info := &btf.Struct{Name: "sched_info", Size: 24, Members: []btf.Member{member("pcount", long, 0), member("run_delay", long, 8), member("last_arrival", long, 16)}}
	build := func(thread btf.Type) *btf.Spec {
		t.Helper()
		task := &btf.Struct{Name: "task_struct", Size: 4096, Members: []btf.Member{member("stack", long, 0), member("sched_info", info, 1000), member("thread", thread, 3328)}}
		b, err := btf.NewBuilder([]btf.Type{task}, nil)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := b.Marshal(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		return spec
	}
	spec := build(thread)
	k, err := placesIn(spec, arm64())
	if err != nil || k.threadPointer != 3328+104 || k.runDelay != 1008 || k.set.goarch != "arm64" {
		t.Errorf("%d, %d, %v", k.threadPointer, k.runDelay, err)
	}
	if _, err := placesIn(spec, x86()); !errors.Is(err, ErrKernel) || !strings.Contains(err.Error(), "struct thread_struct has no fsbase") {
		t.Errorf("%v", err)
	}
	thread.Members = thread.Members[:1]
	if _, err := placesIn(build(thread), arm64()); !errors.Is(err, ErrKernel) || !strings.Contains(err.Error(), "struct thread_struct has no uw") {
		t.Errorf("%v", err)
	}
}
