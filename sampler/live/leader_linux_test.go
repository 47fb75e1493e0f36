package live

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// firstEnds is a program whose first thread ends by pthread_exit after a line of input. Its other thread waits for data
// from a pipe.
const firstEnds = `require "fiddle"
$stdout.sync = true
r, $w = IO.pipe
Thread.new { r.read }.name = "at a pipe"
puts "up"
STDIN.gets
Fiddle::Function.new(Fiddle.dlopen(nil)["pthread_exit"], [Fiddle::TYPE_VOIDP], Fiddle::TYPE_VOID).call(nil)
`

// TestCountersWithoutTheFirstThread: a process's files in /proc belong to its first thread, and become useless when
// this thread ends. ddtop must then use the files of another thread, and still read memory, peers and the environment.
func TestCountersWithoutTheFirstThread(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, firstEnds, rubytest.Options{})
		p.Expect(t, "up")
		s, err := Open(t.Context(), p.PID, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		look := func() (rss int64, peer sampler.Peer) {
			t.Helper()
			x, err := s.Once(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i := range x.Threads {
				if info, _ := s.Dictionary().Thread(x.Threads[i].ID); info.Name == "at a pipe" {
					peer = s.Dictionary().Peer(x.Threads[i].Kernel.Peer)
				}
			}
			return x.Proc.RSSBytes, peer
		}
		_, before := look()
		p.Send(t, "exit")
		for end := time.Now().Add(rubytest.Timeout); ; time.Sleep(time.Millisecond) {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), ") Z ") {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("the first thread does not end: %s", text)
			}
		}
		s.procNow = sampler.Proc{}
		rss, after := look()
		if rss == 0 {
			t.Error("its memory is not read any more")
		}
		if before.Kind != sampler.PeerPipe || after != before {
			t.Errorf("the thread waited for %+v, and for %+v when the first one had ended", before, after)
		}
		if err := s.proc.Check(); err != nil {
			t.Errorf("the process has not ended: %v", err)
		}
		if method := s.proc.Method(); method != "/proc/PID/mem" {
			t.Errorf("it is read by %s", method)
		}
		if env, err := s.proc.Environment(func(name string) bool { return name == "LANG" }); err != nil || env["LANG"] == "" {
			t.Errorf("its environment: %v, %v", env, err)
		}
		if _, err := attach.FindRuby(s.proc); err != nil {
			t.Error(err)
		}
	})
}
