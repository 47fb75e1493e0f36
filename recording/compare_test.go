package recording

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// resolved is a sample together with the values to which its IDs refer.
type resolved struct {
	sample  sampler.Sample
	stacks  []uint64 // hashes of all fields of the stacks' frames
	peers   []sampler.Peer
	works   []sampler.Work
	texts   []string
	threads []sampler.ThreadInfo
}

// stackHashes caches the hashes of a Dictionary's stacks.
type stackHashes struct {
	d    *sampler.Dictionary
	byID map[sampler.StackID]uint64
}

var hashSeed = maphash.MakeSeed()

func newHashes(d *sampler.Dictionary) *stackHashes {
	return &stackHashes{d, make(map[sampler.StackID]uint64)}
}

func (h *stackHashes) hash(id sampler.StackID) uint64 {
	n, ok := h.byID[id]
	if !ok {
		var m maphash.Hash
		m.SetSeed(hashSeed)
		for _, f := range h.d.Frames(id, nil) {
			maphash.WriteComparable(&m, h.d.Frame(f))
		}
		n = m.Sum64()
		h.byID[id] = n
	}
	return n
}

func resolve(s *sampler.Sample, h *stackHashes) resolved {
	out, d := resolved{sample: *s.Clone()}, h.d
	stack := func(id sampler.StackID) { out.stacks = append(out.stacks, h.hash(id)) }
	for i := range out.sample.Threads {
		t := &out.sample.Threads[i]
		stack(t.Stack)
		stack(t.Native)
		for j := range t.Resumers {
			stack(t.Resumers[j])
			t.Resumers[j] = 0
		}
		out.peers = append(out.peers, d.Peer(t.Kernel.Peer))
		info, _ := d.Thread(t.ID)
		info.GoneNS, info.Exception = 0, "" // ddtop may learn these values only later
		out.threads = append(out.threads, info)
		out.works = append(out.works, d.Work(t.Serving.Work))
		out.texts = append(out.texts, d.Statement(t.Serving.Statement), d.Exception(t.Serving.Exception))
		t.Stack, t.Native, t.Kernel.Peer = 0, 0, 0
		t.Serving.Work, t.Serving.Statement, t.Serving.Exception = 0, 0, 0
	}
	if f := out.sample.Fibers; f != nil {
		c := *f
		c.List = slices.Clone(f.List)
		for i := range c.List {
			x := &c.List[i]
			stack(x.Stack)
			out.works = append(out.works, d.Work(x.Serving.Work))
			out.texts = append(out.texts, d.Statement(x.Serving.Statement), d.Exception(x.Serving.Exception))
			x.Stack, x.Serving.Work, x.Serving.Statement, x.Serving.Exception = 0, 0, 0, 0
		}
		out.sample.Fibers = &c
	}
	for i := range out.sample.Ractors {
		if len(out.sample.Ractors[i].Queue) == 0 {
			out.sample.Ractors[i].Queue = nil
		}
	}
	for i := range out.sample.Changes.List {
		x := &out.sample.Changes.List[i]
		if x.Doing.Work != 0 {
			// the ID is replaced by the number of the request or job
			x.Doing.Work = sampler.WorkID(h.d.OwnWork(x.Doing.Work).Number)
		}
		for _, id := range []*sampler.StackID{&x.Stack, &x.Resumes} {
			if *id != 0 {
				// Tests replace the changes, so the hash is stored in the change itself.
				*id = sampler.StackID(h.hash(*id))
			}
		}
	}
	for i := range out.sample.Runs {
		stack(out.sample.Runs[i].Stack)
		info, _ := d.Thread(out.sample.Runs[i].Thread)
		info.GoneNS, info.Exception = 0, ""
		out.threads = append(out.threads, info)
		out.sample.Runs[i].Stack = 0
	}
	if len(out.sample.Runs) == 0 {
		out.sample.Runs = nil
	}
	if len(out.sample.Changes.List) == 0 {
		out.sample.Changes.List = nil
	}
	if len(out.sample.Threads) == 0 {
		out.sample.Threads = nil
	}
	if len(out.sample.Ractors) == 0 {
		out.sample.Ractors = nil
	}
	return out
}

