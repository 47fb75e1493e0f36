//go:build verify && linux

package ruby

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// lockEvent matches a line of the kernel's trace. Its groups are the thread, the time in seconds, the event, the memory
// (mm) and the kind of lock (write).
var lockEvent = regexp.MustCompile(`-(\d+) +\[\d+\].*? (\d+\.\d+): (\w+):(?: mm=(\w+))?.*?(?: write=(\w+))?`)

// TestMmapLock: while ddtop reads the target's memory, it holds the target's mmap lock, which can delay the target's
// threads. While ddtop counts objects, at least 99.9 % of these holds must be 1 ms or shorter, according to the
// kernel's events. If ddtop lost its CPU during a hold, the hold is only logged, because its length depends on the
// machine's load.
func TestMmapLock(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("nodev", dir, "tracefs", 0, ""); err != nil {
		rubytest.Skip(t, "mounting tracefs: %v", err)
	}
	defer syscall.Unmount(dir, 0)
	instance := filepath.Join(dir, "instances", "ddtop-test")
	if err := os.Mkdir(instance, 0o700); err != nil {
		rubytest.Skip(t, "an instance of tracefs: %v", err)
	}
	defer os.Remove(instance)
	put := func(file, text string) {
		if err := os.WriteFile(filepath.Join(instance, file), []byte(text), 0o600); err != nil {
			rubytest.Skip(t, "%s: %v", file, err)
		}
	}
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	name := string(comm[:len(comm)-1])
	p := rubytest.One(t).Start(t, `class Node; def initialize(i); @a, @b = i, i.to_s; end; end
keep = Array.new(500_000) { |i| Node.new(i) }; GC.start
puts "ready"; $stdout.flush
loop { 1000.times { |i| [i.to_s] }; sleep 0.01 }`, rubytest.Options{})
	p.Expect(t, "ready")
	reader := openReader(t, p.PID)
	put("buffer_size_kb", "16384")
	put("events/mmap_lock/mmap_lock_acquire_returned/filter", `comm == "`+name+`"`)
	put("events/mmap_lock/mmap_lock_released/filter", `comm == "`+name+`"`)
	put("events/sched/sched_switch/filter", `prev_comm == "`+name+`"`)
	for _, event := range []string{"mmap_lock/mmap_lock_acquire_returned", "mmap_lock/mmap_lock_released", "sched/sched_switch"} {
		put("events/"+event+"/enable", "1")
	}
	for range 5 {
		if _, err := reader.CountHeap(context.Background(), func() {}); err != nil {
			t.Fatal(err)
		}
	}
	put("tracing_on", "0")
	f, err := os.Open(filepath.Join(instance, "trace"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	type key struct{ thread, mm string }
	type began struct {
		at       float64
		switches int
	}
	held, switches := make(map[key]began), make(map[string]int)
	kept, lost := make(map[string][]float64), make(map[string][]float64)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		m := lockEvent.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		at, _ := strconv.ParseFloat(m[2], 64)
		k := key{m[1], m[4]}
		switch m[3] {
		case "sched_switch":
			switches[m[1]]++
		case "mmap_lock_acquire_returned":
			held[k] = began{at, switches[m[1]]}
		case "mmap_lock_released":
			h, known := held[k]
			delete(held, k)
			if known && h.switches == switches[m[1]] {
				kept[k.mm] = append(kept[k.mm], (at-h.at)*1e6)
			} else if known {
				lost[k.mm] = append(lost[k.mm], (at-h.at)*1e6)
			}
		}
	}
	target := ""
	for mm, list := range kept { // the lock taken most often is the target's, because a count rarely takes ddtop's own
		if len(list) > len(kept[target]) {
			target = mm
		}
	}
	list := kept[target]
	if slices.Sort(list); len(list) < 10_000 {
		t.Fatalf("only %d holds were seen", len(list))
	}
	all := append(slices.Clone(list), lost[target]...)
	slices.Sort(all)
	at := func(list []float64, part float64) float64 { return list[int(part*float64(len(list)-1))] }
	t.Logf("%d holds: median %.0f µs, 99.9 %% %.0f µs, most %.0f µs", len(list), at(list, .5), at(list, .999), at(list, 1))
	t.Logf("with the %d in which the reader lost its CPU: 99.9 %% %.0f µs, most %.0f µs", len(lost[target]), at(all, .999), at(all, 1))
	if at(list, .999) > 1000 {
		t.Error("a call holds the target's mmap lock for more than 1 ms")
	}
}
