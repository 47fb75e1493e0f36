package work

import (
	"errors"
	"math/bits"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
)

const (
	// maxCopies is how many variables, from the innermost frame on, are looked at for a copy of an environment.
	maxCopies = 4
	// maxCopyLooks is how many looks there are for one, each after as many readings of the stack as there were before: a framework
	// finds its route early in a request.
	maxCopyLooks = 12
)

// requestProof is what an environment and its copy have in common, and no environment of another request: the objects that the server has made
// for REQUEST_URI and PATH_INFO, and the method's. In place of PATH_INFO's, what it says together with SCRIPT_NAME can be the same: where
// an application is mounted the beginning of the path moves there.
type requestProof struct {
	uri, method, path, whole uint64
}

// lookForCopy looks for the route of a request that has left none in its environment: a middleware that goes on with a copy of it (env.dup,
// env.merge) leaves frameworks that to write into.
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
		t.looks-- // at the next reading
	}
	if err != nil || endpoint == "" {
		return
	}
	f.teach(t, endpoint)
	t.copied, t.work.Endpoint, t.generation = endpoint, endpoint, 0
	f.seen(t, fr.NowNS)
}

// findCopy searches the frames within that which tells the task, from the innermost, for a copy of its environment, and returns the route
// that it says; "": there is none, or it says none either.
func (f *Finder) findCopy(s *State, fr *Frames) (endpoint string, err error) {
	n, candidates := min(fr.count()-1-len(s.outer)/fr.Size, maxInner), 0
	for from := 0; from < n; from += innerStep {
		to := min(from+innerStep, n)
		scopes, err := f.code.Scopes(fr.Raw[from*fr.Size:to*fr.Size], f.scopes[:0])
		f.scopes = scopes[:0]
		if err != nil {
			return "", err
		}
		for i := range scopes {
			scope := &scopes[i]
			local := f.site(scope).env - 1
			if local < 0 {
				continue
			}
			if candidates++; candidates > maxCopies {
				return "", nil
			}
			at := from + scope.Frame
			f.frame = frameOf(fr, fr.inner(at), fr.Raw[at*fr.Size:])
			ends := false
			_, err := f.settled(func() (found bool, err error) {
				endpoint, ends, err = f.readCopy(s, scope.Locals.At(scope.EP, local))
				return true, err
			})
			if err != nil || ends || endpoint != "" {
				return endpoint, err
			}
		}
	}
	return "", nil
}

// readCopy reads the route that a variable's Hash says, if it is a copy of the environment that s.task was read from; that it still is its
// task's environment is confirmed with it. ends: it is that one itself, so that those within go on with it.
func (f *Finder) readCopy(s *State, slot attach.Address) (endpoint string, ends bool, err error) {
	f.notes = append(f.notes, s.from.Witnesses()...)
	v, err := f.word(slot)
	if err != nil || v == s.task.key.hash {
		return "", err == nil, err
	}
	if is, err := f.is(v, heap.TypeHash); err != nil || !is {
		return "", false, err
	}
	var values [envKeys]uint64
	if err := f.objects.Lookup(v, envNames[:], values[:]); err != nil {
		return "", false, err
	}
	proof := &s.task.proof
	if values[envURI] != proof.uri || values[envMethod] != proof.method {
		return "", false, nil
	}
	var texts [envKeys]string
	var failed error
	f.quietly(func() {
		for _, i := range [...]int{envMethod, envPath, envScript, envSinatra, envPattern} {
			texts[i] = f.text(values[i], maxText, &failed)
		}
	})
	env := f.envOf(&values, &texts, &failed)
	if failed != nil {
		return "", false, failed
	}
	if values[envPath] != proof.path && sum(env.Script+env.Path) != proof.whole {
		return "", false, nil
	}
	method, rest, guessed := route(&env)
	if guessed {
		return "", false, nil
	}
	return join(method, rest), false, nil
}
