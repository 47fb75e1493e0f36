package work

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Named limits of what is made of a path.
const (
	// maxPath bounds a path, in bytes; what follows is "…".
	maxPath = 200
	// maxSegments bounds the parts of a path between slashes; what follows is "…".
	maxSegments = 16
	// maxWord is how long a part of a path may be and still be taken for a word, in bytes.
	maxWord = 40
	// maxMethod bounds an HTTP method, in bytes.
	maxMethod = 20
	// maxCode bounds the name of a controller or of an action, in bytes.
	maxCode = 120
)

// ID stands in a path for what is no word.
const ID = ":id"

// Route is the route of a request, as its framework has named it or as its path lets it be guessed: "GET orders#index",
// "GET /orders/:id".
func Route(env *Env) string {
	method := Method(env.Method)
	switch {
	case codeName(env.Controller, "/_") && codeName(env.Action, "_?!"):
		return join(method, env.Controller+"#"+env.Action)
	case env.SinatraRoute != "":
		// "GET /orders/:id"; a route that is a regular expression is said as such.
		verb, pattern, ok := strings.Cut(env.SinatraRoute, " ")
		if ok && Method(verb) == verb {
			return join(verb, Pattern(env.Script)+cut(pattern))
		}
	case strings.HasPrefix(env.RoutePattern, "/"):
		return join(method, Pattern(env.Script)+cut(strings.TrimSuffix(env.RoutePattern, "(.:format)")))
	}
	return join(method, Pattern(env.Script+env.Path))
}

// Env is what a request's environment says (the Rack specification), "" where it says nothing.
type Env struct {
	// Method, Script and Path are REQUEST_METHOD, SCRIPT_NAME and PATH_INFO; Query is QUERY_STRING.
	Method, Script, Path, Query string
	// Controller and Action are Rails' and Hanami's.
	Controller, Action string
	// SinatraRoute is sinatra.route: a method and a pattern. RoutePattern is the pattern alone, as Rails 7.1 and Grape leave it.
	SinatraRoute, RoutePattern string
}

func join(method, rest string) string {
	if method == "" {
		return rest
	}
	if rest == "" {
		return method
	}
	return method + " " + rest
}

// Method is an HTTP method as it may be shown: capital letters, else "".
func Method(s string) string {
	if len(s) == 0 || len(s) > maxMethod {
		return ""
	}
	for i := range len(s) {
		if (s[i] < 'A' || s[i] > 'Z') && s[i] != '-' {
			return ""
		}
	}
	return s
}

// codeName reports whether s can be the name of code: ASCII letters, digits and what else is given.
func codeName(s, also string) bool {
	if s == "" || len(s) > maxCode {
		return false
	}
	for i := range len(s) {
		if !letter(s[i]) && !digit(s[i]) && strings.IndexByte(also, s[i]) < 0 {
			return false
		}
	}
	return true
}

// cut bounds a pattern, which is the program's own text.
func cut(s string) string {
	if len(s) <= maxPath {
		return s
	}
	n := maxPath
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// Pattern is a path with ":id" for each part that may be the value of something: "/orders/:id". It ends at a query string.
func Pattern(path string) string {
	if i := strings.IndexAny(path, "?#;"); i >= 0 {
		path = path[:i]
	}
	if path == "" {
		return ""
	}
	var b strings.Builder
	for i, part := range strings.Split(path, "/") {
		if i > maxSegments || b.Len() > maxPath {
			b.WriteString("/…")
			break
		}
		if i > 0 {
			b.WriteByte('/')
		}
		if word(part) {
			b.WriteString(part)
		} else {
			b.WriteString(ID)
		}
	}
	return b.String()
}

// word reports whether a part of a path is one that routes are made of: lower-case words, with a version or an ending. Numbers, UUIDs,
// hexadecimal digits, tokens, names of people and addresses are none.
func word(s string) bool {
	if len(s) > maxWord {
		return false
	}
	if version(s) {
		return true
	}
	digits, capitals, vowels, run := 0, 0, 0, 0
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
			if i > 0 && digit(s[i-1]) {
				return false
			}
			if c <= 'Z' {
				if capitals++; capitals > 3 || i > 0 && s[i-1] <= 'Z' && letter(s[i-1]) {
					return false // many capitals, or one after another
				}
			}
			if strings.IndexByte("aeiouyAEIOUY", c) >= 0 {
				vowels++
				run = 0
			} else if run++; run > 5 {
				return false // no word has so many consonants
			}
		case digit(c):
			digits++
			run = 0
		case c == '_' || c == '-':
			run = 0
		case c == '.':
			run = 0
			if i == 0 && !strings.HasPrefix(s, ".well-known") {
				return false
			}
		default:
			return false
		}
	}
	// oauth2, s3, index.html; but not a1b2, 2024-01-01, deadbeef00.
	if digits > 2 || digits > 0 && (digit(s[0]) || digits*2 > len(s)) {
		return false
	}
	return len(s) < 8 || !hexDigits(s) && vowels > 0
}

// version reports whether s is v1, v2.1.
func version(s string) bool {
	if len(s) < 2 || len(s) > 6 || s[0] != 'v' {
		return false
	}
	for i := 1; i < len(s); i++ {
		if !digit(s[i]) && (s[i] != '.' || i == 1) {
			return false
		}
	}
	return true
}

func hexDigits(s string) bool {
	for i := range len(s) {
		if c := s[i] | 0x20; !digit(s[i]) && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func digit(c byte) bool  { return c >= '0' && c <= '9' }
func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// maxQueuedS is how long a request may have queued, in s: what says more is not a time, or another machine's clock.
const maxQueuedS = 3600

// Queued is for how long a request had waited when it was first seen at nowS, in ns: X-Request-Start and X-Queue-Start hold the time
// at which a load balancer took it ("t=1700000000.123", in s, ms, µs or ns). 0: it can't be told. nowS is the time of day in s.
func Queued(header string, nowS float64) int64 {
	text := strings.TrimPrefix(strings.TrimSpace(header), "t=")
	if len(text) > 32 || strings.Trim(text, "0123456789.") != "" {
		return 0
	}
	at, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return queuedWithin(at, nowS, maxQueuedS)
}

// queuedWithin is Queued of a number: a time of day in s, ms, µs or ns, no longer ago than so many seconds.
func queuedWithin(at, nowS float64, maxS float64) int64 {
	for range 4 {
		if wait := nowS - at; wait >= 0 && wait <= maxS {
			return int64(wait * 1e9)
		}
		at /= 1000
	}
	return 0
}
