package clock

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// recordPages is the number of pages for the records of one CPU. It must be a power of two. The kernel records the
	// mappings of all processes, and 16 pages have room for 300 of them between two reads. So four programs with 70
	// libraries each can start in this time. If a record is lost, the stacks of the time in question are refused.
	recordPages = 16
	// maxChanges limits how many periods with changes of the mappings are kept for a process. If there are more, the
	// oldest two are merged into one.
	maxChanges = 64
	// maxRecord is the largest size of a record, in bytes: a path of 4,096 bytes and the fields around it. If a ring
	// has less room left, a record may have been lost. The kernel reports this loss only when it writes the next
	// record.
	maxRecord = 4096 + 256
)

// These constants describe the kernel's records about mappings (linux/perf_event.h, PERF_RECORD_MMAP2). The last word
// of each record is its time (sample_id_all).
const (
	recordType, recordSize, recordHead = 0, 6, 8
	recordPID, recordInode             = 8, 48
	leastMapped                        = 72 + recordTime
	recordTime                         = 8
)

// change is a period, in ns, in which a process has mapped code of a file. The exact time within the period is not
// known.
type change struct{ from, to int64 }

// records are the kernel's records, from one CPU, of processes that have mapped memory as code.
type records struct{ page, data []byte }

func openRecords(clock int) (r records, err error) {
	size := os.Getpagesize()
	b, err := unix.Mmap(clock, 0, (1+recordPages)*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return r, fmt.Errorf("mapping the records of a clock: %w", err)
	}
	return records{b, b[size:]}, nil
}

func (r *records) close() error { return unix.Munmap(r.page) }

// read calls the function each for every recorded mapping of a file's code, with the process that has mapped the code
// and the time. read calls the function lost if records are missing.
func (r *records) read(each func(pid uint32, ns int64), lost func()) {
	head := (*unix.PerfEventMmapPage)(unsafe.Pointer(&r.page[0]))
	from, to := atomic.LoadUint64(&head.Data_tail), atomic.LoadUint64(&head.Data_head)
	size := uint64(len(r.data))
	if to-from > size-maxRecord {
		lost()
	}
	if to-from > size {
		from = to
	}
	b := make([]byte, to-from)
	for n := range b {
		b[n] = r.data[(from+uint64(n))%size]
	}
	atomic.StoreUint64(&head.Data_tail, to)
	eachRecord(b, each, lost)
}

// eachRecord does the work of read for the records in b.
func eachRecord(b []byte, each func(pid uint32, ns int64), lost func()) {
	for len(b) > 0 {
		n := 0
		if len(b) >= recordHead {
			n = int(binary.LittleEndian.Uint16(b[recordSize:]))
		}
		if n < recordHead || n > len(b) {
			lost()
			return
		}
		switch kind := binary.LittleEndian.Uint32(b[recordType:]); {
		case kind == unix.PERF_RECORD_LOST, kind == unix.PERF_RECORD_MMAP2 && n < leastMapped:
			lost()
		case kind == unix.PERF_RECORD_MMAP2 && binary.LittleEndian.Uint64(b[recordInode:]) != 0:
			each(binary.LittleEndian.Uint32(b[recordPID:]), int64(binary.LittleEndian.Uint64(b[n-recordTime:])))
		}
		b = b[n:]
	}
}

func monotonic() (int64, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, fmt.Errorf("reading the time: %w", err)
	}
	return now.Nano(), nil
}

// readRecords notes which processes have mapped code. The caller holds mu.
func (t *timer) readRecords() error {
	now, err := monotonic()
	if err != nil {
		return err
	}
	before := t.recordsNS
	t.recordsNS = now
	if t.asks { // in this case the calls that map code are in the ring
		return t.readRing(nil)
	}
	for i := range t.records {
		t.records[i].read(func(pid uint32, ns int64) {
			if f := t.feeds[pid]; f != nil {
				f.changed(change{ns, ns})
			}
		}, func() {
			for _, f := range t.feeds {
				f.changed(change{before, now})
			}
		})
	}
	return nil
}

// changed notes a change of the process's mappings.
func (f *Feed) changed(c change) {
	if f.changes = append(f.changes, c); len(f.changes) > maxChanges {
		first, second := f.changes[0], &f.changes[1]
		second.from, second.to = min(first.from, second.from), max(first.to, second.to)
		f.changes = slices.Delete(f.changes, 0, 1)
	}
}

// Steady reports whether the process has mapped no code of files between two times, in ns of CLOCK_MONOTONIC. If it has
// mapped code, an address on a stack can belong to another file than before. For times before Follow, Steady cannot
// know this.
func (f *Feed) Steady(from, to int64) (bool, error) {
	t := f.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if to > t.recordsNS {
		if err := t.readRecords(); err != nil {
			return false, err
		}
	}
	for _, c := range f.changes {
		if c.from <= to && c.to >= from {
			return false, nil
		}
	}
	return true, nil
}
