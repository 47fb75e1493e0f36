package cli_test

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// callsScript is a program whose threads wait in C functions without the GVL. Each thread's name is the text that dump
// must print about this thread: its state, operation and system call.
const callsScript = `
require "fiddle"
LIBC = Fiddle.dlopen(nil)
def c(name, *args)
  types = args.map { |a| a.is_a?(Fiddle::Pointer) || a.nil? ? Fiddle::TYPE_VOIDP : Fiddle::TYPE_LONG }
  Fiddle::Function.new(LIBC[name], types, Fiddle::TYPE_LONG).call(*args)
end
def mem(*quads) = Fiddle::Pointer[quads.pack("q*")].tap { |p| (@keep ||= []) << p }
def at(name, &b) = Thread.new { Thread.current.name = name; b.call }
SEM, MSG = c("semget", 0, 1, 0o1600), c("msgget", 0, 0o1600)
at("io semaphore semtimedop") { c("semop", SEM, Fiddle::Pointer[[0, -1, 0].pack("S<s<s<")], 1) }
at("io semaphore semtimedop") { c("semtimedop", SEM, Fiddle::Pointer[[0, -1, 0].pack("S<s<s<")], 1, mem(1_000_000, 0)) }
at("io read msgrcv") { c("msgrcv", MSG, mem(*[0] * 8), 16, 7, 0) }
at("sleeping  poll") { c("poll", nil, 0, -1) }
puts "ready"
$stdout.flush
$stdin.gets
c("semctl", SEM, 0, 0)
c("msgctl", MSG, 0, nil)
exit!
`

// TestCallsOfC: if a thread waits in a System V IPC call, dump reports the call and what the thread waits for. A thread
// that calls poll without file descriptors counts as sleeping, because it waits only for time to pass.
func TestCallsOfC(t *testing.T) {
	p := rubytest.One(t).Start(t, callsScript, rubytest.Options{})
	p.Expect(t, "ready")
	defer func() { p.Send(t, "end"); p.Wait(t) }() // otherwise the semaphore and the queue would stay in the kernel
	for end := time.Now().Add(rubytest.Timeout); ; {
		r := run(t, "dump", "-p", strconv.Itoa(p.PID), "--json")
		r.want(t, 0)
		var d struct {
			Threads []struct {
				Name, State string
				Main        bool
				Detail      struct{ Op, Syscall string }
			}
		}
		if err := json.Unmarshal([]byte(r.out), &d); err != nil {
			t.Fatal(err)
		}
		asleep, wrong := 0, ""
		for _, x := range d.Threads {
			if got := x.State + " " + x.Detail.Op + " " + x.Detail.Syscall; got == x.Name {
				asleep++
			} else if !x.Main {
				wrong += x.Name + ": " + got + "\n"
			}
		}
		if asleep == 4 {
			return
		}
		if time.Now().After(end) { // the threads may still be on their way into the calls
			t.Fatal(wrong)
		}
	}
}
