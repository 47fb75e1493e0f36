package kernel

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// socketStat returns the length and the limit of a listening socket's accept queue, as `ss` reports them.
func socketStat(t *testing.T, network, address string, inNet ...string) (queued, limit int64) {
	t.Helper()
	args := append(inNet, rubytest.Program(t, "ss", "iproute2"), "-Hln")
	if network == "unix" {
		args = append(args, "-x")
	} else {
		args = append(args, "-t")
	}
	out, err := exec.Command(args[0], args[1:]...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(out), "\n") {
		f := strings.Fields(line)
		for i, x := range f {
			if x == address && i >= 3 {
				numbers := f[1:]
				if network == "unix" {
					numbers = f[2:]
				}
				queued, err = strconv.ParseInt(numbers[0], 10, 64)
				if err != nil {
					t.Fatal(err, line)
				}
				limit, err = strconv.ParseInt(numbers[1], 10, 64)
				if err != nil {
					t.Fatal(err, line)
				}
				return queued, limit
			}
		}
	}
	t.Fatalf("ss lists no %s among\n%s", address, out)
	return 0, 0
}

// openSlow opens a Slow, which reads the accept queues and other slow counters of a process.
func openSlow(t *testing.T, pid int) *Slow {
	t.Helper()
	p, err := OpenSlow(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// TestAcceptQueues: while no connection is accepted, ddtop reads the same queue lengths as the tool ss reports.
func TestAcceptQueues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	clients := map[string]int64{}
	networks := map[string]string{}
	for i, at := range []struct{ network, address string }{{"tcp4", "127.0.0.1:0"}, {"tcp6", "[::1]:0"}, {"unix", path}, {"tcp4", "127.0.0.1:0"}} {
		l, err := net.Listen(at.network, at.address)
		if err != nil && at.network == "tcp6" {
			continue // the machine has no IPv6
		}
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		address := l.Addr().String()
		for range 3 * i {
			c, err := net.Dial(at.network, address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
		}
		clients[address], networks[address] = int64(3*i), at.network
	}
	for address, n := range clients { // the server's handshake may end a moment after the client's
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if queued, _ := socketStat(t, networks[address], address); queued == n {
				break
			} else if time.Now().After(deadline) {
				t.Fatalf("ss counts %d of %d clients of %s", queued, n, address)
			}
		}
	}
	accept := openSlow(t, os.Getpid()).Read(monotonic(), 1, nil).Accept
	if !accept.Known || accept.Why != "" {
		t.Fatalf("not known: %s", accept.Why)
	}
	if accept.Overflows < 0 || accept.Drops < accept.Overflows {
		t.Errorf("overflows %d, drops %d", accept.Overflows, accept.Drops)
	}
	seen := 0
	for _, l := range accept.Listeners {
		n, ok := clients[l.Address]
		if !ok {
			continue // a socket of another test of this process
		}
		seen++
		queued, limit := socketStat(t, networks[l.Address], l.Address)
		if l.Queued != n || l.Queued != queued || l.Limit != limit {
			t.Errorf("%s: %d of %d queued, ss says %d of %d, and there are %d clients", l.Address, l.Queued, l.Limit, queued, limit, n)
		}
	}
	if seen != len(clients) {
		t.Errorf("%d of %d sockets are listed: %v", seen, len(clients), accept.Listeners)
	}
}

// TestAcceptQueueGoes: after a listening socket is closed, ddtop does not list it and does not count its queue.
func TestAcceptQueueGoes(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listed := func(a sampler.Accept) bool {
		for _, x := range a.Listeners {
			if x.Address == l.Addr().String() {
				return true
			}
		}
		return false
	}
	slow := openSlow(t, os.Getpid())
	if a := slow.Read(0, 1, nil).Accept; !listed(a) {
		t.Fatalf("not listed: %+v", a)
	}
	l.Close()
	if a := slow.Read(time.Minute.Nanoseconds(), 1, nil).Accept; !a.Known || listed(a) {
		t.Errorf("still listed: %+v", a)
	}
}

// TestAcceptQueueOfNamespace: if a process has another network namespace than ddtop, ddtop reads the sockets of the
// process's namespace.
func TestAcceptQueueOfNamespace(t *testing.T) {
	if os.Getuid() != 0 {
		rubytest.Skip(t, "only root may make a network namespace")
	}
	unshare, ip := rubytest.Program(t, "unshare", "util-linux"), rubytest.Program(t, "ip", "iproute2")
	// A socket in ddtop's own namespace listens at the same port, and its queue has another length. If ddtop reads the
	// wrong namespace, the lengths differ and the test fails.
	here, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	port := here.Addr().(*net.TCPAddr).Port
	script := fmt.Sprintf(`s = TCPServer.new("127.0.0.1", %d); c = 4.times.map { TCPSocket.new("127.0.0.1", %d) }
		$stdout.puts "ready"; $stdout.flush; $stdin.read`, port, port)
	cmd := exec.Command(unshare, "-n", "sh", "-c", ip+` link set lo up && exec "$0" "$@"`, rubytest.Program(t, "ruby", "ruby"), "-rsocket", "-e", script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer cmd.Wait()
	defer in.Close()
	if n, err := out.Read(make([]byte, 16)); n == 0 {
		t.Fatal(err)
	}
	a := openSlow(t, cmd.Process.Pid).Read(monotonic(), 1, nil).Accept
	if !a.Known || len(a.Listeners) != 1 || a.Listeners[0].Queued != 4 {
		t.Errorf("%+v; four clients wait at port %d", a, port)
	}
}

// TestAcceptDrops: ddtop reads ListenOverflows and ListenDrops from the line TcpExt of the kernel's table. If the table
// lacks one of them, ddtop reports that they are unknown.
func TestAcceptDrops(t *testing.T) {
	table := "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPPrequeued\nTcpExt: 1 23 42 4\nIpExt: ListenOverflows ListenDrops\nIpExt: 7 8\n"
	if o, d, ok := parseListenDrops([]byte(table)); o != 23 || d != 42 || !ok {
		t.Error(o, d, ok)
	}
	for _, lacking := range []string{"", "TcpExt: ListenOverflows\nTcpExt: 1\n", "TcpExt: ListenDrops ListenOverflows\nTcpExt: 1\n"} {
		if _, _, ok := parseListenDrops([]byte(lacking)); ok {
			t.Errorf("%q", lacking)
		}
	}
}

// TestDropsAreShared: if several processes share a network namespace, ddtop reads its counters only once in the time
// dropsNS.
func TestDropsAreShared(t *testing.T) {
	dir, err := openDir("/proc/self")
	if err != nil {
		t.Fatal(err)
	}
	defer closeFD(dir)
	proc := newLiving(os.Getpid(), dir)
	defer proc.close()
	last := &lastDrops
	*last = struct {
		sync.Mutex
		namespace        uint64
		atNS             int64
		overflows, drops int64
	}{}
	before, _, ok := listenDrops(proc)
	if overflows, _, known := sharedDrops(proc); known != ok || overflows < before {
		t.Errorf("%d overflows, %v; the table had %d, %v", overflows, known, before, ok)
	}
	last.drops = 1 << 40
	if _, drops, _ := sharedDrops(proc); ok && drops != 1<<40 {
		t.Errorf("it was read again at once: %d", drops)
	}
	last.atNS -= dropsNS
	if _, drops, _ := sharedDrops(proc); drops == 1<<40 {
		t.Error("it was not read again")
	}
}
