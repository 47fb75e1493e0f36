package holders

import (
	"cmp"
	"strings"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/heapgraph"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// These constants limit the search for roots. A root is an object that Ruby keeps alive although no other object holds
// it.
const (
	// maxVariables limits how many words of the Ruby library's variables are followed.
	maxVariables = 1 << 17
	// Every Ruby has at least minGlobals global variables. maxGlobals limits their number.
	minGlobals, maxGlobals = 20, 1 << 16
	// maxExits limits the number of blocks of at_exit. maxFinalized limits the number of objects with a finalizer.
	maxExits, maxFinalized = 1 << 12, 1 << 22
)

// thread is a Thread object with its rb_thread_t.
type thread struct {
	node uint32
	data attach.Address
}

// roots adds the roots of the graph: the objects that Ruby keeps alive although no other object holds them. Paths
// prefer roots that were added earlier. So roots adds constants and global variables first, then threads, at_exit and
// finalizers, then the VM, and last all other variables of the library.
func (r *Reader) roots(threads []thread) error {
	for i := range r.pages { // one of the first classes is Object, whose constants lead to all others
		p := &r.pages[i]
		found := false
		for at := 0; at < len(p.slots) && !found; at += p.size {
			n := p.first + uint32(at/p.size)
			if r.graph.Nodes[n].Type != 0 && r.graph.Type(n) == "T_CLASS" && r.graph.ClassName(n) == "Object" {
				r.graph.Root("", n)
				found = true
			}
		}
		if found {
			break
		}
	}
	words, err := r.variables()
	if err != nil {
		return err
	}
	heads, err := r.heads(words)
	if err != nil {
		return err
	}
	if err := r.globals(heads); err != nil {
		return err
	}
	for _, t := range threads {
		if r.refs.ThreadAlive(t.data) {
			name := r.refs.ThreadName(t.data)
			if r.options.ThreadName != nil {
				name = r.options.ThreadName(name)
			}
			if name != "" && !strings.HasPrefix(name, "thread ") {
				name = "thread " + name
			}
			r.graph.Root(cmp.Or(name, "a thread"), t.node)
		}
	}
	if err := r.exits(heads); err != nil {
		return err
	}
	if err := r.finalizers(); err != nil {
		return err
	}
	size, _ := r.refs.Sizes()
	if err := r.area("the VM", r.gc.VM, size); err != nil {
		return err
	}
	for _, w := range words {
		r.root("a variable of C code", w)
	}
	return nil
}

func (r *Reader) root(name string, word uint64) {
	if n, _, ok := r.find(word); ok {
		r.graph.Root(name, n)
	}
}

// area reads a memory area of Ruby. Each object to which the area refers becomes a root of the graph.
func (r *Reader) area(name string, at attach.Address, size int) error {
	data := make([]byte, size&^7)
	if r.gc.Mem.Read(at, data) != nil {
		r.info.Unread++
		return nil
	}
	for ; len(data) >= 8; data = data[8:] {
		r.root(name, view.U64(data))
	}
	return nil
}

// variables returns the words in the Ruby library's variables that can be addresses.
func (r *Reader) variables() (list []uint64, err error) {
	if r.objects.Variables == nil {
		return nil, nil
	}
	seen := make(map[uint64]bool)
	err = r.objects.Variables(func(_ attach.Address, word uint64) {
		if word&7 == 0 && word >= 1<<16 && word < 1<<56 && !seen[word] && len(list) < maxVariables {
			seen[word] = true
			list = append(list, word)
		}
	})
	return list, err
}

// head is the beginning of a piece of memory to which a variable of the Ruby library refers.
type head struct {
	at   uint64
	data []byte
}

// headSize is the number of bytes of a head. The header of a hash table (st_table) fits into it.
const headSize = heap.TableSize - 8

// each reads size bytes at each address, and calls f for each address that can be read.
func (r *Reader) each(list []uint64, size int, f func(i int, data []byte)) error {
	buf := make([]byte, rangesACall*size)
	for begin := 0; begin < len(list); begin += rangesACall {
		chunk := list[begin:min(begin+rangesACall, len(list))]
		r.ranges = r.ranges[:0]
		for i, at := range chunk {
			r.ranges = append(r.ranges, attach.Range{Addr: attach.Address(at), Buf: buf[i*size:][:size]})
		}
		calls, err := r.gc.Mem.ReadBatch(r.ranges)
		r.gc.Reads.Calls += uint64(calls)
		if err != nil {
			return err
		}
		for i := range chunk {
			if !r.ranges[i].Failed {
				f(begin+i, r.ranges[i].Buf)
			}
		}
		r.rest()
	}
	return r.ctx.Err()
}

func (r *Reader) heads(words []uint64) (list []head, err error) {
	err = r.each(words, headSize, func(i int, data []byte) {
		if _, _, ok := r.find(words[i]); !ok {
			list = append(list, head{words[i], append([]byte(nil), data...)})
		}
	})
	return list, err
}

// globals adds the global variables as roots. It finds their table among heads. In the right table, each entry refers
// to a variable that repeats the entry's name (rb_global_tbl, variable.c).
func (r *Reader) globals(heads []head) error {
	for _, h := range heads {
		items, ok := r.refs.NameTable(h.data, minGlobals, maxGlobals)
		if !ok {
			continue
		}
		entries, serials, err := r.refs.NameItems(items)
		if err != nil || len(entries) < minGlobals {
			continue
		}
		variables, ids := make([]uint64, len(entries)), make([]uint64, len(entries))
		right := 0
		err = r.each(entries, 16, func(i int, data []byte) {
			variables[i], ids[i] = view.U64(data), view.U64(data[8:])
			if r.refs.Serial(ids[i]) == serials[i] {
				right++
			}
		})
		if err != nil {
			return err
		}
		if right < len(entries) {
			continue
		}
		datas := make([]uint64, len(variables))
		if err := r.each(variables, 16, func(i int, data []byte) { datas[i] = view.U64(data[8:]) }); err != nil {
			return err
		}
		named := func(i int, word uint64) {
			if _, _, ok := r.find(word); ok {
				if name, err := r.refs.NameOfID(ids[i]); err == nil {
					r.root(name, word)
				}
			}
		}
		for i, word := range datas {
			named(i, word)
		}
		return r.each(datas, 8, func(i int, data []byte) { named(i, view.U64(data)) })
	}
	return nil
}

// exits adds the blocks of at_exit as roots. Ruby keeps them in a linked list. Each item has a function, an argument
// and the address of the next item (end_procs, eval_jump.c).
func (r *Reader) exits(heads []head) error {
	left := maxExits
	for _, h := range heads {
		for ; left > 0; left-- {
			code, block, next := view.U64(h.data), view.U64(h.data[8:]), view.U64(h.data[16:])
			n, _, ok := r.find(block)
			_, _, object := r.find(code)
			if !ok || object || code < 1<<16 || r.graph.Type(n) != "T_DATA" || r.graph.ClassName(n) != "Proc" {
				break
			}
			r.graph.Root("at_exit", n)
			h.data = make([]byte, 24)
			if next == 0 || r.gc.Mem.Read(attach.Address(next), h.data) != nil {
				break
			}
		}
	}
	return nil
}

// finalizers adds the finalizers of objects as roots. They are in a table of the object space. The table's keys are the
// objects with a finalizer, and its records are Arrays of finalizers.
func (r *Reader) finalizers() error {
	_, size := r.refs.Sizes()
	data := make([]byte, size)
	if r.gc.Mem.Read(r.gc.Objspace, data) != nil {
		r.info.Unread++
		return nil
	}
	var words []uint64
	for ; len(data) >= 8; data = data[8:] {
		if w := view.U64(data); w&7 == 0 && w >= 1<<16 && w < 1<<56 {
			words = append(words, w)
		}
	}
	heads, err := r.heads(words)
	if err != nil {
		return err
	}
	finalizer := func(key, record uint64) (n uint32, ok bool) {
		_, slot, isObject := r.find(key)
		n, _, isArray := r.find(record)
		return n, isObject && isArray && heap.HasFinalizer(slot) && r.graph.Type(n) == heapgraph.TypeArray
	}
	for _, h := range heads {
		first, all, ok := r.refs.Entries(h.data, maxFinalized)
		if !ok {
			continue
		}
		proof := false
		err := r.each([]uint64{first}, 24, func(_ int, e []byte) { _, proof = finalizer(view.U64(e[8:]), view.U64(e[16:])) })
		if err != nil {
			return err
		}
		if !proof || !r.spend(24*all) {
			continue
		}
		entries := make([]uint64, all)
		for i := range entries {
			entries[i] = first + uint64(24*i)
		}
		return r.each(entries, 24, func(_ int, e []byte) {
			if n, ok := finalizer(view.U64(e[8:]), view.U64(e[16:])); ok {
				r.graph.Root("a finalizer", n)
			}
		})
	}
	return nil
}
