package gates

import (
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl/findings/internal/doorways"
	"github.com/ddtop/ddtop/gvl/findings/internal/stackkind"
	"github.com/ddtop/ddtop/sampler"
)

// stack returns a stack with the given frames, innermost first. "c:" marks C functions.
func stack(dict *sampler.Dictionary, labels ...string) sampler.StackID {
	var ids []sampler.FrameID
	for _, l := range labels {
		f := sampler.Frame{Path: "app.rb", Line: 10}
		f.Label, f.C = strings.TrimPrefix(l, "c:"), strings.HasPrefix(l, "c:")
		ids = append(ids, dict.InternFrame(f))
	}
	return dict.InternStackOf(ids)
}

// TestGatesOfStacks: for a stack, Of returns the methods in which the thread may wait, and the methods that the thread
// is inside.
func TestGatesOfStacks(t *testing.T) {
	dict := sampler.NewDictionary()
	g := New(dict)
	for _, c := range []struct {
		stack         []string
		near, through []string
	}{
		{[]string{"c:Thread::Queue#pop", "Pool#with", "Shop#order"}, []string{"Pool#with", "Shop#order"}, nil},
		{[]string{"IO#read", "block in Shop#order", "Pool#with", "Shop#order"}, []string{"IO#read", "Shop#order", "Shop#order"}, []string{"Pool#with"}},
		// If the code waits in a block, the method that runs this block is no gate. But a method that waits while it
		// holds a Mutex is a gate.
		{[]string{"c:Thread::ConditionVariable#wait", "block in Pool#get", "c:Thread::Mutex#synchronize", "Pool#get", "block in Shop#order", "Log#timed", "Shop#order"},
			[]string{"Pool#get", "Pool#get", "Shop#order", "Shop#order"}, []string{"Log#timed"}},
		// This thread is already inside Pool#with, and waits to enter it once more.
		{[]string{"c:Thread::Queue#pop", "Pool#with", "block in Shop#order", "Pool#with", "Shop#order"},
			[]string{"Pool#with", "Shop#order", "Shop#order"}, []string{"Pool#with"}},
		// The thread runs nested blocks of one method, so it is not inside another method.
		{[]string{"block (3 levels) in <main>", "block (2 levels) in <main>", "c:Kernel#loop", "block in <main>"}, []string{"<main>", "<main>"}, nil},
	} {
		got := g.Of(stack(dict, c.stack...))
		check := func(what string, ids []doorways.ID, want []string) {
			if len(ids) != len(want) {
				t.Errorf("%v: %s %v, want %v", c.stack, what, ids, want)
				return
			}
			for i := range ids {
				if !g.Is(&sampler.Frame{Label: want[i], Path: "app.rb"}, ids[i]) {
					t.Errorf("%v: %s %v, want %v", c.stack, what, ids, want)
				}
			}
		}
		check("near", got.Near, c.near)
		check("through", got.Through, c.through)
	}
}

// TestGatesForget: if there are too many methods, the next Count forgets all methods and gates, so memory is bounded.
// Until this Count, each method keeps its number.
func TestGatesForget(t *testing.T) {
	dict := sampler.NewDictionary()
	g := New(dict)
	old := g.Of(stack(dict, "Pool#with", "Shop#order"))
	g.list, g.open = []*Gate{{ID: old.Near[0], Open: true}}, 1
	for i := range stackkind.MaxClasses {
		g.Of(stack(dict, strconv.Itoa(i)))
	}
	g.Of(stack(dict, "Other#with", "Shop#order"))
	if !g.Is(&sampler.Frame{Label: "Pool#with", Path: "app.rb"}, old.Near[0]) {
		t.Error("methods have other numbers between two looks")
	}
	if !g.Count(1e9, nil, nil) || g.open != 0 || len(g.list) != 0 || g.Len() != 0 {
		t.Errorf("%d methods or stacks, %d gates are left, or nobody was told", g.Len(), len(g.list))
	}
}
