package ruby

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

//go:embed testdata/values.rb
var valuesProgram string

// told is a value as the Ruby program itself reports it. Texts are in hexadecimal.
type told struct {
	T     string
	V     string          // a number in decimal, the bits of a Float, or the bytes of a String or Symbol
	Class string          // the class of an object
	Items []told          // the elements of an Array
	Pairs [][2]told       // the pairs of a Hash
	Ivars map[string]told // the instance variables of an object
}

// toldThread is what the Ruby program reports about a thread: its methods' local variables, $!, its own variables, and
// its fiber's variables.
type toldThread struct {
	Locals map[string]map[string]told
	Error  *told
	Vars   *told
	Fiber  map[string]told // the fiber's variables, by their names in hexadecimal
}

// values reads the values of a Ruby program from memory, and compares them with the program's own output (told).
type values struct {
	g        *realTarget
	o        *heap.Objects
	compared int
}

// difference says where a value differs from the value that Ruby reports. It is "" if they are equal. The error means
// that memory could not be read.
func (c *values) difference(v uint64, want *told, depth int) (string, error) {
	o := c.o
	c.compared++
	say := func(got any, err error) (string, error) {
		if err != nil {
			return "", err
		}
		if s := fmt.Sprint(got); s != want.V {
			return fmt.Sprintf("%#x is the %s %q, Ruby says %q", v, want.T, s, want.V), nil
		}
		return "", nil
	}
	switch want.T {
	case "nil":
		if v != c.g.vm.Places.Objects.Nil {
			return fmt.Sprintf("%#x is not nil", v), nil
		}
	case "true", "false":
		if v != map[string]uint64{"true": 20, "false": 0}[want.T] {
			return fmt.Sprintf("%#x is not %s", v, want.T), nil
		}
	case "int":
		if _, err := strconv.ParseInt(want.V, 10, 64); err == nil {
			return say(o.Int(v))
		}
		if _, err := strconv.ParseUint(want.V, 10, 64); err == nil {
			return say(o.Uint(v))
		}
		if n, err := o.Int(v); err == nil {
			return fmt.Sprintf("%#x is %d, Ruby says %s", v, n, want.V), nil
		}
	case "float":
		f, err := o.Float(v)
		return say(fmt.Sprintf("%016x", math.Float64bits(f)), err)
	case "string":
		b, cut, err := o.Bytes(v, 1<<20)
		if cut {
			return "the string was cut", nil
		}
		return say(fmt.Sprintf("%x", b), err)
	case "symbol":
		name, err := o.Name(v)
		return say(hex(name), err)
	case "array":
		at, n, err := o.Array(v)
		if err != nil || int(n) != len(want.Items) {
			return fmt.Sprintf("an Array of %d, Ruby says %d", n, len(want.Items)), err
		}
		var missing error
		for i := range want.Items {
			item, err := o.Word(at + attach.Address(i)*8)
			diff := ""
			if err == nil {
				diff, err = c.difference(item, &want.Items[i], depth+1)
			}
			if err == view.ErrMissing {
				missing = err // go on, so that all missing data is fetched at once
			} else if diff != "" || err != nil {
				return fmt.Sprintf("[%d]: %s", i, diff), err
			}
		}
		return "", missing
	case "hash":
		i, diff := 0, ""
		err := o.EachPair(v, heap.MaxPairs, func(key, value uint64) (bool, error) {
			if i >= len(want.Pairs) {
				diff = "it has more pairs"
				return false, nil
			}
			pair := &want.Pairs[i]
			i++
			for k, v := range []uint64{key, value} {
				d, err := c.difference(v, &pair[k], depth+1)
				if d != "" && err == nil {
					diff = fmt.Sprintf("pair %d: %s", i-1, d)
				}
				if d != "" || err != nil {
					return false, err
				}
			}
			return true, nil
		})
		if err == nil && diff == "" && i != len(want.Pairs) {
			diff = fmt.Sprintf("a Hash of %d, Ruby says %d", i, len(want.Pairs))
		}
		if err != nil || diff != "" {
			return diff, err
		}
		return c.lookUp(v, want)
	case "object":
		class, err := o.ClassOf(v)
		if err != nil || class != want.Class {
			return fmt.Sprintf("%#x is a %q, Ruby says %q", v, class, want.Class), err
		}
		if value, ok, err := o.Ivar(v, "@of_no_object"); ok || err != nil {
			return fmt.Sprintf("@of_no_object is %#x", value), err
		}
		for name, w := range want.Ivars {
			value, ok, err := o.Ivar(v, name)
			if err != nil {
				return name, err
			}
			if !ok {
				return "it has no " + name, nil
			}
			if diff, err := c.difference(value, &w, depth+1); diff != "" || err != nil {
				return name + ": " + diff, err
			}
		}
	default:
		return "Ruby says nothing of it: " + want.T, nil
	}
	return "", nil
}

