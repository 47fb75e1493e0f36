// Package spool keeps entries until the caller reports them as sent, and returns the oldest ones first. It keeps them
// in memory or in a folder. In a folder, they survive the end of ddtop. The number of entries and their total size are
// limited. If a new entry does not fit, the oldest entries are dropped and counted.
//
// In a folder each entry is a file. Even if ddtop or the machine crashes, a file is either complete or missing. The
// package first writes the file under another name, then syncs it and renames it. The first line of the file has the
// content's length and a checksum, so that a damaged file is never sent.
package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"
)

// Limits are the limits of a Queue: the total size of its entries, and their number. Both must be above zero.
type Limits struct {
	Bytes int64
	Count int
}

// Stats are figures of a Queue.
type Stats struct {
	// Count is the number of entries that are kept now, and Bytes is their size. InMemory is the number of entries that
	// are only in memory. These are lost when ddtop ends.
	Count, InMemory int
	Bytes           int64
	// Aside is the number of entries that are set aside: the sender waits until a certain time before it tries them
	// again, and sends other entries first.
	Aside int
	// Dropped and DroppedBytes count the entries that were dropped because of the limits since Open was called.
	Dropped, DroppedBytes int64
	// Damaged counts damaged files, which were removed.
	Damaged int64
	// Remade counts how many times the folder was missing and was created again.
	Remade int64
}

// These are errors of Put and Open. Callers test for them with errors.Is.
var (
	// ErrTooLarge means that a single entry is larger than the limit. It is dropped and counted.
	ErrTooLarge = errors.New("it is larger than the spool may be")
	// ErrNotOnDisk means that the entry is only in memory, because the folder could not be written to.
	ErrNotOnDisk = errors.New("the spool's folder can't be written to; it is kept in memory")
	// ErrInUse means that another ddtop has the folder open.
	ErrInUse = errors.New("another ddtop push uses this spool")
)

// store keeps entries by name.
type store interface {
	write(name string, data []byte) error
	// read returns errDamaged if the content differs from what write has written.
	read(name string) ([]byte, error)
	remove(name string) error
	// writeMark stores the mark of an entry. The mark stays until the entry is removed.
	writeMark(name string, m Mark) error
	// remade returns how many times the store's folder was created again because it was missing.
	remade() int64
	close() error
}

// errDamaged means that the content of a file is not what was written.
var errDamaged = errors.New("it is damaged")

// entry is one item to send. The names of entries are in the order of their ages, the oldest first.
type entry struct {
	name string
	size int64
	// held is the content of an entry that is only in memory. It is nil if the content is in the store, on the disk.
	held []byte
	mark Mark
}

// Mark is what the sender notes about an entry. For an entry on disk, the fields Failed, Blamed and Until are stored on
// disk, too. So they survive the end of ddtop. The other fields do not.
type Mark struct {
	// Group is the service to which the entry's data belongs. A destination may refuse all entries of one group.
	// Entries of other groups are still sent. Group is empty until the entry has been read.
	Group string `json:"-"`
	// Failed is the number of failed tries to send the entry. Blamed counts the failed tries for which the entry itself
	// is probably the reason: other entries were sent since the previous try.
	Failed int `json:"failed"`
	Blamed int `json:"blamed"`
	// SentBefore is the number of entries of all groups that had been sent at the time of the last try. At the next
	// try, the sender compares it with the present number, to see whether other entries were sent since then.
	SentBefore int64 `json:"-"`
	// Until is the earliest time of the next try. It is zero if the entry is not set aside.
	Until time.Time `json:"until"`
	// Held is true while the entry waits because other entries of its group are not accepted.
	Held bool `json:"-"`
}

// maxUntil limits how long an entry from an earlier run of ddtop stays set aside. If the clock was set back after that
// run, the entry's Until can be far in the future.
const maxUntil = time.Hour

// kept returns the part of a mark that survives the end of ddtop.
func (m Mark) kept() Mark { return Mark{Failed: m.Failed, Blamed: m.Blamed, Until: m.Until.Round(0)} }

// aside reports whether the entry is set aside, so that other entries are sent first.
func (m Mark) aside() bool { return m.Held || !m.Until.IsZero() }

