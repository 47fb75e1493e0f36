package cli_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/cli"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
)

// secretive is a program whose names are secrets, for example in its titles and paths. Most secrets contain "zq". The
// threads wait in ways that make ddtop show addresses and files.
const secretive = `$stdout.sync = true
require "socket"
abstract = UNIXServer.new("\0zqabstract#{$$}")
path = "#{Dir.pwd}/zqsocket"
listener = UNIXServer.new(path)
tcp = TCPServer.new("127.66.66.66", 0)
ends = [UNIXSocket.new("\0zqabstract#{$$}"), UNIXSocket.new(path), TCPSocket.new("127.66.66.66", tcp.addr[1])]
fifo = "#{Dir.pwd}/zqfifo"
File.mkfifo(fifo)
ends << File.open(fifo, "r+")
begin
  ends << TCPSocket.new("::ffff:127.66.66.66", tcp.addr[1])
rescue SystemCallError # a machine without IPv6
end
ends.each_with_index { |e, i| Thread.new { e.read(1) }.name = "zqreader #{i}" }
eval("def kept_absolute; x = 0; loop { 1000.times { x += 1 } }; end", TOPLEVEL_BINDING, "/zqdir/zq with blank/zqünï/kept_file.rb", 7)
eval("def kept_relative; kept_absolute; end", TOPLEVEL_BINDING, "zqrelative dir/kept_other.rb", 7)
eval("def kept_eval; kept_relative; end", TOPLEVEL_BINDING, "(eval at /zqeval/zq dir/kept_eval.rb:3)", 1)
eval("def kept_query; kept_eval; end", TOPLEVEL_BINDING, "SELECT zqcolumn FROM zqtable", 1)
eval("def kept_link; kept_query; end", TOPLEVEL_BINDING, "http://zquser:zqword@zqhost/x?%7A%71=1", 1)
eval("def kept_in_gem; kept_link; end", TOPLEVEL_BINDING, "/zqhome/ruby/3.3.0/gems/kept_gem-1.2.3/lib/kept.rb", 1)
Thread.new { kept_in_gem }.name = "puma srv tp 001"
Thread.new { sleep }.name = "zqnamed"
Thread.new { sleep }.name = "puma srv ZQCUSTOMER"
Thread.new { sleep }.name = "zq" + "long" * 2000
Thread.new { zqlock = Mutex.new.tap(&:lock); zqlock.sleep }.name = "worker ☎ 555"
ends_with_this, held = IO.pipe
child = fork do
  held.close
  $0 = "zqchild --zqargument"
  Thread.new { sleep }.name = "zqinchild"
  ends_with_this.read
  exit!
end
$0 = "zqtitle --zqargument"
puts "up #{child}"
STDIN.read
`

