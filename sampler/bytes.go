package sampler

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

const (
	// MaxDictionaryBytes limits the memory of a Dictionary's entries, including their names, in bytes. A full
	// Dictionary refuses and counts new entries, until a Keeper has removed old ones. A frame with the label
	// leftOutLabel replaces refused frames and stacks.
	MaxDictionaryBytes = 96 << 20
	// mapSlack is used to estimate the memory of a Go map: it is mapSlack times the memory of the map's entries. A map
	// is between half and seven eighths full. While it grows, its old and its new table exist at the same time.
	mapSlack = 3
)

// shares is the number of processes that ddtop can read at the same time with full memory limits. If ddtop reads more
// processes, Share reduces the limit of each process.
const shares = 2

// Share returns the memory limit of each process while n processes are read at the same time. limit is the limit of a
// single process.
func Share(limit, n int) int { return min(limit, shares*limit/max(n, 1)) }

// Room is memory that the Dictionaries of several processes share. Each Dictionary has a reserved part that it can
// always use. While the Room has free memory, a Dictionary may grow beyond its reserved part, up to MaxDictionaryBytes.
// So a process with very many names never takes memory from the reserved parts of others.
type Room struct {
	limit, part int64
	held        atomic.Int64
}

// NewRoom returns a Room for the Dictionaries of at most n processes at a time. Each Dictionary has a reserved part of
// bytes/n bytes. Beyond the reserved parts, the parameter bytes limits the memory of all Dictionaries together.
func NewRoom(bytes int64, n int) *Room { return &Room{limit: bytes, part: bytes / int64(n)} }

// NewDictionary returns an empty Dictionary that takes its memory from the room. When Go's garbage collector frees the
// Dictionary, the room gets its memory back.
func (r *Room) NewDictionary() *Dictionary {
	d := NewDictionary()
	d.room = r
	runtime.AddCleanup(d.entries, func(held *atomic.Int64) { r.held.Add(-held.Load()) }, d.shared)
	return d
}

// takes adds n bytes to the counted memory of the entries. A negative n means that entries were removed.
func (d *entries) takes(n int64) {
	d.bytes += n
	if d.room == nil {
		return
	}
	// The room counts only the memory that a Dictionary uses beyond its reserved part.
	beyond := max(d.bytes-d.room.part, 0)
	d.room.held.Add(beyond - d.shared.Swap(beyond))
}

// leftOutLabel is the label of the frame that replaces frames and stacks for which a Dictionary has no room.
const leftOutLabel = "(left out: too many names)"

// Bytes returns the approximate memory of the entries, in bytes. It is at most MaxDictionaryBytes plus the memory of
// the frame with the label leftOutLabel.
func (d *Dictionary) Bytes() int64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.bytes
}

// LeftOut returns how many frames, stacks, peers, requests, texts and threads were refused because there was no room
// for them. An entry that is refused twice counts twice.
func (d *Dictionary) LeftOut() uint64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.overflow
}

// fits reports whether n more bytes are within the memory limit. If they are not, fits counts a refused entry.
func (d *entries) fits(n int64) bool {
	full := d.room != nil && d.bytes+n > d.room.part && d.room.held.Load()+n > d.room.limit
	if full || d.bytes+n > d.maxBytes {
		d.overflow++
		return false
	}
	return true
}

// costOf estimates the memory of a map's entry, in bytes. size is the size of the entry without its names.
func costOf(size uintptr, names ...string) int64 {
	bytes := int64(mapSlack * size)
	for _, s := range names {
		bytes += int64(len(s))
	}
	return bytes
}

// tableCost estimates the memory of an entry of an intern.Table outside of the table's pages. This is the memory of its
// names, and of its hash and ID in a map. The memory of a page is counted as a whole when the page is made.
func tableCost(names ...string) int64 {
	return costOf(unsafe.Sizeof(uint64(0))+unsafe.Sizeof(FrameID(0)), names...)
}

func (f Frame) cost() int64 {
	return tableCost(f.Label, f.Name, f.Path, f.AbsolutePath, f.Gem, f.Native.Library, f.Native.BuildID, f.Native.Places)
}
func (n stackNode) cost() int64 { return tableCost() }
func (p Peer) cost() int64      { return tableCost(p.Remote, p.Local, p.Service, p.Path, p.Process) }
func (w Work) cost() int64 { // a second map, by Number, also has each Work
	return tableCost(w.Endpoint, w.Values, w.Path) + costOf(unsafe.Sizeof(w.Number)+unsafe.Sizeof(WorkID(0)))
}

func (t text) cost() int64 { return tableCost(t.s) }
func (t ThreadInfo) cost() int64 { // the name is also a key of the map twins
	return costOf(unsafe.Sizeof(t.ID)+unsafe.Sizeof(t)+unsafe.Sizeof(t.Name)+unsafe.Sizeof(twins{}), t.Name, t.Exception)
}

// leftOutFrame returns the frame that replaces all frames and stacks for which there is no room. There is always room
// for this frame.
func (d *entries) leftOutFrame() FrameID {
	return internIn(d, &d.frames, Frame{Label: leftOutLabel, Name: leftOutLabel, C: true}, true)
}

func (d *entries) leftOutStack() StackID {
	d.leftOut = internIn(d, &d.stacks, stackNode{0, d.leftOutFrame(), 1}, true)
	return d.leftOut
}