// A Queue is a queue of entries with limits. One goroutine adds entries, and another one reads and removes them. Any
// goroutine may call Stats. A Queue holds no lock while it waits for the disk.
type Queue struct {
	limits Limits
	store  store // nil if all entries are in memory

	mu      sync.Mutex
	entries []entry // oldest first
	taken   string  // the name of the entry that Next returned last; this entry must not be dropped
	stats   Stats
	last    int64 // the number in the name of the newest entry
}

// InMemory returns an empty Queue that keeps its entries in memory. They are lost when ddtop ends.
func InMemory(l Limits) *Queue { return &Queue{limits: l} }

// Open returns the Queue of a folder, with the entries that an earlier run has left there. It creates a missing
// folder (mode 0700), and drops the oldest entries beyond the limits. It returns ErrInUse if another process has the
// folder open.
func Open(folder string, l Limits) (*Queue, error) {
	f, err := openFolder(folder)
	if err != nil {
		return nil, fmt.Errorf("spool %s: %w", folder, err)
	}
	q := &Queue{limits: l, store: f}
	if q.entries, err = f.list(); err != nil {
		return nil, errors.Join(fmt.Errorf("spool %s: %w", folder, err), f.close())
	}
	for _, e := range q.entries {
		q.stats.Bytes += e.size
		q.last = max(q.last, numberOf(e.name))
		if e.mark.aside() {
			q.stats.Aside++
		}
	}
	q.stats.Count = len(q.entries)
	if err := q.makeRoom(0, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("spool %s: %w", folder, err), f.close())
	}
	return q, nil
}

// Put appends an entry. The caller must not change data afterwards. now is the present time. Put makes the entry's name
// from it, so that the entries of several runs of ddtop are in order.
//
// If the queue or the disk is full, Put drops the oldest entries and counts them. If Put cannot write to the folder, it
// keeps the entry in memory and returns ErrNotOnDisk. If it returns ErrTooLarge, it has not kept the entry.
func (q *Queue) Put(now time.Time, data []byte) error {
	size := int64(len(data))
	if size > q.limits.Bytes {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.stats.Dropped++
		q.stats.DroppedBytes += size
		return fmt.Errorf("%d bytes: %w", size, ErrTooLarge)
	}
	failed := q.makeRoom(1, size)
	e := entry{name: q.nextName(now), size: size, held: data}
	if q.store != nil {
		err := q.write(e.name, data)
		if err == nil {
			e.held = nil
		} else {
			failed = fmt.Errorf("%w: %w", ErrNotOnDisk, err)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.entries = append(q.entries, e)
	q.stats.Count++
	q.stats.Bytes += size
	if e.held != nil {
		q.stats.InMemory++
	}
	return failed
}

// write writes an entry to the store. While the disk is full, it removes the oldest entries and tries again.
func (q *Queue) write(name string, data []byte) error {
	for {
		err := q.store.write(name, data)
		if err == nil || !isFull(err) {
			return err
		}
		oldest, ok := q.drop(func(e *entry) bool { return e.held == nil })
		if !ok {
			return err
		}
		if removeErr := q.store.remove(oldest.name); removeErr != nil {
			return errors.Join(err, removeErr)
		}
	}
}

// makeRoom drops the oldest entries until there is room for count more entries with size bytes in all. It returns an
// error if a file could not be removed. The entry of this file is gone from the queue, but comes back after a restart
// of ddtop.
func (q *Queue) makeRoom(count int, size int64) error {
	var errs []error
	for {
		q.mu.Lock()
		fits := q.stats.Count+count <= q.limits.Count && q.stats.Bytes+size <= q.limits.Bytes
		q.mu.Unlock()
		if fits {
			return errors.Join(errs...)
		}
		e, ok := q.drop(func(*entry) bool { return true })
		if !ok {
			return errors.Join(errs...) // only the entry that is being sent remains
		}
		if e.held == nil {
			errs = append(errs, q.store.remove(e.name))
		}
	}
}

// drop removes one entry from the list and counts it. It can remove only an entry for which the function may returns
// true. drop prefers the oldest entry that is set aside. If none is set aside, it removes the oldest entry. It never
// removes the entry that is being sent.
func (q *Queue) drop(may func(*entry) bool) (entry, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	oldest := -1
	for i := range q.entries {
		e := &q.entries[i]
		if e.name == q.taken || !may(e) {
			continue
		}
		if oldest < 0 {
			oldest = i
		}
		if e.mark.aside() {
			oldest = i
			break
		}
		if q.stats.Aside == 0 {
			break
		}
	}
	if oldest < 0 {
		return entry{}, false
	}
	e := q.entries[oldest]
	q.takeOut(oldest)
	q.stats.Dropped++
	q.stats.DroppedBytes += e.size
	return e, true
}

// takeOut removes the entry with index i from the list. The caller must hold mu.
func (q *Queue) takeOut(i int) {
	e := q.entries[i]
	q.entries = append(q.entries[:i:i], q.entries[i+1:]...)
	q.stats.Count--
	q.stats.Bytes -= e.size
	if e.held != nil {
		q.stats.InMemory--
	}
	if e.mark.aside() {
		q.stats.Aside--
	}
}

func (q *Queue) nextName(now time.Time) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last = max(q.last+1, now.UnixNano()) // keep the numbers in order, even if the clock was set back
	return nameOf(q.last)
}

// Oldest returns the name and the data of the oldest entry. It calls Next with a condition that is always true.
func (q *Queue) Oldest() (name string, data []byte, err error) {
	name, data, _, err = q.Next(func(string, Mark) bool { return true })
	return name, data, err
}

// Next returns the name, the data and the mark of the oldest entry for which may(name, mark) is true. The name is empty
// if there is no such entry. The Queue does not drop this entry until Remove, Next or Return is called. Next removes
// damaged files and counts them. It returns an error if a file cannot be read at present.
func (q *Queue) Next(may func(name string, m Mark) bool) (name string, data []byte, mark Mark, err error) {
	for {
		e, ok := q.take(may)
		if !ok {
			return "", nil, Mark{}, nil
		}
		if e.held != nil {
			return e.name, e.held, e.mark, nil
		}
		data, err := q.store.read(e.name)
		if err == nil {
			return e.name, data, e.mark, nil
		}
		if !errors.Is(err, errDamaged) && !errors.Is(err, fs.ErrNotExist) {
			return "", nil, Mark{}, err
		}
		q.mu.Lock()
		q.stats.Damaged++
		q.mu.Unlock()
		if err := q.Remove(e.name); err != nil {
			return "", nil, Mark{}, err
		}
	}
}

// take finds the entry for Next, and marks it as being sent, so that it is not dropped.
func (q *Queue) take(may func(name string, m Mark) bool) (entry, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = ""
	for i := range q.entries {
		if e := q.entries[i]; may(e.name, e.mark) {
			q.taken = e.name
			return e, true
		}
	}
	return entry{}, false
}

// Return tells the queue that the caller is not sending the entry from the last call of Next. From then on the queue
// may drop this entry.
func (q *Queue) Return() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = ""
}

