package kernel

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

// Limits for ReadMemory.
const (
	// maxSmaps limits how much of /proc/PID/smaps is read, in bytes. The text about one mapping has about 700 bytes.
	maxSmaps = 64 << 20
	// maxStacks is the largest number of threads whose stack memory ddtop finds.
	maxStacks = 4096
	// maxArenas limits how many arenas of malloc are read.
	maxArenas = 4096
	// pagemapPiece is how many pages are read from /proc/PID/pagemap at once.
	pagemapPiece = 1 << 16
)

// area is a mapping of a process with its figures from /proc/PID/smaps, in bytes.
type area struct {
	start, end                         uint64
	write, exec, shared                bool
	file                               bool
	name                               string
	rss, pss, private, sharedOut, swap uint64
}

// anonymous reports whether an area is private memory that can be written and is not mapped from a file.
func (a *area) anonymous() bool { return !a.file && !a.shared && a.write }

// parseSmaps reads /proc/PID/smaps (proc_pid_smaps(5)).
func parseSmaps(text []byte) (list []area, err error) {
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, "\n")
		key, rest, _ := bytes.Cut(line, []byte(" "))
		if name, isField := bytes.CutSuffix(key, []byte(":")); isField {
			if len(list) == 0 {
				return nil, fmt.Errorf("%w: %.100q", errFormat, line)
			}
			a := &list[len(list)-1]
			var to *uint64
			switch string(name) {
			case "Rss":
				to = &a.rss
			case "Pss":
				to = &a.pss
			case "Private_Clean", "Private_Dirty":
				to = &a.private
			case "Shared_Clean", "Shared_Dirty":
				to = &a.sharedOut
			case "Swap":
				to = &a.swap
			default:
				continue
			}
			kB, _, ok := takeUint(skipSpaces(rest))
			if !ok || kB >= 1<<44 {
				return nil, fmt.Errorf("%w: %.100q", errFormat, line)
			}
			*to += kB << 10
			continue
		}
		a, ok := parseArea(line)
		if !ok {
			return nil, fmt.Errorf("%w: %.100q", errFormat, line)
		}
		list = append(list, a)
	}
	return list, nil
}

// parseArea reads the first line about a mapping: "START-END rwxp OFFSET DEVICE INODE PATH".
func parseArea(line []byte) (a area, ok bool) {
	f := bytes.Fields(line)
	if len(f) < 5 || len(f[1]) != 4 {
		return a, false
	}
	from, to, _ := bytes.Cut(f[0], []byte("-"))
	start, rest, ok1 := takeHex(from)
	end, rest2, ok2 := takeHex(to)
	if !ok1 || !ok2 || len(rest)+len(rest2) > 0 || start >= end {
		return a, false
	}
	a = area{start: start, end: end, write: f[1][1] == 'w', exec: f[1][2] == 'x', shared: f[1][3] == 's'}
	if len(f) > 5 {
		a.name = string(f[5])
		a.file = a.name[0] == '/' && string(f[4]) != "0"
	}
	return a, true
}

// residency says for each page of a range of memory whether it is resident, which means in RAM.
type residency struct {
	start, page uint64
	pages       []byte // 1 for each resident page, 2 for each swapped one
}

// bytes returns how many bytes of a range are resident. It treats bytes outside the range of r as not resident.
func (r *residency) bytes(from, to uint64) (n uint64) {
	from = max(from, r.start)
	to = min(to, r.start+uint64(len(r.pages))*r.page)
	for from < to {
		next := min((from/r.page+1)*r.page, to)
		if r.pages[(from-r.start)/r.page] == pageResident {
			n += next - from
		}
		from = next
	}
	return n
}

const (
	pageResident = 1
	pageSwapped  = 2
)

// readResidency reads /proc/PID/pagemap (Documentation/admin-guide/mm/pagemap.rst): bit 63 of a page's word is set if
// the page is in memory, and bit 62 if it is swapped out.
func readResidency(fd int, start, end, page uint64, rest func()) (*residency, error) {
	r := &residency{start: start, page: page, pages: make([]byte, (end-start)/page)}
	buf := make([]byte, 8*min(pagemapPiece, len(r.pages)))
	for at := 0; at < len(r.pages); {
		n := min(len(buf)/8, len(r.pages)-at)
		got, err := readMore(fd, buf[:8*n], int64(start/page+uint64(at))*8)
		if err != nil || got < 8 {
			return nil, cmp.Or(err, errFormat)
		}
		for i := range got / 8 {
			switch top := buf[8*i+7]; {
			case top&0x80 != 0:
				r.pages[at+i] = pageResident
			case top&0x40 != 0:
				r.pages[at+i] = pageSwapped
			}
		}
		at += got / 8
		rest()
	}
	return r, nil
}

// procMemory reads the memory of one process by its files in /proc.
type procMemory struct {
	pid   int
	dir   int
	proc  *living
	page  uint64
	mem   attach.Memory
	rest  func()
	areas []area
	left  uint64 // bytes of arenas that may still be read
}

