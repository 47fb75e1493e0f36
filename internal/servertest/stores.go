package servertest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// MariaDB starts a MariaDB only for this test, on a free port of 127.0.0.1, without users and tables. It returns the
// port when the server listens. Every client may do everything.
func MariaDB(t testing.TB) (port string) {
	t.Helper()
	server := rubytest.Program(t, "/usr/sbin/mariadbd", "mariadb-server-core")
	dir := tempDir(t)
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	port = FreePort(t)
	args := []string{"--no-defaults", "--datadir=" + data, "--socket=" + filepath.Join(dir, "s"), "--pid-file=" + filepath.Join(dir, "pid"),
		"--port=" + port, "--bind-address=127.0.0.1", "--skip-grant-tables", "--skip-networking=0", "--innodb=OFF", "--default-storage-engine=MyISAM"}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	start(t, exec.Command(server, args...))
	listens(t, "MariaDB", port)
	return port
}

// Redis starts a Redis that asks for a password, only for this test. It returns the port when this Redis listens.
func Redis(t testing.TB, password string) (port string) {
	t.Helper()
	server := rubytest.Program(t, "redis-server", "redis-server")
	port = FreePort(t)
	start(t, exec.Command(server, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", tempDir(t), "--requirepass", password))
	listens(t, "Redis", port)
	return port
}

// Memcached starts a memcached only for this test, and returns its port when it listens.
func Memcached(t testing.TB) (port string) {
	t.Helper()
	server := rubytest.Program(t, "memcached", "memcached")
	port = FreePort(t)
	args := []string{"-l", "127.0.0.1", "-p", port}
	if os.Geteuid() == 0 {
		args = append(args, "-u", "root")
	}
	start(t, exec.Command(server, args...))
	listens(t, "memcached", port)
	return port
}

func listens(t testing.TB, name, port string) {
	t.Helper()
	await(t, name+" listens", func() error {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			return err
		}
		return c.Close()
	})
}

// Slow imitates a slow server. It listens on a new port, which it returns, and forwards connections to another port of
// this machine. It delays everything that clients send.
func Slow(t testing.TB, port string, delay time.Duration) (slow string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
				return
			}
			go forward(client, port, delay)
		}
	}()
	_, slow, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return slow
}

// forward passes data between a client and a port of this machine until one of them ends the connection. It delays what
// the client sends.
func forward(client net.Conn, port string, delay time.Duration) {
	defer client.Close()
	server, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(client, server)
		client.Close()
	}()
	buf := make([]byte, 1<<16)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		time.Sleep(delay)
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// StartStatements starts the program rack/statements.rb, which uses a database library from the Debian package pkg. The
// program's arguments are the library, the port to connect to, and further strings (more).
func StartStatements(t testing.TB, library, pkg, port string, more ...string) (pid int, log string) {
	t.Helper()
	ruby := rubytest.Program(t, "ruby", "ruby")
	if out, err := exec.Command(ruby, "-r"+library, "-e", "0").CombinedOutput(); err != nil {
		rubytest.Skip(t, "needs %s: apt-get install %s (%s)", library, pkg, out)
	}
	dir := copyRack(t)
	log = filepath.Join(dir, "requests.log")
	cmd := exec.Command(ruby, append([]string{"statements.rb", library, port}, more...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "REQUEST_LOG="+log)
	pid = start(t, cmd)
	await(t, library+" asks", func() error {
		text, err := os.ReadFile(log)
		if n := bytes.Count(text, []byte("\n")); err == nil && n < 4 {
			err = fmt.Errorf("%d statements", n)
		}
		return err
	})
	return pid, log
}

// StartQueue starts the program rack/queue.rb with the given number of jobs of each kind. queue is the job queue to
// test. It needs the libraries, which are in the Debian packages.
func StartQueue(t testing.TB, queue string, jobs int, libraries, packages []string) (pid int, log string) {
	t.Helper()
	ruby := rubytest.Program(t, "ruby", "ruby")
	args := []string{"-e", "0"}
	for _, l := range libraries {
		args = append([]string{"-r" + l}, args...)
	}
	if out, err := exec.Command(ruby, args...).CombinedOutput(); err != nil {
		rubytest.Skip(t, "needs %v: apt-get install %s (%s)", libraries, strings.Join(packages, " "), bytes.TrimSpace(out))
	}
	dir := copyRack(t)
	log = filepath.Join(dir, "requests.log")
	cmd := exec.Command(ruby, "queue.rb", queue, strconv.Itoa(jobs))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "REQUEST_LOG="+log)
	pid = start(t, cmd)
	await(t, queue+" works", func() error {
		text, err := os.ReadFile(log)
		if err == nil && len(text) == 0 {
			err = errors.New("nothing is logged")
		}
		return err
	})
	return pid, log
}
