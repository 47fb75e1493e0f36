package recording

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/sampler"
)

// A block's tables, in this order, each with its length before it:
//
//	strings  the bytes of each, after their number
//	frames   label, name, path, absolute path, line, line minus first line, flags (1 C, 2 uncertain, 4 a gem, 64 only
//	         its line is uncertain; origin from the fourth to the sixth bit), the gem if there is one. Strings are numbered in the order that frames use them
//	         first: 0 is the next new one, n the nth back
//	nodes    of the trie of stacks, callers first: how far back the caller is (0: none), frame
//	stacks   the node of each, in the order of the samples' IDs (from 1)
//	peers    kind, remote, local, service, path (strings); after the path, and a zero byte, who listens there, if that is known
//	threads  ID (difference), name (string), flags (1 has a name, 2 main), ractor, tid, first seen, gone
//
// and since version 3
//
//	works       number (difference), flags (1 before is known; kind from the second bit on), endpoint, values (strings), since
//	            (difference), since minus before if that is known, queued
//	statements  (strings)
//	exceptions  (strings)
const (
	frameC         = 1
	frameUncertain = 2
	frameGem       = 4
	frameOrigin    = 3 // the shift
	frameOrigins   = 7 // the bits, behind the shift
	frameLine      = 64
	workBefore     = 1
	workKind       = 1 // the shift
	threadHasName  = 1
	threadMain     = 2
)

// processAfter is what comes between a peer's path and who listens there: no path has it.
const processAfter = "\x00"

// The least that an element of a table takes, in bytes: one for each of its numbers.
const (
	leastFrame  = 7
	leastNode   = 2
	leastPeer   = 5
	leastThread = 7
	leastWork   = 6
)

// tableBuilder writes the tables of one block after the other.
type tableBuilder struct {
	dict    *sampler.Dictionary
	strings map[string]uint64
	frames  map[sampler.FrameID]uint64
	nodes   map[sampler.StackID]uint64
	text    []byte
	frame   []byte
	node    []byte
	rest    []byte
	path    []sampler.StackID
	spare   [3][]byte
}

func newTableBuilder(d *sampler.Dictionary) *tableBuilder {
	return &tableBuilder{
		dict:    d,
		strings: make(map[string]uint64),
		frames:  make(map[sampler.FrameID]uint64),
		nodes:   make(map[sampler.StackID]uint64),
	}
}

// build makes a block's tables, in parts that are to be compressed one by one. They are valid until the next call.
func (b *tableBuilder) build(ids *blockIDs) [][]byte {
	clear(b.strings)
	clear(b.frames)
	clear(b.nodes)
	b.text, b.frame, b.node, b.rest = b.text[:0], b.frame[:0], b.node[:0], b.rest[:0]

	b.restUint(uint64(len(ids.stacks)))
	for _, s := range ids.stacks {
		b.restUint(b.stackNode(s))
	}
	b.restUint(uint64(len(ids.peers)))
	for _, id := range ids.peers {
		p := b.dict.Peer(id)
		b.restUint(uint64(p.Kind))
		b.restUint(b.str(p.Remote))
		b.restUint(b.str(p.Local))
		b.restUint(b.str(p.Service))
		path := p.Path
		if p.Process != "" {
			path += processAfter + p.Process
		}
		b.restUint(b.str(path))
	}
	b.threads(ids.threads)
	b.works(ids.works)
	b.restUint(uint64(len(ids.statements)))
	for _, id := range ids.statements {
		b.restUint(b.str(b.dict.Statement(id)))
	}
	b.restUint(uint64(len(ids.exceptions)))
	for _, id := range ids.exceptions {
		b.restUint(b.str(b.dict.Exception(id)))
	}
	return [][]byte{
		withLength(&b.spare[0], len(b.strings), b.text),
		withLength(&b.spare[1], len(b.frames), b.frame),
		withLength(&b.spare[2], len(b.nodes), b.node),
		b.rest,
	}
}

// check refuses tables, those that build has made last, that a reader would not take.
func (b *tableBuilder) check(ids *blockIDs) error {
	stacks, peers, threads, works, texts := len(ids.stacks), len(ids.peers), len(ids.threads), len(ids.works), len(ids.statements)
	texts = max(texts, len(ids.exceptions))
	if len(b.strings) > maxStrings || len(b.frames) > maxFrames || len(b.nodes) > maxNodes || stacks > maxStacks ||
		peers > maxPeers || threads > maxBlockThreads || works > maxWorks || texts > maxTold {
		return fmt.Errorf("%w: a block with %d strings, %d frames, %d nodes of stacks, %d stacks, %d peers, %d threads, %d requests and %d texts",
			errLimit, len(b.strings), len(b.frames), len(b.nodes), stacks, peers, threads, works, texts)
	}
	return nil
}

