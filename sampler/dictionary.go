package sampler

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ddtop/ddtop/sampler/intern"
)

// FrameID identifies a Frame in a Dictionary. Zero means "no frame".
type FrameID uint32

// StackID identifies a stack in a Dictionary. Zero is the empty stack. Stacks with the same callers share entries (a
// trie): each entry is one frame and the StackID of its caller's stack.
type StackID uint32

// Frame is one line of a backtrace, as Thread::Backtrace::Location describes it.
type Frame struct {
	// Label is the qualified name, such as "Foo::Bar#baz", "Foo.bar" or "block in Foo#baz". It has the form that Ruby
	// 3.4 prints, even if the target runs an older release.
	Label string
	// Name is Ruby's base_label: the name of the method without its class.
	Name string
	// Path is the path as Ruby reports it. The path of a main script is relative. Path is empty if Ruby reports nil.
	Path string
	// AbsolutePath is the real path of the file. It is empty if Ruby reports nil for absolute_path, for example in eval
	// and <internal:…>.
	AbsolutePath string
	// Line is the line that the frame executes. It is 0 if Ruby itself reports 0. If the line could not be read, Line
	// is FirstLine, and Uncertain is set. Line may be negative, because eval accepts any line number.
	Line int32
	// FirstLine is the line where the method or block begins. It is zero for functions in C.
	FirstLine int32
	// C is true for functions written in C. It is also true for functions in <internal:…>, which are written in Ruby,
	// if the Ruby release reports them as C functions.
	C bool
	// Uncertain is true if the line or the whole frame cannot be trusted. ddtop finds the line from the program counter
	// (pc) in the frame. For example, code that a JIT compiled may not have stored its current pc there yet.
	Uncertain bool
	// UncertainLine is true if only the line of an Uncertain frame cannot be trusted. Then the method is right.
	UncertainLine bool
	// Origin says where the code comes from.
	Origin Origin
	// Gem is the name and version of the gem that the code belongs to ("rack 2.2.7"). The version is missing if the
	// path has none. Gem is empty if Origin is not OriginGem.
	Gem string
	// Native is the C code that a frame of a native stack stands for. It is empty for frames of a Ruby stack.
	Native NativeCode
}

// ThreadInfo holds the facts about a thread that rarely change, such as its name. The facts that change often are in
// Thread, which is a part of each Sample.
type ThreadInfo struct {
	ID ThreadID
	// Name is Thread#name as valid UTF-8. It is "" if the thread has no name. HasName is true if Thread#name is not
	// nil. HasName distinguishes an empty name from no name.
	Name    string
	HasName bool
	// Twin numbers the threads that have the same name: 1, 2, 3 in the order in which they appeared. It is zero if no
	// other thread has had this name. The Dictionary sets Twin.
	Twin   uint32
	Main   bool
	Ractor RactorID
	// TID is the last known id of the native thread. It is zero if none is known.
	TID int32
	// FirstSeenNS is when ddtop first saw the thread. GoneNS is when ddtop found that the thread had ended, and 0 while
	// the thread lives. Both are CLOCK_MONOTONIC in ns.
	FirstSeenNS, GoneNS int64
	// Exception is the class of the exception that ended the thread. It is empty while the thread lives. It is also
	// empty if no exception ended the thread, or if the class is not known.
	Exception string
}

// FullName returns the name of the thread. If several threads have this name, FullName adds the number Twin: "processor
// 3". If the name itself ends in a digit, the number is in parentheses: "worker-1 (2)". FullName is empty if the thread
// has no name.
func (t *ThreadInfo) FullName() string {
	switch {
	case t.Name == "" || t.Twin == 0:
		return t.Name
	case t.Name[len(t.Name)-1] >= '0' && t.Name[len(t.Name)-1] <= '9':
		return fmt.Sprintf("%s (%d)", t.Name, t.Twin)
	}
	return fmt.Sprintf("%s %d", t.Name, t.Twin)
}

// PeerKind says what kind of thing a file descriptor refers to: a connection, a file, a timer.
type PeerKind uint8

// The kinds of Peer.
const (
	PeerUnknown PeerKind = iota
	PeerTCP
	PeerUDP
	PeerUnix
	PeerPipe
	PeerFile
	PeerTTY
	PeerEventFD
	PeerEpoll
	PeerTimerFD
	PeerListener
	PeerOther
)