// lookUp looks up all keys of a Hash that are Strings or Symbols, and one key that the Hash does not have.
func (c *values) lookUp(v uint64, want *told) (string, error) {
	names, wanted := []string{"of no Hash"}, []*told{nil}
	seen := make(map[string]bool)
	// Strings come first: if a String and a Symbol have the same text, ddtop should find the String
	for _, text := range []string{"string", "symbol"} {
		for i := range want.Pairs {
			name := unhex(want.Pairs[i][0].V)
			if want.Pairs[i][0].T == text && !seen[name] && len(name) < 100 {
				seen[name] = true
				names, wanted = append(names, name), append(wanted, &want.Pairs[i][1])
			}
		}
	}
	got := make([]uint64, len(names))
	if err := c.o.Lookup(v, names, got); err != nil {
		return "Lookup", err
	}
	for i, w := range wanted {
		switch {
		case w == nil && got[i] != 0:
			return fmt.Sprintf("it has a %q", names[i]), nil
		case w != nil:
			if diff, err := c.difference(got[i], w, 1); diff != "" || err != nil {
				return fmt.Sprintf("Lookup of %q: %s", names[i], diff), err
			}
		}
	}
	return "", nil
}

func unhex(s string) string {
	out := make([]byte, len(s)/2)
	for i := range out {
		n, _ := strconv.ParseUint(s[2*i:2*i+2], 16, 8)
		out[i] = byte(n)
	}
	return string(out)
}

