package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/ddtop/ddtop"

// rules lists, for each package, which other packages of ddtop it may import. A package without a rule fails the test,
// so that its author has to add a rule here. There are two exceptions, to which the rule of another package applies
// (sharesRule): the packages of screen views, and the program of one test.
var rules = map[string][]string{
	".":                                {"internal/cli", "internal/cli/run"},
	"attach":                           {"internal/safefile", "attach/mapped"},
	"attach/layout":                    {},
	"attach/processcontext":            {"attach"},
	"sampler":                          {"sampler/intern"},
	"sampler/intern":                   {},
	"sampler/growth":                   {"sampler"},
	"sampler/heapgraph":                {},
	"sampler/ruby/internal/holders":    {"attach", "sampler", "sampler/heapgraph", "sampler/ruby/internal/gc", "sampler/ruby/internal/heap", "sampler/ruby/internal/view"},
	"sampler/own":                      {"sampler"},
	"sampler/redact":                   {"sampler"},
	"sampler/ruby":                     {"attach", "sampler", "sampler/heapgraph", "sampler/ruby/internal/census", "sampler/ruby/internal/code", "sampler/ruby/internal/gc", "sampler/ruby/internal/heap", "sampler/ruby/internal/holders", "sampler/ruby/internal/places", "sampler/ruby/internal/pthread", "sampler/ruby/internal/view", "sampler/ruby/internal/work", "sampler/ruby/internal/rubyvm", "sampler/ruby/internal/ownword", "sampler/ruby/internal/slots", "sampler/ruby/internal/stackmem", "sampler/ruby/internal/trace"},
	"sampler/ruby/internal/pthread":    {"attach", "sampler/ruby/internal/view"},
	"sampler/ruby/internal/slots":      {"attach", "sampler/ruby/internal/code", "sampler/ruby/internal/stackmem", "sampler/ruby/internal/view"},
	"sampler/ruby/internal/stackmem":   {"attach", "attach/mapped"},
	"sampler/ruby/internal/census":     {"attach", "sampler", "sampler/ruby/internal/gc", "sampler/ruby/internal/heap", "sampler/ruby/internal/view"},
	"sampler/ruby/internal/code":       {"attach", "sampler", "sampler/ruby/internal/heap", "sampler/ruby/internal/places", "sampler/ruby/internal/view"},
	"sampler/ruby/internal/gc":         {"attach", "sampler", "sampler/ruby/internal/heap", "sampler/ruby/internal/places", "sampler/ruby/internal/view"},
	"sampler/ruby/internal/heap":       {"attach", "sampler", "sampler/ruby/internal/places", "sampler/ruby/internal/view"},
	"sampler/ruby/internal/places":     {"attach/layout"},
	"sampler/ruby/internal/view":       {"attach"},
	"sampler/ruby/internal/work":       {"attach", "sampler", "sampler/ruby/internal/code", "sampler/ruby/internal/gc", "sampler/ruby/internal/heap", "sampler/ruby/internal/view"},
	"sampler/kernel":                   {"attach", "sampler"},
	"sampler/native":                   {"attach", "attach/debuginfod", "attach/mapped", "internal/safefile", "sampler"},
	"sampler/exact":                    {"sampler"},
	"sampler/exact/probe":              {"attach", "sampler/bpf", "sampler/exact", "sampler/native"},
	"sampler/bpf":                      {"attach"},
	"sampler/switches":                 {"sampler", "sampler/exact"},
	"sampler/native/clock":             {"sampler/bpf", "sampler/native"},
	"sampler/native/iterator":          {"sampler/bpf", "sampler/native"},
	"sampler/switches/tracer":          {"sampler/bpf", "sampler/switches"},
	"sampler/kernel/moves":             {"sampler/kernel"},
	"sampler/live/group":               {"attach", "attach/layout", "internal/sorting", "sampler", "sampler/kernel", "sampler/live", "sampler/live/internal/fair", "sampler/live/internal/pace"},
	"sampler/live":                     {"attach", "attach/debuginfod", "sampler", "sampler/heapgraph", "sampler/bpf", "sampler/exact", "sampler/exact/probe", "sampler/ruby", "sampler/kernel", "sampler/kernel/moves", "sampler/native", "sampler/own", "sampler/redact", "sampler/switches", "sampler/switches/tracer", "sampler/live/internal/apart", "sampler/live/internal/cstacks", "sampler/live/internal/handover", "sampler/live/internal/kernelview", "sampler/live/internal/nativelock", "sampler/live/internal/pace", "sampler/live/internal/works", "sampler/native/clock", "sampler/native/iterator", "sampler/live/internal/running", "sampler/live/internal/stacknames"},
	"gvl":                              {"sampler", "internal/units", "gvl/internal/listed"},
	"gvl/code":                         {"sampler"},
	"gvl/stream":                       {"sampler", "gvl", "gvl/code", "gvl/internal/listed"},
	"report":                           {"sampler", "gvl", "internal/units"},
	"gvl/account":                      {"sampler", "gvl", "gvl/code", "gvl/stream", "internal/units", "report"},
	"gvl/timeline":                     {"sampler", "gvl", "gvl/stream"},
	"gvl/findings/internal/contests":   {"sampler", "gvl"},
	"gvl/findings/internal/cpuuse":     {"gvl", "gvl/findings/internal/tenses", "internal/units", "sampler"},
	"gvl/findings/internal/backlog":    {"gvl", "sampler"},
	"gvl/findings/internal/tenses":     {},
	"gvl/findings/internal/threshold":  {"internal/units"},
	"gvl/findings/internal/tips":       {"internal/units"},
	"gvl/findings/internal/loads":      {"sampler", "gvl", "gvl/code"},
	"gvl/findings/internal/loop":       {"gvl", "sampler"},
	"gvl/findings/internal/barrier":    {"gvl", "sampler"},
	"gvl/findings/internal/doorways":   {"gvl/code", "sampler"},
	"gvl/findings/internal/gates":      {"gvl", "gvl/findings/internal/doorways", "gvl/findings/internal/stackkind", "sampler"},
	"gvl/findings/internal/usual":      {"sampler"},
	"gvl/findings/internal/stackkind":  {"gvl/code", "sampler"},
	"gvl/findings/internal/memory":     {"sampler", "gvl"},
	"gvl/findings/internal/pauses":     {"sampler", "gvl"},
	"gvl/findings/internal/spin":       {"sampler", "gvl", "gvl/code"},
	"gvl/findings":                     {"sampler", "gvl", "gvl/account", "gvl/code", "gvl/findings/internal/calls", "gvl/findings/internal/loads", "gvl/findings/internal/resting", "gvl/findings/internal/loop", "gvl/findings/internal/barrier", "gvl/findings/internal/gates", "gvl/findings/internal/usual", "gvl/findings/internal/contests", "gvl/findings/internal/cpuuse", "gvl/findings/internal/backlog", "gvl/findings/internal/tenses", "gvl/findings/internal/threshold", "gvl/findings/internal/tips", "gvl/findings/internal/stackkind", "gvl/findings/internal/memory", "gvl/findings/internal/pauses", "gvl/findings/internal/spin", "gvl/stream", "internal/units", "report"},
	"gvl/findings/internal/calls":      {"gvl", "internal/sorting"},
	"gvl/findings/internal/resting":    {"gvl", "gvl/findings/internal/gates", "gvl/findings/internal/stackkind", "sampler"},
	"gvl/capacity":                     {"gvl", "internal/units", "report", "sampler"},
	"gvl/measure":                      {"sampler", "gvl", "gvl/account", "gvl/capacity", "gvl/findings", "gvl/stream", "gvl/timeline", "internal/units", "report"},
	"flamegraph":                       {"sampler", "gvl", "gvl/stream", "internal/units"},
	"export":                           {"sampler", "gvl", "gvl/account", "gvl/code", "gvl/findings", "gvl/measure", "gvl/stream", "flamegraph", "internal/units", "report", "sampler/growth", "sampler/heapgraph"},
	"recording":                        {"sampler", "sampler/own", "sampler/redact"},
	"push":                             {"internal/units", "push/protobuf", "push/spool"},
	"ui":                               {"sampler", "sampler/redact", "gvl", "gvl/account", "gvl/findings", "gvl/stream", "gvl/timeline", "flamegraph", "export", "recording", "internal/safefile", "internal/units", "ui/internal/canvas", "ui/page", "ui/scene", "ui/store", "ui/style", "ui/widget", "export/profile", "export/snapshot"},
	"ui/page":                          {"sampler", "sampler/growth", "sampler/redact", "export", "gvl", "gvl/account", "gvl/findings", "gvl/timeline", "flamegraph", "internal/units", "ui/internal/canvas", "ui/scene", "ui/store", "ui/style", "ui/widget", "report"},
	"ui/widget":                        {"sampler", "gvl", "gvl/account", "gvl/findings", "gvl/timeline", "flamegraph", "internal/units", "ui/internal/canvas", "ui/scene", "ui/store", "ui/style"},
	"ui/scene":                         {"sampler", "sampler/redact", "gvl", "gvl/account", "gvl/findings", "gvl/timeline", "flamegraph", "internal/units", "ui/internal/canvas", "ui/store", "ui/style"},
	"ui/internal/canvas":               {},
	"ui/internal/demosource":           {"sampler", "ui"},
	"ui/store":                         {"sampler", "sampler/redact", "gvl", "gvl/account", "gvl/findings", "gvl/measure", "gvl/stream", "gvl/timeline", "flamegraph", "recording", "internal/safefile", "internal/units", "ui/style"},
	"ui/style":                         {"sampler", "gvl", "gvl/timeline", "flamegraph", "internal/units", "ui/internal/canvas"},
	"internal/cli/sudo":                {"attach", "internal/cli/exact", "internal/cli/run"},
	"internal/cli":                     {"internal/cli/sudo", "attach", "sampler", "gvl", "gvl/account", "gvl/findings", "gvl/measure", "gvl/stream", "flamegraph", "export", "recording", "push", "ui", "internal/workload", "internal/safefile", "internal/units", "export/diff", "export/page", "export/profile", "export/trace", "push/alert", "push/datadog", "push/files", "push/otlp", "push/pyroscope", "push/spool", "push/status", "internal/cli/run", "internal/cli/exact", "internal/cli/flags", "internal/cli/heaps", "internal/cli/program", "internal/cli/pushing", "internal/cli/tools", "internal/cli/watch", "report", "sampler/growth", "sampler/heapgraph"},
	"internal/workload":                {},
	"internal/safefile":                {},
	"internal/rubytest":                {},
	"internal/elftest":                 {},
	"internal/stuckfs":                 {},
	"internal/archtest":                {},
	"internal/accuracy":                {},
	"internal/findingstest":            {},
	"internal/foreigntest":             {},
	"internal/golden":                  {},
	"internal/memtest":                 {"attach", "sampler"},
	"internal/odds":                    {},
	"internal/servertest":              {"internal/rubytest"},
	"internal/sorting":                 {},
	"internal/streamtest":              {"sampler"},
	"internal/units":                   {},
	"screenshots":                      {"attach", "sampler", "gvl", "flamegraph", "recording", "ui", "internal/workload", "export/page", "export/snapshot"},
	"sampler/ruby/internal/rubyvm":     {"attach", "internal/safefile", "sampler", "sampler/ruby/internal/code", "sampler/ruby/internal/heap", "sampler/ruby/internal/places", "sampler/ruby/internal/view"},
	"sampler/ruby/internal/ownword":    {"attach", "sampler/ruby/internal/view"},
	"sampler/ruby/internal/trace":      {"attach", "sampler", "sampler/ruby/internal/heap", "sampler/ruby/internal/view"},
	"export/profile":                   {"sampler", "gvl", "flamegraph", "internal/units", "export", "export/trace", "report"},
	"export/trace":                     {"sampler", "gvl", "flamegraph", "internal/units", "export", "gvl/account", "gvl/stream", "report"},
	"export/page":                      {"sampler", "gvl", "flamegraph", "internal/units", "export", "export/trace", "gvl/account", "gvl/findings", "gvl/measure", "report"},
	"export/diff":                      {"sampler", "gvl", "flamegraph", "internal/units", "export", "export/page", "export/profile"},
	"export/snapshot":                  {"flamegraph", "export", "export/profile"},
	"internal/exporttest":              {"sampler", "gvl", "flamegraph", "internal/streamtest"},
	"attach/mapped":                    {"internal/safefile"},
	"attach/debuginfod":                {"attach/mapped", "internal/safefile"},
	"sampler/live/internal/asks":       {"sampler"},
	"sampler/live/internal/apart":      {"attach", "sampler"},
	"sampler/live/internal/fair":       {},
	"sampler/live/internal/handover":   {"sampler", "sampler/exact"},
	"sampler/live/internal/cstacks":    {"attach", "attach/debuginfod", "sampler", "sampler/bpf", "sampler/kernel", "sampler/native", "sampler/native/iterator", "sampler/redact"},
	"sampler/live/internal/kernelview": {"attach", "sampler", "sampler/kernel"},
	"sampler/live/internal/running":    {"sampler", "sampler/exact", "sampler/live/internal/asks", "sampler/live/internal/cstacks", "sampler/live/internal/pace", "sampler/live/internal/stacknames", "sampler/native", "sampler/native/clock", "sampler/ruby"},
	"sampler/live/internal/stacknames": {"sampler", "sampler/bpf", "sampler/ruby"},
	"sampler/live/internal/nativelock": {"attach", "sampler", "sampler/kernel", "sampler/live/internal/cstacks", "sampler/native"},
	"sampler/live/internal/pace":       {"sampler", "sampler/kernel"},
	"sampler/live/internal/works":      {"sampler", "sampler/live/internal/pace", "sampler/ruby", "sampler/switches", "sampler/switches/tracer"},
	"push/alert":                       {"push", "internal/units"},
	"push/datadog":                     {"push", "push/alert"},
	"push/files":                       {"push", "internal/safefile", "internal/units"},
	"push/otlp":                        {"push", "push/alert", "push/protobuf"},
	"push/protobuf":                    {},
	"push/pyroscope":                   {"push", "push/protobuf"},
	"push/spool":                       {"internal/safefile"},
	"push/status":                      {"push", "push/alert"},
	"internal/cli/run":                 {"sampler", "attach", "attach/debuginfod", "export/profile", "export/trace", "flamegraph", "gvl", "gvl/account", "gvl/findings", "gvl/stream", "internal/cli/exact", "internal/cli/flags", "internal/safefile", "recording", "sampler/live", "report"},
	"internal/rubytest/eventlog":       {"internal/rubytest"},
	"internal/rubytest/published":      {"internal/rubytest"},
	"internal/rubytest/spend":          {"internal/rubytest"},
	"internal/rubytest/testrun":        {},
	"gvl/internal/gvltest":             {"sampler"},
	"gvl/internal/listed":              {"sampler"},
	"internal/cli/exact":               {"attach", "gvl/account", "internal/cli/flags", "push/status", "sampler", "sampler/exact/probe", "sampler/live", "sampler/live/group", "report"},
	"internal/cli/flags":               {"internal/units", "sampler/live/group", "sampler/own", "sampler/redact"},
	"internal/cli/program":             {"attach", "attach/layout", "internal/cli/exact", "internal/cli/run", "internal/units", "sampler/kernel", "sampler/live"},
	"internal/cli/pushing": {"attach", "export", "export/page", "export/profile", "flamegraph", "gvl", "gvl/account", "gvl/findings", "gvl/stream", "internal/cli/flags", "internal/cli/heaps", "internal/cli/run", "internal/safefile",
		"push/datadog", "push/otlp", "push/spool",
		"push", "push/alert", "push/files", "push/status", "recording", "sampler", "sampler/kernel", "sampler/live", "sampler/live/group"},
	"internal/cli/tools": {},
	"internal/cli/heaps": {"export", "export/profile", "internal/cli/flags", "internal/cli/run", "internal/safefile", "internal/units", "sampler", "sampler/growth", "sampler/heapgraph", "sampler/live"},
	"internal/cli/watch": {"export", "gvl/account", "gvl/findings", "gvl/measure", "internal/cli/flags", "internal/cli/run", "internal/safefile", "internal/units", "recording", "sampler", "report"},
}

