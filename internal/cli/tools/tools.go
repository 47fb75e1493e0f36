// Package tools is the server of `ddtop mcp`. It offers tools to clients of the Model Context Protocol, such as AI
// assistants. The tools only read.
package tools

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxResult limits the size of a tool's result, in bytes.
	maxResult = 32 << 10
	// defaultSeconds is how long a tool measures by default, in s. maxSeconds is the longest allowed time.
	defaultSeconds, maxSeconds = 5, 60
	// maxCall limits the name and the arguments of a client's call, in bytes. Error texts repeat them, so a long call
	// would make a long result.
	maxCall = 16 << 10
	// maxAtOnce limits how many tools run at the same time. Further calls wait.
	maxAtOnce = 2
	// cutNote is the end of a result that was cut because it was longer than maxResult.
	cutNote = "\n… the result was cut here: it is longer than 32 KB"
)

// Server answers the calls of an MCP client. Each tool runs a command of ddtop.
type Server struct {
	// Version is ddtop's version. Values is true if the tool dump may show values of the target, such as paths and
	// arguments.
	Version string
	Values  bool
	// Command runs a ddtop command and returns what it prints.
	Command func(ctx context.Context, args ...string) (string, error)

	places chan struct{}
}

// Serve answers the calls of one client until the client closes its input or ctx ends.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	s.places = make(chan struct{}, maxAtOnce)
	err := s.server().Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(in), Writer: nopCloser{out}})
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	return err
}

type nopCloser struct{ io.Writer }

// Close does nothing.
func (nopCloser) Close() error { return nil }

type noInput struct{}

type dumpInput struct {
	PID    int  `json:"pid" jsonschema:"the PID of a Ruby process"`
	Values bool `json:"values,omitempty" jsonschema:"show values, if the server was started with --values"`
}

type measureInput struct {
	PID     int `json:"pid" jsonschema:"the PID of a Ruby process"`
	Seconds int `json:"seconds,omitempty" jsonschema:"how long to measure, 1 to 60; 5 if it is left out"`
}

type diffInput struct {
	Before string `json:"before" jsonschema:"the path of a recording (.ddtop)"`
	After  string `json:"after" jsonschema:"the path of a later recording (.ddtop)"`
}

func (s *Server) server() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "ddtop", Version: s.Version}, nil)
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if call, ok := req.GetParams().(*mcp.CallToolParamsRaw); ok && len(call.Name)+len(call.Arguments) > maxCall {
				return nil, errors.New("a call has at most 16 KB of arguments")
			}
			return next(ctx, method, req)
		}
	})
	addTool(server, "list_processes", "Lists the Ruby processes of this machine, with their CPU time and memory.",
		func(ctx context.Context, _ noInput) (string, error) { return s.run(ctx, "ps") })
	addTool(server, "dump", "Prints what each thread of a Ruby process does now, with its stack, and who holds the GVL.", s.dump)
	addTool(server, "stat", "Measures a Ruby process, and summarizes findings, threads, waits for the GVL and requests in Markdown.",
		func(ctx context.Context, in measureInput) (string, error) {
			return s.measure(ctx, in, "--format", "md")
		})
	addTool(server, "findings", "Measures a Ruby process, and returns what is wrong with it, in JSON.",
		func(ctx context.Context, in measureInput) (string, error) { return s.part(ctx, in, "findings") })
	addTool(server, "requests", "Measures a Ruby process, and returns its requests and jobs by route or class, in JSON.",
		func(ctx context.Context, in measureInput) (string, error) { return s.part(ctx, in, "requests") })
	addTool(server, "diff", "Compares two recordings that ddtop made, and says what takes more or less time.", s.diff)
	return server
}

func (s *Server) dump(ctx context.Context, in dumpInput) (string, error) {
	args := []string{"dump", "-p", strconv.Itoa(in.PID)}
	if in.Values && !s.Values {
		return "", errors.New("values are refused: the server was started without --values")
	}
	if in.Values {
		args = append(args, "--values")
	}
	return s.run(ctx, args...)
}

func (s *Server) diff(ctx context.Context, in diffInput) (string, error) {
	for _, path := range []string{in.Before, in.After} {
		if filepath.Ext(path) != ".ddtop" {
			return "", errors.New("it takes two recordings, files that end in .ddtop")
		}
		// Reading from a pipe blocks until another program writes to the pipe. During this time, the tool would occupy
		// one of the maxAtOnce places.
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			return "", errors.New("it takes regular files, no pipes, devices or folders")
		}
	}
	return s.run(ctx, "diff", "--", in.Before, in.After)
}

// addTool adds a tool that only reads. If the tool fails, the client gets the error as a result, so that it can read it
// and act on it.
func addTool[In any](server *mcp.Server, name, about string, do func(context.Context, In) (string, error)) {
	closed := false
	tool := &mcp.Tool{Name: name, Description: about}
	tool.Annotations = &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &closed}
	mcp.AddTool(server, tool, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		text, err := do(ctx, in)
		if err != nil {
			return nil, nil, errors.New(bounded(err.Error()))
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: bounded(text)}}}, nil, nil
	})
}

// bounded cuts a result to maxResult bytes.
func bounded(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if len(text) <= maxResult {
		return text
	}
	return strings.ToValidUTF8(text[:maxResult-len(cutNote)], "") + cutNote
}

// measure runs `ddtop stat` on a process.
func (s *Server) measure(ctx context.Context, in measureInput, form ...string) (string, error) {
	seconds := cmp.Or(in.Seconds, defaultSeconds)
	if seconds < 1 || seconds > maxSeconds {
		return "", fmt.Errorf("seconds is 1 to %d, not %d", maxSeconds, seconds)
	}
	return s.run(ctx, append([]string{"stat", "-p", strconv.Itoa(in.PID), "-d", fmt.Sprint(seconds, "s")}, form...)...)
}

// part measures a process with `ddtop stat`, and returns the part of its JSON with the given name.
func (s *Server) part(ctx context.Context, in measureInput, name string) (string, error) {
	text, err := s.measure(ctx, in, "--json")
	if err != nil {
		return "", err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return "", err
	}
	return fitted(name, all[name])
}

// fitted shortens the lists in a part of JSON until the part is small enough for a tool's result. The shortened result
// says that lists were cut.
func fitted(name string, part json.RawMessage) (string, error) {
	var v any
	from := json.NewDecoder(bytes.NewReader(part))
	from.UseNumber()
	if err := from.Decode(&v); err != nil {
		return "", err
	}
	out, err := json.Marshal(v)
	for err == nil && len(out) > maxResult {
		half, ok := halved(v)
		if !ok {
			return "", fmt.Errorf("%s is longer than 32 KB", name)
		}
		v = half
		out, err = json.Marshal(map[string]any{"cut": "lists are shortened: together they are longer than 32 KB", name: v})
	}
	return string(out), err
}

// halved returns a copy of a JSON value in which the longest list has only half of its elements. ok is false if the
// value has no list to shorten.
func halved(v any) (half any, ok bool) {
	switch x := v.(type) {
	case map[string]any:
		longest, most := "", 0
		for key, value := range x {
			if _, isText := value.(string); isText {
				continue
			}
			if b, err := json.Marshal(value); err == nil && len(b) > most {
				longest, most = key, len(b)
			}
		}
		x[longest], ok = halved(x[longest])
		return x, ok
	case []any:
		return x[:len(x)/2], len(x) > 0
	}
	return v, false
}

// run runs a ddtop command. If maxAtOnce commands already run, it first waits until one of them has ended.
func (s *Server) run(ctx context.Context, args ...string) (string, error) {
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
		return s.Command(ctx, args...)
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
