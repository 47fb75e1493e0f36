package attach

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// titleEvery is the longest time after which Find reads a process's title again, if the title did not match or
	// could not be read. For a young process the time is shorter, because programs set their title as they start. This
	// shorter time is the age of the process divided by titleGrowth.
	titleEvery  = 30 * time.Second
	titleGrowth = 4
	// maxFinding limits how long one call of Find takes. The next call continues with the processes that were not read.
	maxFinding = time.Second
	// maxAgain limits how many titles of known processes one Find reads again. Reading a title takes about 100 µs. Find
	// begins with the titles that were not read for the longest time.
	maxAgain = 64
)

// Finder finds processes by their titles. It is made for repeated searches at little cost. Only one goroutine may use a
// Finder.
type Finder struct {
	// Only reports whether Find may read the title of a process. If it returns false, Find skips the process. If it is
	// nil, Find skips none.
	Only func(pid int) bool

	match func(title string) bool
	seen  map[int]sighting
	round int
	// left is true if the last Find ran out of time before it had read all processes.
	left bool
	now  func() time.Time
	// list returns the names in /proc. read returns a process's title and age.
	list func() ([]string, error)
	read func(pid int) (title string, age time.Duration, err error)
}

// sighting is what a Finder remembers about a process whose title did not match or was not read.
type sighting struct {
	next  time.Time // when its title is read next
	round int
}

// NewFinder returns a Finder of the processes whose titles match. A title is the command line with spaces between the
// words, or the text that the process has put there instead.
func NewFinder(match func(title string) bool) *Finder {
	return &Finder{match: match, seen: make(map[int]sighting), now: time.Now, list: processNames, read: titleText}
}

// Find returns the PIDs of the processes whose titles match, without the processes for which the function known returns
// true. It does not check that they are Ruby processes. It returns an error only if /proc cannot be listed.
func (f *Finder) Find(known func(pid int) bool) ([]int, error) {
	names, err := f.list()
	if err != nil {
		return nil, fmt.Errorf("looking for processes: %w", err)
	}
	f.round++
	self, begun := os.Getpid(), f.now()
	f.left = false
	var found, again []int
	look := func(pid int) {
		now := f.now()
		s := f.seen[pid]
		if now.Sub(begun) > maxFinding {
			f.left = true
			return
		}
		if f.Only != nil && !f.Only(pid) {
			s.next = now.Add(titleEvery)
			f.seen[pid] = s
			return
		}
		title, age, err := f.read(pid)
		if err == nil && f.match(title) {
			// the caller knows this process from now on; if its function known still returns false, the next Find finds
			// the process again
			delete(f.seen, pid)
			found = append(found, pid)
			return
		}
		// if ddtop had no descriptors or no memory left, the next Find reads this process again
		if !errors.Is(err, ErrExhausted) {
			s.next = now.Add(min(titleEvery, age/titleGrowth))
		}
		f.seen[pid] = s
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == self || known(pid) {
			continue
		}
		s, old := f.seen[pid]
		s.round = f.round
		f.seen[pid] = s
		switch {
		case !old, s.next.IsZero(): // a new process, or one that an earlier search had no time to read
			look(pid)
		case !begun.Before(s.next):
			again = append(again, pid)
		}
	}
	slices.SortFunc(again, func(a, b int) int { return f.seen[a].next.Compare(f.seen[b].next) })
	for _, pid := range again[:min(len(again), maxAgain)] {
		look(pid)
	}
	for pid, s := range f.seen {
		if s.round != f.round {
			delete(f.seen, pid)
		}
	}
	return found, nil
}

// Whole reports whether the last Find had time for all processes.
func (f *Finder) Whole() bool { return !f.left }

// processNames returns the names in /proc.
func processNames() ([]string, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(maxProcesses)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}

// PartOf returns the title of a process, and its role in a service, such as "w0" for a worker (see Candidate.Part).
func PartOf(pid int) (title, part string, err error) {
	p, err := openProcess(pid)
	if err != nil {
		return "", "", err
	}
	args, err := p.CommandLine()
	p.letGo(err)
	if err != nil {
		return "", "", err
	}
	part, _ = partOf(args)
	return titleOf(args, p.stat.Comm), part, nil
}

// titleText returns a process's command line and age. If the process has put another text in the place of its command
// line, titleText returns this text. If the age is unknown, it returns at least titleEvery.
func titleText(pid int) (title string, age time.Duration, err error) {
	age = titleGrowth * titleEvery
	p, err := openProcess(pid)
	if err != nil {
		return "", age, err
	}
	args, err := p.CommandLine()
	if isExhausted(err) {
		err = exhausted(pid, "reading its command line", err)
	}
	if at, startErr := p.StartedAt(); startErr == nil && !errors.Is(err, ErrNoAnswer) {
		age = time.Since(at)
	}
	p.letGo(err)
	if err != nil {
		return "", age, err
	}
	return strings.TrimRight(strings.Join(args, " "), " "), age, nil
}
