package recording

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

// A block has these tables, in this order. Before each table comes the number of its elements. The list has the fields
// of an element. A (string) is written as its number in the table of strings. A (difference) is the difference to the
// element before it.
//
//	strings  the length in bytes, and the bytes
//	frames   label, name, path, absolute path, line, line minus first line, flags (1 C, 2 uncertain, 4 a gem, 64 only
//	         its line is uncertain, 128 of a native stack; origin from the fourth to the sixth bit), the gem if there
//	         is one. Since version 11 library, build id and places of a native stack follow. Here, the number of a
//	         string is 0 if it is the next string of the table that no frame has used yet. Otherwise the string is
//	         this many places before the next one
//	nodes    of the trie of stacks, callers first: how many nodes back the caller is (0: no caller), frame
//	stacks   the number of the node, in the order of the samples' IDs (from 1)
//	peers    kind, remote, local, service, path (strings); behind the path, after a zero byte, the process that
//	         listens there, if it is known
//	threads  ID (difference), name (string), flags (1 has a name, 2 main, 4 an exception ended it), ractor, tid,
//	         first seen, gone, since version 14 the class of that exception (string)
//
// Since version 3, these tables follow:
//
//	works       number (difference), flags (1 before is known; kind from the second bit on), endpoint, values
//	            (strings), since (difference), since minus before if that is known, queued; since version 10 the
//	            pattern of the path (string)
//	statements  (strings)
//	exceptions  (strings)
const (
	frameC         = 1
	frameUncertain = 2
	frameGem       = 4
	frameOrigin    = 3 // the lowest bit of the origin
	frameOrigins   = 7 // the mask of the origin, after the shift
	frameLine      = 64
	frameNative    = 128 // since version 11
	workBefore     = 1
	workKind       = 1 // the lowest bit of the kind
	threadHasName  = 1
	threadMain     = 2
	threadEndedBy  = 4 // since version 14
)

// processAfter comes between a peer's path and the name of the process that listens there. No path contains it.
const processAfter = "\x00"

// The smallest size of an element of each table, in bytes. Each number of an element takes at least one byte.
const (
	leastFrame  = 7
	leastNode   = 2
	leastPeer   = 5
	leastThread = 7
	leastWork   = 6
)

// tableBuilder writes the tables of blocks, one block after the other.
type tableBuilder struct {
	dict    *sampler.Dictionary
	strings map[string]uint64
	frames  map[sampler.FrameID]uint64
	nodes   map[sampler.StackID]uint64
	text    []byte
	frame   wire
	node    wire
	rest    wire
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

// build makes a block's tables. It returns them in parts that are compressed separately. The parts are valid until the
// next call of build.
func (b *tableBuilder) build(ids *blockIDs) [][]byte {
	clear(b.strings)
	clear(b.frames)
	clear(b.nodes)
	b.text = b.text[:0]
	for _, w := range [...]*wire{&b.frame, &b.node, &b.rest} {
		w.out = w.out.empty()
	}
	w := &b.rest
	str := func(s string) string {
		w.uint(b.str(s))
		return s
	}
	stacks, peers, works := ids.stacks[1:], ids.peers[1:], ids.works[1:]
	for i := range w.length(len(stacks), maxStacks, 1) {
		w.uint(b.stackNode(stacks[i]))
	}
	for i := range w.length(len(peers), maxPeers, leastPeer) {
		p := b.dict.Peer(peers[i])
		w.tablePeer(&p, str)
	}
	b.threads(ids.threads, str)
	var last sampler.Work
	for i := range w.length(len(works), maxWorks, leastWork) {
		x := b.dict.OwnWork(works[i])
		w.tableWork(&last, &x, str)
		str(x.Path)
	}
	w.uint(uint64(len(ids.statements) - 1))
	for _, id := range ids.statements[1:] {
		str(b.dict.Statement(id))
	}
	w.uint(uint64(len(ids.exceptions) - 1))
	for _, id := range ids.exceptions[1:] {
		str(b.dict.Exception(id))
	}
	return [][]byte{
		withLength(&b.spare[0], len(b.strings), b.text),
		withLength(&b.spare[1], len(b.frames), b.frame.out[streamStructure]),
		withLength(&b.spare[2], len(b.nodes), b.node.out[streamStructure]),
		w.out[streamStructure],
	}
}

// check returns an error if a reader would refuse the tables from the last call of build.
func (b *tableBuilder) check(ids *blockIDs) error {
	stacks, peers, threads, works := len(ids.stacks)-1, len(ids.peers)-1, len(ids.threads), len(ids.works)-1
	texts := max(len(ids.statements), len(ids.exceptions)) - 1
	if len(b.strings) > maxStrings || len(b.frames) > maxFrames || len(b.nodes) > maxNodes || stacks > maxStacks ||
		peers > maxPeers || threads > maxBlockThreads || works > maxWorks || texts > maxTold {
		return fmt.Errorf("%w: a block with %d strings, %d frames, %d nodes of stacks, %d stacks, %d peers, %d threads, %d requests and %d texts",
			errLimit, len(b.strings), len(b.frames), len(b.nodes), stacks, peers, threads, works, texts)
	}
	return nil
}

// withLength returns a table with n, the number of its elements, before it. It reuses the memory of spare.
func withLength(spare *[]byte, n int, table []byte) []byte {
	*spare = append(binary.AppendUvarint((*spare)[:0], uint64(n)), table...)
	return *spare
}

func (b *tableBuilder) threads(set map[sampler.ThreadID]struct{}, str func(string) string) {
	var infos []sampler.ThreadInfo
	for id := range maps.Keys(set) {
		if t, ok := b.dict.Thread(id); ok {
			infos = append(infos, t)
		}
	}
	sorting.By(infos, func(x, y sampler.ThreadInfo) int { return cmp.Compare(x.ID, y.ID) })
	var last sampler.ThreadInfo
	for i := range b.rest.length(len(infos), maxBlockThreads, leastThread) {
		b.rest.tableThread(&last, &infos[i], str)
	}
}

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
	b.frame.tableFrame(&f, b.frameText)
	return n
}

