package probe

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/exact"
)

// Ruby calls its mutex functions mostly for other mutexes than the scheduler's: two of three calls in Rails. A hit of a
// probe by such a call costs time, but makes no record. So the probes are at the call sites instead of in the
// functions. At first all call sites have a probe. A call site that unlocks a mutex always names the same mutex of a
// thread, a scheduler or a VM. A call site that signals either releases the GVL before each signal, or its records are
// not needed. If the hits of such a call site make no records, the call site loses its probe.
//
// Call sites that sleep keep their probes. Up to Ruby 3.2, native_cond_timedwait (thread_pthread.c) sleeps with the
// mutex of its caller. So the same call site serves Kernel#sleep and the wait for the GVL. Sleeps are rare beside
// unlocks.

// leastUseless is the number of hits after which a call site loses its probe, if none of its hits has made a record.
const leastUseless = 10

// callProbes are the probes at the call sites of one function.
type callProbes struct {
	site
	program *ebpf.Program
	// file is an open descriptor of the file with the call sites. executable refers to the file by this descriptor.
	file       *os.File
	executable *link.Executable
	// countCall numbers the call sites of all functions together. The field first is the number of this function's
	// first call site.
	first int
	// placed are the indexes of the call sites that have a probe. link is nil if no call site has one.
	placed []int
	link   link.Link
}

// placeCalls puts a probe at each call site of a function.
func (p *Probes) placeCalls(s *site, program *ebpf.Program) error {
	fd, err := unix.FcntlInt(s.callFile.open.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNoCode, s.callFile.Path, err)
	}
	c := &callProbes{site: *s, program: program, file: os.NewFile(uintptr(fd), s.callFile.Path), first: p.callSites}
	p.calls = append(p.calls, c)
	p.callSites += len(s.callSites)
	if c.executable, err = link.OpenExecutable(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNoCode, s.callFile.Path, err)
	}
	return c.place(p.target.PID, c.all())
}

// all returns the indexes of all call sites.
func (c *callProbes) all() []int {
	out := make([]int, len(c.callSites))
	for i := range out {
		out[i] = i
	}
	return out
}

// place puts probes at the call sites with the given indexes, and removes the probes from all others. During the change
// some call sites have two probes, so that no hit is missed.
func (c *callProbes) place(pid int, indexes []int) error {
	var l link.Link
	if len(indexes) > 0 {
		o := link.UprobeMultiOptions{PID: uint32(pid)}
		for _, i := range indexes {
			o.Addresses = append(o.Addresses, c.callSites[i].offset)
			o.Cookies = append(o.Cookies, uint64(c.first+i))
		}
		var err error
		if l, err = c.executable.UprobeMulti(nil, c.program, &o); err != nil {
			return explain(fmt.Sprintf("putting probes at %d calls of %s in %s", len(indexes), c.symbol, c.callFile.Path), err)
		}
	}
	old := c.link
	c.link, c.placed = l, indexes
	if old == nil {
		return nil
	}
	return old.Close()
}

// check returns an error if a call site has no breakpoint in the target's memory.
func (c *callProbes) check(mem attach.Memory, pid int, breakpoint []byte) error {
	for _, i := range c.placed {
		if err := checkPlaced(mem, pid, c.callSites[i].at, breakpoint, c.symbol, c.callFile.Path); err != nil {
			return err
		}
	}
	return nil
}

// checkPlaced returns an error if there is no breakpoint at an address of the target.
func checkPlaced(mem attach.Memory, pid int, at attach.Address, breakpoint []byte, symbol, path string) error {
	b := make([]byte, len(breakpoint))
	if err := mem.Read(at, b); err != nil {
		return fmt.Errorf("process %d: looking for the probe at %s: %w", pid, symbol, err)
	}
	if !bytes.Equal(b, breakpoint) {
		return fmt.Errorf("process %d: %w: at %v, %s of %s, is %#x", pid, ErrNotPlaced, at, symbol, path, b)
	}
	return nil
}

func (c *callProbes) close() error {
	var errs []error
	if c.link != nil {
		errs = append(errs, c.link.Close())
	}
	return errors.Join(append(errs, c.file.Close())...)
}

// Narrow removes the probes of call sites that have had enough hits (leastUseless), of which none made a record. Call
// sites that sleep keep their probes. If missing is true, the caller has found that a record is missing. In this case
// Narrow puts probes at all call sites again, and they stay there. A change takes about ten milliseconds. Narrow must
// not run at the same time as Detach, which returns Narrow's error. After an error, Narrow changes nothing more.
func (p *Probes) Narrow(missing bool) {
	if p.callCounts == nil || p.wide {
		return
	}
	if err := p.narrow(missing); err != nil {
		p.wide, p.narrowed = true, err
	}
}

func (p *Probes) narrow(missing bool) error {
	var counts [maxCallSites][callCounters / 8]uint64
	if err := p.callCounts.Lookup(uint32(0), &counts); err != nil {
		return fmt.Errorf("exact mode: reading the counters of calls: %w", err)
	}
	p.wide = missing
	for _, c := range p.calls {
		keep := c.all()
		if !missing && c.kind != exact.Slept {
			keep = slices.DeleteFunc(slices.Clone(c.placed), func(i int) bool {
				n := &counts[c.first+i]
				return n[callUseful/8] == 0 && n[callUseless/8] >= leastUseless
			})
		}
		if len(keep) == len(c.placed) {
			continue
		}
		if err := c.place(p.target.PID, keep); err != nil {
			return err
		}
	}
	return nil
}
