package kernel

import (
	"bytes"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

func TestParseSyscall(t *testing.T) {
	for _, c := range []struct {
		in   string
		nr   int64
		args [6]uint64
		ok   bool
	}{
		{"running\n", callRunning, [6]uint64{}, true},
		{"-1 0x7ffd3d2a1c38 0x7f0f2b8a1c1e\n", callNone, [6]uint64{}, true},
		{"0 0x3 0x7f7e152a4000 0x20000 0x7f7e15337b60 0xffffffff 0x0 0x7fffb6983428 0x7f7e154202ad\n", 0,
			[6]uint64{3, 0x7f7e152a4000, 0x20000, 0x7f7e15337b60, 0xffffffff, 0}, true},
		{"202 0xffffffffffffffff 0x0 0x0 0x0 0x0 0x0 0x0 0x0", 202, [6]uint64{1<<64 - 1}, true},
		{"", 0, [6]uint64{}, false},
		{"0 0x3 0x4\n", 0, [6]uint64{}, false},
		{"-1 0x0 0x0\n", callEnded, [6]uint64{}, true},
		{"-2 0x3 0x4\n", callNone, [6]uint64{}, false},
		{"0 0x1ffffffffffffffff 0 0 0 0 0 0 0\n", 0, [6]uint64{}, false},
	} {
		nr, args, ok := parseSyscall([]byte(c.in))
		if ok != c.ok || ok && (nr != c.nr || args != c.args) {
			t.Errorf("%q: %d %v %v", c.in, nr, args, ok)
		}
	}
}

func TestParseStackPointer(t *testing.T) {
	for in, want := range map[string]uint64{
		"running\n": 0, "": 0, "-1 0x7ffd3d2a1c38 0x7f0f2b8a1c1e\n": 0x7ffd3d2a1c38, "-1 0x0 0x0\n": 0,
		"0 0x3 0x7f7e152a4000 0x20000 0x7f7e15337b60 0xffffffff 0x0 0x7fffb6983428 0x7f7e154202ad\n": 0x7fffb6983428,
		"0 0x3 0x7f7e152a4000 0x20000 0x7f7e15337b60 0xffffffff 0x0 stack 0x7f7e154202ad\n":          0, "0 1 2 3": 0,
	} {
		if got, _, ok := parseStanding([]byte(in)); got != want || ok != (want != 0) {
			t.Errorf("%q: %#x, %v", in, got, ok)
		}
	}
}

func TestParseStat(t *testing.T) {
	const rest = " S 1 2 3 0 -1 4194560 9 8 7 6 123 45 5 4 20 0 12 0 6789 1000 250 18446744073709551615 1 1\n"
	for _, comm := range []string{"ruby", ") R 1 (", "a b", "", "a\n) Z", "(", ")))"} {
		b := []byte("4711 (" + comm + ")" + rest)
		if s, ok := parseState(b); !ok || s != 'S' {
			t.Errorf("comm %q: state %c %v", comm, s, ok)
		}
		got, ok := parseStat(b)
		want := processStat{state: 'S', ppid: 1, majorFaults: 7, userTicks: 123, systemTicks: 45, startTicks: 6789, residentPage: 250}
		if !ok || got != want {
			t.Errorf("comm %q: %+v %v", comm, got, ok)
		}
	}
	for _, bad := range []string{"", "1 (a", "1 (a)", "1 (a) ", "1 (a) S 1 2", "1 (a) S 1 2 x"} {
		if _, ok := parseStat([]byte(bad)); ok {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestParseSchedstat(t *testing.T) {
	for in, want := range map[string]CPU{"543774 12 17\n": {543774, 12, 17}, "0 0 0": {}, "9223372036854775807 1 1": {1<<63 - 1, 1, 1}} {
		got, ok := parseSchedstat([]byte(in))
		if !ok || got != want {
			t.Errorf("%q: %+v %v", in, got, ok)
		}
	}
	for _, bad := range []string{
		"", "1", "x 1", "1 2", "1 2 x", "9223372036854775808 1 1", "99999999999999999999 1 1", "-1 2 1", "1 2 -1",
	} {
		if _, ok := parseSchedstat([]byte(bad)); ok {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestNames(t *testing.T) {
	for machine, want := range map[string]map[int64]string{
		"x86_64":  {0: "read", 7: "poll", 23: "select", 202: "futex", 232: "epoll_wait", 61: "wait4", 271: "ppoll", 4000: "syscall_4000"},
		"aarch64": {63: "read", 73: "ppoll", 98: "futex", 22: "epoll_pwait", 260: "wait4", 207: "recvfrom", 115: "clock_nanosleep"},
		"riscv64": {63: "syscall_63"},
	} {
		n := newNamer(machine, false)
		for nr, name := range want {
			if got := n.name(nr); got != name {
				t.Errorf("%s %d: %q, want %q", machine, nr, got, name)
			}
		}
	}
	if got := newNamer("x86_64", true).name(3); got != "syscall_3" {
		t.Errorf("a 32-bit program's call: %q", got)
	}
	n := newNamer("x86_64", false)
	for nr := range int64(3 * maxSyscalls) {
		n.name(nr)
	}
	if len(n.unnamed) > maxSyscalls {
		t.Errorf("%d texts kept", len(n.unnamed))
	}
}

// TestCallKindsExist: each system call in callKinds is in a table of system calls. A misspelled name would never match.
func TestCallKindsExist(t *testing.T) {
	have := map[string]bool{}
	for _, m := range []string{"x86_64", "aarch64"} {
		for _, n := range syscallNames(m) {
			have[n] = true
		}
	}
	for name := range callKinds {
		if !have[name] {
			t.Errorf("no machine has a call %q", name)
		}
	}
}

const (
	dockerV1 = "12:cpu,cpuacct:/docker/3fa1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f\n1:name=systemd:/x\n0::/y\n"
	kubeV2   = "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-3fa1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f.scope\n"
	mountsV2 = "25 24 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	mountsV1 = "33 24 0:29 /docker/3fa1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f /sys/fs/cgroup/cpu\\040x ro shared:3 master:7 - cgroup cgroup rw,cpu,cpuacct\n" +
		"34 24 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n36 24 0:31 / /u rw - cgroup2 cgroup2 rw\n"
)

func TestFindCPUCgroup(t *testing.T) {
	for _, c := range []struct {
		name, mounts, text, point, rel string
		found, below                   bool
	}{
		{"v2", mountsV2, kubeV2, "/sys/fs/cgroup", strings.TrimSuffix(strings.TrimPrefix(kubeV2, "0::"), "\n"), true, true},
		{"v1 in a container", mountsV1, dockerV1, "/sys/fs/cgroup/cpu x", "/", true, true},
		{"v1 elsewhere", mountsV1, "4:cpu:/docker/other\n", "/sys/fs/cgroup/cpu x", "", true, false},
		{"v2 outside of the namespace", mountsV2, "0::/../other\n", "/sys/fs/cgroup", "", true, false},
		{"path with a colon", mountsV2, "0::/a:b\n", "/sys/fs/cgroup", "/a:b", true, true},
		{"deleted", mountsV2, "0::/a (deleted)\n", "/sys/fs/cgroup", "/a", true, true},
		{"nothing mounted", "", kubeV2, "", "", false, false},
		{"no cgroups", mountsV2, "", "", "", false, false},
	} {
		m, p, ok := findCPUCgroup(cgroupMounts([]byte(c.mounts)), c.text)
		if ok != c.found || m.point != c.point {
			t.Errorf("%s: %+v %q %v", c.name, m, p, ok)
			continue
		}
		if !ok {
			continue
		}
		if rel, ok := m.below(p); ok != c.below || rel != c.rel {
			t.Errorf("%s: below %q %v", c.name, rel, ok)
		}
	}
}

func TestParseCPUStat(t *testing.T) {
	v1 := parseCPUStat([]byte("nr_periods 10\nnr_throttled 4\nthrottled_time 5000\nnr_bursts 0\n"))
	v2 := parseCPUStat([]byte("usage_usec 99\nnr_periods 10\nnr_throttled 4\nthrottled_usec 5"))
	if want := (throttling{10, 4, 5000}); v1 != want || v2 != want {
		t.Errorf("%+v, %+v", v1, v2)
	}
}

func TestParseNSpid(t *testing.T) {
	outer, inner, depth, ok := parseNSpid([]byte("Name:\tNSpid: 9\nNSpid:\t4711\t12\t3\nX:\t1\n"))
	if !ok || outer != 4711 || inner != 3 || depth != 3 {
		t.Errorf("%d %d %d %v", outer, inner, depth, ok)
	}
	if _, _, _, ok := parseNSpid([]byte("Name:\tx\n")); ok {
		t.Error("no NSpid was taken")
	}
}

func TestSocketTables(t *testing.T) {
	line := func(local, remote, state, inode string) string {
		return fmt.Sprintf("   1: %s %s %s 00000000:00000000 00:00000000 00000000  1000        0 %s 1 0000000000000000 100 0 0 10 0", local, remote, state, inode)
	}
	for _, c := range []struct {
		in    string
		inode uint64
		want  sampler.Peer
		ok    bool
	}{
		{line("0100007F:D431", "0500000A:1538", "01", "77"), 77,
			sampler.Peer{Kind: sampler.PeerTCP, Local: "127.0.0.1:54321", Remote: "10.0.0.5:5432", Service: "PostgreSQL"}, true},
		{line("00000000:0050", "00000000:0000", "0A", "78"), 78,
			sampler.Peer{Kind: sampler.PeerListener, Local: "0.0.0.0:80", Service: "HTTP"}, true},
		{line("00000000000000000000000001000000:1F90", "0000000000000000FFFF00000500000A:18EB", "01", "79"), 79,
			sampler.Peer{Kind: sampler.PeerTCP, Local: "[::1]:8080", Remote: "10.0.0.5:6379", Service: "Redis"}, true},
		{line("0100007F:D431", "0500000A:1538", "06", "0"), 0, sampler.Peer{}, false},
		{line("0100007F:D43100", "0500000A:1538", "01", "7"), 0, sampler.Peer{}, false},
		{"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode", 0, sampler.Peer{}, false},
		{"", 0, sampler.Peer{}, false},
	} {
		inode, p, ok := parseInternet([]byte(c.in), sampler.PeerTCP)
		if ok != c.ok || ok && (inode != c.inode || p != c.want) {
			t.Errorf("%s: %d %+v %v", c.in, inode, p, ok)
		}
	}
	for _, c := range []struct {
		in    string
		inode uint64
		want  sampler.Peer
		ok    bool
	}{
		{"0000000000000000: 00000002 00000000 00010000 0001 01 1234 /run/my sql/mysqld.sock", 1234,
			sampler.Peer{Kind: sampler.PeerListener, Local: "/run/my sql/mysqld.sock", Service: "MySQL"}, true},
		{"0000000000000000: 00000003 00000000 00000000 0001 03 1235 @abstract", 1235,
			sampler.Peer{Kind: sampler.PeerUnix, Local: "@abstract"}, true},
		{"0000000000000000: 00000003 00000000 00000000 0001 03 1236", 1236, sampler.Peer{Kind: sampler.PeerUnix}, true},
		{"Num       RefCount Protocol Flags    Type St Inode Path", 0, sampler.Peer{}, false},
	} {
		inode, p, ok := parseUnix([]byte(c.in))
		if ok != c.ok || ok && (inode != c.inode || p != c.want) {
			t.Errorf("%s: %d %+v %v", c.in, inode, p, ok)
		}
	}
}

func TestParseSockaddr(t *testing.T) {
	for _, c := range []struct {
		in   string
		want sampler.Peer
		ok   bool
	}{
		{"\x02\x00\x15\x38\x0a\x00\x00\x05", sampler.Peer{Kind: sampler.PeerTCP, Remote: "10.0.0.5:5432", Service: "PostgreSQL"}, true},
		{"\x0a\x00\x18\xeb\x00\x00\x00\x00" + strings.Repeat("\x00", 15) + "\x01\x00\x00\x00\x00",
			sampler.Peer{Kind: sampler.PeerTCP, Remote: "[::1]:6379", Service: "Redis"}, true},
		{"\x01\x00/run/x.sock\x00garbage", sampler.Peer{Kind: sampler.PeerUnix, Remote: "/run/x.sock"}, true},
		{"\x01\x00\x00docker", sampler.Peer{Kind: sampler.PeerUnix, Remote: "@docker", Service: "Docker"}, true},
		{"\x02\x00\x15", sampler.Peer{}, false},
		{"\x0a\x00\x15\x38", sampler.Peer{}, false},
		{"\x01", sampler.Peer{}, false},
		{"\x01\x00", sampler.Peer{}, false},
	} {
		if got, ok := parseSockaddr([]byte(c.in)); ok != c.ok || ok && got != c.want {
			t.Errorf("%q: %+v %v", c.in, got, ok)
		}
	}
}

// TestServiceOfAConnection: ddtop names the service of a connection by the port on which a server listens, at either
// end. A port that the kernel chose for a client names no service.
func TestServiceOfAConnection(t *testing.T) {
	for _, c := range []struct{ local, remote, service string }{
		{"10.0.0.1:40000", "10.0.0.5:11211", "memcached"},
		{"10.0.0.1:40000", "10.0.0.5:27018", "MongoDB"},
		{"10.0.0.1:40000", "10.0.0.5:50051", "gRPC"},
		{"10.0.0.1:8080", "10.0.0.9:50051", ""},
		{"10.0.0.1:8080", "10.0.0.9:50052", ""},
	} {
		p := internetPeer(sampler.PeerTCP, netip.MustParseAddrPort(c.local), netip.MustParseAddrPort(c.remote))
		if p.Service != c.service {
			t.Errorf("%s to %s: %q instead of %q", c.local, c.remote, p.Service, c.service)
		}
	}
}

// TestNewPeersForLong: if a program connects to new ports all the time, ddtop keeps only a limited number of peers.
// When the program has only a few peers again, ddtop stores the exact address and port of a new peer.
func TestNewPeersForLong(t *testing.T) {
	d := sampler.NewDictionary()
	k := sampler.NewKeeper(d, 60e9)
	p := &peers{dict: d, named: make(map[sampler.Peer]sampler.PeerID), byFD: make(map[int32]peer)}
	local := netip.MustParseAddrPort("10.0.0.1:40000")
	connect := func(i int) (sampler.Peer, sampler.PeerID) {
		to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 16), byte(i >> 8)}), uint16(10000+i%50000))
		found := internetPeer(sampler.PeerTCP, local, to)
		return found, p.remember(int32(i%100), fmt.Sprintf("socket:[%d]", i), found, false)
	}
	most, next := 0, 0
	for second := range 3600 {
		s := sampler.Sample{TimeNS: int64(second+1) * 1e9, Threads: make([]sampler.Thread, 1)}
		for range 100 { // the program connects to more peers than ddtop can store in the time for which it keeps them
			_, s.Threads[0].Kernel.Peer = connect(next)
			next++
		}
		k.Feed(&s, false)
		most = max(most, d.HeldPeers())
	}
	if most > maxAnyPeers+maxCachedFDs || len(p.named) > maxAnyPeers+10 {
		t.Errorf("%d peers held, %d named", most, len(p.named))
	}
	for second := range 300 { // now the program connects to only one peer at a time
		s := sampler.Sample{TimeNS: int64(3601+second) * 1e9, Threads: make([]sampler.Thread, 1)}
		want, id := connect(next)
		if s.Threads[0].Kernel.Peer = id; second > 200 && d.Peer(id) != want {
			t.Fatalf("after %d s the peer is %+v instead of %+v", second, d.Peer(id), want)
		}
		k.Feed(&s, false)
	}
	if n := d.HeldPeers(); n > 10 {
		t.Errorf("%d peers are held long after the last but one was met", n)
	}
}

// TestPeersAreBounded: a server that meets many clients does not fill the Dictionary, in which ddtop stores names.
func TestPeersAreBounded(t *testing.T) {
	d := sampler.NewDictionary()
	p := &peers{dict: d, named: make(map[sampler.Peer]sampler.PeerID), byFD: make(map[int32]peer)}
	for i := range 200000 {
		remote := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), uint16(32768+i%20000))
		p.remember(int32(i), "socket:[1]", internetPeer(sampler.PeerTCP, netip.MustParseAddrPort("10.0.0.1:80"), remote), false)
	}
	_, _, n, _, _ := d.Sizes()
	if n > maxAnyPeers+10 || n < maxExactPeers || len(p.named) > maxAnyPeers+10 || len(p.byFD) > maxCachedFDs {
		t.Errorf("%d peers, %d named, %d descriptors", n, len(p.named), len(p.byFD))
	}
	got := d.Peer(p.intern(internetPeer(sampler.PeerTCP, netip.MustParseAddrPort("10.9.9.9:40000"), netip.MustParseAddrPort("10.0.0.5:5432"))))
	if want := (sampler.Peer{Kind: sampler.PeerTCP, Service: "PostgreSQL"}); got != want {
		t.Errorf("past the limit: %+v", got)
	}
	before := coarse(internetPeer(sampler.PeerTCP, netip.MustParseAddrPort("10.9.9.9:40000"), netip.MustParseAddrPort("10.0.0.5:5432")))
	if want := (sampler.Peer{Kind: sampler.PeerTCP, Remote: "10.0.0.5:5432", Local: "10.9.9.9", Service: "PostgreSQL"}); before != want {
		t.Errorf("coarse: %+v", before)
	}
}

func TestParseInt32(t *testing.T) {
	if parseOne, ok := parseInt32("2147483647"); !ok || parseOne != 1<<31-1 {
		t.Error("the largest tid")
	}
	for _, bad := range []string{"", "2147483648", "-1", "1x", "99999999999"} {
		if _, ok := parseInt32(bad); ok {
			t.Errorf("%q was taken", bad)
		}
	}
}

// FuzzParsers: for any content of a file, no parser panics, and each result is within its range.
func FuzzParsers(f *testing.F) {
	for _, s := range []string{
		"running\n", "-1 0x7ffd3d2a1c38 0x7f0f2b8a1c1e\n", "0 0x3 0x7f7e152a4000 0x20000 0x7f7e15337b60 0xffffffff 0x0 0x7fffb6983428 0x7f7e154202ad\n",
		"4711 (a b) ) S 1 2 3 0 -1 4194560 9 8 7 6 123 45 5 4 20 0 12 0 6789 1000 250 18446744073709551615 1 1\n",
		"543774 12 1\n", dockerV1, kubeV2, mountsV1, mountsV2, "NSpid:\t4711\t12\n", "nr_periods 10\nthrottled_usec 5\n",
		"   1: 0100007F:D431 0500000A:1538 01 00000000:00000000 00:00000000 00000000  1000        0 77 1 0\n",
		"0000000000000000: 00000002 00000000 00010000 0001 01 1234 /run/x\n", "\x02\x00\x15\x38\x0a\x00\x00\x05", "\x01\x00\x00docker", "1 2 3",
		"socket:[12]", "/dev/pts/1",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bytes.Clone(b)
		if c, ok := parseSchedstat(b); ok && (c.RanNS < 0 || c.DelayNS < 0 || c.Turns < 0) {
			t.Errorf("schedstat %+v", c)
		}
		if nr, _, ok := parseSyscall(b); ok && nr < callEnded {
			t.Errorf("system call %d", nr)
		}
		parseState(b)
		parseStat(b)
		parseStatm(b)
		if _, _, depth, ok := parseNSpid(b); ok && depth == 0 {
			t.Error("NSpid without a pid")
		}
		if m, p, ok := findCPUCgroup(cgroupMounts(b), string(b)); ok {
			if rel, inside := m.below(p); inside && len(rel) > len(p) {
				t.Errorf("cgroup %q below its mount is %q", p, rel)
			}
		}
		if s := parseCPUStat(b); s.periods < 0 || s.throttled < 0 || s.throttledNS < 0 {
			t.Errorf("cpu.stat %+v", s)
		}
		for _, n := range parsePIDs(b) {
			if n < 0 {
				t.Errorf("pid %d", n)
			}
		}
		parseSockaddr(b)
		socketInode(b)
		parseSyscallTable(string(b))
		for _, tab := range socketTables {
			rest := tab.lines(b, map[uint64]struct{}{77: {}}, map[uint64]sampler.Peer{})
			if bytes.IndexByte(rest, '\n') >= 0 {
				t.Error("a whole line was left")
			}
		}
		if !bytes.Equal(in, b) {
			t.Error("the input was changed")
		}
	})
}

