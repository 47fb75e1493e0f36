package findings

import (
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// TestNeverBooted: there is a finding in two cases. A forked process is still in its call of fork, or a worker waits in
// a hook at its start. There is no finding for two similar processes:
//
// - A parent that waits in its own call of fork. It has used CPU time before this call.
// - A worker at its end. It has a thread that only a started worker has.
func TestNeverBooted(t *testing.T) {
	fork := []string{"c:Process._fork", "c:Kernel#fork", "Master#spawn_worker"}
	hook := []string{"c:Kernel#sleep", "Boot#connect", "Puma::Configuration#run_hooks", "Puma::Cluster::Worker#run"}
	for _, c := range []struct {
		name  string
		part  string
		stack []string
		cpuNS int64
		waits bool
		more  string
		want  string
	}{
		{name: "in its fork", stack: fork, want: "it has run no Ruby code since process 77 forked it"},
		{name: "a parent in its fork", stack: fork, cpuNS: 300e6},
		{name: "in the block of its fork", stack: append([]string{"c:Kernel#sleep"}, fork...), waits: true},
		{name: "in a hook", part: "w0", stack: hook, waits: true, cpuNS: 300e6, want: "and it has not finished its start: main has waited for"},
		{name: "in a hook at its end", part: "w0", stack: hook, waits: true, more: "puma stat pld"},
		{name: "in a hook of the master", part: "master", stack: hook, waits: true},
		{name: "in a hook that computes", part: "w0", stack: hook},
	} {
		s := newScene(t)
		s.f.ev.proc.Parent, s.f.ev.proc.Part = 77, c.part
		s.named(1, "main", true)
		stack, other := s.stack(c.stack...), s.stack("c:Kernel#sleep", "Worker#stat")
		s.play(12*gvltest.Sec, func(int) (sampler.ThreadID, []sampler.Thread) {
			main, owner := gvltest.Holder(1), sampler.ThreadID(1)
			if c.waits {
				main, owner = gvltest.Asleep(1, sampler.Stopped, sampler.BlockSleep), 0
			}
			main.Bits |= sampler.BitMain
			list := []sampler.Thread{s.at(main, stack)}
			if c.more != "" {
				s.named(2, c.more, false)
				list = append(list, s.at(gvltest.Asleep(2, sampler.Stopped, sampler.BlockSleep), other))
			}
			s.proc = sampler.Proc{AtNS: s.now, UserNS: c.cpuNS}
			return owner, list
		})
		if got := slices.Contains(s.ids(), ruleNeverBooted); got != (c.want != "") {
			t.Errorf("%s: %v", c.name, s.f.Current())
			continue
		}
		if c.want != "" && !strings.Contains(s.one(ruleNeverBooted).Text, c.want) {
			t.Errorf("%s: %q", c.name, s.one(ruleNeverBooted).Text)
		}
	}
}
