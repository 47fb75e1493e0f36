package findings

import (
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// serve makes a thread work for a request of an endpoint from now on.
func (s *scene) serve(id sampler.ThreadID, endpoint, statement string) {
	if s.serving == nil {
		s.serving = make(map[sampler.ThreadID]sampler.Serving)
	}
	w := sampler.Work{Number: sampler.WorkNumber(id), Kind: sampler.WorkRequest, Endpoint: endpoint, SinceNS: s.now, BeforeNS: s.now - gvltest.MS}
	s.serving[id] = sampler.Serving{Work: s.dict.InternWork(w), Statement: s.dict.InternText(statement)}
}

// one returns the active finding of a rule.
func (s *scene) one(id string) Finding {
	s.t.Helper()
	for _, f := range s.f.Current() {
		if f.ID == id {
			return f
		}
	}
	s.t.Errorf("no %s in %v", id, s.ids())
	return Finding{}
}

func (s *scene) names(f Finding, endpoint string, words ...string) {
	s.t.Helper()
	if f.Endpoint != endpoint {
		s.t.Errorf("%s is of %q, not %q: %s", f.ID, f.Endpoint, endpoint, f)
	}
	for _, w := range words {
		if !strings.Contains(f.Text+" → "+f.Next, w) {
			s.t.Errorf("%s does not say %q: %s → %s", f.ID, w, f, f.Next)
		}
	}
}

// TestFindingsNameWhoTakesTheGVL: a finding about the GVL names the route whose requests hold it, and their share. It
// names no route if the route is not known, or if no thread serves a request.
func TestFindingsNameWhoTakesTheGVL(t *testing.T) {
	s := newScene(t)
	s.named(1, "worker-3", false)
	s.serve(1, "GET reports#build", "")
	for id := sampler.ThreadID(2); id <= 7; id++ {
		s.serve(id, "GET orders#index", "")
	}
	s.turns(14*gvltest.Sec, 6, 19)
	s.names(s.one("gvl_hog"), "GET reports#build", "Reports#build → JSON.generate (worker-3, app.rb:10) causes", "; GET reports#build takes 95 % of the GVL, GET orders#index waits ")
	s.names(s.one("gvl_saturated"), "GET reports#build", "GET reports#build takes 95 % of the GVL")

	s = newScene(t)
	s.serve(1, "", "")
	s.turns(14*gvltest.Sec, 6, 19)
	s.names(s.one("gvl_hog"), "")

	s = newScene(t)
	s.turns(14*gvltest.Sec, 6, 19)
	if f := s.one("gvl_hog"); strings.Contains(f.Text, "of the GVL") {
		t.Errorf("nobody serves: %s", f)
	}
}

// TestFindingsNameARouteOnManyThreads: the requests of one route hold the GVL for most of the time, on several threads.
// No single thread holds it much longer than others. The finding must say that the route hogs the GVL. If all requests
// have the same route, the finding must not name the route.
func TestFindingsNameARouteOnManyThreads(t *testing.T) {
	const reports, all = 4, 8
	// goOn plays samples in rounds of 20 ticks. At the beginning of each round, one of the first threads (ids up to
	// reports) holds the GVL. The parameter ticks says for how many ticks. In the remaining ticks, one of the other
	// threads holds the GVL.
	goOn := func(s *scene, seconds int64, ticks int) {
		long, short := s.stack("c:JSON.generate", "Reports#build"), s.stack("Server#handle")
		s.play(seconds*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
			round, at := i/20, i%20
			owner := sampler.ThreadID(1 + round%reports)
			if at >= ticks {
				owner = sampler.ThreadID(1 + reports + round%(all-reports))
			}
			var list []sampler.Thread
			for id := sampler.ThreadID(1); id <= all; id++ {
				st := short
				if id <= reports {
					st = long
				}
				if id == owner {
					list = append(list, s.at(gvltest.Holder(id), st))
				} else {
					list = append(list, s.at(gvltest.Queued(id), st))
				}
			}
			return owner, list
		})
	}
	play := func(endpoint func(id sampler.ThreadID) string) *scene {
		s := newScene(t)
		for id := sampler.ThreadID(1); id <= all; id++ {
			if name := endpoint(id); name != "" {
				s.serve(id, name, "")
			}
		}
		goOn(s, 14, 19)
		return s
	}
	s := play(func(id sampler.ThreadID) string {
		if id <= reports {
			return "GET reports#build"
		}
		return "GET orders#index"
	})
	f := s.one("gvl_hog")
	s.names(f, "GET reports#build", "GET reports#build causes 95 % of all waiting, on several threads; each hold costs others ",
		"; GET reports#build takes 95 % of the GVL, GET orders#index waits ")
	if f.Title != "Route hogs the GVL" {
		t.Errorf("title: %s", f.Title)
	}
	for i := range 12 { // 1.35 times as much as the next route, a little under the threshold
		goOn(s, 1, 11+i%2)
		if f := s.one("gvl_hog"); f.UntilNS != 0 {
			t.Errorf("after %d s at nine tenths of its threshold it has ended: %s", i, f)
		}
	}
	for name, endpoint := range map[string]func(sampler.ThreadID) string{
		"one route": func(sampler.ThreadID) string { return "GET a#b" }, "nobody": func(sampler.ThreadID) string { return "" },
		"a route each": func(id sampler.ThreadID) string { return "GET r#" + string(rune('a'+id)) },
	} {
		s := play(endpoint)
		if slices.Contains(s.ids(), "gvl_hog") {
			t.Errorf("%s: %v", name, s.one("gvl_hog"))
		}
	}
}

