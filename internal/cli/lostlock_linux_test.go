package cli_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// forkedLock is a program that forks while one of its threads holds a mutex of C code. The child then waits for this
// mutex. If KEEP is true, the child keeps the GVL while it waits.
const forkedLock = `
require "fiddle"
libc = Fiddle.dlopen(nil)
LOCK = Fiddle::Pointer.malloc(64)
LOCK[0, 64] = "\0" * 64
TAKE = Fiddle::Function.new(libc["pthread_mutex_lock"], [Fiddle::TYPE_VOIDP], Fiddle::TYPE_INT, need_gvl: KEEP)
Thread.new { TAKE.call(LOCK); puts "taken"; $stdout.flush; sleep }
$stdin.gets
child = fork { TAKE.call(LOCK) }
puts child
$stdout.flush
TAKE.call(LOCK)
`

// TestLockLostAtFork: a child waits for a lock that a thread of its parent held at the fork. This thread does not exist
// in the child, so no thread can free the lock. dump says so, even if the waiting thread keeps the GVL. For the parent,
// dump does not say so, because in the parent the thread exists.
func TestLockLostAtFork(t *testing.T) {
	const words = "held at fork by a thread that does not exist here"
	for _, keep := range []bool{false, true} {
		p := rubytest.One(t).Start(t, "KEEP = "+strconv.FormatBool(keep)+"\n"+forkedLock, rubytest.Options{})
		p.Expect(t, "taken")
		p.Send(t, "fork")
		child, err := strconv.Atoi(strings.TrimSpace(p.Line(t)))
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Kill(child, syscall.SIGKILL)
		state := func(pid int) (state, call string) {
			r := run(t, "dump", "-p", strconv.Itoa(pid), "--json")
			r.want(t, 0)
			var d struct {
				Threads []struct {
					Main   bool
					State  string
					Detail struct{ Syscall string }
				}
			}
			if err := json.Unmarshal([]byte(r.out), &d); err != nil {
				t.Fatal(err)
			}
			for _, x := range d.Threads {
				if x.Main {
					state, call = x.State, x.Detail.Syscall
				}
			}
			return state, call
		}
		want := "lock"
		if keep {
			want = "stalled"
		}
		for end := time.Now().Add(rubytest.Timeout); ; { // the child may not have reached the lock yet
			got, call := state(child)
			if got == want && call == "(lock of no thread)" {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("keep %v: %s in %s, want %s", keep, got, call, want)
			}
		}
		if r := run(t, "dump", "-p", strconv.Itoa(child)); !strings.Contains(r.out, words) {
			t.Errorf("keep %v: dump does not say %q:\n%s", keep, words, r.out)
		}
		if r := run(t, "dump", "-p", strconv.Itoa(p.PID)); strings.Contains(r.out, words) {
			t.Errorf("keep %v: the parent's lock has an owner:\n%s", keep, r.out)
		}
	}
}