// frameText writes a string of a frame as a number. For a new string, the number is zero. For another string, it is the
// number of strings that were added after it, plus one.
func (b *tableBuilder) frameText(s string) string {
	newest := uint64(len(b.strings))
	if i := b.str(s); i == newest {
		b.frame.uint(0)
	} else {
		b.frame.uint(newest - i)
	}
	return s
}

// stackNode returns the number of a stack's node in the block, counted from 1. Nodes of the stack that the block does
// not have yet are written first.
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
		b.node.uint(distance)
		b.node.uint(b.frameIndex(frame))
	}
	return n
}

func bit(on bool, v uint64) uint64 {
	if on {
		return v
	}
	return 0
}

// The methods below write or read an element of a table. They call the function str for each string of the element.
// last is the previous element in the table.

func (w *wire) tablePeer(p *sampler.Peer, str func(string) string) {
	small(w, &p.Kind, p.Kind)
	p.Remote, p.Local, p.Service = str(p.Remote), str(p.Local), str(p.Service)
	path := p.Path
	if p.Process != "" {
		path += processAfter + p.Process
	}
	p.Path, p.Process, _ = strings.Cut(str(path), processAfter)
}

func (w *wire) tableThread(last, t *sampler.ThreadInfo, str func(string) string) {
	id := uint64(last.ID) + w.uint(uint64(t.ID-last.ID))
	if id != uint64(uint32(id)) {
		w.c.fail("a number too large")
	}
	t.ID, t.Name = sampler.ThreadID(id), str(t.Name)
	flags := w.uint(bit(t.HasName, threadHasName) | bit(t.Main, threadMain) |
		bit(t.Exception != "", threadEndedBy))
	t.HasName, t.Main = flags&threadHasName != 0, flags&threadMain != 0
	small(w, &t.Ractor, t.Ractor)
	w.signed(&t.TID, t.TID)
	t.FirstSeenNS = last.FirstSeenNS + w.int(t.FirstSeenNS-last.FirstSeenNS)
	t.GoneNS = w.int(t.GoneNS)
	if flags&threadEndedBy != 0 {
		t.Exception = str(t.Exception)
	}
	*last = *t
}

func (w *wire) tableWork(last, x *sampler.Work, str func(string) string) {
	x.Number = last.Number + sampler.WorkNumber(w.int(int64(x.Number-last.Number)))
	flags := w.uint(bit(x.BeforeNS != 0, workBefore) | uint64(x.Kind)<<workKind)
	if kind := flags >> workKind; kind <= uint64(sampler.WorkJob) {
		x.Kind = sampler.WorkKind(kind)
	} // otherwise a later version of the format has added this kind
	x.Endpoint, x.Values = str(x.Endpoint), str(x.Values)
	x.SinceNS = last.SinceNS + w.int(x.SinceNS-last.SinceNS)
	if flags&workBefore != 0 {
		x.BeforeNS = x.SinceNS - w.int(x.SinceNS-x.BeforeNS)
	}
	x.QueuedNS = w.int(x.QueuedNS)
	*last = *x
}