// asWritten returns a sample as a recording keeps it. Times of the kernel are rounded up to µs, and estimates of
// allocations are rounded.
func asWritten(s *sampler.Sample) *sampler.Sample {
	up := func(ns *int64) {
		if rest := *ns % 1000; rest > 0 {
			*ns += 1000 - rest
		} else {
			*ns -= rest
		}
	}
	s = s.Clone()
	up(&s.ReadNS)
	for i := range s.Threads {
		k := &s.Threads[i].Kernel
		up(&k.StateAtNS)
		up(&k.CPUAtNS)
		up(&k.CPUNS)
		up(&k.RunDelayNS)
	}
	if s.Classes != nil {
		a := *s.Classes
		a.Objects, a.Squares = rounded(a.Objects), float64(float32(a.Squares))
		a.Classes = append([]sampler.AllocClass{}, a.Classes...)
		for i := range a.Classes {
			c := &a.Classes[i]
			c.Objects, c.Squares, c.Products = rounded(c.Objects), float64(float32(c.Squares)), float64(float32(c.Products))
		}
		s.Classes = &a
	}
	return s
}

// rounded returns a number of objects as a recording keeps it, in units of 1/1024.
func rounded(objects float64) float64 { return math.Round(objects*1024) / 1024 }

// record writes n samples to a recording. It returns the file and the samples.
func record(t testing.TB, n int, next func() *sampler.Sample, d *sampler.Dictionary, end *sampler.End) ([]byte, []resolved) {
	t.Helper()
	var buf bytes.Buffer
	w, err := NewWriter(&buf, testProcess, d)
	if err != nil {
		t.Fatal(err)
	}
	var want []resolved
	hashes := newHashes(d)
	for range n {
		s := next()
		want = append(want, resolve(asWritten(s), hashes))
		if err := w.Write(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(end); err != nil {
		t.Fatal(err)
	}
	if w.Bytes() != int64(buf.Len()) {
		t.Errorf("Bytes %d, written %d", w.Bytes(), buf.Len())
	}
	return buf.Bytes(), want
}

func openBytes(t testing.TB, b []byte) *Reader {
	t.Helper()
	r, err := NewReader(bytes.NewReader(b), int64(len(b)), "test.ddtop")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func readAll(t testing.TB, r *Reader) []resolved {
	t.Helper()
	var got []resolved
	hashes := newHashes(r.Dictionary())
	if err := r.Run(context.Background(), func(s *sampler.Sample) { got = append(got, resolve(s, hashes)) }); !errors.Is(err, sampler.ErrEnded) {
		t.Fatalf("Run: %v", err)
	}
	return got
}

func compare(t *testing.T, what string, got, want []resolved) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d samples, want %d", what, len(got), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("%s: sample %d%s", what, i, differences(reflect.ValueOf(got[i]), reflect.ValueOf(want[i]), ""))
		}
	}
}

// differences lists the fields in which two values of the same type differ.
func differences(got, want reflect.Value, at string) string {
	switch {
	case got.Kind() == reflect.Pointer && !got.IsNil() && !want.IsNil():
		return differences(got.Elem(), want.Elem(), at)
	case got.Kind() == reflect.Struct:
		out := ""
		for i := range got.NumField() {
			out += differences(got.Field(i), want.Field(i), at+"."+got.Type().Field(i).Name)
		}
		return out
	case got.Kind() == reflect.Slice && got.Len() == want.Len() || got.Kind() == reflect.Array:
		out := ""
		for i := range got.Len() {
			out += differences(got.Index(i), want.Index(i), fmt.Sprintf("%s[%d]", at, i))
		}
		return out
	}
	if a, b := fmt.Sprintf("%#v", got), fmt.Sprintf("%#v", want); a != b {
		return fmt.Sprintf("\n%s: %s, want %s", at, a, b)
	}
	return ""
}