// Peer is the thing to which a file descriptor refers, such as the other end of a connection, or a file.
type Peer struct {
	Kind PeerKind
	// Remote is the address:port of a socket's other end, or the path of a unix socket. Local is the address of the
	// target's end, for example of a listening socket.
	Remote, Local string
	// Service is the usual name of the service at the port, such as PostgreSQL or Redis. It is "" if there is none.
	Service string
	// Process is the program that listens at the other end of a connection within the machine, for example "ruby (pid
	// 12)". The PID is from ddtop's own PID namespace. Process is empty if it is not known.
	Process string
	// Path is a file's path. For a descriptor without a path, it is the text of the /proc/PID/fd link (pipe:[123]).
	Path string
}

type stackNode struct {
	parent StackID
	frame  FrameID
	depth  uint32
}

// Dictionary stores each frame, stack, thread, peer, request and text once, and gives it an ID (interning). One
// goroutine may write while any number of goroutines read. All entries together take at most MaxDictionaryBytes.
// CutName shortens long names.
//
// A Keeper can evict (remove) an entry. After that, the entry's ID means nothing. No other entry gets this ID while the
// Dictionary lives. Requests and texts are also evicted when there are many newer ones.
//
// A Dictionary can hide names in what it returns: see Hide and Filtered.
type Dictionary struct {
	*entries
	names Filter                 // removes names, and cannot be switched off; nil if nothing is removed
	marks bool                   // Frame returns frames after they were changed by Frame.Marked
	own   func(Frame) Frame      // decides a frame's Origin (see Judged), or nil
	hide  atomic.Pointer[Filter] // hides names; only the method Hide changes it
	// routesOf caches the last result of Routes. The cache is invalid after the routes change, or after a Filter is set
	// or removed.
	routesOf atomic.Pointer[routesOf]
}

// entries are the stored values of a Dictionary. A Dictionary can have several views, and all of them share the same
// entries.
type entries struct {
	mu     sync.RWMutex
	frames intern.Table[Frame, FrameID]
	stacks intern.Table[stackNode, StackID]
	peers  intern.Table[Peer, PeerID]
	works  intern.Table[Work, WorkID]
	// named maps a request's number to the ID of the newest Work with this number.
	named map[WorkNumber]WorkID
	// routes maps a request's path (Work.Path) to the route of earlier requests with this path. The route is "" if they
	// had different routes. renames counts how many times the map routes has changed.
	routes   map[string]string
	renames  atomic.Uint64
	texts    intern.Table[text, TextID]
	threads  map[ThreadID]ThreadInfo
	twins    map[string]twins // the key is a thread's name
	overflow uint64
	// bytes is the memory of all entries, and maxBytes is its limit. leftOut is the stack that replaces all stacks for
	// which there is no room.
	bytes, maxBytes int64
	// told is the memory of the requests and texts that were added since requests and texts were last evicted (see
	// toldPart).
	told int64
	// room is memory that several Dictionaries share. It is nil if this Dictionary does not share memory. shared is the
	// part of the room that these entries take, in bytes.
	room       *Room
	shared     *atomic.Int64
	leftOut    StackID
	generation atomic.Uint32
}

// NewDictionary returns an empty Dictionary.
func NewDictionary() *Dictionary {
	d := &Dictionary{entries: &entries{
		frames:   intern.New[Frame, FrameID](Frame.cost),
		stacks:   intern.New[stackNode, StackID](stackNode.cost),
		peers:    intern.New[Peer, PeerID](Peer.cost),
		works:    intern.New[Work, WorkID](Work.cost),
		named:    make(map[WorkNumber]WorkID),
		routes:   make(map[string]string),
		texts:    intern.New[text, TextID](text.cost),
		threads:  make(map[ThreadID]ThreadInfo),
		twins:    make(map[string]twins),
		maxBytes: MaxDictionaryBytes,
		shared:   new(atomic.Int64),
	}}
	d.generation.Store(1)
	return d
}

// A Filter removes names and values from the entries that a Dictionary returns.
type Filter interface {
	Frame(Frame) Frame
	Peer(Peer) Peer
	Thread(ThreadInfo) ThreadInfo
	Work(Work) Work
	Statement(string) string
	Exception(string) string
}

