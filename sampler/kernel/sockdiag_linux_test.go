package kernel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// TestListenersAmongMany: one request to the kernel finds the socket that listens at an address. This works for any
// kind of listening socket, among any number of connections. For a client's port, it finds no listener.
func TestListenersAmongMany(t *testing.T) {
	tasks, _ := openTasks(t, os.Getpid())
	diag := tasks.peers.diag()
	if diag == nil {
		rubytest.Skip(t, "the kernel does not let ddtop ask for sockets")
	}
	defer diag.close()
	for _, c := range []struct{ network, address, at string }{
		{"tcp4", "127.0.0.1:0", "127.0.0.1"},
		{"tcp4", "0.0.0.0:0", "127.0.0.2"},
		{"tcp", "[::]:0", "127.0.0.1"}, // listens at IPv4 and IPv6 addresses
		{"tcp6", "[::1]:0", "::1"},
	} {
		t.Run(c.network+c.address, func(t *testing.T) {
			l, err := net.Listen(c.network, c.address)
			if err != nil {
				t.Skip(err)
			}
			defer l.Close()
			at := netip.AddrPortFrom(netip.MustParseAddr(c.at), uint16(l.Addr().(*net.TCPAddr).Port))
			var client netip.AddrPort
			for range 100 {
				conn, err := net.Dial("tcp", at.String())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				client = netip.MustParseAddrPort(conn.LocalAddr().String())
			}
			raw, err := l.(*net.TCPListener).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			if err := raw.Control(func(fd uintptr) { want, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)) }); err != nil || want == "" {
				t.Fatal(want, err)
			}
			if inode, err := diag.listener(at); err != nil || socketLink(inode) != want {
				t.Errorf("%s, %v; it is %s", socketLink(inode), err, want)
			}
			if inode, err := diag.listener(client); err != nil || inode != 0 {
				t.Errorf("at a client's port %d, %v", inode, err)
			}
		})
	}
}

// TestSocketsOfAnotherNamespace: if a process has another network namespace than ddtop, ddtop asks the kernel for the
// sockets of the process's namespace.
func TestSocketsOfAnotherNamespace(t *testing.T) {
	cmd := exec.Command("unshare", "--net", "sh", "-c", `ip link set lo up 2>/dev/null; echo up; read wait`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	var b [3]byte
	if _, err := out.Read(b[:]); err != nil {
		rubytest.Skip(t, "unshare --net is not allowed here")
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := netip.MustParseAddrPort(l.Addr().String())
	tasks, _ := openTasks(t, cmd.Process.Pid)
	diag := tasks.peers.diag()
	if diag == nil {
		rubytest.Skip(t, "ddtop may not enter a network namespace here")
	}
	defer diag.close()
	if inode, err := diag.listener(at); err != nil || inode != 0 {
		t.Errorf("%d, %v: it is not of that namespace", inode, err)
	}
	own, _ := openTasks(t, os.Getpid())
	here := own.peers.diag()
	if here == nil {
		t.Fatal("the own namespace cannot be asked")
	}
	defer here.close()
	if inode, err := here.listener(at); err != nil || inode == 0 {
		t.Errorf("%d, %v: the own namespace has it", inode, err)
	}
}

// FuzzSockDiag: ddtop reads any answer of the kernel without a panic.
func FuzzSockDiag(f *testing.F) {
	f.Add([]byte{}, false)
	f.Add([]byte(strings.Repeat("\x10\x00\x00\x00\x03\x00", 9)), true)
	f.Fuzz(func(t *testing.T, b []byte, list bool) {
		d := &sockDiag{}
		_, err := d.part(b, list, func(answer []byte) {
			if len(answer) >= inetAnswerSize {
				inetAnswer(answer, sampler.PeerTCP)
			}
			unixAnswer(answer, 1)
		})
		_ = errors.Is(err, errNoSuchSocket)
	})
}
