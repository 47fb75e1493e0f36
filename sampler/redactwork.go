package sampler

import (
	"regexp"
	"strings"
)

// work returns a Work without values. A controller's action and a job's class are names as those of methods are, and stay; a path
// can name a customer.
func (r *Redactor) work(w Work) Work {
	w.Values = ""
	verb, path, ok := strings.Cut(w.Endpoint, " ")
	if !ok {
		verb, path = "", w.Endpoint
	}
	if strings.Contains(path, "/") {
		w.Endpoint = strings.TrimSpace(verb + " " + r.numbered("route", path))
	}
	return w
}

// statement returns what stands for a statement: its verb with a pseudonym. Tables, hosts and keys go.
func (r *Redactor) statement(s string) string {
	verb, rest, ok := strings.Cut(s, " ")
	if !ok {
		return s
	}
	return verb + " " + r.numbered("statement", rest)
}

// literal is a literal of SQL, or what looks like one: in quotes, up to the end where they don't close, or a number.
var literal = regexp.MustCompile(`'(?:[^'\\]|''|\\.)*(?:'|$)|"[^"]*(?:"|$)|\b\d[\w.]*`)

// quotedName is what is in double quotes and no literal, but a name.
var quotedName = regexp.MustCompile(`^"[\w$]+"$`)

// withoutLiterals returns a statement that may have been read with its values without them.
func withoutLiterals(s string) string {
	return literal.ReplaceAllStringFunc(s, func(l string) string {
		if quotedName.MatchString(l) {
			return l
		}
		return "?"
	})
}

// withoutMessage returns an exception's class without its message.
func withoutMessage(s string) string {
	if class, _, ok := strings.Cut(s, ": "); ok {
		return class
	}
	return s
}
