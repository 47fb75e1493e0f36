package live

import (
	"strings"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/processcontext"
)

// The intervals between readings of what the process publishes double from publishedFirst to publishedMost.
const publishedFirst, publishedMost = 10 * time.Second, 80 * time.Second

// threadContext is the variable in which threads publish their spans (docs/internals/context.md#a-threads-span).
const threadContext = "otel_thread_ctx_v1"

// published is what is known of what the process publishes for each thread.
type published struct {
	// after is when to read again, every the interval.
	after time.Time
	every time.Duration
	// found is true if the reader knows where threads publish, by the context of atNS.
	found bool
	atNS  uint64
}

// findPublished finds out whether threads publish spans, and tells the reader where. It searches only if the process
// announces that they do.
func (s *subject) findPublished(mappings []attach.Mapping) {
	p := &s.published
	p.every = min(max(2*p.every, publishedFirst), publishedMost)
	p.after = time.Now().Add(p.every)
	c, err := processcontext.ReadMapped(s.proc, mappings)
	if err != nil || !strings.HasPrefix(c.Threads.Version, "tls") || p.found && p.atNS == c.PublishedNS {
		return // an error of the process's is one of the next tick, too
	}
	variable, err := s.proc.ThreadLocal(threadContext, mappings)
	if err != nil {
		return
	}
	s.reader.SetPublished(variable, c.Threads.Keys)
	p.found, p.atNS = true, c.PublishedNS
}

// findPublishedAgain is findPublished when it is due.
func (s *subject) findPublishedAgain() {
	if time.Now().Before(s.published.after) {
		return
	}
	if mappings, err := s.proc.Maps(); err == nil {
		s.findPublished(mappings)
	}
}
