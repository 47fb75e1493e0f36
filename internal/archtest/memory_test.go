package archtest

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// memoryLimits are constants in the source code. Together they limit the memory that ddtop uses for a process while its
// screen is open. Each limit in bytes is the value of the constant, multiplied by the number in the field times.
var memoryLimits = []struct {
	file, name string
	times      int64
}{
	{"sampler/bytes.go", "MaxDictionaryBytes", 1},
	{"sampler/ruby/internal/code/cache.go", "MaxKeptBytes", 1},
	{"sampler/ruby/internal/heap/heap.go", "MaxKeptBytes", 1},
	{"sampler/ruby/stackbytes.go", "maxStackBytes", 1},
	{"sampler/ruby/waiting.go", "waitingBytes", 1},
	{"ui/store/history.go", "historyBytes", 2}, // twice the constant for a history of an hour
	{"gvl/timeline/timeline.go", "MaxTimelineBytes", 1},
	{"flamegraph/rolling.go", "MaxHistoryBytes", 1},
	{"flamegraph/rolling.go", "MaxKeys", 160},       // bytes of an entry, with its place in the map
	{"ui/store/store.go", "maxPendingThreads", 200}, // bytes of a sampler.Thread
	{"sampler/live/internal/handover/handover.go", "maxWaitingThreads", 200},
	{"ui/page/thread/source.go", "maxSourceBytes", 16}, // the largest number of files (maxSourceFiles)
}

// constantOf returns the value of a constant in a Go file, if the constant consists of numbers only.
func constantOf(t *testing.T, file, name string) int64 {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, filepath.Join("..", "..", file), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found int64
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, id := range spec.Names {
			if id.Name == name && i < len(spec.Values) {
				v, err := types.Eval(fset, nil, token.NoPos, types.ExprString(spec.Values[i]))
				if err != nil {
					t.Fatalf("%s: %s: %v", file, name, err)
				}
				found, _ = constant.Int64Val(v.Value)
			}
		}
		return true
	})
	if found <= 0 {
		t.Fatalf("%s has no constant %s", file, name)
	}
	return found
}

// TestMemoryLimitsAddUp: the memory limits for a process add up to the size that docs/internals/reading.md names. The
// sum may also be up to 32 MB less.
func TestMemoryLimitsAddUp(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "internals", "reading.md"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`limits add up to (\d+) MB`).FindSubmatch(text)
	if m == nil {
		t.Fatal("docs/internals/reading.md does not say what the limits add up to")
	}
	said, _ := strconv.ParseInt(string(m[1]), 10, 64)
	sum := int64(0)
	for _, l := range memoryLimits {
		bytes := l.times * constantOf(t, l.file, l.name)
		t.Logf("%4d MB  %s of %s", bytes>>20, l.name, l.file)
		sum += bytes
	}
	if sum > said<<20 || sum < (said-32)<<20 {
		t.Errorf("the limits add up to %d MB, docs/internals/reading.md says %d", sum>>20, said)
	}
}