// Hide makes this Dictionary return filtered entries from now on. If f is nil, it returns everything again. Other views
// of the same entries (see View) do not change.
func (d *Dictionary) Hide(f *Filter) { d.hide.Store(f) }

// HidesDirectories reports whether this Dictionary hides the names of directories. It does so whenever it hides any
// names.
func (d *Dictionary) HidesDirectories() bool { return d.filter() != nil }

// filter returns the Filter that is in use now. It is nil if there is none.
func (d *Dictionary) filter() Filter {
	if d.names != nil {
		return d.names
	}
	if f := d.hide.Load(); f != nil {
		return *f
	}
	return nil
}

// View returns a Dictionary with the same entries. It hides the same names as this Dictionary does now. A later call of
// Hide on this Dictionary does not change the view. So a file that is written from a view hides the same names from its
// beginning to its end.
func (d *Dictionary) View() *Dictionary {
	v := &Dictionary{entries: d.entries, names: d.names, own: d.own, marks: d.marks}
	v.hide.Store(d.hide.Load())
	return v
}

// Filtered returns a Dictionary with the same entries. It passes each entry through f before it returns the entry. The
// stored entries do not change.
func (d *Dictionary) Filtered(f Filter) *Dictionary {
	return &Dictionary{entries: d.entries, names: f, own: d.own, marks: d.marks}
}

// Judged returns a Dictionary with the same entries. Its method Frame passes each frame through the function judge,
// which sets the frame's Origin. The stored entries do not change.
func (d *Dictionary) Judged(judge func(Frame) Frame) *Dictionary {
	v := d.View()
	v.own = judge
	return v
}

// InternFrame returns the ID of f. At the first call it gives f a new ID. If there is no room, it returns the ID of the
// frame with the label leftOutLabel.
func (d *Dictionary) InternFrame(f Frame) FrameID {
	f.Label, f.Name = CutName(templateLabel(f.Label, f.Path)), CutName(f.Name)
	f.Path, f.AbsolutePath, f.Gem = CutName(f.Path), CutName(f.AbsolutePath), CutName(f.Gem)
	n := &f.Native
	n.Library, n.BuildID, n.Places = CutName(n.Library), CutName(n.BuildID), CutName(n.Places)
	d.mu.Lock()
	defer d.mu.Unlock()
	if id := internIn(d.entries, &d.frames, f, false); id != 0 {
		return id
	}
	return d.leftOutFrame()
}

// InternStack returns the ID of a stack. frame is its innermost frame, and caller is the stack of the function that
// called this frame. If there is no room for the new stack, or if caller itself was left out, the result is a
// stack of the frame leftOutLabel.
func (d *Dictionary) InternStack(caller StackID, frame FrameID) StackID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.internStack(caller, frame)
}

// InternStackOf returns the ID of the stack with the given frames, innermost first.
func (d *Dictionary) InternStackOf(frames []FrameID) StackID {
	d.mu.Lock()
	defer d.mu.Unlock()
	var s StackID
	for _, f := range slices.Backward(frames) {
		s = d.internStack(s, f)
	}
	return s
}

func (d *entries) internStack(caller StackID, frame FrameID) StackID {
	depth := uint32(1)
	if caller != 0 {
		n := d.stacks.At(caller)
		if n == nil {
			return 0
		}
		if caller == d.leftOut {
			return caller
		}
		depth += n.depth
	}
	n := stackNode{caller, frame, depth}
	if id := internIn(d, &d.stacks, n, false); id != 0 {
		return id
	}
	return d.leftOutStack()
}

// InternPeer returns the ID of p. At the first call it gives p a new ID. It returns 0 if there is no room.
func (d *Dictionary) InternPeer(p Peer) PeerID {
	p.Remote, p.Local, p.Service, p.Path = CutName(p.Remote), CutName(p.Local), CutName(p.Service), CutName(p.Path)
	p.Process = CutName(p.Process)
	d.mu.Lock()
	defer d.mu.Unlock()
	return internIn(d.entries, &d.peers, p, false)
}

// internIn returns the ID of the entry v in the table t. If v is not stored yet, it gets a new ID. internIn returns
// zero if t has no free IDs. It also returns zero if there is no room, unless always is true.
func internIn[T comparable, ID ~uint32](d *entries, t *intern.Table[T, ID], v T, always bool) ID {
	now := Generation(d.generation.Load())
	if id := t.Find(v, now); id != 0 {
		return id
	}
	bytes := t.Needs(v)
	if !always && !d.fits(bytes) {
		return 0
	}
	id := t.Add(v, now)
	if id == 0 {
		d.overflow++
		return 0
	}
	d.takes(bytes)
	return id
}