// Note stores the mark of an entry, if the entry still exists. It returns an error if the disk cannot store the mark.
func (q *Queue) Note(name string, m Mark) error {
	if !q.note(name, m) {
		return nil
	}
	return q.store.writeMark(name, m.kept())
}

// note stores an entry's mark in memory. keep is true if the mark must also be written to the disk.
func (q *Queue) note(name string, m Mark) (keep bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.entries {
		e := &q.entries[i]
		if e.name != name {
			continue
		}
		if e.mark.aside() {
			q.stats.Aside--
		}
		if m.aside() {
			q.stats.Aside++
		}
		keep = e.held == nil && q.store != nil && e.mark.kept() != m.kept()
		e.mark = m
	}
	return keep
}

// Remove removes an entry that the caller has sent, or can never send. If the entry does not exist, Remove does
// nothing.
func (q *Queue) Remove(name string) error {
	q.mu.Lock()
	onDisk := false
	for i := range q.entries {
		if e := q.entries[i]; e.name == name {
			q.takeOut(i)
			onDisk = e.held == nil
			break
		}
	}
	if q.taken == name {
		q.taken = ""
	}
	q.mu.Unlock()
	if !onDisk {
		return nil
	}
	return q.store.remove(name)
}

// Stats returns the present figures.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	if q.store != nil {
		s.Remade = q.store.remade()
	}
	return s
}

// Close closes the folder. The entries stay in it.
func (q *Queue) Close() error {
	if q.store == nil {
		return nil
	}
	return q.store.close()
}
