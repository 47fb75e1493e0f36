package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/sampler"
)

// TestCPUUse: the result names a process that computes, with the CPU time that the process's own CPU clock shows
// (clock_getcpuclockid(3)). The result does not name the target itself.
func TestCPUUse(t *testing.T) {
	cmd, _ := startHelper(t, "spin", nil)
	pid := int32(cmd.Process.Pid)
	used := func() int64 {
		var ts unix.Timespec
		if err := unix.ClockGettime(^pid<<3|2, &ts); err != nil {
			t.Fatal(err)
		}
		return ts.Nano()
	}
	var u cpuUses
	before := used()
	if u.read(1e9, 0) != nil {
		t.Fatal("one reading says what was used since another one")
	}
	after := used()
	for deadline := time.Now().Add(time.Minute); used() < after+300e6; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Skip("the helper had no CPU for a minute")
		}
	}
	// /proc rounds user time and system time down to ticks of 10 ms each. So the sum may be 20 ms too small.
	least := used() - after - 20e6
	began := time.Now()
	x := u.read(3e9, 0)
	t.Logf("a reading of %d processes takes %v", len(u.of), time.Since(began))
	most := used() - before + 20e6
	i := slices.IndexFunc(u.users, func(y sampler.CPUUser) bool { return y.PID == pid })
	if i < 0 || u.users[i].NS < least || u.users[i].NS > most || u.users[i].Name != filepath.Base(os.Args[0]) {
		t.Fatalf("%+v, want the helper %d with %d to %d ns", u.users, pid, least, most)
	}
	if len(x.Users) > sampler.MaxCPUUsers || x.Users[0].NS < u.users[0].NS || x.CPUs < 1 || x.OthersNS < u.users[i].NS || x.AllNS == 0 {
		t.Errorf("%+v", x)
	}
	cgroup, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	u.limits = map[string]int64{string(cgroup): 1500}
	of := u.read(u.nextNS-1, int(pid)) // from the same sample
	if of.LimitMilli != 1500 {
		t.Errorf("the limit of a cgroup is %d, and was read as 1500 for another process of it", of.LimitMilli)
	}
	if slices.Contains(of.Users, u.users[i]) || of.OthersNS != x.OthersNS-u.users[i].NS || of.AtNS != x.AtNS {
		t.Errorf("asked for the helper itself: %+v, before %+v", of, x)
	}
}

// TestCPUUseByName: processes with the same name count as one user of the CPUs. The user has the PID of the process
// with the most CPU time. The target itself is left out.
func TestCPUUseByName(t *testing.T) {
	user := func(pid int32, name string, ns int64) sampler.CPUUser {
		return sampler.CPUUser{PID: pid, Processes: 1, Name: name, NS: ns}
	}
	u := cpuUses{any: true, nextNS: 2, now: sampler.CPUUse{AtNS: 1, OthersNS: 120}, users: []sampler.CPUUser{
		user(1, "stress", 50), user(2, "ruby", 30), user(3, "ruby", 25), user(-4, "ruby", 8), user(5, "sh", 4), user(6, "cc1", 3),
	}}
	got := u.read(1, -4)
	want := []sampler.CPUUser{{PID: 2, Processes: 2, Name: "ruby", NS: 55}, user(1, "stress", 50), user(5, "sh", 4)}
	if !slices.Equal(got.Users, want) || got.OthersNS != 112 {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestCPUUseTurns: if a PID is used again, ddtop does not compare the CPU times of the old and the new process. It also
// does not compare two readings that are too far apart.
func TestCPUUseTurns(t *testing.T) {
	own := int32(os.Getpid())
	var u cpuUses
	u.read(1e9, 0)
	if u.nextNS != 1e9+firstUseNS {
		t.Errorf("the second reading is due at %d", u.nextNS)
	}
	u.of[own] = processTimes{ns: 1 << 60, start: 1} // an older process with this PID
	x := u.read(u.nextNS, 0)
	if x == nil || u.nextNS < 2e9+useNS || x.FromNS != 1e9 || x.AtNS != 2e9 {
		t.Fatalf("%+v, the next one at %d", x, u.nextNS)
	}
	for _, y := range u.users {
		if y.NS <= 0 || y.PID == own {
			t.Errorf("%+v", y)
		}
	}
	if again := u.read(3e9, 0); again.AtNS != 2e9 {
		t.Errorf("%+v before the next reading is due", again)
	}
	if u.read(u.nextNS+useNS+1, 0) != nil {
		t.Error("compared with a reading that is too old")
	}
}

// TestMachineStat: parseMachineStat adds up the right fields of the line "cpu" in /proc/stat.
func TestMachineStat(t *testing.T) {
	const text = "cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu1 0 0 0 0 0 0 0 0 0 0\nintr 5 6\n"
	if got := parseMachineStat([]byte(text)); got != (machineTimes{600e6, 800e6, 2}) {
		t.Errorf("%+v", got)
	}
	if got := parseMachineStat([]byte("cpu  10 x")); got.cpus != 0 || got.stolen != 0 {
		t.Errorf("%+v of a line that is cut", got)
	}
}
