package gvl

import (
	"cmp"
	"regexp"

	"github.com/ddtop/ddtop/sampler"
)

// DescribeFit returns texts of different length about a thread's state and how long it has lasted. The longest text
// comes first, so that a screen can take the first text that fits. Numbers of descriptors are left out. dict may be
// nil.
//
//	waiting 706 ms for Mutex (web-0 has it)
//	io 612 ms ← read 10.0.0.5:5432 PostgreSQL
func DescribeFit(ts ThreadState, dict *sampler.Dictionary) []string {
	ts.Detail.FD = -1
	d := ts.Detail
	lasted := ""
	if ts.DurationNS() > 0 {
		lasted = " " + ts.lasted()
	}
	switch ts.State {
	case Lock:
		if text := lostText(&d); text != "" {
			return []string{text + lasted, "waiting" + lasted + " for a lock of no thread", "lock" + lasted}
		}
		kind := cmp.Or(d.Kind, "Mutex")
		out := []string{"waiting" + lasted + " for " + kind}
		if d.Holder != 0 {
			holder := ThreadName(d.Holder, dict)
			out = append([]string{out[0] + " (" + holder + " has it)", "lock" + lasted + ", " + holder + " has it"}, out...)
		}
		return append(out, "lock"+lasted)
	case Waiting:
		short := "waiting" + lasted
		whole := short + " for the GVL"
		switch d.Wait {
		case WaitHandover:
			whole += " (next)"
		case WaitCPUSlot:
			whole = short + " for a CPU slot"
		}
		out := []string{whole, short}
		if d.After != Unknown {
			out = append([]string{whole + ", after " + d.After.String()}, out...)
		}
		return out
	case IO:
		full := "io" + lasted + plainPeer(describeIO(&d, dict)[len("io"):])
		out := []string{full}
		if d.Peer != 0 && dict != nil && d.FDs <= 1 && d.Op != OpChild {
			p := dict.Peer(d.Peer)
			at := "io" + lasted + " " + ioArrow(d.Op) + " "
			out = append(out, plainPeer(at+PeerName(p)))
			p.Service = ""
			out = append(out, plainPeer(at+PeerName(p)))
		}
		return append(out, "io"+lasted)
	case Parked:
		kind := ""
		switch d.Kind {
		case "":
		case "Thread":
			kind = " in Thread#join"
		default:
			kind = " in " + d.Kind
		}
		out := []string{"parked" + lasted + kind, "parked" + lasted}
		if d.Joined != 0 {
			out = append([]string{"parked" + lasted + " in Thread#join of " + ThreadName(d.Joined, dict)}, out...)
		}
		return out
	case Stalled:
		return []string{"stalled" + lasted + Describe(ts, dict)[len("stalled"):], "stalled" + lasted}
	}
	return []string{Describe(ts, dict)}
}

// DescribeIdle is like DescribeFit for a thread in state IO that has no work. The parameter what is a text about what
// the thread waits for (Resting.Idle). dict may be nil.
//
//	idle 2.3 s, accepts connections at 0.0.0.0:9292
func DescribeIdle(ts ThreadState, what string, dict *sampler.Dictionary) []string {
	short := "idle"
	if ts.DurationNS() > 0 {
		short += " " + ts.lasted()
	}
	out := []string{short + ", " + what, "idle, " + what, short, "idle"}
	if d := ts.Detail; d.Peer != 0 && dict != nil && d.FDs <= 1 {
		switch p := dict.Peer(d.Peer); {
		case p.Kind == sampler.PeerListener:
			out = append([]string{out[0] + " at " + PeerName(p)}, out...)
		case p.Remote != "":
			out = append([]string{out[0] + " from " + PeerName(p)}, out...)
		}
	}
	return out
}

// kernelName matches the kernel's name of a pipe, a socket or an object without a file: "pipe:[7006372]",
// "anon_inode:[eventpoll]".
var kernelName = regexp.MustCompile(`(?:anon_inode:\[([a-z]+)\]|(pipe|socket):\[\d+\])`)

// plainPeer replaces a name that kernelName matches in s by "pipe", "socket" or "eventpoll".
func plainPeer(s string) string { return kernelName.ReplaceAllString(s, "$1$2") }

// lasted returns the length of the state as text, with "≤" or "≥" if it is only a bound.
func (t ThreadState) lasted() string { return t.Lasted().Prose() }

// Told returns the length of a thread's wait as texts and sorted lists show it. Between two samples that show the
// thread waiting, it may have had the object for a moment (MovedNS). Told then returns a lower bound for the present
// wait, or zero if no lower bound is known. An upper bound would only show how long the lock was busy.
func (t *ThreadState) Told() Bounded {
	if least := t.LeastNS(); t.AtMost() && (least > 0 || t.MovedNS != 0) {
		return Bounded{least, AtLeast}
	}
	return t.Lasted()
}

// Lasted returns how long the thread has been in its state so far, or a bound of this time.
func (t ThreadState) Lasted() Bounded {
	switch {
	case t.State == Waiting:
		return t.waited()
	case t.AtMost():
		return Bounded{t.DurationNS(), AtMost}
	}
	return Bounded{NS: t.DurationNS()}
}