// pure are packages that only turn samples into results. Their results must not depend on the machine, the time, or the
// process in which they run. So their tests need no running process, and a recording gives the same results on any
// machine.
var pure = []string{"sampler", "sampler/growth", "sampler/intern", "sampler/heapgraph", "sampler/own", "sampler/redact", "sampler/exact", "sampler/switches", "gvl", "gvl/account", "gvl/code", "gvl/findings",
	"gvl/capacity", "gvl/measure", "gvl/stream", "gvl/timeline", "flamegraph", "report", "export", "export/diff", "export/page", "export/profile", "export/snapshot", "export/trace", "recording", "internal/sorting", "internal/units"}

// everywhere are packages of ddtop that every package may import, as if they were in the standard library.
var everywhere = []string{"internal/sorting"}

// forbiddenInPure are packages that a package in pure must not depend on, not even indirectly. With them it could read
// the process, the machine or the time.
var forbiddenInPure = []string{"os/exec", "os/signal", "net", "golang.org/x/sys/unix"}

// clock are the functions of package time that read the clock or wait.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}

// modules are the modules that ddtop itself may import. A new entry must be worth the module's size, licence and trust.
var modules = []string{
	"charm.land/bubbletea/v2",
	"charm.land/lipgloss/v2",
	"github.com/BurntSushi/toml",
	"github.com/charmbracelet/x/ansi",
	"github.com/cilium/ebpf",
	"github.com/creack/pty",
	"github.com/google/pprof",
	"github.com/ianlancetaylor/demangle",
	"github.com/klauspost/compress",
	"github.com/mattn/go-runewidth",
	"github.com/modelcontextprotocol/go-sdk",
	"github.com/spf13/cobra",
	"golang.org/x/arch",
	"golang.org/x/sys",
	"golang.org/x/term",
}