func (b *tableBuilder) works(ids []sampler.WorkID) {
	b.restUint(uint64(len(ids)))
	var last sampler.Work
	for _, id := range ids {
		w := b.dict.Work(id)
		b.rest = appendInt(b.rest, int64(w.Number-last.Number))
		b.restUint(bit(w.BeforeNS != 0, workBefore) | uint64(w.Kind)<<workKind)
		b.restUint(b.str(w.Endpoint))
		b.restUint(b.str(w.Values))
		b.rest = appendInt(b.rest, w.SinceNS-last.SinceNS)
		if w.BeforeNS != 0 {
			b.rest = appendInt(b.rest, w.SinceNS-w.BeforeNS)
		}
		b.rest = appendInt(b.rest, w.QueuedNS)
		last = w
	}
}

// withLength puts a table's length before it, in memory that is used again.
func withLength(spare *[]byte, n int, table []byte) []byte {
	*spare = append(binary.AppendUvarint((*spare)[:0], uint64(n)), table...)
	return *spare
}

func (b *tableBuilder) restUint(v uint64) { b.rest = binary.AppendUvarint(b.rest, v) }

func (b *tableBuilder) threads(set map[sampler.ThreadID]struct{}) {
	var infos []sampler.ThreadInfo
	for id := range maps.Keys(set) {
		if t, ok := b.dict.Thread(id); ok {
			infos = append(infos, t)
		}
	}
	slices.SortFunc(infos, func(x, y sampler.ThreadInfo) int { return cmp.Compare(x.ID, y.ID) })
	b.restUint(uint64(len(infos)))
	var last sampler.ThreadInfo
	for _, t := range infos {
		b.restUint(uint64(t.ID - last.ID))
		b.restUint(b.str(t.Name))
		b.restUint(bit(t.HasName, threadHasName) | bit(t.Main, threadMain))
		b.restUint(uint64(t.Ractor))
		b.rest = appendInt(b.rest, int64(t.TID))
		b.rest = appendInt(b.rest, t.FirstSeenNS-last.FirstSeenNS)
		b.rest = appendInt(b.rest, t.GoneNS)
		last = t
	}
}

// str returns a string's number in the block.
func (b *tableBuilder) str(s string) uint64 {
	n, ok := b.strings[s]
	if !ok {
		n = uint64(len(b.strings))
		b.strings[s] = n
		b.text = binary.AppendUvarint(b.text, uint64(len(s)))
		b.text = append(b.text, s...)
	}
	return n
}

// frameIndex returns a frame's number in the block, from 0.
func (b *tableBuilder) frameIndex(id sampler.FrameID) uint64 {
	n, ok := b.frames[id]
	if ok {
		return n
	}
	n = uint64(len(b.frames))
	b.frames[id] = n
	f := b.dict.Frame(id)
	for _, s := range [...]string{f.Label, f.Name, f.Path, f.AbsolutePath} {
		b.frameText(s)
	}
	b.frame = appendInt(b.frame, int64(f.Line))
	b.frame = appendInt(b.frame, int64(f.Line)-int64(f.FirstLine))
	b.frame = binary.AppendUvarint(b.frame, bit(f.C, frameC)|bit(f.Uncertain, frameUncertain)|bit(f.Gem != "", frameGem)|
		bit(f.UncertainLine, frameLine)|uint64(f.Origin)<<frameOrigin)
	if f.Gem != "" {
		b.frameText(f.Gem)
	}
	return n
}

// frameText writes a string of a frame: how far back its number is.
func (b *tableBuilder) frameText(s string) {
	newest := uint64(len(b.strings))
	if i := b.str(s); i == newest {
		b.frame = append(b.frame, 0)
	} else {
		b.frame = binary.AppendUvarint(b.frame, newest-i)
	}
}

// stackNode returns the number of a stack's node in the block, from 1, writing the nodes it is made of that are new.
func (b *tableBuilder) stackNode(id sampler.StackID) uint64 {
	b.path = b.path[:0]
	for id != 0 {
		if _, ok := b.nodes[id]; ok {
			break
		}
		b.path = append(b.path, id)
		id, _ = b.dict.Stack(id)
	}
	n := b.nodes[id] // 0 for the empty stack
	for _, id := range slices.Backward(b.path) {
		_, frame := b.dict.Stack(id)
		caller := n
		n = uint64(len(b.nodes)) + 1
		b.nodes[id] = n
		distance := uint64(0)
		if caller != 0 {
			distance = n - caller
		}
		b.node = binary.AppendUvarint(b.node, distance)
		b.node = binary.AppendUvarint(b.node, b.frameIndex(frame))
	}
	return n
}

func bit(on bool, v uint64) uint64 {
	if on {
		return v
	}
	return 0
}

// tables are a block's tables in terms of a reader's Dictionary. Index 0 of each but the threads is 0, "none".
type tables struct {
	stacks                 []sampler.StackID
	peers                  []sampler.PeerID
	works                  []sampler.WorkID
	statements, exceptions []sampler.TextID
	threads                []sampler.ThreadInfo
}