// TestNoSecretLeaves: with --redact, no output format contains a secret, whether it is made from a process or a
// recording. The names of methods stay. The test also runs without --redact. In this run each format must contain
// secrets, which proves that the test's search finds them.
func TestNoSecretLeaves(t *testing.T) {
	rubytest.Long(t) // the test changes the working directory, so it cannot run beside others
	p := startSecretive(t)
	pid := strconv.Itoa(p.PID)
	secrets := secretsOf(t)
	kept := make(map[string]bool) // outputs that name methods; stat names them only if it blames a thread
	search := func(name string, text []byte, redacted bool) {
		t.Helper()
		found := 0
		text = hashes.ReplaceAll(text, nil)
		lower := bytes.ToLower(text)
		for _, s := range secrets {
			n := bytes.Count(lower, []byte(s))
			found += n
			if i := bytes.Index(lower, []byte(s)); redacted && i >= 0 {
				t.Errorf("%s holds %q: %q", name, s, text[max(0, i-60):min(len(text), i+60)])
			}
		}
		if !redacted && found == 0 {
			t.Errorf("%s without --redact has no secret: the search looks at too little", name)
		}
		if has := bytes.Contains(text, []byte("kept_")); !redacted {
			// Chrome's trace has only the last stack of each hold of the GVL. So whether it has a certain method
			// differs from one recording to the next. The report formats do not differ in this way, because they are
			// all made from the same recording.
			kept[name] = has && name != "record --format chrome"
		} else if kept[name] && !has {
			t.Errorf("%s has lost the names of methods", name)
		}
	}
	defer func() {
		if len(kept) == 0 || !kept["record --format pprof"] || !kept["dump -p "+pid+" --json"] {
			t.Errorf("methods were seen in %v", kept)
		}
	}()
	whole := filepath.Join(t.TempDir(), "whole.ddtop")
	run(t, "record", "-p", pid, "-d", "1500ms", "--format", "ddtop", "-o", whole).want(t, 0)
	for _, redact := range [][]string{nil, {"--redact"}} {
		with := func(args ...string) []string { return append(args, redact...) }
		redacted := redact != nil
		for _, args := range [][]string{{"dump", "-p", pid, "-d", "1s"}, {"dump", "-p", pid, "--json"}, {"stat", "-p", pid, "-d", "1s"}, {"stat", "-p", pid, "-d", "1s", "--json"},
			{"dump", "-p", pid, "--children"}, {"dump", "-p", pid, "--children", "--json"}, {"stat", "-p", pid, "--children", "-d", "1s"},
			{"stat", "-p", pid, "--children", "-d", "1s", "--json"}, {"stat", "-p", pid + "," + p.child, "-d", "1s"}} {
			r := run(t, with(args...)...)
			r.want(t, 0)
			search(strings.Join(args, " "), []byte(r.out+r.err), redacted)
		}
		several := filepath.Join(t.TempDir(), "several")
		run(t, with("record", "-p", pid, "--children", "-d", "1s", "-o", several)...).want(t, 0)
		search("record --children", readAll(t, several), redacted)
		for _, format := range cli.RecordFormats() {
			file := filepath.Join(t.TempDir(), "out")
			r := run(t, with("record", "-p", pid, "-d", "1500ms", "--format", format, "-o", file)...)
			r.want(t, 0)
			search("record --format "+format, readAll(t, file), redacted)
		}
		for _, format := range cli.ReportFormats() {
			for _, json := range []string{"--json=false", "--json"} {
				file := filepath.Join(t.TempDir(), "out")
				r := run(t, with("report", whole, "--format", format, json, "-o", file)...)
				r.want(t, 0)
				search("report --format "+format+" "+json, readAll(t, file), redacted)
				if redacted && strings.Contains(r.err, filepath.Dir(file)) {
					t.Errorf("standard error names a folder: %s", r.err)
				}
			}
		}
		sayings(t, redacted, p, whole)
		if ps := run(t, with("ps")...); strings.Contains(ps.out, "zq") == redacted {
			t.Errorf("ps %v: %s", redact, ps.out)
		}
	}
}

// secretiveProcess is a running secretive. child is the PID of a Ruby that it has started. foreign is the PID of
// another program, whose names are also secrets.
type secretiveProcess struct {
	*rubytest.Process
	child, foreign string
}

func startSecretive(t *testing.T) (p secretiveProcess) {
	t.Helper()
	p.Process = rubytest.One(t).Start(t, secretive, rubytest.Options{Args: []string{"zqargument"}, Env: []string{"ZQVARIABLE=zqvalue"}})
	if _, err := fmt.Sscanf(p.Expect(t, "up"), "up %s", &p.child); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(rubytest.Program(t, "cat", "coreutils"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "zqforeign")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	foreign := exec.Command(path)
	in, err := foreign.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := foreign.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), foreign.Wait()); err != nil {
			t.Error(err)
		}
	})
	p.foreign = strconv.Itoa(foreign.Process.Pid)
	return p
}

