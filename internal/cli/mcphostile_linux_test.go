package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestMCPHostileCalls: an MCP client may send any arguments. Still, no tool hangs, answers with much more than 32 KB,
// or reads a file that is no recording. After all these calls the server must still answer.
func TestMCPHostileCalls(t *testing.T) {
	t.Parallel()
	s := startMCP(t)
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe.ddtop"), filepath.Join(dir, "link.ddtop")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink("/etc/passwd", link)); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		tool string
		args map[string]any
	}{
		{"dump", map[string]any{"pid": long}}, {"dump", map[string]any{"pid": -1}}, {"dump", map[string]any{"pid": 0}}, {"dump", map[string]any{"pid": 1e300}},
		{"dump", map[string]any{"pid": os.Getpid()}}, {"dump", map[string]any{}},
		{"dump", map[string]any{"pid": 1, long[:9000]: 1}}, {"dump", map[string]any{"pid": long[:9000]}},
		{"stat", map[string]any{"pid": 2, "seconds": -5}}, {"stat", map[string]any{"pid": "--help"}}, {"findings", map[string]any{"pid": []int{1}}},
		{"diff", map[string]any{"before": long + ".ddtop", "after": long + ".ddtop"}}, {"diff", map[string]any{"before": link, "after": link}},
		{"diff", map[string]any{"before": pipe, "after": pipe}}, {"diff", map[string]any{"before": "../../../../etc/passwd", "after": "-o.ddtop"}},
		{"diff", map[string]any{"before": "-o/tmp/x.ddtop", "after": "--help.ddtop"}}, {"diff", map[string]any{"before": "/dev/zero.ddtop", "after": "\x00.ddtop"}},
		{long, nil}, {"push", nil},
	} {
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool, Arguments: c.args})
		text := ""
		if err != nil {
			text = err.Error()
		} else {
			for _, part := range r.Content {
				text += part.(*mcp.TextContent).Text
			}
		}
		if err == nil && !r.IsError || strings.Contains(text, "root:x:") || len(text) > 33<<10 {
			t.Errorf("%.20s %.100v: %d bytes: %.200s", c.tool, c.args, len(text), text)
		}
	}
	if text, failed := callTool(t, s, "list_processes", nil); failed {
		t.Error(text)
	}
}

// TestMCPCancelledCalls: a client calls twenty measurements at once, more than the MCP server runs at the same time.
// After the client cancels them, the server must still answer the next call.
func TestMCPCancelledCalls(t *testing.T) {
	t.Parallel()
	ruby := rubytest.One(t).Start(t, idleRuby, rubytest.Options{})
	ruby.Expect(t, "up")
	s := startMCP(t)
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	const many = 20
	for range many {
		calls.Go(func() {
			args := map[string]any{"pid": ruby.PID, "seconds": 60}
			if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "stat", Arguments: args}); err == nil {
				t.Error("a cancelled call has a result")
			}
		})
	}
	cancel()
	calls.Wait()
	text, failed := callTool(t, s, "findings", map[string]any{"pid": ruby.PID, "seconds": 1})
	if !json.Valid([]byte(text)) || failed {
		t.Error(text)
	}
}