// screen are the modules that draw on the terminal. Only ui may import them.
var screen = []string{"charm.land/bubbletea", "charm.land/lipgloss", "charm.land/bubbles",
	"github.com/charmbracelet/bubbletea", "github.com/charmbracelet/lipgloss", "github.com/charmbracelet/bubbles"}

// views is the folder of packages in which each view of the screen has its own package.
const views = "ui/page"

// pkg has the fields that `go list -json` prints for a package.
type pkg struct {
	ImportPath                         string
	Dir                                string
	Standard                           bool
	GoFiles                            []string
	Imports, TestImports, XTestImports []string
	Deps                               []string
	Error                              *struct{ Err string }
}

// name returns the package's import path without the module's path. It is "." for the module's root.
func (p pkg) name() string { return ours(p.ImportPath) }

func ours(path string) string {
	if path == module {
		return "."
	}
	rest, ok := strings.CutPrefix(path, module+"/")
	if !ok {
		return ""
	}
	return rest
}

func within(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// list returns the packages of the module as built for goos.
func list(t *testing.T, goos string) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,Standard,GoFiles,Imports,TestImports,XTestImports,Deps,Error", "./...")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(cmd.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, stderr.String())
	}
	var all []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if ours(p.ImportPath) == "" {
			continue
		}
		if p.Error != nil {
			t.Fatalf("%s: %s", p.ImportPath, p.Error.Err)
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		t.Fatal("go list found no package of " + module)
	}
	return all
}

