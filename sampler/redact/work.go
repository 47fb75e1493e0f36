package redact

import (
	"regexp"
	"strings"

	"github.com/ddtop/ddtop/sampler"
)

// The texts that remain in a redacted view. They may come from a recording that anyone has written.
var (
	verbName   = regexp.MustCompile(`^[A-Z][A-Z_.-]{0,23}$`)
	actionName = regexp.MustCompile(`^[\w:]+#[\w:?!]+$`)
	className  = regexp.MustCompile(`^[A-Z][\w:]*$`)
)

// Work returns a Work without values. A controller's action and a job's class stay, as the names of methods do. A path
// can name a customer.
func (r *Redactor) Work(w sampler.Work) sampler.Work {
	w.Values = ""
	w.Endpoint, w.Path = r.endpoint(w.Kind, w.Endpoint), r.endpoint(w.Kind, w.Path)
	return w
}

func (r *Redactor) endpoint(kind sampler.WorkKind, name string) string {
	verb, path, ok := strings.Cut(name, " ")
	if !ok && !verbName.MatchString(verb) {
		verb, path = "", name
	}
	switch {
	case path == "" && verb == name: // a method alone, or nothing
	case kind == sampler.WorkJob && className.MatchString(name):
	case (verb == "" || verbName.MatchString(verb)) && actionName.MatchString(path):
	case sampler.IsStatus(verb): // no route matched
		return verb + " " + r.endpoint(kind, path)
	case verbName.MatchString(verb):
		return verb + " " + r.numbered("route", path)
	default:
		return r.numbered("route", name)
	}
	return name
}

// statement returns what stands for a statement: its verb with a pseudonym. Tables, hosts and keys go.
func (r *Redactor) Statement(s string) string {
	verb, rest, _ := strings.Cut(s, " ")
	upper := strings.ToUpper(verb)
	switch {
	case s == "" || verbName.MatchString(s):
		return s
	case !verbName.MatchString(upper) || upper != verb && !sqlVerb.MatchString(upper):
		return r.numbered("statement", s)
	}
	return upper + " " + r.numbered("statement", rest)
}

// sqlVerb matches the beginning of a statement that holds secrets only in literals.
var sqlVerb = regexp.MustCompile(`^(?:SELECT|INSERT|UPDATE|DELETE|REPLACE|MERGE|WITH|VALUES|TABLE|BEGIN|START|COMMIT|END|ROLLBACK|SAVEPOINT|RELEASE|` +
	`EXPLAIN|ANALYZE|DESCRIBE|TRUNCATE|LOCK|FETCH|CLOSE|DEALLOCATE|DROP|REFRESH|REINDEX|VACUUM)$`)

// asksHost is a method and a host, and asksKeys a Redis command: without arguments.
var (
	asksHost = regexp.MustCompile(`^[A-Z]{1,24} [\w-]*[A-Za-z.][\w.:-]*$`)
	asksKeys = regexp.MustCompile(`^[A-Z][A-Z_.]{0,23}(?: and \d+ more)?$`)
)

// literal matches a literal of SQL, or text like one: in quotes, a bind or a number. Text in double quotes is a name
// before or behind a dot. Otherwise it may be MySQL's string.
var literal = regexp.MustCompile(`'(?:[^'\\]|'')*'|` + nameInDots.String() + `|"[^"\\]*"|\$\d+\b|\b\d[\w.]*`)

// unclear matches text that can hide a literal's beginning or end, or that contains a secret outside of one.
var unclear = regexp.MustCompile("['\"`\\\\$#@:{}\\[\\]]|--|/\\*|;.|[^ -~]|(?i)\\b(?:exec|execute|identified|password *[^ =<>,.)])")

// withoutLiterals removes the values from a statement that may contain them. If they cannot be recognized, it returns
// only the verb.
func withoutLiterals(s string) string {
	if s == "" {
		return ""
	}
	text, cut := strings.CutSuffix(s, sampler.CutMark)
	if asksHost.MatchString(text) && !sqlStatement(text) || asksKeys.MatchString(text) {
		return s
	}
	out := literal.ReplaceAllStringFunc(text, func(l string) string {
		if l[0] == '.' || l[0] == '"' && strings.Contains(l, `".`) {
			return l
		}
		return "?"
	})
	if sqlStatement(text) && !unclear.MatchString(nameInDots.ReplaceAllString(out, "x")) {
		if cut {
			out += sampler.CutMark
		}
		return out
	}
	verb, _, _ := strings.Cut(text, " ")
	if verb = strings.ToUpper(verb); !verbName.MatchString(verb) {
		verb = ""
	}
	return strings.TrimSpace(verb + " " + sampler.CutMark)
}

// nameInDots matches names in double quotes that literal keeps.
var nameInDots = regexp.MustCompile(`"[\w$]+"(?:\."[\w$]+")+|"[\w$]+"\.|\."[\w$]+"`)

func sqlStatement(s string) bool {
	verb, _, _ := strings.Cut(strings.TrimLeft(s, "("), " ")
	return sqlVerb.MatchString(strings.ToUpper(verb))
}

func withoutMessage(s string) string {
	class, _, _ := strings.Cut(s, ": ")
	if strings.ContainsAny(class, " \t\r\n'\"") {
		return ""
	}
	return class
}

// Exception returns the class of an exception without its message.
func (r *Redactor) Exception(s string) string { return withoutMessage(s) }