// ReadMemory divides the resident memory of a process by its use. It reads only resident memory. The parameter ruby has
// the pages of Ruby's heap, in order. parent is the PID of the process that forked this one, or zero. ReadMemory often
// calls the function rest, which may sleep to save CPU. The errors are *Error, or come from mem.
func ReadMemory(pid int, mem attach.Memory, ruby []attach.Span, parent int, rest func()) (*sampler.MemoryParts, error) {
	m, err := openMemory(pid)
	if err != nil {
		return nil, err
	}
	defer m.close()
	m.mem, m.rest, m.left = mem, rest, maxArenaBytes
	if m.areas, err = m.smaps(); err != nil {
		return nil, err
	}
	out := &sampler.MemoryParts{}
	for i := range m.areas {
		a := &m.areas[i]
		out.RSS += a.rss
		out.PSS += a.pss
		out.Private += a.private
		out.Swap += a.swap
	}
	if err := m.divide(ruby, out); err != nil {
		return nil, err
	}
	if parent > 0 {
		out.Copied = m.copied(parent)
	}
	return out, nil
}

func openMemory(pid int) (*procMemory, error) {
	path := fmt.Sprintf("/proc/%d", pid)
	dir, err := openDir(path)
	if err != nil {
		return nil, &Error{"open", path, err}
	}
	return &procMemory{pid: pid, dir: dir, proc: newLiving(pid, dir), page: uint64(os.Getpagesize()), rest: func() {}}, nil
}

func (m *procMemory) close() {
	m.proc.close()
	closeFD(m.dir)
}

func (m *procMemory) errorOf(op, file string, err error) error {
	return &Error{op, fmt.Sprintf("/proc/%d/%s", m.pid, file), err}
}

func (m *procMemory) smaps() ([]area, error) {
	fd, err := m.proc.open("smaps")
	if err != nil {
		return nil, m.errorOf("open", "smaps", err)
	}
	defer closeFD(fd)
	var text []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := readMore(fd, buf, int64(len(text)))
		if err != nil {
			return nil, m.errorOf("read", "smaps", err)
		}
		if n == 0 {
			break
		}
		if text = append(text, buf[:n]...); len(text) > maxSmaps {
			return nil, m.errorOf("read", "smaps", fmt.Errorf("it has more than %d MB", maxSmaps>>20))
		}
	}
	list, err := parseSmaps(text)
	if err == nil && len(list) == 0 {
		err = errors.New("it is empty: the process has ended") // only a kernel thread or a zombie has no memory
	}
	if err != nil {
		return nil, m.errorOf("read", "smaps", err)
	}
	return list, nil
}

// stacks returns the stack pointers of the threads that are not on a CPU, sorted. It reads them from task/TID/syscall.
func (m *procMemory) stacks() []uint64 {
	tids, err := listNumbers(m.dir, "task", "task", nil)
	if err != nil {
		return nil
	}
	var out []uint64
	var buf [256]byte
	for _, tid := range tids[:min(len(tids), maxStacks)] {
		name := "task/" + strconv.Itoa(int(tid)) + "/syscall"
		text, err := readWhole(m.dir, name, name, buf[:])
		if err != nil {
			continue
		}
		if f := bytes.Fields(text); len(f) >= 3 { // the last two are the stack pointer and the place in the code
			if sp, _, ok := takeHex(f[len(f)-2]); ok && sp != 0 {
				out = append(out, sp)
			}
		}
	}
	slices.Sort(out)
	return out
}

// kindOf returns the kind of an area's memory, such as a stack. Pages of Ruby and arenas have no kind here, because
// divide counts them.
func kindOf(a *area, stacks []uint64) string {
	holdsStack := func() bool {
		i, _ := slices.BinarySearch(stacks, a.start)
		return i < len(stacks) && stacks[i] < a.end
	}
	switch {
	case a.shared && (!a.file || slices.ContainsFunc(sharedNames, func(s string) bool { return strings.HasPrefix(a.name, s) })):
		return sampler.MemoryShared
	case a.file:
		return sampler.MemoryFiles
	case a.name == heapName:
		return sampler.MemoryMalloc
	case a.name == "[stack]" || a.write && holdsStack():
		return sampler.MemoryStacks
	case a.exec && !strings.HasPrefix(a.name, "[v"): // [vdso] and [vsyscall] are the kernel's
		return sampler.MemoryCode
	}
	return sampler.MemoryOther
}

const heapName = "[heap]"

// sharedNames are prefixes of the names that the kernel gives to shared memory without a file on a disk.
var sharedNames = []string{"/dev/zero", "/dev/shm/", "/memfd:", "/SYSV"}

// allocators are libraries that replace glibc's malloc, by the prefix of their names after "lib".
var allocators = []string{"jemalloc", "tcmalloc", "mimalloc", "snmalloc", "hoard"}

