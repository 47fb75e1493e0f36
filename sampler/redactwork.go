package sampler

import "strings"

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

// exception returns an exception's class without its message.
func (r *Redactor) exception(s string) string {
	if class, _, ok := strings.Cut(s, ": "); ok {
		return class
	}
	return s
}