// compare reads the values of all threads of a program and compares them with the program's output. It reads all values
// of a thread at the same moment.
func (c *values) compare(t *testing.T, truth map[string]toldThread) {
	t.Helper()
	found := make(map[string]bool)
	for _, thread := range c.g.threads(t) {
		name := c.g.name(t, thread)
		want, ok := truth[name]
		if !ok {
			continue
		}
		found[name] = true
		ec := c.g.word(t, thread+c.g.off(t, "rb_thread_struct.ec"))
		raw, ok := c.g.stack(t, ec, false)
		if !ok {
			t.Errorf("%s has no stack", name)
			continue
		}
		scopes, err := c.g.dec.Scopes(raw.Frames, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		check := func(what string, f func() (string, error)) {
			diff, before := "", c.compared
			var seen []heap.Witness
			err := c.o.Read(func() (err error) {
				seen, c.compared = seen[:0], before
				c.o.Record(&seen)
				defer c.o.Record(nil)
				diff, err = f()
				return err
			})
			if err != nil || diff != "" {
				t.Errorf("%s: %s: %s: %v", name, what, diff, err)
			}
			if same, err := c.o.Unchanged(seen); err != nil || heap.Recorded(seen) && !same {
				t.Errorf("%s: %s: a parked thread's values changed: %v", name, what, err)
			}
		}
		left := make(map[string]bool)
		for method := range want.Locals {
			left[method] = true
		}
		// outermost scope first, so that a method comes before the blocks within it
		for i := range slices.Backward(scopes) {
			s := &scopes[i]
			method, _, _ := c.g.dec.Known(s.ISeq)
			if !left[method] {
				continue
			}
			delete(left, method)
			for local, w := range want.Locals[method] {
				check(method+"'s "+local, func() (string, error) {
					at := s.Locals.Find(local)
					if at < 0 {
						return fmt.Sprintf("it is none of %q", s.Locals.Names()), nil
					}
					v, err := c.o.Word(s.Locals.At(s.EP, at))
					if err != nil {
						return "", err
					}
					return c.difference(v, &w, 0)
				})
			}
		}
		if len(left) > 0 {
			t.Errorf("%s: not found on its stack: %v", name, left)
		}
		check("$!", func() (string, error) {
			v, _, err := c.g.dec.Errinfo(scopes, ec)
			switch {
			case err != nil:
				return "", err
			case want.Error == nil && v != 0:
				class, _ := c.o.ClassOf(v)
				return fmt.Sprintf("it is %#x, a %s", v, class), nil
			case want.Error == nil:
				return "", nil
			}
			return c.difference(v, want.Error, 0)
		})
		check("thread variables", func() (string, error) {
			v, ok, err := c.o.Ivar(uint64(c.g.word(t, thread+c.g.off(t, "rb_thread_struct.self"))), "locals")
			switch {
			case err != nil || !ok && want.Vars == nil:
				return "", err
			case !ok || want.Vars == nil:
				return fmt.Sprintf("there are some: %t", ok), nil
			}
			return c.difference(v, want.Vars, 0)
		})
		check("fiber-locals", func() (string, error) {
			n, diff := 0, ""
			err := c.o.FiberLocals(ec, func(key string, value uint64) (bool, error) {
				w, ok := want.Fiber[hex(key)]
				if !ok {
					if strings.HasPrefix(key, "__") {
						// Ruby itself has set this variable, for example for the method inspect.
						return true, nil
					}
					diff = fmt.Sprintf("it has %q", key)
					return false, nil
				}
				n++
				d, err := c.difference(value, &w, 0)
				if d != "" {
					diff = key + ": " + d
				}
				return d == "", err
			})
			if err == nil && diff == "" && n != len(want.Fiber) {
				diff = fmt.Sprintf("%d of %d", n, len(want.Fiber))
			}
			return diff, err
		})
	}
	for name := range truth {
		if !found[name] {
			t.Errorf("thread %s was not found", name)
		}
	}
}

// valuesAsTold runs the program values.rb on a Ruby, and compares the values in memory with the program's output. It
// does so again after collections and a compaction.
func valuesAsTold(t *testing.T, r rubytest.Ruby, o rubytest.Options) {
	t.Helper()
	p := r.Start(t, valuesProgram, o)
	var truth map[string]toldThread
	p.JSON(t, &truth)
	g := openTarget(t, p.PID)
	c := &values{g: g, o: g.dec.Objects}
	c.compare(t, truth)
	for i, command := range []string{"gc", "compact"} {
		p.Send(t, command)
		truth = nil
		p.JSON(t, &truth)
		n := uint64(i + 1)
		if err := g.dec.Revalidate(int64(n), sampler.GC{Valid: true, Count: n, MajorCount: n}); err != nil {
			t.Fatal(err)
		}
		c.compare(t, truth)
	}
	rubytest.Report(t, "%s: %d values as Ruby says", r, c.compared)
}

// TestValues: for waiting threads, ddtop reads the same values as Ruby reports: local variables, $!, and the variables
// of threads and fibers. It also does so with code that a JIT has compiled.
func TestValues(t *testing.T) {
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		valuesAsTold(t, r, rubytest.Options{})
		for _, jit := range []string{"yjit", "zjit"} {
			if r.HasJIT(t, jit) {
				t.Run(jit, func(t *testing.T) {
					valuesAsTold(t, r, rubytest.Options{RubyArgs: []string{"--" + jit, "--" + jit + "-call-threshold=1"}})
				})
			}
		}
	})
}

// TestValuesOfArm64 is like TestValues, but with Rubies for arm64, which run in an emulator.
func TestValuesOfArm64(t *testing.T) {
	rubytest.EachForeign(t, func(t *testing.T, r rubytest.Ruby) { valuesAsTold(t, r, rubytest.Options{}) })
}