// ruleOf returns the name of the rule that applies to a package: the longest name in rules that is the package or a
// folder above it.
func ruleOf(name string) (string, bool) {
	best, found := "", false
	for rule := range rules {
		if (name == rule || rule != "." && within(name, rule)) && (!found || len(rule) > len(best)) {
			best, found = rule, true
		}
	}
	return best, found
}

// sharesRule reports whether a package needs no rule of its own, because the rule of a folder above it applies. This is
// true for views, and for the program of one test (demosource).
func sharesRule(name string) bool {
	return name == "." || within(name, views) || within(name, "ui/internal/demosource")
}

// violations returns the import rules that a package breaks.
func violations(p pkg) []string {
	var broken []string
	say := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	name := p.name()
	rule, ok := ruleOf(name)
	if !ok || name != rule && !sharesRule(name) {
		say("%s has no rule: say in %s what it may import", name, "internal/archtest")
	}
	for _, imported := range p.Imports {
		other := ours(imported)
		if other == "" {
			if !isStandard(imported) && !slices.ContainsFunc(modules, func(m string) bool { return within(imported, m) }) {
				say("%s imports %s, which is not among ddtop's modules", name, imported)
			}
			if slices.ContainsFunc(screen, func(m string) bool { return within(imported, m) }) && !within(name, "ui") {
				say("%s imports %s: only ui draws", name, imported)
			}
			continue
		}
		if other == "internal/rubytest" && !within(name, other) && !slices.Contains(rules[rule], other) {
			say("%s imports internal/rubytest outside of tests", name)
			continue
		}
		if within(name, views) && other != views && within(other, views) {
			say("%s imports %s: views do not import each other", name, other)
		}
		if ok && !mayImport(rule, other) {
			say("%s imports %s: of ours it may import %v", name, other, rules[rule])
		}
	}
	if isPure(name) {
		for _, dep := range p.Deps {
			if slices.Contains(forbiddenInPure, dep) {
				say("%s is pure and depends on %s", name, dep)
			}
		}
	}
	return broken
}

