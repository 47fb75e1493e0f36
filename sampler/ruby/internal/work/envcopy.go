package work

import (
	"errors"
	"math/bits"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
)

const (
	// maxCopies limits in how many variables ddtop searches for a copy of a request's Rack environment. The search
	// begins at the innermost frame.
	maxCopies = 4
	// maxCopyLooks limits how often ddtop searches for a copy of one Rack environment. It searches at the 1st, 2nd,
	// 4th, 8th … reading of the thread's stack. So most searches are at the beginning, because a framework finds its
	// route early in a request.
	maxCopyLooks = 12
)

// requestProof identifies a request by three objects that the server made for it: REQUEST_URI, PATH_INFO and the
// method. A copy of the request's environment has the same objects, and the environment of another request has other
// objects. If an application is mounted below a path, this part of the path moves from PATH_INFO to SCRIPT_NAME. In
// this case the text of both together is compared instead.
type requestProof struct {
	uri, method, path, whole uint64
}

// lookForCopy searches for the route of a request whose Rack environment has no route. A middleware may pass on a copy
// of the environment (env.dup, env.merge). Frameworks then write the route into the copy.
func (f *Finder) lookForCopy(s *State, fr *Frames) {
	t := s.task
	if !t.guessed || t.copied != "" || t.proof.uri == 0 || !f.objects.IsObject(t.proof.uri) || fr.Partial || fr.Truncated {
		return
	}
	t.looks++
	if bits.OnesCount(t.looks) != 1 || t.looks >= 1<<maxCopyLooks {
		return
	}
	var endpoint string
	err := f.onCredit(func() (err error) {
		endpoint, err = f.findCopy(s, fr)
		return err
	})
	if errors.Is(err, errPutOff) {
		t.looks-- // try again at the next reading
	}
	if err != nil || endpoint == "" {
		return
	}
	f.rename(t, endpoint, fr.NowNS)
}

// findCopy searches for a copy of the Rack environment of s.task. It searches the frames that the task's frame has
// called, from the innermost frame outward. It returns the route in the copy, or "" if there is no copy, or if the copy
// has no route.
func (f *Finder) findCopy(s *State, fr *Frames) (endpoint string, err error) {
	candidates := 0
	err = f.eachScope(fr, min(fr.count()-1-len(s.outer)/fr.Size, maxInner), func(scope *code.Scope) (done bool, err error) {
		local := f.site(scope).env - 1
		if local < 0 {
			return false, nil
		}
		if candidates++; candidates > maxCopies {
			return true, nil
		}
		f.frame = frameOf(fr, fr.inner(scope.Frame), fr.Raw[scope.Frame*fr.Size:])
		ends := false
		_, err = f.settled(func() bool {
			endpoint, ends = f.readCopy(s, scope.Locals.At(scope.EP, local))
			return true
		})
		return ends || endpoint != "", err
	})
	return endpoint, err
}

// readCopy reads the route from the Hash in the variable at slot, if this Hash is a copy of the environment of s.task.
// It also notes the memory that shows that the environment still belongs to the task. ends is true if the Hash is the
// environment itself, which ends the search.
func (f *Finder) readCopy(s *State, slot attach.Address) (endpoint string, ends bool) {
	f.notes = append(f.notes, s.from.Witnesses()...)
	v := f.word(slot)
	if f.failed == nil && v == s.task.key.hash {
		return "", true
	}
	var values [envKeys]uint64
	proof := &s.task.proof
	if !f.lookUp(v, envNames[:], values[:]) || values[envURI] != proof.uri || values[envMethod] != proof.method {
		return "", false
	}
	if values[envOriginalPath] != 0 { // the route in the copy is the error page's (exceptionStatus)
		return "", false
	}
	var texts [envKeys]string
	f.quietly(func() {
		for _, i := range [...]int{envMethod, envPath, envScript, envSinatra, envPattern} {
			texts[i] = f.text(values[i], maxText)
		}
	})
	env := f.envOf(&values, &texts)
	if f.failed != nil || values[envPath] != proof.path && sum(env.Script+env.Path) != proof.whole {
		return "", false
	}
	method, rest, guessed := route(&env)
	if guessed {
		return "", false
	}
	return join(method, rest), false
}