func allocatorOf(areas []area) string {
	name := ""
	for i := range areas {
		base := path.Base(areas[i].name)
		for _, a := range allocators {
			if areas[i].file && strings.HasPrefix(strings.TrimPrefix(base, "lib"), a) {
				return a
			}
		}
		if areas[i].file && (base == "libc.so.6" || strings.HasPrefix(base, "libc-2.")) {
			name = glibc
		}
	}
	return name
}

// divide adds up the kinds of memory. It counts the resident pages of Ruby's heap and of arenas one by one. It counts
// all other resident memory of an area under kindOf(area). So the sum of all kinds is the resident memory.
func (m *procMemory) divide(ruby []attach.Span, out *sampler.MemoryParts) error {
	out.Malloc.Allocator = allocatorOf(m.areas)
	fd, err := m.proc.open("pagemap")
	if err != nil {
		return m.errorOf("open", "pagemap", err)
	}
	defer closeFD(fd)
	stacks := m.stacks()
	sums := make(map[string]uint64)
	var free uint64
	known := out.Malloc.Allocator == glibc
	for i := range m.areas {
		a := &m.areas[i]
		kind := kindOf(a, stacks)
		first, _ := slices.BinarySearchFunc(ruby, a.start, func(s attach.Span, at uint64) int { return cmp.Compare(uint64(s.End), at+1) })
		last := first
		for last < len(ruby) && uint64(ruby[last].Start) < a.end {
			last++
		}
		var arenas []arena
		if a.anonymous() && out.Malloc.Allocator == glibc {
			if arenas, err = m.arenasIn(fd, a, maxArenas-out.Malloc.Arenas); err != nil {
				return err
			}
		}
		if first == last && len(arenas) == 0 {
			sums[kind] += a.rss
			continue
		}
		pages, err := readResidency(fd, a.start, a.end, m.page, m.rest)
		if err != nil {
			return m.errorOf("read", "pagemap", err)
		}
		left := a.rss
		take := func(kind string, n uint64) {
			n = min(n, left)
			left -= n
			sums[kind] += n
		}
		within := func(from, to uint64) (n uint64) { // Ruby's pages
			for _, s := range ruby[first:last] {
				if lo, hi := max(from, uint64(s.Start)), min(to, uint64(s.End)); lo < hi {
					n += pages.bytes(lo, hi)
				}
			}
			return n
		}
		take(sampler.MemoryRuby, within(a.start, a.end))
		for _, x := range arenas {
			out.Malloc.Arenas++
			if a.name != heapName {
				take(sampler.MemoryMalloc, pages.bytes(x.start, x.end)-within(x.start, x.end))
			}
			n, ok, err := m.freeIn(x, pages)
			if err != nil {
				return err
			}
			free += n
			known = known && ok
			m.rest()
		}
		take(kind, left)
	}
	out.Malloc.Bytes = sums[sampler.MemoryMalloc]
	if known && out.Malloc.Arenas > 0 {
		free = min(free, out.Malloc.Bytes)
		out.Malloc.Free = &free
	}
	for kind, n := range sums {
		if n > 0 {
			out.Parts = append(out.Parts, sampler.MemoryPart{Kind: kind, Bytes: n})
		}
	}
	sorting.By(out.Parts, func(x, y sampler.MemoryPart) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.Kind, y.Kind))
	})
	return nil
}

// copied returns the memory that is shared with the parent or copied since the fork. It is nil if parent is unreadable.
func (m *procMemory) copied(parent int) *sampler.CopiedMemory {
	p, err := openMemory(parent)
	if err != nil {
		return nil
	}
	defer p.close()
	theirs, err := p.smaps()
	if err != nil {
		return nil
	}
	if program(m.areas) != program(theirs) { // parent did not fork this process, or has called exec since
		return nil
	}
	out := &sampler.CopiedMemory{Parent: parent}
	i := 0
	for k := range m.areas {
		a := &m.areas[k]
		if a.shared || !a.write {
			continue
		}
		for i < len(theirs) && theirs[i].end <= a.start {
			i++
		}
		var unshared uint64 // resident memory of the parent at these addresses, shared or not
		overlap := false
		for j := i; j < len(theirs) && theirs[j].start < a.end; j++ {
			if t := &theirs[j]; !t.shared && t.write && t.name == a.name {
				overlap = true
				unshared += t.rss
			}
		}
		if !overlap {
			continue
		}
		out.Inherited += a.rss
		out.Shared += a.sharedOut
		out.Copied += min(a.private, unshared-min(unshared, a.sharedOut))
	}
	return out
}

// program returns the file and the address of the first mapped code. They are the same for a process and a process that
// it forked.
func program(list []area) (is struct {
	name  string
	start uint64
}) {
	for i := range list {
		if a := &list[i]; a.file && a.exec {
			is.name, is.start = a.name, a.start
			break
		}
	}
	return is
}