// held returns the entry of the table t that has this ID. It returns the zero value if the ID is zero, unknown or
// evicted.
func held[T comparable, ID ~uint32](d *entries, t *intern.Table[T, ID], id ID) (v T) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if at := t.At(id); at != nil {
		v = *at
	}
	return v
}

// SetThread stores the information about a thread, and replaces earlier information. ok is false if there is no room.
func (d *Dictionary) SetThread(t ThreadInfo) (ok bool) {
	t.Name = CutName(t.Name)
	d.mu.Lock()
	defer d.mu.Unlock()
	more := t.cost()
	if old, known := d.threads[t.ID]; known {
		more -= old.cost()
	}
	if more > 0 && !d.fits(more) {
		return false
	}
	d.takes(more)
	old := d.threads[t.ID]
	if t.Twin = old.Twin; t.Name != old.Name {
		d.leaveTwins(old.Name)
		t.Twin = d.joinTwins(t.Name)
	}
	d.threads[t.ID] = t
	return true
}

// twins counts the threads that have the same name. held is how many of them are stored now. last is the Twin of the
// newest thread.
type twins struct{ held, last uint32 }

// joinTwins counts one more thread with this name, and returns the thread's number for ThreadInfo.Twin. It returns 0
// for an empty name.
func (d *entries) joinTwins(name string) uint32 {
	if name == "" {
		return 0
	}
	w := d.twins[name]
	w.held, w.last = w.held+1, w.last+1
	d.twins[name] = w
	return w.last
}

// leaveTwins removes one thread of a name.
func (d *entries) leaveTwins(name string) {
	w := d.twins[name]
	if w.held--; w.held == 0 || name == "" {
		delete(d.twins, name)
		return
	}
	d.twins[name] = w
}

// Frame returns the frame with an ID. It returns the zero Frame for 0, and for an ID that is unknown or evicted.
func (d *Dictionary) Frame(id FrameID) Frame {
	f := held(d.entries, &d.frames, id)
	if d.own != nil {
		f = d.own(f)
	}
	if d.marks {
		f = f.Marked()
	}
	if n := d.filter(); n != nil {
		return n.Frame(f)
	}
	return f
}

// Stack returns the innermost frame of a stack, and the stack of the caller of this frame. Both are 0 for the empty
// stack, and for an unknown or evicted ID.
func (d *Dictionary) Stack(id StackID) (caller StackID, frame FrameID) {
	n := held(d.entries, &d.stacks, id)
	return n.parent, n.frame
}

// Depth returns the number of frames of a stack.
func (d *Dictionary) Depth(id StackID) int { return int(held(d.entries, &d.stacks, id).depth) }

// Frames appends the frame IDs of a stack to buf, innermost first.
func (d *Dictionary) Frames(id StackID, buf []FrameID) []FrameID {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for id != 0 {
		n := d.stacks.At(id)
		if n == nil {
			break
		}
		buf = append(buf, n.frame)
		id = n.parent
	}
	return buf
}

// Peer returns the peer with an ID. It returns the zero Peer for 0, and for an ID that is unknown or evicted.
func (d *Dictionary) Peer(id PeerID) Peer {
	p := held(d.entries, &d.peers, id)
	if n := d.filter(); n != nil {
		return n.Peer(p)
	}
	return p
}

// Thread returns the information about a thread.
func (d *Dictionary) Thread(id ThreadID) (ThreadInfo, bool) {
	d.mu.RLock()
	t, ok := d.threads[id]
	if d.twins[t.Name].last < 2 {
		t.Twin = 0
	}
	d.mu.RUnlock()
	if n := d.filter(); n != nil {
		t = n.Thread(t)
	}
	return t, ok
}

// Sizes returns the highest IDs of frames, stacks and peers, the number of stored threads, and the result of LeftOut.
// The highest IDs also count evicted entries. Held and HeldPeers count only frames, stacks and peers that are still
// stored.
func (d *Dictionary) Sizes() (frames, stacks, peers, threads int, overflow uint64) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return int(d.frames.Last()), int(d.stacks.Last()), int(d.peers.Last()), len(d.threads), d.overflow
}
