package push

import (
	"errors"
	"sync"
	"time"

	"github.com/ddtop/ddtop/push/spool"
)

// maxIntake limits the total size of the payloads in memory that are not on the disk yet, in bytes.
const maxIntake = 32 << 20

// intake holds new payloads in memory until they are written to the queue on the disk. With a slow disk, this can take
// long.
type intake struct {
	mu     sync.Mutex
	list   [][]byte
	bytes  int
	taken  bool // a payload was taken from list, and may not be on disk yet
	closed bool
	more   chan struct{}
}

// add appends a payload. If there is no room, it first drops the oldest payloads, and returns their number.
func (i *intake) add(data []byte) (dropped int) {
	i.mu.Lock()
	for len(i.list) > 0 && i.bytes+len(data) > maxIntake {
		i.bytes -= len(i.list[0])
		i.list = i.list[1:]
		dropped++
	}
	i.list = append(i.list, data)
	i.bytes += len(data)
	i.mu.Unlock()
	i.wake()
	return dropped
}

func (i *intake) wake() {
	select {
	case i.more <- struct{}{}:
	default:
	}
}

func (i *intake) close() {
	i.mu.Lock()
	i.closed = true
	i.mu.Unlock()
	i.wake()
}

// next removes and returns the oldest payload. If there is none, it waits until one is added. ok is false if the intake
// is closed and empty.
func (i *intake) next() (data []byte, ok bool) {
	for {
		i.mu.Lock()
		i.taken = len(i.list) > 0
		if i.taken {
			data, i.list = i.list[0], i.list[1:]
			i.bytes -= len(data)
			i.mu.Unlock()
			return data, true
		}
		closed := i.closed
		i.mu.Unlock()
		if closed {
			return nil, false
		}
		<-i.more
	}
}

// left returns the number of payloads that are not in the queue on the disk yet.
func (i *intake) left() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	n := len(i.list)
	if i.taken {
		n++
	}
	return n
}

// spool moves payloads from the intake (in memory) into the queue (on disk), until the intake is closed and empty.
func (l *lane) spool() {
	for {
		data, ok := l.intake.next()
		if !ok {
			break
		}
		before := l.Queue.Stats()
		err := l.Queue.Put(time.Now(), data)
		l.tellOfDisk(err)
		after := l.Queue.Stats()
		if after.Remade > before.Remade {
			l.log.Warn("the spool's folder was gone and has been made again: what was in it is lost")
		}
		l.tellOfDrops(after.Dropped - before.Dropped)
		l.wakeSender()
	}
	l.mu.Lock()
	l.spooled = true
	l.mu.Unlock()
	l.wakeSender()
}

func (l *lane) wakeSender() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// tellOfDisk logs when the spool's disk starts to fail, and when it works again.
func (l *lane) tellOfDisk(err error) {
	switch {
	case err == nil && l.disk:
		l.disk = false
		l.log.Info("the spool can be written to again")
	case errors.Is(err, spool.ErrNotOnDisk) && l.disk:
	case err != nil:
		l.disk = errors.Is(err, spool.ErrNotOnDisk)
		l.log.Error("the spool", "err", err)
	}
}

// tellOfDrops logs that the spool is full, at most once per hour. n is the number of payloads that were just dropped.
func (l *lane) tellOfDrops(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); n > 0 && !now.Before(l.sayFullAt) {
		l.sayFullAt = now.Add(reminder)
		l.log.Warn("the spool is full: the oldest " + l.many + " are dropped")
	}
}
