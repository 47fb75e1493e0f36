package ruby

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

//go:embed testdata/shapes.rb
var shapesProgram string

// shapes checks the requests that ddtop reports. The program's threads are named "shape K NAME", where NAME is the form
// of their requests' environments. Their requests have the paths "/K/NUMBER".
type shapes struct {
	rd *Reader
	// found has, by the thread's name, how often ddtop reported the thread's request. all has, by this name, how often
	// it read the thread's stack.
	found, all map[string]int
	last       map[sampler.ThreadID]int
	paths      map[sampler.WorkNumber]string
	// numbers has the number that ddtop gave to each request, by the request's path. It is for requests that the
	// program mounts while they run: the program moves the beginning of the path to another variable. While it moves
	// the path, ddtop cannot see all of it.
	numbers map[string]sampler.WorkNumber
	// moves is true if compactions move the requests in memory. ddtop then takes a moved request for a new one, with
	// another number.
	moves bool
}

func (c *shapes) see(th *sampler.Thread) error {
	info, _ := c.rd.dict.Thread(th.ID)
	shape, ok := strings.CutPrefix(info.Name, "shape ")
	w := c.rd.dict.Work(th.Serving.Work)
	if !ok {
		if w.Number != 0 && info.Name != "" { // if Name is empty, ddtop may not have read the thread's name yet
			return fmt.Errorf("thread %q serves %+v", info.Name, w)
		}
		if info.Name != "" && info.Name != "none" {
			return fmt.Errorf("a thread is named %q", info.Name)
		}
		c.all[info.Name]++
		return nil
	}
	c.all[shape]++
	if w.Number == 0 {
		return nil
	}
	k, name, _ := strings.Cut(shape, " ")
	c.found[shape]++
	path, query, _ := strings.Cut(w.Values, "?q=")
	rest, ok := strings.CutPrefix(path, "/"+k+"/")
	route := "GET /:id/:id"
	switch name {
	case "bad":
		rest, ok = strings.CutPrefix(rest, "\\xFF\x1b[2J\r\n\u202e")
	case "merged": // half of the requests run in a frame whose environment has another request's path
		if strings.HasPrefix(path, "/wrong/wrong") {
			return nil
		}
	case "remounted":
		if old := c.numbers[path]; old != 0 && old != w.Number && !c.moves {
			return fmt.Errorf("%q was request %d and is %d", path, old, w.Number)
		}
		// skip the rest of the check, because the program is just moving the path
		if c.numbers[path] = w.Number; strings.HasPrefix(path, "/"+k+"/"+k+"/") || strings.Count(path, "/") == 1 {
			c.last[th.ID] = 0
			return nil
		}
	case "huge":
		if long := "GET /" + strings.Repeat("r", 199) + "…"; w.Endpoint == long {
			route = long
		}
	}
	n, err := strconv.Atoi(rest)
	switch {
	case !ok || err != nil || query != rest && path != w.Values: // the program may set the query later than the path
		return fmt.Errorf("thread %q serves %q", info.Name, w.Values)
	case w.Endpoint != route || w.Kind != sampler.WorkRequest || w.BeforeNS >= w.SinceNS:
		return fmt.Errorf("thread %q serves %+v", info.Name, w)
	case n < c.last[th.ID]:
		return fmt.Errorf("thread %q serves %q after the %d.", info.Name, w.Values, c.last[th.ID])
	case c.paths[w.Number] != "" && c.paths[w.Number] != path:
		return fmt.Errorf("request %d was %q and is %q", w.Number, c.paths[w.Number], path)
	}
	c.paths[w.Number], c.last[th.ID] = path, n
	return nil
}

// TestServingShapes: a request's environment (the Hash with its data) can have many forms. The program has a thread for
// each form. ddtop must report the thread's own request or none, and must report it at least a few times.
func TestServingShapes(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		for _, mode := range []string{"plain", "compact"} {
			if mode == "compact" && !r.AtLeast(3, 3) {
				continue // skip Ruby 3.1: with compaction, Ruby itself crashes about once in a few 100 s
			}
			t.Run(mode, func(t *testing.T) {
				p := r.Start(t, shapesProgram, rubytest.Options{Args: []string{mode}})
				p.Expect(t, "ready")
				raceShapes(t, openReaderWith(t, p.PID, Options{Values: true}), raceSamples(t)/4, mode == "compact")
			})
		}
	})
}

// raceShapes takes samples until two things are true. ddtop has found requests for threads as often as the parameter
// want says, and it has found requests with each form of environment several times.
func raceShapes(t *testing.T, rd *Reader, want int, moves bool) {
	const (
		kinds = 20 // number of shapes
		each  = 5
	)
	c := shapes{rd: rd, found: map[string]int{}, all: map[string]int{}, last: map[sampler.ThreadID]int{}, paths: map[sampler.WorkNumber]string{},
		numbers: map[string]sampler.WorkNumber{}, moves: moves}
	told := func() (sum, enough int) {
		for _, n := range c.found {
			if sum += n; n >= each {
				enough++
			}
		}
		return sum, enough
	}
	var s sampler.Sample
	deadline := time.Now().Add(raceTime)
	for time.Now().Before(deadline) {
		if sum, enough := told(); sum >= want && enough == kinds && c.all["none"] > each {
			break
		}
		if err := rd.Read(sampler.StackTick, &s); notNow(err) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		for j := range s.Threads {
			if th := &s.Threads[j]; th.Quality&sampler.StackFresh != 0 && th.Quality&sampler.StackFailed == 0 {
				if err := c.see(th); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	sum, enough := told()
	rubytest.Report(t, "%d threads of samples with a request of %d shapes: %v of %v", sum, enough, c.found, c.all)
	if sum < want || enough < kinds {
		rubytest.TooSeldom(t, "%d threads of samples with a request of %d shapes: %v of %v", sum, enough, c.found, c.all)
	}
}
