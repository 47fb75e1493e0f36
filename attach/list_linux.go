package attach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ddtop/ddtop/attach/mapped"
	"github.com/ddtop/ddtop/internal/sorting"
)

// maxProcesses limits how many processes List reads. It equals the kernel's limit of PIDs on 64-bit machines.
const maxProcesses = 1 << 22

const (
	// listWorkers is the number of processes that List asks at the same time. So a process that does not answer does
	// not delay the others.
	listWorkers = 32
	// maxSilent limits how many processes may fail to answer in one List. Each silent process occupies an OS thread and
	// one of the workers for two or three seconds. After this many, List asks no further process, so it waits about six
	// seconds at most. A limit of the time itself would be worse. On a machine under full load every answer is slow,
	// and List would return processes without names.
	maxSilent = 32
)

// List finds the Ruby processes of this machine and returns them in the order of their PIDs. It also returns a process
// that cannot be read or does not answer, if its name looks like Ruby's. It leaves out processes that end during the
// search. List fails if /proc as a whole cannot be read, if ddtop has no descriptors left, or if ctx ends.
func List(ctx context.Context) ([]Candidate, error) {
	names, err := processNames()
	if err != nil {
		return nil, fmt.Errorf("listing the processes: %w", err)
	}
	var l lister
	var unseenMu sync.Mutex
	var unseen []int // processes that were skipped because ddtop had no descriptors left
	pids, found := make(chan int), make(chan Candidate)
	var wg sync.WaitGroup
	for range listWorkers {
		wg.Go(func() {
			for pid := range pids {
				c, ok, err := l.lookAt(pid)
				if err != nil {
					unseenMu.Lock()
					unseen = append(unseen, pid)
					unseenMu.Unlock()
				}
				if ok {
					select {
					case found <- c:
					case <-ctx.Done():
					}
				}
			}
		})
	}
	go func() {
		defer close(found)
		defer wg.Wait()
		defer close(pids)
		self := os.Getpid()
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err != nil || pid == self {
				continue
			}
			select {
			case pids <- pid:
			case <-ctx.Done():
				return
			}
		}
	}()
	var out []Candidate
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("listing the processes: %w", ctx.Err())
		case c, ok := <-found:
			if ok {
				out = append(out, c)
				continue
			}
			if ctx.Err() != nil {
				continue
			}
			// Try the skipped processes one at a time, which needs few descriptors.
			for _, pid := range unseen {
				c, ok, err := l.lookAt(pid)
				if err != nil {
					return nil, fmt.Errorf("listing the processes: %w", err)
				}
				if ok {
					out = append(out, c)
				}
			}
			sorting.By(out, func(a, b Candidate) int { return a.PID - b.PID })
			findMasters(out)
			return out, nil
		}
	}
}

type lister struct {
	known  versions
	silent atomic.Int32
}

// lookAt reports whether a process is, or may be, a CRuby process. The error is ErrExhausted if ddtop could not check.
func (l *lister) lookAt(pid int) (Candidate, bool, error) {
	p, err := openProcess(pid)
	if errors.Is(err, ErrExhausted) {
		return Candidate{}, false, err
	}
	if err != nil {
		return Candidate{}, false, nil
	}
	type verdict struct {
		Candidate
		ok bool
	}
	// Reading the name and the link to the program takes no lock, so it cannot block.
	comm, exe := p.stat.Comm, p.exeOrNothing()
	n := l.silent.Load()
	if n < maxSilent {
		var v verdict
		// lookInto makes many calls. Calls that often block have a shorter time limit of their own, and their error
		// names the call. The time limit here is for all other calls.
		v, err = ask(pid, 2*patience, "looking at its files", func() (v verdict, _ error) {
			v.Candidate, v.ok = lookInto(p, &l.known)
			p.letGo(v.Err)
			return v, nil
		})
		if err == nil {
			err = v.Err
		}
		switch {
		case errors.Is(err, ErrNoAnswer):
			l.silent.Add(1)
		case errors.Is(err, ErrFault):
			p.Close()
		case errors.Is(err, ErrExhausted) || isExhausted(err):
			return Candidate{}, false, err
		default:
			return v.Candidate, v.ok, nil
		}
	} else {
		defer p.Close()
		err = noAnswer(pid, fmt.Sprintf("it was not asked, for %d other processes have not answered", n))
	}
	if !looksLikeRuby([]string{comm}, comm) && !mapped.IsRubyName(filepath.Base(exe)) {
		return Candidate{}, false, nil
	}
	c := p.candidate()
	c.Title, c.Err = comm, err
	return c, true, nil
}

// candidate describes a process by its files in /proc, without reading its memory.
func (p *facts) candidate() Candidate {
	c := Candidate{
		PID: p.pid, PPID: p.stat.PPID, Threads: p.stat.Threads, User: p.User(),
		CPU: time.Duration(p.stat.CPUTicks) * clockTick, ReadAt: p.opened, startTicks: p.stat.StartTicks,
		RSSBytes: p.stat.RSSPages * int64(os.Getpagesize()),
	}
	if at, err := p.StartedAt(); err == nil {
		c.Started = at
	}
	return c
}

// CPUShare returns how many CPUs the process has used on average since it was listed. ok is false if it has ended.
func (c *Candidate) CPUShare() (share float64, ok bool) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.PID), "stat"))
	if err != nil {
		return 0, false
	}
	now := time.Now()
	s, err := parseStat(text)
	if err != nil || s.StartTicks != c.startTicks || s.ended() || !now.After(c.ReadAt) {
		return 0, false
	}
	took := time.Duration(s.CPUTicks)*clockTick - c.CPU
	return max(took, 0).Seconds() / now.Sub(c.ReadAt).Seconds(), true
}

