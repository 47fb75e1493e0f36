//go:build !linux

package attach

import (
	"context"
	"os"
	"time"
)

// Process is a live process. ddtop can read live processes only on Linux, so on this system Open always fails.
type Process struct{ pid int }

func linuxOnly(pid int) error { return &TargetError{PID: pid, Kind: ErrLinuxOnly} }

// Open fails with ErrLinuxOnly.
func Open(pid int) (*Process, error) { return nil, linuxOnly(pid) }

// FindRuby fails with ErrLinuxOnly.
func FindRuby(p *Process) (*Module, error) { return nil, linuxOnly(p.pid) }

// FindRubies fails with ErrLinuxOnly.
func FindRubies(p *Process) ([]*Module, error) { return nil, linuxOnly(p.pid) }

// List fails with ErrLinuxOnly.
func List(context.Context) ([]Candidate, error) { return nil, ErrLinuxOnly }

// CPUShare returns false on this system.
func (c *Candidate) CPUShare() (share float64, ok bool) { return 0, false }

// Finder finds processes by their titles, but on Linux only.
type Finder struct {
	// Only reports whether a process may be found. This system ignores it.
	Only func(pid int) bool
}

// NewFinder returns a Finder that finds nothing.
func NewFinder(func(title string) bool) *Finder { return new(Finder) }

// Whole returns true, because on this system Find never stops early.
func (*Finder) Whole() bool { return true }

// Find fails with ErrLinuxOnly.
func (f *Finder) Find(func(pid int) bool) ([]int, error) { return nil, ErrLinuxOnly }

// Read fails with ErrLinuxOnly.
func (p *Process) Read(addr Address, buf []byte) error {
	return &ReadError{PID: p.pid, Addr: addr, Want: len(buf), Err: ErrLinuxOnly}
}

// ReadBatch fails with ErrLinuxOnly.
func (p *Process) ReadBatch([]Range) (calls int, err error) { return 0, linuxOnly(p.pid) }

// Method returns "none" on this system.
func (p *Process) Method() string { return "none" }

// PID returns the process's PID.
func (p *Process) PID() int { return p.pid }

// Forked returns false on this system.
func (p *Process) Forked() bool { return false }

// Parent returns 0 on this system.
func (p *Process) Parent() int { return 0 }

// CPUs returns 0 on this system.
func (p *Process) CPUs() int { return 0 }

// User returns "" on this system.
func (p *Process) User() string { return "" }

// Title returns "" on this system.
func (p *Process) Title() string { return "" }

// Part fails with ErrLinuxOnly.
func (p *Process) Part() (part, now string, err error) { return "", "", linuxOnly(p.pid) }

// PartOf fails with ErrLinuxOnly.
func PartOf(pid int) (title, part string, err error) { return "", "", linuxOnly(pid) }

// StartTicks returns 0 on this system.
func (p *Process) StartTicks() uint64 { return 0 }

// StartedAt fails with ErrLinuxOnly.
func (p *Process) StartedAt() (time.Time, error) { return time.Time{}, linuxOnly(p.pid) }

// CommandLine fails with ErrLinuxOnly.
func (p *Process) CommandLine() ([]string, error) { return nil, linuxOnly(p.pid) }

// Environment fails with ErrLinuxOnly.
func (p *Process) Environment(func(name string) bool) (map[string]string, error) {
	return nil, linuxOnly(p.pid)
}

// Cgroups fails with ErrLinuxOnly.
func (p *Process) Cgroups() (string, error) { return "", linuxOnly(p.pid) }

// Path returns "", because this system has no /proc.
func (p *Process) Path(...string) string { return "" }

// OpenLiving fails with ErrLinuxOnly.
func OpenLiving(_, pid int) (fd, tid int, err error) { return -1, 0, linuxOnly(pid) }

// Maps fails with ErrLinuxOnly.
func (p *Process) Maps() ([]Mapping, error) { return nil, linuxOnly(p.pid) }

// Module fails with ErrLinuxOnly.
func (p *Process) Module(string, []Mapping) (*Module, error) { return nil, linuxOnly(p.pid) }

// ReadFile fails with ErrLinuxOnly.
func (p *Process) ReadFile(string, int64) ([]byte, time.Time, error) {
	return nil, time.Time{}, linuxOnly(p.pid)
}

// NamespacePID returns the process's PID.
func (p *Process) NamespacePID() int { return p.pid }

// Check fails with ErrLinuxOnly.
func (p *Process) Check() error { return linuxOnly(p.pid) }

// Alive returns false on this system.
func (p *Process) Alive() bool { return false }

// Exited returns nil, because ddtop opens no live process on this system. A receive from a nil channel waits forever.
func (p *Process) Exited() <-chan struct{} { return nil }

// Close does nothing.
func (p *Process) Close() error { return nil }

// MemoryFile is a memfd that a process has open. Only Linux has memfds.
type MemoryFile struct {
	FD        int
	Name      string
	Content   []byte
	Inherited bool
}

// MemoryFiles fails with ErrLinuxOnly.
func (p *Process) MemoryFiles(string, int64) ([]MemoryFile, error) { return nil, linuxOnly(p.pid) }

// ThreadLocal fails with ErrLinuxOnly.
func (p *Process) ThreadLocal(string, []Mapping) (ThreadLocal, error) {
	return ThreadLocal{}, linuxOnly(p.pid)
}

// Pauser stops all threads of a process for a moment, but on Linux only.
type Pauser struct{ pid int }

// NewPauser fails with ErrLinuxOnly.
func (p *Process) NewPauser(time.Duration, func()) (*Pauser, error) { return nil, linuxOnly(p.pid) }

// Pause fails with ErrLinuxOnly.
func (z *Pauser) Pause(func()) (Pause, error) { return Pause{}, linuxOnly(z.pid) }

// Thread returns 0.
func (z *Pauser) Thread() int { return 0 }

// Close does nothing.
func (z *Pauser) Close() {}

// Limit does nothing.
func (z *Pauser) Limit(time.Duration) {}

// Still shows a process at one instant, but on Linux only.
type Still struct{ *Process }

// NewStill returns a Still that copies nothing.
func NewStill(p *Process) *Still { return &Still{p} }

// Measure fails with ErrLinuxOnly.
func (s *Still) Measure() (bytes uint64, took time.Duration, err error) {
	return 0, 0, linuxOnly(s.pid)
}

// Reserve fails with ErrLinuxOnly.
func (s *Still) Reserve(uint64) error { return linuxOnly(s.pid) }

// Copy fails with ErrLinuxOnly.
func (s *Still) Copy(time.Duration) (bytes uint64, err error) { return 0, linuxOnly(s.pid) }

// Release does nothing.
func (s *Still) Release() {}

// OwnRights returns no rights on this system.
func OwnRights() Rights { return Rights{EUID: os.Geteuid(), Yama: -1} }

// OnOwnThread calls work in a goroutine. On this system work changes no property of its OS thread, so other goroutines
// can share the thread.
func OnOwnThread(work func()) { go work() }

func ownTID() int32 { return 0 }

func lacksCPU(int32) bool { return false }