// sayings checks that messages on standard error contain no secrets with --redact. The messages are about files with
// unusual paths, and about programs that are not Ruby.
func sayings(t *testing.T, redacted bool, p secretiveProcess, whole string) {
	t.Helper()
	t.Chdir(t.TempDir())
	folder := "zqrelative dir/it's: (zqone), zqtwo"
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	absolute, err := filepath.Abs(folder)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"old": nil, "damaged": text[:len(text)*3/4], "none": []byte("zq")} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"record", "-p", strconv.Itoa(p.PID), "-d", "200ms", "--format", "ddtop", "-o" + folder + "/old"},
		{"record", "-p", strconv.Itoa(p.PID), "-d", "200ms", "--format", "ddtop", "--output=" + absolute + "/old"},
		{"record", "-p", strconv.Itoa(p.PID), "-d", "200ms", "-o", folder + "/missing/x"},
		{"report", folder + "/damaged"}, {"report", absolute + "/damaged"}, {"report", folder + "/none"}, {"report", absolute + "/missing"},
		{"dump", "--core", folder + "/none"},
		{"dump", "-p", p.foreign},
	} {
		if redacted {
			args = append(args, "--redact")
		}
		r := run(t, args...)
		if has := strings.Contains(r.err, "zq"); has == redacted || r.err == "" {
			t.Errorf("%q says %s", args, r.err)
		}
	}
}

// readAll returns the unpacked content of a file. For a recording it returns all names in it.
func readAll(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if z, err := gzip.NewReader(bytes.NewReader(text)); err == nil {
		if text, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	r, err := recording.Open(path)
	if err != nil {
		return text
	}
	defer r.Close()
	var b strings.Builder
	p, d := r.Process(), r.Dictionary()
	b.WriteString(strings.Join(append(p.CommandLine, p.Title, p.User, p.Host, p.LayoutNote, p.Layout), "\n"))
	if err := r.Range(0, 1<<62, func(s *sampler.Sample) {}); err != nil {
		t.Fatal(err)
	}
	frames, _, peers, threads, _ := d.Sizes()
	for i := range frames {
		f := d.Frame(sampler.FrameID(i + 1))
		b.WriteString(strings.Join([]string{"", f.Label, f.Path, f.AbsolutePath, f.Gem}, "\n"))
	}
	for i := range peers {
		x := d.Peer(sampler.PeerID(i + 1))
		b.WriteString(strings.Join([]string{"", x.Remote, x.Local, x.Path}, "\n"))
	}
	for i := range threads {
		x, _ := d.Thread(sampler.ThreadID(i + 1))
		b.WriteString("\n" + x.Name)
	}
	return []byte(b.String())
}

// TestNoSecretLeavesACore is like TestNoSecretLeaves, but for the dump of a core file. Here the path of the core file
// is also a secret, and the dump has C functions.
func TestNoSecretLeavesACore(t *testing.T) {
	t.Parallel()
	gcore := rubytest.Program(t, "gcore", "gdb")
	p := startSecretive(t)
	folder := filepath.Join(t.TempDir(), "zqfolder (of) it's, zq")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	prefix := filepath.Join(folder, "core")
	out, err := exec.Command(gcore, "-o", prefix, strconv.Itoa(p.PID)).CombinedOutput()
	core := prefix + "." + strconv.Itoa(p.PID)
	if _, statErr := os.Stat(core); statErr != nil {
		t.Fatalf("gcore wrote no core: %v: %s", err, out)
	}
	for _, json := range []string{"--json=false", "--json"} {
		for _, redacted := range []bool{false, true} {
			args := []string{"dump", "--core", core, json}
			if redacted {
				args = append(args, "--redact")
			}
			r := run(t, args...)
			r.want(t, 0)
			found := ""
			for _, secret := range secretsOf(t) {
				text := strings.ToLower(r.out + r.err)
				if i := strings.Index(text, secret); i >= 0 {
					found = text[max(0, i-80):min(len(text), i+80)]
				}
			}
			if (found != "") == redacted || !strings.Contains(r.out, "kept_absolute") {
				t.Errorf("redacted %v, %s: %q", redacted, json, found)
			}
			want := "    at rb_ensure [libruby]\n"
			if json == "--json" {
				want = `"name": "rb_ensure"`
			}
			if !strings.Contains(r.out, want) {
				t.Errorf("redacted %v: no %q in\n%s", redacted, want, r.out)
			}
		}
	}
}
