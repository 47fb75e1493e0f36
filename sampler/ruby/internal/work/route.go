package work

import (
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// These constants limit the patterns that ddtop makes from paths.
const (
	// maxPath limits the length of a pattern, in bytes. "…" replaces what is beyond the limit.
	maxPath = 200
	// maxSegments limits the number of parts between slashes. "…" replaces the parts beyond the limit.
	maxSegments = 16
	// maxWord is the longest part of a path that can be shown as a word, in bytes.
	maxWord = 40
	// maxLetters limits how many letters one word in a part of a path has. maxConsonants limits how many consonants can
	// follow each other.
	maxLetters, maxConsonants = 20, 4
	// maxWords limits how many words a part of a path has. maxCodeWords limits how many words the name of a controller
	// or an action has.
	maxWords, maxCodeWords = 3, 8
	// maxMethod limits the length of an HTTP method, in bytes.
	maxMethod = 20
	// maxCode limits the length of the name of a controller or of an action, in bytes.
	maxCode = 120
)

// ID replaces a part of a path that may be a value, because it does not look like a word.
const ID = ":id"

// route returns the method and the route of a request, such as "GET" and "orders#index", or "GET" and "/orders/:id".
// guessed is true if no framework has named the route. The result rest is then the pattern of the path.
func route(env *Env) (method, rest string, guessed bool) {
	method = Method(env.Method)
	switch {
	case codeName(env.Controller, "/_") && codeName(env.Action, "_?!"):
		path := env.Script + env.Path
		return method, programsOwn(env.Controller, path) + "#" + programsOwn(env.Action, path), false
	case env.SinatraRoute != "":
		// The value of sinatra.route has the form "GET /orders/:id". If the route is a regular expression, it is shown
		// unchanged.
		verb, pattern, ok := strings.Cut(env.SinatraRoute, " ")
		if ok && Method(verb) == verb {
			return verb, Pattern(env.Script) + cut(pattern), false
		}
	case strings.HasPrefix(env.RoutePattern, "/"):
		return method, Pattern(env.Script) + cut(strings.TrimSuffix(env.RoutePattern, "(.:format)")), false
	}
	return method, Pattern(env.Script + env.Path), true
}

// programsOwn returns the name of a controller or an action, but only the parts that the program has chosen. It
// replaces parts that also occur in the request's path and do not look like words. With a route like "/pages/:action",
// the client chooses these parts.
func programsOwn(name, path string) string {
	if p, err := url.PathUnescape(path); err == nil {
		path = p
	} else {
		path = name
	}
	parts := strings.Split(name, "/")
	for i, p := range parts {
		if !word(strings.Trim(p, "?!_"), maxCodeWords) && strings.Contains(path, p) {
			parts[i] = ID
		}
	}
	return strings.Join(parts, "/")
}

// Env has the values of a request's environment (the Rack specification). A missing value is "".
type Env struct {
	// Method is the value of REQUEST_METHOD, Script of SCRIPT_NAME, Path of PATH_INFO, and Query of QUERY_STRING.
	Method, Script, Path, Query string
	// Controller and Action are the names of the controller and the action in Rails or Hanami.
	Controller, Action string
	// SinatraRoute is the value of sinatra.route: a method and a pattern. RoutePattern is only a pattern, as Rails 7.1
	// and Grape store it.
	SinatraRoute, RoutePattern string
}

func join(method, rest string) string {
	if method == "" || rest == "" {
		return method + rest
	}
	return method + " " + rest
}

// methods are the methods of HTTP and WebDAV. Read-only.
var methods = wordSet(`GET HEAD POST PUT PATCH DELETE OPTIONS TRACE CONNECT QUERY LINK UNLINK PURGE PROPFIND PROPPATCH MKCOL COPY MOVE LOCK
UNLOCK SEARCH REPORT MKCALENDAR ACL BIND REBIND UNBIND CHECKIN CHECKOUT UNCHECKOUT MERGE MKACTIVITY MKWORKSPACE UPDATE LABEL
SUBSCRIBE UNSUBSCRIBE NOTIFY`)

// Method returns s if it is an HTTP method, else "". The check is needed because a client can send any text.
func Method(s string) string {
	if !methods[s] {
		return ""
	}
	return s
}

// codeName reports whether s can be a name in code: ASCII letters, digits, and the characters in the parameter also.
func codeName(s, also string) bool { return s != "" && len(s) <= maxCode && hasOnly(s, also) }

// hasOnly reports whether s has only ASCII letters, digits, and the characters in the parameter also.
func hasOnly(s, also string) bool {
	for i := range len(s) {
		if !letter(s[i]) && !digit(s[i]) && strings.IndexByte(also, s[i]) < 0 {
			return false
		}
	}
	return true
}

// cut shortens a pattern to maxPath bytes. It is needed because the target can have a pattern of any length.
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

// Pattern returns a path with ":id" in place of each part that may be a value: "/orders/:id". It leaves out the query
// string.
func Pattern(path string) string {
	if i := strings.IndexAny(path, "?#;"); i >= 0 {
		path = path[:i]
	}
	if path == "" {
		return ""
	}
	if len(path) >= maxText { // path may be the beginning of a longer path
		path = path[:strings.LastIndexByte(path, '/')+1] + ID
	}
	if path[0] != '/' { // a host, or something unknown to Rack
		path = ID
	}
	var b strings.Builder
	follows := nothing
	for i, part := range strings.Split(path, "/") {
		if i > maxSegments || b.Len() > maxPath {
			b.WriteString("/…")
			break
		}
		if i > 0 {
			b.WriteByte('/')
		}
		like := word(part, maxWords)
		if like && (follows == nothing || part == "" || tokenVerbs[part] || follows == secret && tokenKinds[part]) {
			b.WriteString(part)
		} else {
			b.WriteString(ID)
		}
		// A secret can also come one part later. In "/invite/accept/x" it follows an action, and in "/verify/email/x" a
		// kind.
		switch next := behind(part); {
		case next != nothing || follows != secret:
			follows = next
		case !like && !onTheWay(part):
			follows = nothing
		}
	}
	return b.String()
}

// onTheWay reports whether a part has only digits and dots. A secret may follow such a part, as in
// "/invitations/42/banana" and "/reset/../x".
func onTheWay(part string) bool { return strings.Trim(part, ".0123456789") == "" }

// word reports whether a part of a path looks like a part of a route. It must consist of lower-case words. The
// parameter words is the largest number of them. The part may end in a file extension or a digit. Numbers, UUIDs,
// tokens, addresses, titles and names with capitals do not count as words.
func word(s string, words int) bool {
	if len(s) > maxWord {
		return false
	}
	if s == "" || version(s) || s == ".well-known" {
		return true
	}
	if stem, ending, ok := strings.Cut(s, "."); ok {
		if !endings[ending] {
			return false
		}
		s = stem
	}
	parts := strings.FieldsFunc(s, func(r rune) bool { return r == '-' || r == '_' })
	if len(parts) > words || len(parts) == 0 || len(s) >= 8 && hexDigits(s) {
		return false
	}
	for _, p := range parts {
		if !plainWord(p) {
			return false
		}
	}
	return true
}

// plainWord reports whether s looks like a word of a language and not like a token. It must be lower case and have
// vowels: oauth2, but not a1b2.
func plainWord(s string) bool {
	if n := len(s) - 1; n >= 4 && digit(s[n]) {
		s = s[:n]
	}
	if len(s) > maxLetters {
		return false
	}
	vowels, run := 0, 0
	for i := range len(s) {
		switch {
		case s[i] < 'a' || s[i] > 'z':
			return false
		case strings.IndexByte("aeiouy", s[i]) >= 0:
			vowels++
			run = 0
		default:
			if run++; run > maxConsonants {
				return false
			}
		}
	}
	return vowels > 0 || len(s) < 4
}

// endings are the file extensions that a path may have. Read-only.
var endings = wordSet(`html htm json xml js mjs css txt csv pdf png jpg jpeg gif svg ico webp rss atom ics zip gz map woff ttf php rb yml`)

// tokenVerbs are words that are shown even where a path usually has a name or a secret. For example, "/reset/new" is
// not shown as "/reset/:id". Read-only.
var tokenVerbs = wordSet(`new edit create update delete destroy show index me self current all list search count export import bulk login
logout signin signup callback callbacks refresh revoke reset forgot confirm verify resend success failure done complete check status start token
request password settings accept decline reject approve redeem claim activate unlock view complete authorize latest applications sign_in
sign_out sign_up sign-in sign-out sign-up invitation confirmation session registration redirect proxy members well-known introspect userinfo`)

// tokenKinds are words that are shown even where a path usually has a secret, because they only name the secret's kind.
// For example, "/verify/email/x" is shown as "/verify/email/:id". Read-only.
var tokenKinds = wordSet(`email emails phone sms mobile device account user team api oauth google github gitlab bitbucket facebook
apple microsoft okta slack stripe paypal twilio shopify sendgrid mailgun`)

// version reports whether s is a version such as v1 or v2.1.
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

// maxQueuedS is the longest plausible time of a request in a queue, in s. If the result is longer, the number is not a
// time, or it comes from the clock of another machine.
const maxQueuedS = 3600

// Queued returns how long a request had waited when it was first seen, in ns. nowS is the time of day when it was first
// seen, in s. The headers X-Request-Start and X-Queue-Start hold the time at which a load balancer accepted the request
// ("t=1700000000.123", in s, ms, µs or ns). Queued returns zero if the time is not known.
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

// queuedWithin does the same as Queued, but for a number. at is a time of day in s, ms, µs or ns. It must be at most
// maxS seconds before nowS.
func queuedWithin(at, nowS float64, maxS float64) int64 {
	for range 4 {
		if wait := nowS - at; wait >= 0 && wait <= maxS {
			return int64(wait * 1e9)
		}
		at /= 1000
	}
	return 0
}