// mayImport reports whether a package to which the rule with the name rule applies may import the package other. It may
// import packages with the same rule, and packages whose rule is in the rule's list. So the name sampler in a list does
// not allow sampler/live, which has a rule of its own.
func mayImport(rule, other string) bool {
	otherRule, ok := ruleOf(other)
	if !ok {
		return false
	}
	if slices.Contains(everywhere, otherRule) {
		return true
	}
	if rule != "." && within(other, rule) && otherRule == rule {
		return true
	}
	for _, allowed := range rules[rule] {
		if otherRule == allowed || allowed == "attach" && within(otherRule, "attach") {
			return true
		}
		// Only the command line and the screenshots connect all packages. For these two, the name sampler in the list
		// also allows every package below sampler.
		if allowed == "sampler" && (rule == "internal/cli" || rule == "screenshots") && within(other, "sampler") {
			return true
		}
	}
	return false
}

// isPure reports whether a package only turns samples into results (pure). The list pure applies to rules, not folders.
// So sampler is pure, but packages below it that read processes are not, because they have rules of their own.
func isPure(name string) bool {
	rule, ok := ruleOf(name)
	return ok && slices.Contains(pure, rule)
}

func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func TestImportsRunOneWay(t *testing.T) {
	for _, goos := range []string{"linux", "darwin"} {
		for _, p := range list(t, goos) {
			for _, v := range violations(p) {
				t.Errorf("GOOS=%s: %s", goos, v)
			}
		}
	}
}

