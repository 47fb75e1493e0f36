package attach

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// maxProcesses bounds the processes looked at: the kernel's limit of PIDs on 64-bit machines.
const maxProcesses = 1 << 22

// List finds the Ruby processes of this machine, in the order of their PIDs, those that may not be read included (guessed
// by their names). Processes that end meanwhile are left out. The error is about /proc as a whole.
func List() ([]Candidate, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing the processes: %w", err)
	}
	defer d.Close()
	names, err := d.Readdirnames(maxProcesses)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("listing the processes: %w", err)
	}
	pids := make(chan int)
	var mu sync.Mutex
	var out []Candidate
	var wg sync.WaitGroup
	var known versions
	for range min(runtime.NumCPU(), 8) {
		wg.Go(func() {
			for pid := range pids {
				if c, ok := lookAt(pid, &known); ok {
					mu.Lock()
					out = append(out, c)
					mu.Unlock()
				}
			}
		})
	}
	self := os.Getpid()
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid != self {
			pids <- pid
		}
	}
	close(pids)
	wg.Wait()
	slices.SortFunc(out, func(a, b Candidate) int { return a.PID - b.PID })
	return out, nil
}

// versions remembers the release of each file with a Ruby in it: the many workers of a server share one.
type versions struct{ m sync.Map }

// versionKey names a mapped file. The path is that of the process's mount namespace, in which numbers repeat.
type versionKey struct {
	device, path string
	inode        uint64
}

// of finds out the release of a process.
func (v *versions) of(p *Process, maps []byte) (string, error) {
	mappings, err := ParseMaps(maps)
	if err != nil {
		return "", err
	}
	exe := p.exePath(mappings)
	i := slices.IndexFunc(mappings, func(m Mapping) bool { return m.IsFile() && isLibRuby(m.Path) })
	if i < 0 {
		i = slices.IndexFunc(mappings, func(m Mapping) bool { return m.IsFile() && m.Path == exe })
	}
	var key versionKey
	if i >= 0 {
		key = versionKey{mappings[i].Device, mappings[i].Path, mappings[i].Inode}
		if known, ok := v.m.Load(key); ok {
			return known.(string), nil
		}
	}
	m, err := FindRuby(p)
	if err != nil {
		return "", err
	}
	defer m.Close()
	version, _, err := m.RubyVersion(p)
	if err == nil && i >= 0 && m.Path == key.path {
		v.m.Store(key, version)
	}
	return version, err
}

// lookAt says whether a process is, or may be, a CRuby process.
func lookAt(pid int, known *versions) (Candidate, bool) {
	p, err := openProcess(pid)
	if err != nil {
		return Candidate{}, false
	}
	defer p.Close()
	args, err := p.CommandLine()
	if err != nil || len(args) == 0 {
		return Candidate{}, false
	}
	c := Candidate{PID: pid, PPID: p.stat.PPID, Threads: p.stat.Threads, User: p.User(),
		Title: titleOf(args, p.stat.Comm), Arguments: args}
	maps, err := p.readProc("maps")
	if err != nil || len(maps) == 0 {
		if err == nil || isGone(err) || !looksLikeRuby(args, p.stat.Comm) {
			return Candidate{}, false
		}
		c.Err = p.refused("reading its mappings", err)
		return c, !errors.Is(c.Err, ErrGone)
	}
	// Cheap test first: most processes have nothing of that name mapped.
	if !bytes.Contains(maps, []byte("libruby")) && !isRubyName(filepath.Base(p.exeOrNothing())) {
		return Candidate{}, false
	}
	if err := p.tryReading(); err != nil {
		c.Err = err
		return c, !errors.Is(err, ErrGone)
	}
	c.Version, c.Err = known.of(p, maps)
	return c, !errors.Is(c.Err, ErrNotRuby) && !errors.Is(c.Err, ErrGone)
}

// exeOrNothing is the link to the program; "" when it may not be read.
func (p *Process) exeOrNothing() string {
	exe, err := p.readlink("exe")
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(exe, " (deleted)")
}

// rubyPrograms are names under which Ruby servers and tools show themselves.
var rubyPrograms = []string{"puma", "unicorn", "sidekiq", "resque", "rails", "rackup", "rake", "bundle", "irb", "pitchfork", "falcon", "passenger", "solid_queue", "good_job", "delayed_job", "spring", "clockwork", "thin", "webrick"}

// looksLikeRuby guesses from the names of a process that may not be looked into.
func looksLikeRuby(args []string, comm string) bool {
	first, _, _ := strings.Cut(args[0], " ")
	for _, name := range []string{filepath.Base(strings.TrimSuffix(first, ":")), comm} {
		if isRubyName(name) {
			return true
		}
		for _, known := range rubyPrograms {
			if name == known || strings.HasPrefix(name, known+" ") {
				return true
			}
		}
	}
	return false
}
