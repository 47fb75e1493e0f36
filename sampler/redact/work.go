package redact

import (
	"regexp"
	"strings"

	"github.com/ddtop/ddtop/sampler"
)

// These patterns match texts that stay unchanged in redacted output. They are strict, because the texts can come from a
// recording that anyone can have written.
var (
	verbName   = regexp.MustCompile(`^[A-Z][A-Z_.-]{0,23}$`)
	actionName = regexp.MustCompile(`^[\w:]+#[\w:?!]+$`)
	className  = regexp.MustCompile(`^[A-Z][\w:]*$`)
)

// Work returns a request or a job without its values. It keeps a controller's action and a job's class, because they
// are like names of methods. A path becomes a pseudonym, because it can name a customer.
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
	case path == "" && verb == name: // the work has only a method, or nothing
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

// Statement returns a statement's verb, such as SELECT, and a pseudonym for everything after it. So the result has no
// tables, hosts or keys.
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

// sqlVerb matches the first word of those SQL statements that can contain secrets only in literals.
var sqlVerb = regexp.MustCompile(`^(?:SELECT|INSERT|UPDATE|DELETE|REPLACE|MERGE|WITH|VALUES|TABLE|BEGIN|START|COMMIT|END|ROLLBACK|SAVEPOINT|RELEASE|` +
	`EXPLAIN|ANALYZE|DESCRIBE|TRUNCATE|LOCK|FETCH|CLOSE|DEALLOCATE|DROP|REFRESH|REINDEX|VACUUM)$`)

// asksHost matches an HTTP request without its path: a method and a host. asksKeys matches a Redis command without its
// arguments.
var (
	asksHost = regexp.MustCompile(`^[A-Z]{1,24} [\w-]*[A-Za-z.][\w.:-]*$`)
	asksKeys = regexp.MustCompile(`^[A-Z][A-Z_.]{0,23}(?: and \d+ more)?$`)
)

// literal matches a literal of SQL, or text that looks like one: text in quotes, a bind parameter or a number. Text in
// double quotes before or after a dot is the name of a table or column. Other text in double quotes may be a string of
// MySQL.
var literal = regexp.MustCompile(`'(?:[^'\\]|'')*'|` + nameInDots.String() + `|"[^"\\]*"|\$\d+\b|\b\d[\w.]*`)

// unclear matches text that can hide where a literal begins or ends, or that can have a secret outside of a literal.
var unclear = regexp.MustCompile("['\"`\\\\$#@:{}\\[\\]]|--|/\\*|;.|[^ -~]|(?i)\\b(?:exec|execute|identified|password *[^ =<>,.)])")

// withoutLiterals removes the literal values from a statement. If it is not certain where they are, it returns only the
// verb.
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

// nameInDots matches a name in double quotes, before or after a dot. withoutLiterals must keep such a name.
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
