package probe

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/ddtop/ddtop/sampler/exact"
)

const (
	// costRounds is the number of measurements, and costCalls the number of calls in each. The fastest measurement
	// counts, because other programs on the machine can only make a measurement slower.
	costRounds, costCalls = 20, 100
	// otherLock replaces the address of the scheduler's mutex while the cost of a hit is measured. No mutex has this
	// address, so no hit makes a record.
	otherLock = 1
)

// hitCost measures what one hit of a probe costs if it makes no record, because the mutex is not the scheduler's. The
// result is in ns. To measure, hitCost puts a probe on a function of ddtop itself. This takes one or two milliseconds.
func hitCost(kernel kernelPlaces, ring *ebpf.Map, many bool) (int64, error) {
	offset, err := fileOffset(addressOfProbed())
	if err != nil {
		return 0, fmt.Errorf("exact mode: finding a function of ddtop's own to measure a probe on: %w", err)
	}
	counts, err := ebpf.NewMap(&ebpf.MapSpec{Name: "ddtop_cost", Type: ebpf.Array, KeySize: 4, ValueSize: counters, MaxEntries: 1})
	if err != nil {
		return 0, explain("making a BPF map", err)
	}
	defer counts.Close()
	target := &Target{PID: os.Getpid(), Lock: otherLock}
	b := builder{target: target, kernel: kernel, kind: exact.Unlocked, argument: firstArgument, counters: counts.FD(), ring: ring.FD()}
	program, err := loadProgram(b, many)
	if err != nil {
		return 0, err
	}
	defer program.Close()
	file, err := link.OpenExecutable("/proc/self/exe")
	if err != nil {
		return 0, fmt.Errorf("exact mode: /proc/self/exe: %w", err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	without := timeCalls()
	l, err := attachAt(file, program, offset, target.PID, many)
	if err != nil {
		return 0, explain("putting a probe into ddtop itself", err)
	}
	with := timeCalls()
	if err := l.Close(); err != nil {
		return 0, fmt.Errorf("exact mode: taking the probe out of ddtop: %w", err)
	}
	var v [counters / 8]uint64
	if err := counts.Lookup(uint32(0), &v); err != nil {
		return 0, fmt.Errorf("exact mode: reading the counters: %w", err)
	}
	if v[countHits/8] < costRounds*costCalls {
		return 0, fmt.Errorf("%w: of %d hits of a probe in ddtop itself it ran the program for %d", ErrKernel, costRounds*costCalls, v[countHits/8])
	}
	return max(with-without, 1), nil
}

// Try puts a probe into ddtop itself and removes it again. It returns an error if the kernel, a container or a security
// module forbids probes. Its errors are the same as Attach's. untried has the same meaning as in Check.
func Try(untried bool) error {
	many, err := checkMachine(untried)
	if err != nil {
		return err
	}
	kernel, err := placesOfKernel()
	if err != nil {
		return err
	}
	ring, err := ebpf.NewMap(&ebpf.MapSpec{Name: "ddtop_try", Type: ebpf.RingBuf, MaxEntries: uint32(os.Getpagesize())})
	if err != nil {
		return explain("making a ring for records", err)
	}
	defer ring.Close()
	_, err = hitCost(kernel, ring, many)
	return err
}

// timeCalls returns the time of one call of probed, in ns.
func timeCalls() int64 {
	best := time.Duration(1 << 62)
	for range costRounds {
		began := time.Now()
		for range costCalls {
			probed()
		}
		best = min(best, time.Since(began))
	}
	return int64(best) / costCalls
}

// fileOffset returns the offset in ddtop's own file of an address of ddtop's code.
func fileOffset(at uintptr) (uint64, error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(maps)) {
		var start, end, offset uint64
		var rights string
		if _, err := fmt.Sscanf(line, "%x-%x %s %x", &start, &end, &rights, &offset); err == nil && uint64(at) >= start && uint64(at) < end {
			return offset + uint64(at) - start, nil
		}
	}
	return 0, fmt.Errorf("%#x is in none of its mappings", at)
}
