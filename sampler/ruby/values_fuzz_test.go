package ruby

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/memtest"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// capturedValues is a file with the memory of a process that ran testdata/values.rb, and with the control frames of
// some of its threads.
type capturedValues struct {
	memtest.Process
	// Shapes and Generic are the fields of heap.Objects.
	Shapes, Generic attach.Address
	Threads         []capturedThread
	// Values is how many values ddtop found in the memory while the process lived.
	Values int
}

type capturedThread struct {
	Name   string
	EC     attach.Address
	Frames []byte
}

var capturedNames = []string{"service", "escaped", "fiber-locals", "$! nested", "numbers", "odd"}

// explorer reads as many Ruby values as it can from a memory, by every function that reads values.
type explorer struct {
	d     *code.Decoder
	most  int // limit on how many values of a thread are read
	left  int // how many more values may be read
	found int // how many reads have found something
	calls int // the largest number of system calls that one call of ask has made
}

// ask calls f, which reads one value. If f succeeds, ask adds 1 to e.found. If this f has made more system calls than
// any f before, ask stores their number in e.calls.
func (e *explorer) ask(f func() error) {
	calls := e.d.Objects.View.Calls
	if e.d.Objects.Read(f) == nil {
		e.found++
	}
	e.calls = max(e.calls, e.d.Objects.View.Calls-calls)
}

func (e *explorer) value(v uint64, depth int) {
	if e.left--; e.left < 0 || depth > 6 {
		return
	}
	o := e.d.Objects
	e.ask(func() error { _, err := o.Int(v); return err })
	e.ask(func() error { _, err := o.Uint(v); return err })
	e.ask(func() error { _, err := o.Float(v); return err })
	e.ask(func() error { _, _, err := o.Bytes(v, 10000); return err })
	e.ask(func() error { _, _, err := o.Prefix(v, 100); return err })
	e.ask(func() error { _, err := o.Name(v); return err })
	e.ask(func() error { _, err := o.ClassOf(v); return err })
	var inner, pairs []uint64
	e.ask(func() error {
		inner = inner[:0]
		at, n, err := o.Array(v)
		for i := range min(n, 50) {
			item, err := o.Word(at + attach.Address(8*i))
			if err != nil {
				return err
			}
			inner = append(inner, item)
		}
		return err
	})
	e.ask(func() error {
		pairs = pairs[:0]
		return o.EachPair(v, 50, func(key, value uint64) (bool, error) {
			pairs = append(pairs, key, value)
			return true, nil
		})
	})
	var looked [3]uint64
	e.ask(func() error { return o.Lookup(v, []string{"PATH_INFO", "key3", "none"}, looked[:]) })
	for _, name := range []string{"@v0", "@v12", "@v99", "@m7_3", "@env", "mesg"} {
		e.ask(func() error {
			value, ok, err := o.Ivar(v, name)
			if ok {
				inner = append(inner, value)
			}
			return err
		})
	}
	for _, v := range append(inner, pairs...) {
		e.value(v, depth+1)
	}
}

func (e *explorer) thread(th *capturedThread) error {
	o := e.d.Objects
	e.left = e.most
	scopes, err := e.d.Scopes(th.Frames, nil)
	if err != nil {
		return err
	}
	var values []uint64
	for _, s := range scopes {
		for i := range s.Locals.Names() {
			e.ask(func() error {
				v, err := o.Word(s.Locals.At(s.EP, i))
				values = append(values, v)
				return err
			})
		}
		values = append(values, s.Self)
	}
	e.ask(func() error {
		v, _, err := e.d.Errinfo(scopes, th.EC)
		values = append(values, v)
		return err
	})
	e.ask(func() error {
		return o.FiberLocals(th.EC, func(_ string, v uint64) (bool, error) {
			values = append(values, v)
			return true, nil
		})
	})
	for _, f := range []func(attach.Address) (uint64, error){o.Fiber, o.FiberStorage} {
		e.ask(func() error {
			v, err := f(th.EC)
			values = append(values, v)
			return err
		})
	}
	for _, v := range values {
		e.value(v, 0)
	}
	return nil
}

// explore reads a captured process, up to values values of each thread.
func (g *capturedValues) explore(mem attach.Memory, values int) (*explorer, error) {
	_, d, _, err := open(&g.Process, mem)
	if err != nil {
		return nil, err
	}
	d.Objects.Shapes, d.Objects.Generic = g.Shapes, g.Generic
	e := &explorer{d: d, most: values}
	var last error
	for i := range g.Threads {
		if err := e.thread(&g.Threads[i]); err != nil {
			last = err
		}
	}
	return e, last
}

const capturedDepth = 1000

