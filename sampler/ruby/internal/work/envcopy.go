package work

import (
	"errors"
	"math/bits"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
)

const (
	// maxCopies is how many variables, from the innermost frame on, are looked at for a copy of an environment.
	maxCopies = 4
	// maxCopyLooks is how many looks there are for one, each after as many readings of the stack as there were before:
	// a framework finds its route early in a request.
	maxCopyLooks = 12
)

// requestProof is what an environment and its copy have in common, and no environment of another request: the objects
// that the server has made for REQUEST_URI and PATH_INFO, and the method's. In place of PATH_INFO's, what it says
// together with SCRIPT_NAME can be the same: where an application is mounted the beginning of the path moves there.
type requestProof struct {
	uri, method, path, whole uint64
}

// lookForCopy looks for the route of a request that has left none in its environment: a middleware that goes on with a
// copy of it (env.dup, env.merge) leaves frameworks that to write into.
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

// findCopy searches the frames within the one that tells the task, from the innermost, for a copy of its environment.
// It returns the route that the copy says, "" if there is no copy or it says none.
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

// readCopy reads the route that a variable's Hash says, if it is a copy of the environment that s.task was read from.
// It also confirms that this still is its task's environment. ends: the Hash is that environment itself, so the frames
// within go on with it.
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
