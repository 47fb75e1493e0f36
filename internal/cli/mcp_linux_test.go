package cli_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// startMCP starts `ddtop mcp` and connects to it with the SDK's client.
func startMCP(t *testing.T, args ...string) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: exec.Command(ddtop, append([]string{"mcp"}, args...)...)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // ignore the error: the server may have ended already
	return s
}

// callTool calls a tool and returns its text. failed is true if the tool reports an error.
func callTool(t *testing.T, s *mcp.ClientSession, name string, args map[string]any) (text string, failed bool) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, c := range r.Content {
		text += c.(*mcp.TextContent).Text
	}
	if len(text) > 32<<10 {
		t.Errorf("%s: its result has %d bytes", name, len(text))
	}
	return text, r.IsError
}

// TestMCP: every tool of ddtop's MCP server only reads, answers about a deadlocked Ruby, and replaces names. Without
// --values, the server refuses requests for the values of objects. It also refuses wrong calls.
func TestMCP(t *testing.T) {
	t.Parallel()
	ruby := rubytest.One(t).Start(t, strings.Replace(deadlockedRuby, `puts "up"`, `
def descend(deep = 150) = deep > 0 ? descend(deep - 1) : sleep
150.times { Thread.new { Thread.current.name = "hunter2's"; descend } }
Thread.pass until Thread.list.count { |t| t.status == "sleep" } >= 152
puts "up"`, 1), rubytest.Options{})
	ruby.Expect(t, "up")
	s := startMCP(t)
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if tool.Annotations == nil || !tool.Annotations.ReadOnlyHint {
			t.Errorf("%s does not say that it only reads", tool.Name)
		}
	}
	slices.Sort(names)
	if want := "diff dump findings list_processes requests stat"; strings.Join(names, " ") != want {
		t.Errorf("tools %q, want %q", names, want)
	}
	pid := map[string]any{"pid": ruby.PID}
	measured := map[string]any{"pid": ruby.PID, "seconds": 3}
	if text, failed := callTool(t, s, "list_processes", nil); failed || !strings.Contains(text, strconv.Itoa(ruby.PID)) {
		t.Errorf("list_processes: %s", text)
	}
	if text, failed := callTool(t, s, "dump", pid); failed || strings.Contains(text, "hunter2") || !strings.HasSuffix(text, "longer than 32 KB") {
		t.Errorf("dump: %d bytes: %.300s", len(text), text)
	}
	if text, failed := callTool(t, s, "stat", measured); failed || strings.Contains(text, "hunter2") || !strings.Contains(text, "**Deadlock**") {
		t.Errorf("stat: %s", text)
	}
	text, failed := callTool(t, s, "findings", measured)
	var findings []struct{ ID string }
	if err := json.Unmarshal([]byte(text), &findings); failed || err != nil || !strings.Contains(text, `"deadlock"`) || strings.Contains(text, "hunter2") {
		t.Errorf("findings: %v, %s", err, text)
	}
	if text, failed := callTool(t, s, "requests", map[string]any{"pid": ruby.PID, "seconds": 1}); failed || !strings.Contains(text, `"endpoints"`) {
		t.Errorf("requests: %s", text)
	}
	for name, args := range map[string]map[string]any{
		"dump": {"pid": ruby.PID, "values": true}, "stat": {"pid": ruby.PID, "seconds": 3600}, "findings": {"pid": 1 << 30},
		"diff": {"before": "/etc/passwd", "after": "/etc/passwd"},
	} {
		if text, failed := callTool(t, s, name, args); !failed || strings.Contains(text, "root:") {
			t.Errorf("%s of %v: %s", name, args, text)
		}
	}
	dir := t.TempDir()
	for _, name := range []string{"a.ddtop", "b.ddtop"} {
		if out, err := exec.Command(ddtop, "record", "-p", strconv.Itoa(ruby.PID), "-d", "1s", "-o", filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if text, failed := callTool(t, s, "diff", map[string]any{"before": filepath.Join(dir, "a.ddtop"), "after": filepath.Join(dir, "b.ddtop")}); failed || strings.Contains(text, "hunter2") {
		t.Errorf("diff: %s", text)
	}
	plain := startMCP(t, "--values", "--redact=false")
	if text, failed := callTool(t, plain, "dump", map[string]any{"pid": ruby.PID, "values": true}); failed || !strings.Contains(text, "hunter2") {
		t.Errorf("a dump with values: %.300s", text)
	}
}