// readTables reads a block's tables, of a file of that version, and interns what they hold.
func readTables(c *cursor, d *sampler.Dictionary, version uint32) tables {
	texts := readStrings(c)
	str := func() string {
		if i := c.below(len(texts)); c.err == nil {
			return texts[i]
		}
		return ""
	}
	frames := readFrames(c, d, texts)
	count := c.count(maxNodes, leastNode)
	nodes := make([]sampler.StackID, 1, count+1)
	for range count {
		caller := 0
		if distance := c.below(len(nodes)); distance != 0 {
			caller = len(nodes) - distance
		}
		frame := c.below(len(frames))
		if c.err != nil {
			return tables{}
		}
		nodes = append(nodes, d.InternStack(nodes[caller], frames[frame]))
	}
	t := tables{
		stacks: []sampler.StackID{0}, peers: []sampler.PeerID{0}, works: []sampler.WorkID{0}, statements: []sampler.TextID{0},
		exceptions: []sampler.TextID{0},
	}
	for range c.count(maxStacks, 1) {
		t.stacks = append(t.stacks, nodes[c.below(len(nodes))])
	}
	for range c.count(maxPeers, leastPeer) {
		p := sampler.Peer{Kind: sampler.PeerKind(c.uint8()), Remote: str(), Local: str(), Service: str(), Path: str()}
		p.Path, p.Process, _ = strings.Cut(p.Path, processAfter)
		if c.err != nil {
			return tables{}
		}
		t.peers = append(t.peers, d.InternPeer(p))
	}
	t.readThreads(c, str)
	if version >= servingVersion {
		t.readWorks(c, d, str)
		for _, list := range [...]*[]sampler.TextID{&t.statements, &t.exceptions} {
			for range c.count(maxTold, 1) {
				*list = append(*list, d.InternText(str()))
			}
		}
	}
	if c.err != nil {
		return tables{}
	}
	return t
}

// servingVersion is the first version with tables of requests and texts.
const servingVersion = 3

func (t *tables) readWorks(c *cursor, d *sampler.Dictionary, str func() string) {
	var last sampler.Work
	for range c.count(maxWorks, leastWork) {
		w := sampler.Work{Number: last.Number + sampler.WorkNumber(c.int())}
		flags := c.uint()
		if kind := flags >> workKind; kind <= uint64(sampler.WorkJob) {
			w.Kind = sampler.WorkKind(kind)
		} // else one that a later version knows
		w.Endpoint, w.Values = str(), str()
		w.SinceNS = last.SinceNS + c.int()
		if flags&workBefore != 0 {
			w.BeforeNS = w.SinceNS - c.int()
		}
		w.QueuedNS = c.int()
		if c.err != nil {
			return
		}
		t.works = append(t.works, d.InternWork(w))
		last = w
	}
}

// readStrings reads the table of strings. Only one of them is empty, because each is there once.
func readStrings(c *cursor) []string {
	count := c.uint()
	if c.err == nil && (count > maxStrings || 2*count > uint64(len(c.b)-c.pos)+1) {
		c.fail("a list too long")
	}
	if c.err != nil {
		return nil
	}
	texts := make([]string, 0, count)
	for range count {
		texts = append(texts, c.text())
	}
	return texts
}

// readFrames reads the table of frames.
func readFrames(c *cursor, d *sampler.Dictionary, texts []string) []sampler.FrameID {
	var frames []sampler.FrameID
	used := 0
	str := func() string {
		back := c.below(used + 1)
		i := used - back
		if back == 0 {
			used++
		}
		if c.err == nil && i >= len(texts) {
			c.fail("a string that the block does not have")
		}
		if c.err != nil {
			return ""
		}
		return texts[i]
	}
	for range c.count(maxFrames, leastFrame) {
		f := sampler.Frame{Label: str(), Name: str(), Path: str(), AbsolutePath: str(), Line: c.int32()}
		first := int64(f.Line) - c.int()
		flags := c.uint()
		if first != int64(int32(first)) {
			c.fail("a number too large")
		}
		f.FirstLine, f.C, f.Uncertain = int32(first), flags&frameC != 0, flags&frameUncertain != 0
		f.UncertainLine = flags&frameLine != 0
		if origin := flags >> frameOrigin & frameOrigins; origin < uint64(sampler.NumOrigins) {
			f.Origin = sampler.Origin(origin)
		} // a later version's, with more origins: unknown here
		if flags&frameGem != 0 {
			f.Gem = str()
		}
		if c.err != nil {
			return nil
		}
		frames = append(frames, d.InternFrame(f))
	}
	return frames
}

func (t *tables) readThreads(c *cursor, str func() string) {
	var last sampler.ThreadInfo
	for range c.count(maxBlockThreads, leastThread) {
		id := uint64(last.ID) + c.uint()
		if id != uint64(uint32(id)) {
			c.fail("a number too large")
		}
		n := sampler.ThreadInfo{ID: sampler.ThreadID(id), Name: str()}
		flags := c.uint()
		n.HasName, n.Main = flags&threadHasName != 0, flags&threadMain != 0
		n.Ractor = sampler.RactorID(c.uint32())
		n.TID = c.int32()
		n.FirstSeenNS = last.FirstSeenNS + c.int()
		n.GoneNS = c.int()
		if c.err != nil {
			return
		}
		t.threads = append(t.threads, n)
		last = n
	}
}
