package work

import (
	"strconv"
	"strings"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

const (
	// maxVerb bounds a Redis command's name, and maxHost a host's, in bytes.
	maxVerb, maxHost = 24, 253
	// maxInspected bounds how many elements of an Array are written down, and maxInspectedDepth how deep.
	maxInspected, maxInspectedDepth = 16, 3
	// maxValue bounds what is written down of values, in bytes.
	maxValue = 200
)

// lookForStatement makes s.asked what the thread asks at the moment.
func (f *statements) lookForStatement(s *State, fr *Frames) error {
	if fr.Partial || fr.count() < 2 {
		f.askNothing(s)
		return nil
	}
	if asked := f.function(fr); asked.ask != nil {
		f.frame = frameOf(fr, fr.inner(0), fr.Raw)
		if done, err := f.asks(s, fr, &asked); done || err != nil {
			return err
		}
	}
	scope, candidates, err := f.findAsking(fr)
	if err != nil {
		return err
	}
	if len(candidates) > 0 {
		f.frame = frameOf(fr, fr.inner(scope.Frame), fr.Raw[scope.Frame*fr.Size:])
	}
	for _, c := range candidates {
		if done, err := f.asks(s, fr, &asking{at: scope.Locals.At(scope.EP, c.local), self: scope.Self, ask: c.ask}); done || err != nil {
			return err
		}
	}
	f.askNothing(s)
	return nil
}

// asking is where something says what a thread asks.
type asking struct {
	at   attach.Address
	self uint64
	ask  asker
}

// asks reads what is asked, of the frame f.frame, into s, unless what was read there the last time stands. done: it says so.
func (f *statements) asks(s *State, fr *Frames, a *asking) (done bool, err error) {
	s.askedFrame.set(f.frame)
	if a.at == s.askedAt && !s.anew && f.stands(&s.askedFrom) {
		return true, nil
	}
	s.askedFrom.Unplan()
	var text string
	found, err := f.settled(func() (found bool, err error) {
		text, found, err = a.ask(f, a.self, a.at)
		return found, err
	})
	if err != nil || !found || text == "" {
		return false, err
	}
	if text != s.askedText || s.asked == 0 {
		s.askedText, s.asked = text, f.dict.InternText(text)
	}
	s.askedAt = a.at
	s.askedFrom.Set(f.notes)
	if !f.paired(s, fr) {
		f.askNothing(s)
		return false, errChanged
	}
	return true, nil
}

func (f *statements) askNothing(s *State) {
	s.asked, s.askedText, s.askedAt = 0, "", 0
	s.askedFrom.Clear()
}

// findAsking searches the frames from the innermost outward for one that says what is asked: as far as they are code of clients.
func (f *statements) findAsking(fr *Frames) (scope code.Scope, asks []candidate, err error) {
	n := min(fr.count()-1, maxInner)
	for from := 0; from < n; from += innerStep {
		to := min(from+innerStep, n)
		scopes, err := f.code.Scopes(fr.Raw[from*fr.Size:to*fr.Size], f.scopes[:0])
		f.scopes = scopes[:0]
		if err != nil {
			return scope, nil, err
		}
		for i := range scopes {
			site := f.site(&scopes[i])
			if !site.carrier {
				return scope, nil, nil
			}
			if len(site.asks) > 0 {
				scopes[i].Frame += from
				return scopes[i], site.asks, nil
			}
		}
	}
	return scope, nil, nil
}

// askSQL reads a statement.
func (f *statements) askSQL(_ uint64, at attach.Address) (string, bool, error) {
	v, err := f.word(at)
	if err != nil {
		return "", false, err
	}
	if is, err := f.is(v, heap.TypeString); err != nil || !is {
		return "", false, err
	}
	text, cut, err := f.objects.Prefix(v, maxRawStatement)
	if err != nil {
		return "", false, err
	}
	if f.values {
		return sampler.CutName(strings.Join(strings.Fields(text), " ")), true, nil
	}
	return SQL(text, cut), true, nil
}

// askCommand reads a Redis command: an Array that begins with its name.
func (f *statements) askCommand(_ uint64, at attach.Address) (string, bool, error) {
	v, err := f.word(at)
	if err != nil {
		return "", false, err
	}
	return f.command(v)
}

// askCommands reads a list of Redis commands: the first one's name, and how many follow.
func (f *statements) askCommands(_ uint64, at attach.Address) (string, bool, error) {
	v, err := f.word(at)
	if err != nil {
		return "", false, err
	}
	_, n, first, err := f.list(v)
	if err != nil || n == 0 {
		return "", false, err
	}
	text, found, err := f.command(first)
	if found && n > 1 {
		text += " and " + strconv.FormatUint(n-1, 10) + " more"
	}
	return text, found, err
}

// list returns where an Array's elements are, how many there are, and the first; n is 0 where there are none, and for another object.
func (f *reader) list(v uint64) (at attach.Address, n, first uint64, err error) {
	if is, err := f.is(v, heap.TypeArray); err != nil || !is {
		return 0, 0, 0, err
	}
	if at, n, err = f.objects.Array(v); err != nil || n == 0 {
		return 0, 0, 0, err
	}
	first, err = f.word(at)
	return at, n, first, err
}

func (f *statements) command(v uint64) (string, bool, error) {
	at, n, first, err := f.list(v)
	if err != nil || n == 0 {
		return "", false, err
	}
	var failed error
	verb := Command(f.text(first, maxVerb+1, &failed))
	if f.values && verb != "" {
		for i := uint64(1); i < min(n, maxInspected); i++ {
			arg, err := f.word(at + attach.Address(8*i))
			if err != nil {
				return "", false, err
			}
			verb += " " + f.inspect(arg, 1, &failed)
		}
	}
	return verb, verb != "" && failed == nil, failed
}

// askCache reads what Dalli asks memcached: an operation's name.
func (f *statements) askCache(_ uint64, at attach.Address) (string, bool, error) {
	v, err := f.word(at)
	if err != nil {
		return "", false, err
	}
	var failed error
	name := f.text(v, maxVerb+1, &failed)
	return name, failed == nil && cacheCommands[name], failed
}

// cacheCommands are memcached's, in Dalli's words. Read-only.
var cacheCommands = wordSet(`get gat set add replace delete incr decr append prepend cas touch flush noop stats version multi_get`)

// askHTTP reads Net::HTTP's request: its method, and the connection's host.
func (f *statements) askHTTP(self uint64, at attach.Address) (string, bool, error) {
	v, err := f.word(at)
	if err != nil {
		return "", false, err
	}
	if is, err := f.is(v, heap.TypeObject); err != nil || !is {
		return "", false, err
	}
	method, ok, err := f.objects.Ivar(v, "@method")
	if err != nil || !ok {
		return "", false, err
	}
	host, ok, err := f.objects.Ivar(self, "@address")
	if err != nil || !ok {
		return "", false, err
	}
	var failed error
	verb, name := Method(f.text(method, maxMethod+1, &failed)), Host(f.text(host, maxHost+1, &failed))
	if f.values && verb != "" && name != "" {
		path, ok, err := f.objects.Ivar(v, "@path")
		if err != nil {
			return "", false, err
		}
		if ok {
			name += f.text(path, maxText, &failed)
		}
	}
	if failed != nil || verb == "" || name == "" {
		return "", false, failed
	}
	return verb + " " + name, true, nil
}

// Host is the name or address of a host as it may be shown, else "".
func Host(s string) string {
	if s == "" || len(s) > maxHost {
		return ""
	}
	for i := range len(s) {
		if !letter(s[i]) && !digit(s[i]) && strings.IndexByte(".-_:[]", s[i]) < 0 {
			return ""
		}
	}
	return s
}

// inspect writes down a value for whoever asked for values.
func (f *reader) inspect(v uint64, depth int, failed *error) string {
	if v == 0 || depth > maxInspectedDepth {
		return "…"
	}
	if n, err := f.objects.Int(v); err == nil {
		return strconv.FormatInt(n, 10)
	} else if err == view.ErrMissing {
		*failed = err
	}
	if is, err := f.objects.Is(v, heap.TypeArray); err == view.ErrMissing {
		*failed = err
		return ""
	} else if is {
		at, n, err := f.objects.Array(v)
		if err != nil {
			if err == view.ErrMissing {
				*failed = err
			}
			return "[…]"
		}
		var b strings.Builder
		b.WriteByte('[')
		for i := uint64(0); i < n; i++ {
			if i > 0 {
				b.WriteString(", ")
			}
			if i == maxInspected || b.Len() > maxValue {
				b.WriteString("…")
				break
			}
			w, err := f.objects.View.Word(at + attach.Address(8*i))
			if err != nil {
				if err == view.ErrMissing {
					*failed = err
				}
				break
			}
			b.WriteString(f.inspect(w, depth+1, failed))
		}
		b.WriteByte(']')
		return b.String()
	}
	if is, err := f.objects.Is(v, heap.TypeString); err == view.ErrMissing {
		*failed = err
	} else if is {
		if s, cut, err := f.objects.Prefix(v, maxValue); err == view.ErrMissing {
			*failed = err
		} else if err == nil {
			if cut {
				s += "…"
			}
			return strconv.Quote(s)
		}
	}
	if s := f.text(v, maxValue, failed); s != "" {
		return ":" + s
	}
	return "…"
}