// FuzzSyscallRoundTrip: parseSyscall reads a line in the kernel's format and returns the numbers that were written.
func FuzzSyscallRoundTrip(f *testing.F) {
	f.Add(int64(0), uint64(3), uint64(1), uint64(1<<63), uint64(0), uint64(0), uint64(1<<64-1))
	f.Fuzz(func(t *testing.T, nr int64, a, b, c, d, e, g uint64) {
		if nr < 0 {
			return
		}
		want := [6]uint64{a, b, c, d, e, g}
		text := fmt.Sprintf("%d 0x%x 0x%x 0x%x 0x%x 0x%x 0x%x 0x%x 0x%x\n", nr, a, b, c, d, e, g, a, b)
		got, args, ok := parseSyscall([]byte(text))
		if !ok || got != nr || !reflect.DeepEqual(args, want) {
			t.Errorf("%q: %d %v %v", text, got, args, ok)
		}
	})
}

func TestParsePressure(t *testing.T) {
	some, full := parsePressure([]byte("some avg10=1.50 avg60=0.20 avg300=0.00 total=123456\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"))
	if some != 123456000 || full != 7000 {
		t.Errorf("some %d, full %d", some, full)
	}
	for _, broken := range []string{"", "some", "some total=", "some avg10=1 total=99999999999999999999\n", "other total=5\n"} {
		if some, full := parsePressure([]byte(broken)); some != 0 || full != 0 {
			t.Errorf("%q: some %d, full %d", broken, some, full)
		}
	}
}

