package cli_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestHangingAtItsEnd: if a program hangs while it ends, dump says what its main thread waits for, or in which hook it
// is. The thread's outermost frame shows this. In two cases the outermost frame shows nothing about the end, and dump
// says nothing: the main thread runs another fiber, or another thread forked the process.
func TestHangingAtItsEnd(t *testing.T) {
	const stubborn = `Thread.new { begin; sleep; ensure; loop { sleep 1 }; end }; Thread.pass until Thread.list.last.status == "sleep"; `
	const ready = `puts Process.pid; $stdout.flush; `
	for name, c := range map[string]struct{ script, reason, within string }{
		"main":      {stubborn + `at_exit { ` + ready + `}`, "the program has ended and waits for its other threads to end", ""},
		"fork":      {`fork { ` + stubborn + ready + `}; Process.wait`, "the program has ended and waits for its other threads to end", ""},
		"at_exit":   {`at_exit { t = Thread.new { sleep }; ` + ready + `t.join }`, "", "an at_exit hook or a finalizer, at the program's end"},
		"finalizer": {`ObjectSpace.define_finalizer(Object.new, proc { ` + ready + `sleep })`, "", "an at_exit hook or a finalizer, at the program's end"},
		"trap": {`t = Thread.new { sleep }; trap("USR1") { t.join }; ` + ready + `Process.kill("USR1", Process.pid); t.join`, "",
			"a signal's handler or a finalizer, which has interrupted the program"},
		"fiber":        {`Fiber.new { ` + ready + `sleep }.resume`, "", ""},
		"thread forks": {`Thread.new { fork { ` + ready + `[1].each { sleep } }; Process.wait }.join`, "", ""},
		"no block":     {`Thread.new { if fork then Process.wait else ` + ready + `[1].each { sleep } end }.join`, "", ""},
		"main forks": {`if fork then Process.wait else at_exit { t = Thread.new { sleep }; ` + ready + `t.join } end`, "",
			"an at_exit hook or a finalizer, at the program's end"},
		"usual": {ready + `[1].each { sleep }`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := rubytest.One(t).Start(t, c.script, rubytest.Options{})
			pid, err := strconv.Atoi(strings.TrimSpace(p.Line(t)))
			if err != nil {
				t.Fatal(err)
			}
			defer syscall.Kill(pid, syscall.SIGKILL)
			var got string
			for end := time.Now().Add(rubytest.Timeout); time.Now().Before(end); { // the program is still on its way to the end
				r := run(t, "dump", "-p", strconv.Itoa(pid), "--json")
				r.want(t, 0)
				var d struct {
					Threads []struct {
						Main   bool
						State  string
						Detail struct{ Reason, Within string }
					}
				}
				if err := json.Unmarshal([]byte(r.out), &d); err != nil {
					t.Fatal(err)
				}
				for _, x := range d.Threads {
					if got = fmt.Sprintf("%s %+v", x.State, x.Detail); x.Main && x.Detail.Reason == c.reason && x.Detail.Within == c.within &&
						(c.reason != "" || x.State == "sleeping" || x.State == "parked") {
						return
					}
				}
			}
			t.Errorf("its main thread: %s, want reason %q, within %q", got, c.reason, c.within)
		})
	}
}
