package kernel

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestPSS compares with the file itself, read before and after; what other processes share of the pages changes meanwhile.
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
			t.Skip(err) // before 4.14
		}
		pss, ok := parsePSS(b)
		if !ok || pss <= 0 {
			return 0 // it has no memory of its own before its exec
		}
		return pss
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		p, err := OpenProc(pid)
		if err != nil {
			t.Fatal(err)
		}
		before := said()
		got, err := p.Read(1)
		after := said()
		if err != nil {
			t.Fatal(err)
		}
		// It is asked for again after ten seconds, not before.
		again, err := p.Read(2)
		p.Close()
		if err != nil || again.PSSBytes != got.PSSBytes {
			t.Fatalf("%d, a moment later %d, %v", got.PSSBytes, again.PSSBytes, err)
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

func TestParsePSS(t *testing.T) {
	const whole = "00400000-7ffe83ba2000 ---p 00000000 00:00 0    [rollup]\nRss:    5432 kB\nPss:     123 kB\nPss_Dirty: 7 kB\n"
	if n, ok := parsePSS([]byte(whole)); !ok || n != 123<<10 {
		t.Error(n, ok)
	}
	for _, bad := range []string{"", "Pss: 1 kB", "\nPss:", "\nPss: x kB", "\nPss_Dirty: 7 kB", "\nPss: 99999999999999999 kB"} {
		if n, ok := parsePSS([]byte(bad)); ok {
			t.Errorf("%q was taken: %d", bad, n)
		}
	}
}

func TestParseTimeslices(t *testing.T) {
	if n, ok := parseTimeslices([]byte("543774 12 17\n")); !ok || n != 17 {
		t.Error(n, ok)
	}
	for _, bad := range []string{"", "1", "1 2", "1 2 ", "1 2 x", "1 2 9223372036854775808", "-1 2 3"} {
		if n, ok := parseTimeslices([]byte(bad)); ok {
			t.Errorf("%q was taken: %d", bad, n)
		}
	}
}
