package sampler

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

const (
	// MaxDictionaryBytes bounds the memory of a Dictionary's entries, names included. What comes past it is left out: its
	// frames and stacks get leftOutLabel, and are counted, until a Keeper has taken others away.
	MaxDictionaryBytes = 96 << 20
	// mapSlack is how much more memory a map takes than its entries: it is between half and seven eighths full, and while it
	// grows there are two.
	mapSlack = 3
)

// shares is how many processes that are read at once have each limit to themselves; more of them divide that.
const shares = 2

// Share is the part of a limit that each of n processes read at once has.
func Share(limit, n int) int { return min(limit, shares*limit/max(n, 1)) }

// Room is memory that the Dictionaries of several processes share. Each Dictionary has a part of its own that it can
// always use. Beyond that, it may grow up to MaxDictionaryBytes as long as there is room. So a process with very many
// names takes no memory from the parts of others.
type Room struct {
	limit, part int64
	held        atomic.Int64
}

// NewRoom returns a Room of the given size for the Dictionaries of at most n processes at a time. Together with the n
// parts, the Dictionaries take at most twice that size.
func NewRoom(bytes int64, n int) *Room { return &Room{limit: bytes, part: bytes / int64(n)} }

// NewDictionary returns an empty Dictionary that takes its memory from the room, and gives it back when nobody has the
// Dictionary any more and it is collected.
func (r *Room) NewDictionary() *Dictionary {
	d := NewDictionary()
	d.room = r
	runtime.AddCleanup(d.entries, func(held *atomic.Int64) { r.held.Add(-held.Load()) }, d.shared)
	return d
}

// bytesHeld is the memory that the Dictionaries take of the room, in bytes.
func (r *Room) bytesHeld() int64 { return r.held.Load() }

// takes notes that the entries take n bytes more, or less.
func (d *entries) takes(n int64) {
	d.bytes += n
	if d.room == nil {
		return
	}
	// What is within its own part is not the room's.
	beyond := max(d.bytes-d.room.part, 0)
	d.room.held.Add(beyond - d.shared.Swap(beyond))
}

// leftOutLabel labels the frame that stands for all frames and stacks for which a Dictionary has no room.
const leftOutLabel = "(left out: too many names)"

// Bytes is the memory that the entries take, roughly, in bytes; at most MaxDictionaryBytes and what the frame leftOutLabel
// takes.
func (d *Dictionary) Bytes() int64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.bytes
}

// LeftOut returns how many frames, stacks, peers, requests, texts and threads were refused for lack of room. One that is met again
// counts again.
func (d *Dictionary) LeftOut() uint64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.overflow
}

// fits reports whether n bytes more are within the limit, and counts what is refused.
func (d *entries) fits(n int64) bool {
	full := d.room != nil && d.bytes+n > d.room.part && d.room.held.Load()+n > d.room.limit
	if full || d.bytes+n > d.maxBytes {
		d.overflow++
		return false
	}
	return true
}

// Each entry is in a page and, as the key, in a map. A page's memory counts when it is made, because it goes only as a
// whole.
func (f Frame) cost() int64 {
	names := len(f.Label) + len(f.Name) + len(f.Path) + len(f.AbsolutePath) + len(f.Gem)
	return int64(mapSlack*(unsafe.Sizeof(f)+unsafe.Sizeof(FrameID(0)))) + int64(names)
}

func (n stackNode) cost() int64 {
	return int64(mapSlack * (unsafe.Sizeof(n) + unsafe.Sizeof(StackID(0))))
}

func (p Peer) cost() int64 {
	names := len(p.Remote) + len(p.Local) + len(p.Service) + len(p.Path) + len(p.Process)
	return int64(mapSlack*(unsafe.Sizeof(p)+unsafe.Sizeof(PeerID(0)))) + int64(names)
}

func (w Work) cost() int64 {
	maps := unsafe.Sizeof(w) + unsafe.Sizeof(w.Number) + 2*unsafe.Sizeof(WorkID(0))
	return int64(mapSlack*maps) + int64(len(w.Endpoint)+len(w.Values))
}

func (t text) cost() int64 {
	return int64(mapSlack*(unsafe.Sizeof(t)+unsafe.Sizeof(TextID(0)))) + int64(len(t.s))
}

func (t ThreadInfo) cost() int64 {
	return int64(mapSlack*(unsafe.Sizeof(t)+unsafe.Sizeof(ThreadID(0)))) + int64(len(t.Name))
}

// leftOutFrame returns the frame that stands for those left out. There is always room for it.
func (d *entries) leftOutFrame() FrameID {
	if d.frames.at(uint32(d.leftOut.frame)) == nil {
		f := Frame{Label: leftOutLabel, Name: leftOutLabel, C: true}
		id, bytes := d.frames.add(f, Generation(d.generation.Load()))
		d.leftOut.frame = FrameID(id)
		d.frameIDs[f] = d.leftOut.frame
		d.takes(bytes + f.cost())
	}
	d.frames.use(uint32(d.leftOut.frame), Generation(d.generation.Load()))
	return d.leftOut.frame
}

// leftOutStack returns the stack that stands for those left out.
func (d *entries) leftOutStack() StackID {
	if d.stacks.at(uint32(d.leftOut.stack)) == nil {
		n := stackNode{0, d.leftOutFrame(), 1}
		id, bytes := d.stacks.add(n, Generation(d.generation.Load()))
		d.leftOut.stack = StackID(id)
		d.stackIDs[n] = d.leftOut.stack
		d.takes(bytes + n.cost())
	}
	d.stacks.use(uint32(d.leftOut.stack), Generation(d.generation.Load()))
	return d.leftOut.stack
}
