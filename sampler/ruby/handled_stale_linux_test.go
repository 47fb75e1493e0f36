package ruby

import (
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// staleException is a program with a thread that handles an exception in its first request. When this request ends, the
// frame of the rescue stays unchanged in memory. A block refers to the variables of the code, so they are on the heap.
const staleException = `
def call(n)
  raise ArgumentError, "first"
rescue ArgumentError
  $kept = proc {}
  puts "in 1"
  $stdin.gets
end
def serve(n)
  env = {"REQUEST_METHOD" => "GET", "REQUEST_URI" => "/#{n}", "PATH_INFO" => "/#{n}", "HTTP_HOST" => "here"}
  return call(n) if n == 1
  puts "in 2"
  $stdin.gets
end
$stdout.sync = true
n = 0
loop { serve(n += 1) }`

// betweenMemory simulates a program that continues to run while ddtop reads its memory in one call. The first call that
// reads at the address in the field at also calls the function run. In this call, the ranges of the stack, of the
// execution context and of the thread have the content from before run was called. All other ranges have the content
// from after it.
type betweenMemory struct {
	attach.Memory
	at, end, ec, thread attach.Address
	run                 func()
}

func (m *betweenMemory) ReadBatch(ranges []attach.Range) (int, error) {
	calls, err := m.Memory.ReadBatch(ranges)
	var others []attach.Range
	reads := false
	for _, x := range ranges {
		switch {
		case x.Addr == m.at:
			reads = true
		case (x.Addr < m.at || x.Addr >= m.end) && (x.Addr < m.ec || x.Addr > m.ec+ecCFP) && (x.Addr < m.thread || x.Addr > m.thread+2048):
			others = append(others, x)
		}
	}
	if err != nil || !reads || m.run == nil {
		return calls, err
	}
	m.run()
	m.run = nil
	return m.Memory.ReadBatch(others)
}

// TestHandledInARequestThatEnds: ddtop reads a stack during one request, and the exception only during the next
// request. It must not show the exception for the next request. The test uses a real process, because only Ruby itself
// leaves a frame in memory after it has returned.
func TestHandledInARequestThatEnds(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, staleException, rubytest.Options{})
		p.Expect(t, "in 1")
		rd := openReaderWith(t, p.PID, Options{Values: true})
		serves := func() (exception string, w sampler.Work) {
			t.Helper()
			var s sampler.Sample
			if err := rd.Read(sampler.StackTick, &s); err != nil {
				t.Fatal(err)
			}
			serving := s.Threads[0].Serving
			return rd.dict.Exception(serving.Exception), rd.dict.Work(serving.Work)
		}
		for range 3 {
			if exception, w := serves(); exception != "ArgumentError: first" || w.Values != "/1" {
				t.Fatalf("in the first request it handles %q in %q", exception, w.Values)
			}
		}
		st := &rd.list.order[0].stack
		m := &betweenMemory{Memory: rd.mem, at: st.cfp, end: st.keptEnd, ec: st.ec, thread: rd.list.order[0].addr, run: func() {
			p.Send(t, "")
			p.Expect(t, "in 2")
		}}
		rd.mem = m
		exception, w := serves()
		if m.run != nil {
			t.Fatal("the stack was not read")
		}
		t.Logf("%q in %q", exception, w.Values)
		if exception != "" && w.Values == "/2" {
			t.Errorf("it handles %q in %q", exception, w.Values)
		}
		if exception, w := serves(); exception != "" || w.Values != "/2" {
			t.Errorf("in the second request it handles %q in %q", exception, w.Values)
		}
	})
}
