package live

import (
	"strings"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/processcontext"
)

// ddtop reads at intervals what the process publishes. The interval doubles from publishedFirst to publishedMost.
const publishedFirst, publishedMost = 10 * time.Second, 80 * time.Second

// threadContext is the variable that has a thread's published span (docs/internals/context.md#a-threads-span).
const threadContext = "otel_thread_ctx_v1"

// published says whether and where ddtop has found the spans that threads publish.
type published struct {
	// after is the time of the next search for published spans. every is the interval from that search to the next.
	after time.Time
	every time.Duration
	// found is true if the reader knows where threads publish. atNS is the PublishedNS of the context that says so.
	found bool
	atNS  uint64
}

// findPublished finds out where threads publish their spans, and tells the reader. It searches only if the process has
// announced that its threads publish spans.
func (s *subject) findPublished(mappings []attach.Mapping) {
	p := &s.published
	p.every = min(max(2*p.every, publishedFirst), publishedMost)
	p.after = time.Now().Add(p.every)
	c, err := processcontext.ReadMapped(s.proc, mappings)
	if err != nil || !strings.HasPrefix(c.Threads.Version, "tls") || p.found && p.atNS == c.PublishedNS {
		return // if the process has ended, the next tick finds out
	}
	variable, err := s.proc.ThreadLocal(threadContext, mappings)
	if err != nil {
		return
	}
	s.reader.SetPublished(variable, c.Threads.Keys)
	p.found, p.atNS = true, c.PublishedNS
}

// findPublishedAgain calls findPublished if it is due.
func (s *subject) findPublishedAgain() {
	if time.Now().Before(s.published.after) {
		return
	}
	if mappings, err := s.proc.Maps(); err == nil {
		s.findPublished(mappings)
	}
}
