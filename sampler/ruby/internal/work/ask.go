package work

import (
	"strconv"
	"strings"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
)

const (
	// maxVerb limits the length of a Redis command's name, and maxHost the length of a host's name, in bytes.
	maxVerb, maxHost = 24, 253
	// maxInspected limits how many elements of an Array inspect shows. maxInspectedDepth limits how many levels of
	// Arrays within Arrays it shows.
	maxInspected, maxInspectedDepth = 16, 3
	// maxValue limits how many bytes of a value inspect writes.
	maxValue = 200
)

// lookForStatement sets s.asked to the statement or command that the thread is sending to a database or another server.
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

// asking has the address of a variable that holds a statement, and the function ask that reads the statement.
type asking struct {
	at   attach.Address
	self uint64
	ask  asker
}

// asks stores in s the statement in the variable of a, which belongs to the frame f.frame. It does not read the
// statement again if s already has it, and if the variable's memory has not changed. done is true if the variable holds
// a statement.
func (f *statements) asks(s *State, fr *Frames, a *asking) (done bool, err error) {
	s.askedFrame.set(f.frame)
	if a.at == s.askedAt && !s.anew && f.unchanged(&s.askedFrom) {
		return true, nil
	}
	s.askedFrom.Unplan()
	var text string
	found, err := f.settled(func() bool {
		text = a.ask(f, a.self, a.at)
		return text != ""
	})
	if err != nil || !found {
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

// findAsking searches for a frame that holds a statement, from the innermost frame outward. It goes outward only
// through code of client libraries and of wrappers around them.
func (f *statements) findAsking(fr *Frames) (found code.Scope, asks []candidate, err error) {
	err = f.eachScope(fr, min(fr.count()-1, maxInner), func(scope *code.Scope) (done bool, err error) {
		site := f.site(scope)
		found, asks = *scope, site.asks
		return !site.carrier || len(asks) > 0, nil
	})
	return found, asks, err
}

func (f *statements) askSQL(_ uint64, at attach.Address) string {
	v := f.word(at)
	if !f.is(v, heap.TypeString) {
		return ""
	}
	text, cut, err := f.objects.Prefix(v, maxRawStatement)
	switch {
	case f.fails(err):
		return ""
	case f.values:
		return sampler.CutName(strings.Join(strings.Fields(text), " "))
	}
	return SQL(text, cut)
}

// askCommand reads a Redis command: an Array whose first element is the command's name.
func (f *statements) askCommand(_ uint64, at attach.Address) string { return f.command(f.word(at)) }

// askCommands reads a list of Redis commands. The result has the first command and the number of the other commands:
// "GET and 2 more".
func (f *statements) askCommands(_ uint64, at attach.Address) string {
	_, n, first := f.list(f.word(at))
	text := f.command(first)
	if text != "" && n > 1 {
		text += " and " + strconv.FormatUint(n-1, 10) + " more"
	}
	return text
}

// list returns the address of an Array's elements, their number n, and the first element. n is zero if v is an empty
// Array or no Array.
func (f *reader) list(v uint64) (at attach.Address, n, first uint64) {
	if !f.is(v, heap.TypeArray) {
		return 0, 0, 0
	}
	at, n, err := f.objects.Array(v)
	if f.fails(err) || n == 0 {
		return 0, 0, 0
	}
	return at, n, f.word(at)
}

func (f *statements) command(v uint64) string {
	at, n, first := f.list(v)
	verb := Command(f.text(first, maxVerb+1))
	if f.values && verb != "" {
		for i := uint64(1); i < min(n, maxInspected); i++ {
			verb += " " + f.inspect(f.word(at+attach.Address(8*i)), 1)
		}
	}
	return verb
}

// askCache reads the name of the memcached operation that Dalli requests.
func (f *statements) askCache(_ uint64, at attach.Address) string {
	name := f.text(f.word(at), maxVerb+1)
	if !cacheCommands[name] {
		return ""
	}
	return name
}

// cacheCommands are memcached's operations, as Dalli names them. Read-only.
var cacheCommands = wordSet(`get gat set add replace delete incr decr append prepend cas touch flush noop stats version multi_get`)

// askHTTP reads a request of Net::HTTP. The result has the request's method and the connection's host.
func (f *statements) askHTTP(self uint64, at attach.Address) string {
	v := f.word(at)
	if !f.is(v, heap.TypeObject) {
		return ""
	}
	method := f.ivar(v, "@method")
	if method == 0 {
		return ""
	}
	host := f.ivar(self, "@address")
	if host == 0 {
		return ""
	}
	verb, name := Method(f.text(method, maxMethod+1)), Host(f.text(host, maxHost+1))
	if verb == "" || name == "" {
		return ""
	}
	if f.values {
		name += f.text(f.ivar(v, "@path"), maxText)
	}
	return verb + " " + name
}

// Host returns s if it can be the name or address of a host, else "".
func Host(s string) string {
	if len(s) > maxHost || !hasOnly(s, ".-_:[]") {
		return ""
	}
	return s
}

// inspect returns a value as text. It is called only if the user wants to see values.
func (f *reader) inspect(v uint64, depth int) string {
	if v == 0 || depth > maxInspectedDepth {
		return "…"
	}
	n, err := f.objects.Int(v)
	if err == nil {
		return strconv.FormatInt(n, 10)
	}
	f.lacks(err)
	array, err := f.objects.Is(v, heap.TypeArray)
	switch {
	case f.lacks(err):
		return ""
	case array:
		return f.inspectArray(v, depth)
	}
	if isString, err := f.objects.Is(v, heap.TypeString); !f.lacks(err) && isString {
		if s, cut, err := f.objects.Prefix(v, maxValue); !f.lacks(err) && err == nil {
			if cut {
				s += "…"
			}
			return strconv.Quote(s)
		}
	}
	if s := f.text(v, maxValue); s != "" {
		return ":" + s
	}
	return "…"
}

func (f *reader) inspectArray(v uint64, depth int) string {
	at, n, err := f.objects.Array(v)
	if err != nil {
		f.lacks(err)
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
			f.lacks(err)
			break
		}
		b.WriteString(f.inspect(w, depth+1))
	}
	b.WriteByte(']')
	return b.String()
}
