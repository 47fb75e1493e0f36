package ruby

import (
	"encoding/binary"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/ownword"
)

// TestOwnWordOfARM: on arm64, glibc's struct pthread is in front of the address in the thread pointer. glibc publishes
// the size of this struct for debuggers. The test runs emulated Rubies for arm64. Each thread must have the pointer to
// its execution context at the place that Scheduler reports.
func TestOwnWordOfARM(t *testing.T) {
	rubytest.EachForeign(t, func(t *testing.T, r rubytest.Ruby) {
		rubytest.NeedExact(t, r)
		p := r.Start(t, "$stdout.sync = true\n3.times { Thread.new { sleep } }\nputs %q(ready)\n$stdin.gets", rubytest.Options{RubyArgs: []string{"--disable=gems"}})
		p.Expect(t, "ready")
		rd := openReader(t, p.PID)
		var sample sampler.Sample
		for deadline := time.Now().Add(r.Timeout()); ; time.Sleep(time.Millisecond) {
			err := rd.Read(sampler.LockTick, &sample)
			if err == nil && len(sample.Threads) == 4 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d threads, %v", len(sample.Threads), err)
			}
		}
		s, err := rd.Scheduler()
		if err != nil {
			t.Fatal(err)
		}
		specific := !r.AtLeast(3, 0)
		if specific != (s.ThreadOfEC < 0) {
			t.Errorf("%+v", s)
		}
		threads, ok := rd.nativeWords(rd.list.ractors[0].threads, specific)
		if !ok || len(threads) != 4 {
			t.Fatalf("%v, %t", threads, ok)
		}
		want := sizeForDebuggers(t, p.PID)
		if size, ok := ownword.BlockSize(rd.mem, threads); !ok || size != want {
			t.Errorf("struct pthread has %d bytes, %t; libthread_db says %d", size, ok, want)
		}
		for _, th := range threads {
			if got := rd.wordAt(th.Thread + attach.Address(want+s.ExecutionContext)); got != th.Word {
				t.Errorf("%#x at %d from the thread pointer of %v, not %#x", got, s.ExecutionContext, th.Thread, th.Word)
			}
		}
		if !specific && s.ExecutionContext < 16 || specific && (s.ExecutionContext >= 0 || s.ExecutionContext < -want) {
			t.Errorf("%d from the thread pointer, of a block of %d", s.ExecutionContext, want)
		}
	})
}

// sizeForDebuggers returns the size of struct pthread in bytes, as a process's glibc publishes it for libthread_db.
func sizeForDebuggers(t *testing.T, pid int) int64 {
	t.Helper()
	p, err := attach.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	maps, err := p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range maps {
		name := filepath.Base(m.Path)
		if !m.IsFile() || !strings.HasPrefix(name, "libc.so") && !strings.HasPrefix(name, "libpthread-") {
			continue
		}
		library, err := p.Module(m.Path, maps)
		if err != nil {
			t.Fatal(err)
		}
		symbol, ok := library.Symbol("_thread_db_sizeof_pthread")
		library.Close()
		if !ok {
			continue
		}
		var b [4]byte
		if err := p.Read(symbol.Addr, b[:]); err != nil {
			t.Fatal(err)
		}
		return int64(binary.LittleEndian.Uint32(b[:]))
	}
	t.Fatal("no library has _thread_db_sizeof_pthread")
	return 0
}
