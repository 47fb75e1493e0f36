package live

import (
	"strings"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/processcontext"
)

// publishedFirst and publishedMost bound the interval at which ddtop reads what the process publishes. The interval
// begins with publishedFirst, and doubles with each reading up to publishedMost.
const publishedFirst, publishedMost = 10 * time.Second, 80 * time.Second

// threadContext is the name of the thread-local variable in which a thread publishes its span
// (docs/internals/context.md#a-threads-span).
const threadContext = "otel_thread_ctx_v1"

// published records whether and where ddtop has found the spans that threads publish. A span describes the work that a
// thread does now, for tracing tools such as OpenTelemetry.
type published struct {
	// after is the time of the next search for published spans. every is the interval from that search to the next.
	after time.Time
	every time.Duration
	// found is true if the reader knows where threads publish their spans. atNS is the field PublishedNS of the
	// process's context from which ddtop learned this.
	found bool
	atNS  uint64
}

// findPublished finds out where threads publish their spans, and passes the place to the reader. It searches only if
// the process has announced that its threads publish spans.
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