func TestParseSwap(t *testing.T) {
	if n, ok := memoryField([]byte("Name:\truby\nVmPTE:\t 72 kB\nVmSwap:\t    1024 kB\nHugetlbPages:\t0 kB\n"), "VmSwap"); n != 1<<20 || !ok {
		t.Errorf("%d, %v", n, ok)
	}
	for _, broken := range []string{"", "Name:\truby\n", "Name: x\nVmSwap:\tmany\n"} {
		if n, ok := memoryField([]byte(broken), "VmSwap"); ok {
			t.Errorf("%q: %d", broken, n)
		}
	}
}

func TestUnifiedCgroup(t *testing.T) {
	mounts := []cgroupMount{{root: "/", point: "/sys/fs/cgroup/cpu", cpu: true}, {root: "/pod", point: "/sys/fs/cgroup", v2: true}}
	for _, c := range []struct{ text, want string }{
		{"1:cpu:/\n0::/pod/app\n", "/sys/fs/cgroup/app"},
		{"0::/pod\n", ""},      // the root of a cgroup namespace: the machine's or a container's
		{"0::/\n", ""},         // the root of the machine
		{"0::/../x\n", ""},     // outside ddtop's cgroup namespace
		{"1:cpu:/pod/a\n", ""}, // no cgroup of hierarchy v2
	} {
		if got, ok := unifiedCgroup(mounts, c.text); got != c.want || ok != (c.want != "") {
			t.Errorf("%q: %q, %v", c.text, got, ok)
		}
	}
}