func (w *wire) tableFrame(f *sampler.Frame, str func(string) string) {
	for _, s := range [...]*string{&f.Label, &f.Name, &f.Path, &f.AbsolutePath} {
		*s = str(*s)
	}
	w.signed(&f.Line, f.Line)
	first := int64(f.Line) - w.int(int64(f.Line)-int64(f.FirstLine))
	if first != int64(int32(first)) {
		w.c.fail("a number too large")
	}
	flags := w.uint(bit(f.C, frameC) | bit(f.Uncertain, frameUncertain) | bit(f.Gem != "", frameGem) | bit(f.UncertainLine, frameLine) |
		bit(f.IsNative(), frameNative) | uint64(f.Origin)<<frameOrigin)
	f.FirstLine, f.C, f.Uncertain = int32(first), flags&frameC != 0, flags&frameUncertain != 0
	f.UncertainLine = flags&frameLine != 0
	if origin := flags >> frameOrigin & frameOrigins; origin < uint64(sampler.NumOrigins) {
		f.Origin = sampler.Origin(origin)
	} // otherwise a later version of the format has added this origin, and it stays unknown
	if flags&frameGem != 0 {
		f.Gem = str(f.Gem)
	}
	if flags&frameNative != 0 {
		n := &f.Native
		n.Library, n.BuildID, n.Places = str(n.Library), str(n.BuildID), str(n.Places)
	}
}

// readTables reads a block's tables, from a file of the given version, and adds their contents to the Dictionary. It
// returns the decoder for the block.
func readTables(raw []byte, dict *sampler.Dictionary, version uint32) (*decoder, error) {
	d := newDecoder()
	d.c = cursor{b: raw}
	c, w := &d.c, &d.wire
	texts := readStrings(c)
	str := func(string) string {
		if i := c.below(len(texts)); c.err == nil {
			return texts[i]
		}
		return ""
	}
	frames := w.readFrames(dict, texts)
	count := c.count(maxNodes, leastNode)
	nodes := make([]sampler.StackID, 1, count+1)
	for range count {
		caller := 0
		if distance := c.below(len(nodes)); distance != 0 {
			caller = len(nodes) - distance
		}
		frame := c.below(len(frames))
		if c.err != nil {
			return nil, c.err
		}
		nodes = append(nodes, dict.InternStack(nodes[caller], frames[frame]))
	}
	d.stacks = ids[sampler.StackID]{list: []sampler.StackID{0}, name: "a stack"}
	d.peers = ids[sampler.PeerID]{list: []sampler.PeerID{0}, name: "a peer"}
	d.works = ids[sampler.WorkID]{list: []sampler.WorkID{0}, name: "a request"}
	d.statements = ids[sampler.TextID]{list: []sampler.TextID{0}, name: "a statement"}
	d.exceptions = ids[sampler.TextID]{list: []sampler.TextID{0}, name: "an exception"}
	for range c.count(maxStacks, 1) {
		d.stacks.list = append(d.stacks.list, nodes[c.below(len(nodes))])
	}
	for range c.count(maxPeers, leastPeer) {
		var p sampler.Peer
		if w.tablePeer(&p, str); c.err != nil {
			return nil, c.err
		}
		d.peers.list = append(d.peers.list, dict.InternPeer(p))
	}
	var last sampler.ThreadInfo
	for range c.count(maxBlockThreads, leastThread) {
		var t sampler.ThreadInfo
		if w.tableThread(&last, &t, str); c.err != nil {
			return nil, c.err
		}
		d.threads = append(d.threads, t)
	}
	if version >= servingVersion {
		var last sampler.Work
		for range c.count(maxWorks, leastWork) {
			var x sampler.Work
			if w.tableWork(&last, &x, str); version >= pathVersion {
				x.Path = str("")
			}
			if c.err != nil {
				return nil, c.err
			}
			d.works.list = append(d.works.list, dict.InternWork(x))
		}
		for _, list := range [...]*[]sampler.TextID{&d.statements.list, &d.exceptions.list} {
			for range c.count(maxTold, 1) {
				*list = append(*list, dict.InternText(str("")))
			}
		}
	}
	return d, c.err
}

// servingVersion is the first version of the format with tables of requests and texts. pathVersion is the first version
// with patterns of paths.
const servingVersion, pathVersion = 3, 10

// readStrings reads the table of strings. All strings in it are different, so at most one is empty.
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

func (w *wire) readFrames(dict *sampler.Dictionary, texts []string) []sampler.FrameID {
	var frames []sampler.FrameID
	c, used := &w.c, 0
	str := func(string) string {
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
		var f sampler.Frame
		if w.tableFrame(&f, str); c.err != nil {
			return nil
		}
		frames = append(frames, dict.InternFrame(f))
	}
	return frames
}
