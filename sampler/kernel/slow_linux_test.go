package kernel

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestPSS: ddtop's value equals the value in smaps_rollup. The test reads the file before and after ddtop does. If
// these two values differ, because shared memory has changed, the test tries again.
func TestPSS(t *testing.T) {
	cmd := exec.Command("sleep", "3600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	pid := cmd.Process.Pid
	said := func() int64 {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			t.Skip(err) // Linux before 4.14
		}
		pss, ok := memoryField(b, "Pss")
		if !ok || pss <= 0 {
			return 0 // before its exec, the process has no memory of its own
		}
		return pss
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		p, err := OpenSlow(pid)
		if err != nil {
			t.Fatal(err)
		}
		before := said()
		got := p.Read(1, 1, nil)
		after := said()
		// Read must not read the file again at once, but only after ten seconds.
		again := p.Read(2, 1, nil)
		if p.rollup.nextNS < 1+rollupEveryNS {
			t.Errorf("one process is read again after %d ns", p.rollup.nextNS)
		}
		p.rollup.nextNS = 0
		p.Read(3, 50, nil)
		if p.rollup.nextNS < 3+rollupEveryNS*50/rollupSharers {
			t.Errorf("one of fifty processes is read again after %d ns", p.rollup.nextNS)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if again.PSSBytes != got.PSSBytes {
			t.Fatalf("%d, a moment later %d", got.PSSBytes, again.PSSBytes)
		}
		if before == after && before > 0 {
			if got.PSSBytes != before {
				t.Errorf("PSS %d, the kernel says %d", got.PSSBytes, before)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Skip("the memory of the machine changed for a minute on end")
		}
	}
}

// TestSwitches: the switches that ddtop counts lie between the kernel's own counts, read before and after. The test
// reads the context switches in task/TID/status, which increase when a thread leaves a CPU.
func TestSwitches(t *testing.T) {
	cmd := exec.Command("sh", "-c", "while :; do sleep 0.001; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	pid := cmd.Process.Pid
	said := func() (n int64) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if name, value, _ := strings.Cut(line, ":"); strings.HasSuffix(name, "voluntary_ctxt_switches") {
				k, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				n += k
			}
		}
		return n
	}
	s, err := OpenSlow(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const hour = 3600e9
	begun := said()
	if got := s.Read(1, 1, nil).Switches; got != 0 {
		t.Errorf("%d switches at the first reading", got)
	}
	first := said()
	for deadline := time.Now().Add(time.Minute); said() < first+100; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it switched %d times in a minute", said()-first)
		}
	}
	least := said() - first
	got := s.Read(hour, 1, nil).Switches
	most := said() - begun
	// The kernel's number here is how often the thread left a CPU. ddtop counts how often it got a CPU. The two can
	// differ by one.
	if got < least-1 || got > most+1 {
		t.Errorf("%d switches, the kernel says %d to %d", got, least, most)
	}
	if again := s.Read(hour+1, 1, nil).Switches; again != got {
		t.Errorf("counted again at once: %d, %d", got, again)
	}
	more := said()
	for deadline := time.Now().Add(time.Minute); said() < more+10; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it switched %d times in a minute", said()-more)
		}
	}
	// The function "still" always reports that no thread has had a CPU. Such a report can be wrong if records were
	// lost. So ddtop must count the switches again after stillSwitchesNS.
	s.switches.lacked = 0
	still := func(int64) bool { return true }
	if again := s.Read(hour+stillSwitchesNS-1, 1, still).Switches; again != got {
		t.Errorf("counted again although no thread has had a CPU: %d, %d", got, again)
	}
	if again := s.Read(hour+stillSwitchesNS, 1, still).Switches; again <= got {
		t.Errorf("not counted again in the end: %d, %d", got, again)
	}
}

func TestParsePSS(t *testing.T) {
	const whole = "00400000-7ffe83ba2000 ---p 00000000 00:00 0    [rollup]\nRss:    5432 kB\nPss:     123 kB\nPss_Dirty: 7 kB\n"
	if n, ok := memoryField([]byte(whole), "Pss"); !ok || n != 123<<10 {
		t.Error(n, ok)
	}
	for _, bad := range []string{"", "Pss: 1 kB", "\nPss:", "\nPss: x kB", "\nPss_Dirty: 7 kB", "\nPss: 99999999999999999 kB"} {
		if n, ok := memoryField([]byte(bad), "Pss"); ok {
			t.Errorf("%q was taken: %d", bad, n)
		}
	}
}
