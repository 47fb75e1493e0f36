package work

import (
	"strings"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// traced is a thread's work as the thread's trace shows it. ddtop uses it if the thread's frames have neither a request
// nor a job.
type traced struct {
	task *task
	// ec is the execution context of the last call of Traced. This call was at lookedNS.
	ec       attach.Address
	lookedNS int64
}

// Traced sets the work of s to the request or job that the thread's trace names. It does this only if the last search
// found neither in the frames. kind and resource come from the tracer. root is the id of the trace's local root span,
// or zero.
func (f *Finder) Traced(s *State, kind sampler.WorkKind, resource string, root uint64, fr *Frames) {
	t := &s.traced
	method, rest, guessed := served(kind, resource)
	before := int64(0)
	if t.ec == fr.EC {
		before = t.lookedNS
	}
	t.ec, t.lookedNS = fr.EC, fr.NowNS
	old := t.task
	t.task = nil
	if s.task == nil && method+rest != "" && root != 0 {
		r := reading{kind: kind, key: taskKey{hash: root}, identity: [identityWords]uint64{root}}
		r.endpoint = f.endpointOf(&r, method, rest, guessed)
		t.task = f.taskOf(&r, fr.NowNS, before)
		s.serving.Work = t.task.id
	}
	if old != nil && old != t.task {
		f.end(old)
	}
}

// served parses the resource of a tracer's span: "GET /orders/:id", "OrdersController#index", the class of a job. It
// returns empty texts if the resource may be anything else. guessed is true if the result rest is the pattern of a
// path.
func served(kind sampler.WorkKind, resource string) (method, rest string, guessed bool) {
	if kind == sampler.WorkJob {
		if codeName(resource, ":#._") {
			return "", resource, false
		}
		return "", "", false
	}
	verb, rest, ok := strings.Cut(resource, " ")
	if !ok || Method(verb) == "" {
		verb, rest = "", resource
	}
	switch {
	case remoteCall(rest):
		return verb, rest, false
	case strings.HasPrefix(rest, "/"):
		return verb, Pattern(rest), true
	case Method(rest) != "", verb != "" && len(rest) == 3 && strings.Trim(rest, "0123456789") == "", className(rest), codeName(rest, "#_?!.:/") && strings.Contains(rest, "#"):
		return verb, rest, false
	}
	return "", "", false
}

// remoteCall reports whether a path names a method in the form of gRPC: /package.Service/method.
func remoteCall(path string) bool {
	service, method, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	dot := strings.LastIndexByte(service, '.')
	return ok && dot > 0 && codeName(service, "._") && className(service[dot+1:]) && codeName(method, "_") && plainName(method)
}
