package cli_test

import (
	"encoding/json"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
)

// blockedScript is a program with two threads that wait forever in a call of the C library. Ruby methods have made
// these calls.
const blockedScript = `
reader, writer = IO.pipe
2.times { Thread.new { reader.sysread(1) } }
puts "ready"
$stdout.flush
$stdin.gets
`

// TestStatSaysWhereBlockedThreadsWaitInC: stat names the C functions in which blocked threads wait, in text and in
// JSON.
func TestStatSaysWhereBlockedThreadsWaitInC(t *testing.T) {
	rubytest.Long(t)
	p := rubytest.One(t).Start(t, blockedScript, rubytest.Options{})
	p.Expect(t, "ready")
	pid := strconv.Itoa(p.PID)
	wanted := []*regexp.Regexp{
		regexp.MustCompile(`(?m)^where blocked threads wait in C code, each time for a second or more:\n(  .*\n)*` +
			` +[\d.]+ m?s  2 threads  IO#sysread( \[C\])? → .*(read|poll)\n`),
		regexp.MustCompile(`(?m)^native stacks: read \d+, incomplete \d+, moved \d+, refused 0$`),
	}
	until := time.Now().Add(rubytest.Timeout)
	for len(wanted) > 0 {
		text := run(t, "stat", "-p", pid, "-d", "5s")
		text.want(t, 0)
		for len(wanted) > 0 && wanted[0].MatchString(text.out) {
			wanted = wanted[1:]
		}
		if len(wanted) > 0 && time.Now().After(until) {
			t.Fatalf("no %s in\n%s", wanted[0], text.out)
		}
	}
	for {
		out := run(t, "stat", "-p", pid, "-d", "5s", "--json")
		out.want(t, 0)
		var stat report.Stat
		if err := json.Unmarshal([]byte(out.out), &stat); err != nil {
			t.Fatal(err)
		}
		for _, w := range stat.NativeWaits {
			if w.Threads == 0 || w.Stays < w.Threads || w.NS < 0 || len(w.Frames) == 0 || w.Frames[0].BuildID == nil {
				t.Errorf("%+v", w)
			}
		}
		if stat.NativeReads != nil && len(stat.NativeWaits) > 0 {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%+v, %+v", stat.NativeReads, stat.NativeWaits)
		}
	}
}