// versions caches the Ruby release that each file contains, because the many workers of a server share a file.
type versions struct {
	m sync.Map // from versionKey to versionOf
	// asked has a channel for each versionKey whose file a goroutine has begun to read. The channel is closed when this
	// goroutine has finished.
	asked sync.Map
}

// versionKey identifies a mapped file. The path, as the process sees it, is a part of the key, because different file
// systems can have the same device and inode numbers.
type versionKey struct {
	device, path string
	inode        uint64
}

// versionOf is the Ruby release of a file. runs is the offset of a word from the start of the file's first mapping. If
// this word is not 0 in a process's memory, the Ruby VM has started in the process.
type versionOf struct {
	version string
	runs    Address
}

// of returns the Ruby release of a process. For each file it caches the release, and the place of the word that shows
// whether the file's VM runs. If several workers of a server share a file, only the first goroutine reads it. The other
// goroutines wait for its result for at most patience/2. After that, they read the file themselves.
func (v *versions) of(p *Process, maps []byte) (string, error) {
	mappings, err := mapped.ParseMaps(maps)
	if err != nil {
		return "", err
	}
	exe := p.exePath(mappings)
	i := slices.IndexFunc(mappings, func(m Mapping) bool { return m.IsFile() && mapped.IsLibRuby(m.Path) })
	if i < 0 {
		i = slices.IndexFunc(mappings, func(m Mapping) bool { return m.IsFile() && m.Path == exe })
	}
	var key versionKey
	if i >= 0 {
		key = versionKey{mappings[i].Device, mappings[i].Path, mappings[i].Inode}
		if version, ok := v.known(p, key, mappings[i].Start); ok {
			return version, nil
		}
		done := make(chan struct{})
		if other, loaded := v.asked.LoadOrStore(key, done); loaded {
			select {
			case <-other.(chan struct{}):
			case <-time.After(patience / 2): // the other goroutine may be waiting for a process that does not answer
			}
			if version, ok := v.known(p, key, mappings[i].Start); ok {
				return version, nil
			}
		} else {
			defer close(done)
		}
	}
	m, err := FindRuby(p)
	if err != nil {
		return "", err
	}
	defer m.Close()
	version, _, err := m.RubyVersion(p)
	if s, ok := m.RunningWord(p); err == nil && ok && i >= 0 && m.Path == key.path && s >= mappings[i].Start {
		v.m.Store(key, versionOf{version, s - mappings[i].Start})
	}
	return version, err
}

// known returns the cached release of a file. start is the address at which the process has mapped the file. ok is
// false if the release is not cached, or if the file's VM does not run in this process.
func (v *versions) known(p *Process, key versionKey, start Address) (string, bool) {
	of, ok := v.m.Load(key)
	if !ok {
		return "", false
	}
	known := of.(versionOf)
	var word [8]byte
	ok = p.Read(start+known.runs, word[:]) == nil && word != [8]byte{}
	return known.version, ok
}

// lookInto reports whether a process is, or may be, a CRuby process. If the process does not answer, it returns true
// and a Candidate in which only Err is set.
func lookInto(p *Process, known *versions) (Candidate, bool) {
	args, err := p.CommandLine()
	if errors.Is(err, ErrNoAnswer) {
		return Candidate{Err: err}, true
	}
	if isExhausted(err) {
		return Candidate{Err: exhausted(p.pid, "reading its command line", err)}, false
	}
	if err != nil || len(args) == 0 {
		return Candidate{}, false
	}
	c := p.candidate()
	c.Title, c.Arguments = titleOf(args, p.stat.Comm), args
	c.Part, c.Now = partOf(args)
	maps, err := p.askProc("maps")
	if err != nil || len(maps) == 0 {
		if err != nil && !isGone(err) && (errors.Is(err, ErrNoAnswer) || isExhausted(err) || looksLikeRuby(args, p.stat.Comm)) {
			c.Err = p.refused("reading its mappings", err)
			return c, !errors.Is(c.Err, ErrGone)
		}
		return Candidate{}, false
	}
	// Most processes have no libruby mapped, and this inexpensive test excludes them. So make it first.
	if !bytes.Contains(maps, []byte("libruby")) && !mapped.IsRubyName(filepath.Base(p.exeOrNothing())) {
		return Candidate{}, false
	}
	if err := p.tryReading(); err != nil {
		c.Err = err
		return c, !errors.Is(err, ErrGone)
	}
	c.Version, c.Err = known.of(p, maps)
	return c, !errors.Is(c.Err, ErrNotRuby) && !errors.Is(c.Err, ErrGone)
}

// exeOrNothing returns the path of the program, or "" if ddtop may not read the link.
func (p *facts) exeOrNothing() string {
	exe, err := p.readlink("exe")
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(exe, " (deleted)")
}

// rubyPrograms are names under which Ruby servers and tools appear in lists of processes.
var rubyPrograms = []string{"puma", "unicorn", "sidekiq", "resque", "rails", "rackup", "rake", "bundle", "irb", "pitchfork", "falcon", "passenger", "solid_queue", "good_job", "delayed_job", "spring", "clockwork", "thin", "webrick"}

// looksLikeRuby guesses whether a process that ddtop may not read is a Ruby process. It uses only the names of the
// process.
func looksLikeRuby(args []string, comm string) bool {
	first, _, _ := strings.Cut(args[0], " ")
	for _, name := range []string{filepath.Base(strings.TrimSuffix(first, ":")), comm} {
		if mapped.IsRubyName(name) {
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