func captureValues(t *testing.T, r rubytest.Ruby) {
	p := r.Start(t, valuesProgram, rubytest.Options{})
	var truth map[string]toldThread
	p.JSON(t, &truth)
	live := openTarget(t, p.PID)
	g := &capturedValues{Process: processOf(live), Shapes: live.vm.Shapes}
	for _, thread := range live.threads(t) {
		if name := live.name(t, thread); slices.Contains(capturedNames, name) {
			ec := live.word(t, thread+live.off(t, "rb_thread_struct.ec"))
			raw, _ := live.stack(t, ec, false)
			g.Threads = append(g.Threads, capturedThread{name, ec, raw.Frames})
		}
	}
	// read all values once, to find Objects.Generic: the table with the instance variables of objects of other kinds
	for i := range g.Threads {
		if err := (&explorer{d: live.dec, most: capturedDepth}).thread(&g.Threads[i]); err != nil {
			t.Fatal(err)
		}
	}
	g.Generic = live.dec.Objects.Generic
	capture := memtest.NewCapture(live.proc)
	e, err := g.explore(capture, capturedDepth)
	if err != nil || len(g.Threads) != len(capturedNames) {
		t.Fatalf("%d threads, %v", len(g.Threads), err)
	}
	g.Values = e.found
	memtest.Save(t, "testdata/values", g.Version, g, capture)
}

func loadValues(t testing.TB) []*capturedValues {
	return memtest.Load[capturedValues](t, "testdata/values")
}

// TestValuesOfCapturedMemory: ddtop finds as many values in captured processes as while they lived. With -update, the
// test captures the processes again.
func TestValuesOfCapturedMemory(t *testing.T) {
	if *update {
		rubytest.Each(t, captureValues)
	}
	captured := loadValues(t)
	if len(captured) < 4 {
		t.Errorf("%d captured processes only", len(captured))
	}
	for _, g := range captured {
		e, err := g.explore(g.Pages, capturedDepth)
		if err != nil || e.found != g.Values {
			t.Errorf("%s: %d values, %d while it lived: %v", g.Version, e.found, g.Values, err)
		}
	}
}

// FuzzValues replaces some words of a captured process by other words of its memory, or by any number. ddtop must still
// end its reading of values after a limited number of reads, with values or errors.
func FuzzValues(f *testing.F) {
	captured := loadValues(f)
	places := make([][]attach.Address, len(captured))
	for i, g := range captured {
		w := memtest.NewPlaces(g.Pages)
		if _, err := g.explore(w, capturedDepth); err != nil {
			f.Fatal(err)
		}
		places[i] = w.At
		memtest.AddEdits(f, i, 24, 977)
	}
	f.Fuzz(func(t *testing.T, which uint8, edits []byte) {
		i := int(which) % len(captured)
		g := captured[i]
		mem := &memtest.Edited{Of: g.Pages, Words: make(map[attach.Address]uint64)}
		for ; len(edits) >= 6; edits = edits[6:] {
			at := places[i][int(binary.LittleEndian.Uint16(edits))%len(places[i])]
			n := binary.LittleEndian.Uint32(edits[2:])
			value := uint64(n)
			switch n & 3 {
			case 0: // put in a pointer to an address that ddtop reads
				value = uint64(places[i][int(n>>2)%len(places[i])])
			case 1: // put in another word from the captured memory
				var b [8]byte
				if g.Pages.Read(places[i][int(n>>2)%len(places[i])], b[:]) == nil {
					value = binary.LittleEndian.Uint64(b[:])
				}
			case 2: // put in a large number, which may replace a size
				value = uint64(n) << 30
			}
			mem.Words[at] = value
		}
		e, _ := g.explore(mem, 100)
		if e.calls > view.MaxRounds+1 {
			t.Fatalf("a question took %d calls", e.calls)
		}
	})
}

// TestLocalsAreCheckedAgain: ddtop caches the names of a method's local variables. The test puts other names in their
// place in memory. Until the next collection, ddtop still uses the cached names. After it, ddtop must use the new
// names.
func TestLocalsAreCheckedAgain(t *testing.T) {
	for _, g := range loadValues(t) {
		mem := &memtest.Edited{Of: g.Pages, Words: make(map[attach.Address]uint64)}
		vm, d, _, err := open(&g.Process, mem)
		if err != nil {
			t.Fatal(err)
		}
		named := func() []string {
			scopes, err := d.Scopes(g.Threads[0].Frames, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range scopes {
				if names := s.Locals.Names(); len(names) > 2 {
					return names
				}
			}
			return nil
		}
		before := named()
		scopes, _ := d.Scopes(g.Threads[0].Frames, nil)
		for _, s := range scopes {
			if len(s.Locals.Names()) > 2 {
				body := wordAt(t, g.Pages, s.ISeq+16)
				table := wordAt(t, g.Pages, body+attach.Address(vm.Table.Offset("rb_iseq_constant_body.local_table")))
				mem.Words[table], mem.Words[table+8] = uint64(wordAt(t, g.Pages, table+8)), uint64(wordAt(t, g.Pages, table))
				break
			}
		}
		if got := named(); !slices.Equal(got, before) {
			t.Errorf("%s: %q before a collection, want %q", g.Version, got, before)
		}
		if err := d.Revalidate(1, sampler.GC{Valid: true, Count: 1, MajorCount: 1}); err != nil {
			t.Fatal(err)
		}
		want := slices.Clone(before)
		want[0], want[1] = want[1], want[0]
		if got := named(); !slices.Equal(got, want) {
			t.Errorf("%s: %q after a collection, want %q", g.Version, got, want)
		}
	}
}

func wordAt(t *testing.T, mem attach.Memory, at attach.Address) attach.Address {
	t.Helper()
	var b [8]byte
	if err := mem.Read(at, b[:]); err != nil {
		t.Fatal(err)
	}
	return attach.Address(le64(b[:]))
}
