package scene

import (
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/style"
)

// TestRequestNames: if the route of a request or the class of a job is not known, a text is shown instead of the name.
// Rates of requests are rounded.
func TestRequestNames(t *testing.T) {
	for _, c := range []struct {
		kind       sampler.WorkKind
		name, want string
	}{{sampler.WorkRequest, "", "(route not known)"}, {sampler.WorkJob, "", "(job, class not known)"}, {sampler.WorkJob, "Mailer", "Mailer"}} {
		if got := EndpointName(c.kind, c.name); got != c.want {
			t.Errorf("%v %q: %q", c.kind, c.name, got)
		}
	}
	for _, c := range []struct {
		n    float64
		want string
	}{{0, "0"}, {.01, "<0.1"}, {.3, "0.3"}, {9.96, "10"}, {1200, "1,200"}} {
		if got := PerSecondText(c.n, false); got != c.want {
			t.Errorf("%v: %q", c.n, got)
		}
	}
}

// TestServingForms: the text about a thread has its request and the address of the peer that it waits for. If there is
// too little room for both, the request is left out.
func TestServingForms(t *testing.T) {
	for _, c := range []struct {
		state gvl.State
		forms []string
		room  int
		want  string
	}{
		{gvl.Running, []string{"running"}, 20, "running  GET orders…"},
		{gvl.IO, []string{"io 1 s ← 10.0.0.5:5432 PostgreSQL", "io 1 s ← 10.0.0.5:5432", "io 1 s"}, 60, "io 1 s ← 10.0.0.5:5432 PostgreSQL  GET orders#index"},
		{gvl.IO, []string{"io 1 s ← 10.0.0.5:5432 PostgreSQL", "io 1 s ← 10.0.0.5:5432", "io 1 s"}, 40, "io 1 s ← 10.0.0.5:5432  GET orders#index"},
		{gvl.IO, []string{"io 1 s ← 10.0.0.5:5432 PostgreSQL", "io 1 s ← 10.0.0.5:5432", "io 1 s"}, 30, "io 1 s ← 10.0.0.5:5432"},
		{gvl.Waiting, []string{"waiting 9 ms for the GVL", "waiting 9 ms"}, 29, "waiting 9 ms  orders#index"},
		{gvl.Waiting, []string{"waiting 9 ms for the GVL", "waiting 9 ms"}, 16, "waiting 9 ms"},
		{gvl.Waiting, []string{"waiting 9 ms for the GVL", "waiting 9 ms"}, 30, "waiting 9 ms  GET orders#index"},
	} {
		if got := style.Fit(ServingForms(c.state, c.forms, "GET orders#index"), c.room); got != c.want {
			t.Errorf("%v in %d columns: %q, want %q", c.state, c.room, got, c.want)
		}
	}
}

// TestIdleServerIsOffered: the view of requests is offered even for a server that has not had a request yet. ddtop
// recognizes a server by the stacks of its threads. For other programs the view is not offered.
func TestIdleServerIsOffered(t *testing.T) {
	for label, want := range map[string]bool{
		"block in Puma::ThreadPool#spawn_thread": true, "Unicorn::HttpServer#worker_loop": true, "WEBrick::GenericServer#start": true,
		"Sidekiq::Processor#run": true, "rescue in Falcon::Server#run": true, "Rack::Builder#to_app": false, "Kernel#loop": false,
		"block in Object#Puma": false, "": false,
	} {
		d := sampler.NewDictionary()
		stack := d.InternStackOf([]sampler.FrameID{d.InternFrame(sampler.Frame{Label: "Thread::Queue#pop", C: true}),
			d.InternFrame(sampler.Frame{Label: label})})
		var s serverSeen
		idle := sampler.Sample{TimeNS: 5e9, Threads: []sampler.Thread{{ID: 1}, {ID: 2, Stack: stack}}}
		s.search(d, &sampler.Sample{TimeNS: 1e9})
		if s.search(d, &idle); s.Met != want {
			t.Errorf("%q: %v", label, s.Met)
		}
	}
}
