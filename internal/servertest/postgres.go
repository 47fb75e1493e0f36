package servertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// Postgres starts a PostgreSQL only for this test, on a free port of 127.0.0.1. It returns the port when PostgreSQL
// answers. The user is ddtop, without a password. The database is postgres.
func Postgres(t testing.TB) (port string) {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		rubytest.Skip(t, "needs PostgreSQL: apt-get install postgresql")
	}
	// The server refuses to run as root.
	command := func(program string, args ...string) *exec.Cmd {
		line := append([]string{filepath.Join(filepath.Dir(found[0]), program)}, args...)
		if os.Geteuid() == 0 {
			line = append([]string{"setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"}, line...)
		}
		cmd := exec.Command(line[0], line[1:]...)
		cmd.Dir = "/"
		return cmd
	}
	data := tempDir(t)
	if os.Geteuid() == 0 {
		if out, err := exec.Command("chown", "postgres:", data).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if out, err := command("initdb", "--auth=trust", "--username=ddtop", "--no-sync", "-D", data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	port = FreePort(t)
	start(t, command("postgres", "-D", data, "-k", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"))
	ask := filepath.Join(filepath.Dir(found[0]), "pg_isready")
	await(t, "PostgreSQL answers", func() error { return exec.Command(ask, "-q", "-h", "127.0.0.1", "-p", port).Run() })
	return port
}