// TestRulesAreOfPackages: each rule names an existing package. Otherwise the rule of a deleted package would apply to a
// later package of the same name, and allow imports that no one decided on.
func TestRulesAreOfPackages(t *testing.T) {
	var names []string
	for _, p := range list(t, "linux") {
		names = append(names, p.name())
	}
	for rule := range rules {
		if rule == "." {
			continue
		}
		if !slices.ContainsFunc(names, func(n string) bool { return within(n, rule) }) {
			t.Errorf("rule for %s, and no such package", rule)
		}
	}
}

// TestPurePackagesReadNothing: packages that only turn samples into results use neither the clock nor paths in /proc.
func TestPurePackagesReadNothing(t *testing.T) {
	checked := 0
	for _, p := range list(t, "linux") {
		if !isPure(p.name()) {
			continue
		}
		for _, file := range p.GoFiles {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			checked++
			for _, v := range reads(f) {
				t.Errorf("%s: %s", fset.Position(v.pos), v.what)
			}
		}
	}
	if checked == 0 {
		t.Fatal("no file of a pure package was checked")
	}
}

type reading struct {
	pos  token.Pos
	what string
}

// reads returns where a file uses the clock or a path in /proc.
func reads(f *ast.File) []reading {
	var found []reading
	timeName := ""
	for _, imp := range f.Imports {
		if imp.Path.Value == `"time"` {
			timeName = "time"
			if imp.Name != nil {
				timeName = imp.Name.Name
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && timeName != "" && x.Name == timeName && slices.Contains(clock, n.Sel.Name) {
				found = append(found, reading{n.Pos(), "a pure package uses time." + n.Sel.Name + ": take the time from the sample or from the caller"})
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING && strings.HasPrefix(strings.Trim(n.Value, "\"`"), "/proc/") {
				found = append(found, reading{n.Pos(), "a pure package names " + n.Value})
			}
		}
		return true
	})
	return found
}

// TestELFIsReadWithinLimits: an ELF file may be hostile, and debug/elf trusts the sizes in it. So only package
// attach/mapped may open a file with debug/elf, after it has checked the file. No package may call methods of debug/elf
// that unpack or read whole tables.
func TestELFIsReadWithinLimits(t *testing.T) {
	made := 0
	for _, p := range list(t, "linux") {
		for _, file := range p.GoFiles {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range elfCalls(f) {
				if p.name() == "attach/mapped" && file == "elffile.go" && v.what == "elf.NewFile" {
					made++
					continue
				}
				t.Errorf("%s: %s reads an ELF file without limits: use attach/mapped", fset.Position(v.pos), v.what)
			}
		}
	}
	if made != 1 {
		t.Errorf("attach/mapped makes a file of debug/elf at %d places, want 1", made)
	}
}

// elfWhole are methods of debug/elf's File that read or unpack as much data as the ELF file claims to have. A hostile
// file could make them use up the memory.
var elfWhole = []string{"Symbols", "DynamicSymbols", "ImportedSymbols", "ImportedLibraries", "DynString", "DynValue", "DynamicVersions", "DWARF"}

// elfCalls returns where a Go file opens an ELF file with debug/elf, or calls a method in elfWhole.
func elfCalls(f *ast.File) []reading {
	if !slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"debug/elf"` }) {
		return nil
	}
	var found []reading
	ast.Inspect(f, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, of := s.X.(*ast.Ident)
		made := of && x.Name == "elf" && (s.Sel.Name == "NewFile" || s.Sel.Name == "Open")
		if made || slices.Contains(elfWhole, s.Sel.Name) {
			found = append(found, reading{s.Pos(), types.ExprString(s)})
		}
		return true
	})
	return found
}

// TestViolationsAreFound: the checks of this file report known violations of the rules, and accept what the rules
// allow.
func TestViolationsAreFound(t *testing.T) {
	for _, c := range []struct {
		name    string
		imports []string
		deps    []string
		want    string // "" if there is no violation
	}{
		{"gvl", []string{"fmt", module + "/sampler"}, nil, ""},
		{"gvl", []string{module + "/attach"}, nil, "gvl imports attach"},
		{"gvl", []string{module + "/sampler/live"}, nil, "gvl imports sampler/live"},
		{"gvl", nil, []string{"os/exec"}, "gvl is pure and depends on os/exec"},
		{"export", []string{module + "/gvl", module + "/flamegraph"}, nil, ""},
		{"flamegraph", []string{module + "/gvl"}, nil, ""},
		{"gvl", []string{module + "/flamegraph"}, nil, "gvl imports flamegraph"},
		{"gvl", []string{module + "/gvl/stream"}, nil, "gvl imports gvl/stream"},
		{"gvl/stream", []string{module + "/gvl", module + "/gvl/internal/listed"}, nil, ""},
		{"gvl/stream", []string{module + "/gvl/account"}, nil, "gvl/stream imports gvl/account"},
		{"gvl/account", []string{module + "/gvl/findings"}, nil, "gvl/account imports gvl/findings"},
		{"gvl/findings", []string{module + "/gvl/measure"}, nil, "gvl/findings imports gvl/measure"},
		{"flamegraph/svg", []string{module + "/flamegraph"}, nil, "has no rule"},
		{"push/spool/disk", nil, nil, "has no rule"},
		{"push/spool", []string{module + "/push"}, nil, "push/spool imports push"},
		{"sampler", []string{module + "/attach"}, nil, "sampler imports attach"},
		{"sampler", []string{module + "/sampler/ruby"}, nil, "sampler imports sampler/ruby"},
		{"sampler/ruby", []string{module + "/sampler", module + "/attach/layout"}, []string{"golang.org/x/sys/unix"}, ""},
		{"sampler/ruby", []string{module + "/sampler/kernel"}, nil, "sampler/ruby imports sampler/kernel"},
		{"sampler/live", []string{module + "/sampler/kernel", module + "/sampler/ruby"}, nil, ""},
		{"attach", []string{module + "/attach/mapped"}, nil, ""},
		{"attach", []string{module + "/attach/processcontext"}, nil, "attach imports attach/processcontext"},
		{"attach/mapped", []string{module + "/attach"}, nil, "attach/mapped imports attach"},
		{"attach", []string{module + "/sampler"}, nil, "attach imports sampler"},
		{"ui", []string{"charm.land/bubbletea/v2", module + "/ui/internal/canvas"}, nil, ""},
		{"ui", []string{module + "/sampler/live"}, nil, "ui imports sampler/live"},
		{"ui/page/live", []string{module + "/ui/page", module + "/ui/widget"}, nil, ""},
		{"ui/page/live", []string{module + "/ui/page/flame"}, nil, "views do not import each other"},
		{"ui/widget", []string{module + "/ui/page/flame"}, nil, "ui/widget imports ui/page/flame"},
		{"ui/scene", []string{module + "/ui/widget"}, nil, "ui/scene imports ui/widget"},
		{"internal/cli", []string{"charm.land/bubbletea/v2"}, nil, "only ui draws"},
		{"internal/cli", []string{module + "/sampler/live", module + "/ui"}, nil, ""},
		{"internal/cli", []string{module + "/internal/rubytest"}, nil, "outside of tests"},
		{"ui", []string{"example.com/nice"}, nil, "not among ddtop's modules"},
		{"brand/new", nil, nil, "has no rule"},
	} {
		got := strings.Join(violations(pkg{ImportPath: module + "/" + c.name, Imports: c.imports, Deps: c.deps}), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s importing %v %v: got %q, want %q", c.name, c.imports, c.deps, got, c.want)
		}
	}
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
		import clock "time"
		var a, b = clock.Now(), "/proc/self/maps"
		var c = clock.Second`, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := reads(f); len(got) != 2 {
		t.Errorf("found %v", got)
	}
	f, err = parser.ParseFile(token.NewFileSet(), "x.go", `package x
		import "debug/elf"
		var a, _ = elf.NewFile(nil)
		var b, _ = a.DynamicSymbols()
		var c = a.Section(".text")`, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := elfCalls(f); len(got) != 2 || got[0].what != "elf.NewFile" || got[1].what != "a.DynamicSymbols" {
		t.Errorf("found %v", got)
	}
}
