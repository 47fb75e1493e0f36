package ruby

import (
	"context"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/rubyvm"
)

// realTarget is a real process with a Decoder. It finds the threads in its own way, which is slow and simple, and works
// only if the threads do not run.
type realTarget struct {
	proc *attach.Process
	mod  *attach.Module
	vm   *VM
	dict *sampler.Dictionary
	dec  *code.Decoder
}

func openTarget(t testing.TB, pid int) *realTarget {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	p, err := attach.Open(pid)
	must(err)
	t.Cleanup(func() { p.Close() })
	m, err := attach.FindRuby(p)
	must(err)
	t.Cleanup(func() { m.Close() })
	version, _, err := m.RubyVersion(p)
	must(err)
	table, _, err := layout.For(version, m.Machine, m.JmpBuf())
	must(err)
	vm, err := rubyvm.LocateVM(context.Background(), p, m, table, version)
	must(err)
	dict := sampler.NewDictionary()
	return &realTarget{proc: p, mod: m, vm: vm, dict: dict, dec: vm.NewDecoder(dict)}
}

func (g *realTarget) word(t testing.TB, a attach.Address) attach.Address {
	t.Helper()
	var b [8]byte
	if err := g.proc.Read(a, b[:]); err != nil {
		t.Fatal(err)
	}
	return attach.Address(le64(b[:]))
}

func (g *realTarget) off(t testing.TB, field string) attach.Address {
	t.Helper()
	n := g.vm.Table.Offset(field)
	if n < 0 {
		t.Fatalf("%s has no %s", g.vm.Version, field)
	}
	return attach.Address(n)
}

// each follows a circular list from its head, and calls f with the address of each node.
func (g *realTarget) each(t testing.TB, head attach.Address, f func(node attach.Address)) {
	t.Helper()
	for n, i := g.word(t, head), 0; n != head; n, i = g.word(t, n), i+1 {
		if i > 1<<16 {
			t.Fatal("a list without end")
		}
		f(n)
	}
}

// threads lists the rb_thread_t of all threads of all ractors.
func (g *realTarget) threads(t testing.TB) []attach.Address {
	t.Helper()
	var out []attach.Address
	if !g.vm.Release.AtLeast(3, 0) {
		g.each(t, g.vm.Addr+g.off(t, "rb_vm_struct.living_threads"), func(n attach.Address) {
			out = append(out, n-g.off(t, "rb_thread_struct.vmlt_node"))
		})
		return out
	}
	g.each(t, g.vm.Addr+g.off(t, "rb_vm_struct.ractor.set"), func(n attach.Address) {
		ractor := n - g.off(t, "rb_ractor_struct.vmlr_node")
		g.each(t, ractor+g.off(t, "rb_ractor_struct.threads.set"), func(n attach.Address) {
			out = append(out, n-g.off(t, "rb_thread_struct.lt_node"))
		})
	})
	return out
}

// name returns Thread#name. It is empty if Ruby's name is nil.
func (g *realTarget) name(t testing.TB, thread attach.Address) string {
	s, _ := g.dec.Objects.String(uint64(g.word(t, thread+g.off(t, "rb_thread_struct.name"))))
	return s
}

// stack reads the stack of an execution context. It reads the values on the stack, too, if values is true.
func (g *realTarget) stack(t testing.TB, ec attach.Address, values bool) (code.Stack, bool) {
	t.Helper()
	low, words, cfp := g.word(t, ec), g.word(t, ec+8), g.word(t, ec+16)
	if low == 0 || cfp == 0 {
		return code.Stack{}, false
	}
	raw := code.Stack{End: low + 8*words, CFP: cfp}
	raw.Frames = make([]byte, raw.End-cfp)
	if err := g.proc.Read(cfp, raw.Frames); err != nil {
		t.Fatal(err)
	}
	if values {
		raw.ValuesAt = low
		raw.Values = make([]byte, attach.Address(le64(raw.Frames[frameSP:]))+64-low)
		if err := g.proc.Read(low, raw.Values); err != nil {
			t.Fatal(err)
		}
	}
	return raw, true
}

func (g *realTarget) threadStack(t testing.TB, thread attach.Address, values bool) (code.Stack, bool) {
	t.Helper()
	return g.stack(t, g.word(t, thread+g.off(t, "rb_thread_struct.ec")), values)
}

// frames are the frames of a stack, innermost first.
func (g *realTarget) frames(id sampler.StackID) []sampler.Frame {
	var out []sampler.Frame
	for _, f := range g.dict.Frames(id, nil) {
		out = append(out, g.dict.Frame(f))
	}
	return out
}