// TestFindingsNameWhoAsks: the finding about a slow service names the route that waits most for the service. It also
// names the statement that this route waits for now.
func TestFindingsNameWhoAsks(t *testing.T) {
	db := sampler.Peer{Kind: sampler.PeerTCP, Remote: "10.0.0.5:5432", Local: "10.0.0.1", Service: "PostgreSQL"}
	s := newScene(t)
	long := "SELECT " + strings.Repeat("orders.id, ", 20) + "1"
	for id := sampler.ThreadID(1); id <= 4; id++ {
		s.serve(id, "GET orders#index", long)
	}
	s.serve(5, "GET other#show", "")
	s.readers(9*gvltest.Sec, 5, s.dict.InternPeer(db), "c:PG::Connection#exec", "Order.find")
	f := s.one("db_slow")
	s.names(f, "GET orders#index", "80 % of that for GET orders#index")
	if first := f.Threads[0]; first != 5 && !strings.HasPrefix(f.Next, "it asks now: SELECT orders.id, ") || strings.Contains(f.Next, long) {
		t.Errorf("next: %s", f.Next)
	}

	s = newScene(t)
	for id := sampler.ThreadID(1); id <= 5; id++ {
		s.serve(id, "GET r#"+string(rune('a'+id)), "")
	}
	s.readers(9*gvltest.Sec, 5, s.dict.InternPeer(db), "c:PG::Connection#exec", "Order.find")
	s.names(s.one("db_slow"), "")
}

// TestFindingsNameForWhomALockIsHeld: a finding that names the holder of a lock also names the route that this thread
// serves while it holds the lock.
func TestFindingsNameForWhomALockIsHeld(t *testing.T) {
	s := newScene(t)
	s.serve(1, "POST checkout#create", "")
	s.play(8*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		list := []sampler.Thread{s.at(gvltest.Answered(gvltest.Released(1), s.now, "read", 5, 0), s.stack("c:IO#read", "Cache#fetch"))}
		for id := sampler.ThreadID(2); id < 8; id++ {
			list = append(list, waitsForLock(id, 1, 0xa8))
		}
		list[1+i%6] = s.at(gvltest.Asleep(sampler.ThreadID(2+i%6), sampler.Stopped, sampler.BlockSleep), 0)
		return 0, list
	})
	s.names(s.one("lock_convoy"), "POST checkout#create", "held by Cache#fetch → IO#read (thread 1, app.rb:10), which is waiting for read, for POST checkout#create")

	s = newScene(t)
	s.named(1, "puma 1", false)
	s.serve(1, "GET a#b", "")
	s.play(2*gvltest.Sec, func(int) (sampler.ThreadID, []sampler.Thread) {
		return 0, []sampler.Thread{waitsForLock(1, 2, 0xa8), waitsForLock(2, 1, 0xc0)}
	})
	s.names(s.one("deadlock"), "GET a#b", "puma 1 (GET a#b) waits for Mutex 0xa8")
}

// waitsForLock returns a thread that waits for a Mutex that another thread holds.
func waitsForLock(id, holder sampler.ThreadID, object uint64) sampler.Thread {
	th := gvltest.Asleep(id, sampler.StoppedForever, sampler.BlockMutex)
	th.Blocked.Object, th.Blocked.Holder = object, holder
	return th
}
