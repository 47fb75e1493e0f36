package redact

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

func TestThreadNames(t *testing.T) {
	r := New()
	for _, kept := range []string{"", "main", "puma srv tp 003", "sidekiq.default/processor", "Timeout stdlib thread", "worker-12", "io-worker-1",
		"Datadog::Profiling::Collectors::Async", "puma reactor", "sidekiq.scheduler", "io worker2 3"} {
		if got := r.ThreadName(kept); got != kept {
			t.Errorf("%q became %q", kept, got)
		}
	}
	for _, x := range []struct{ in, want string }{
		{"acme-importer", "thread A"}, {"mueller 17", "thread B 1"}, {"mueller 4", "thread B 2"}, {"acme-importer", "thread A"},
		{"mueller 17", "thread B 1"}, {"worker 491701234567", "thread C 1"}, {"puma alice", "thread D"}, {"東京 1", "thread E 1"}, {"--", "thread F"},
		{"10.1.2.3:80", "thread G 1"}, {"thread B 1", "thread B 1"},
		{"worker 10.1.2.3", "thread H 1"}, {"12", "thread I 1"},
		{"worker ☎⑤⑤⑤", "thread J"}, {"puma srv tp 003 acme", "thread K 1"}, {"PUMA ACME", "thread L"}, {"http%20acme", "thread M 1"},
	} {
		if got := r.ThreadName(x.in); got != x.want {
			t.Errorf("%q became %q, want %q", x.in, got, x.want)
		}
	}
	if got := letters(1) + letters(26) + letters(27) + letters(702) + letters(703); got != "AZAAZZAAA" {
		t.Error(got)
	}
}

func TestRedactedPeers(t *testing.T) {
	r := New()
	for _, x := range []struct{ in, want sampler.Peer }{
		{sampler.Peer{Kind: sampler.PeerTCP, Remote: "10.20.30.40:5432", Local: "192.168.7.9:41000", Service: "PostgreSQL"},
			sampler.Peer{Kind: sampler.PeerTCP, Remote: "host-1:5432", Local: "host-2:41000", Service: "PostgreSQL"}},
		// the same machine, but as an IPv6 address
		{sampler.Peer{Kind: sampler.PeerTCP, Remote: "[::ffff:10.20.30.40]:80"}, sampler.Peer{Kind: sampler.PeerTCP, Remote: "host-1:80"}},
		{sampler.Peer{Kind: sampler.PeerUDP, Remote: "[fe80::1%eth0]:53"}, sampler.Peer{Kind: sampler.PeerUDP, Remote: "host-3:53"}},
		// an address without a port
		{sampler.Peer{Kind: sampler.PeerTCP, Remote: "2001:db8::7"}, sampler.Peer{Kind: sampler.PeerTCP, Remote: "host-4"}},
		{sampler.Peer{Kind: sampler.PeerTCP, Remote: "127.0.0.1:6379", Local: "[::1]:9"}, sampler.Peer{Kind: sampler.PeerTCP, Remote: "127.0.0.1:6379", Local: "[::1]:9"}},
		{sampler.Peer{Kind: sampler.PeerListener, Local: "0.0.0.0:3000"}, sampler.Peer{Kind: sampler.PeerListener, Local: "0.0.0.0:3000"}},
		{sampler.Peer{Kind: sampler.PeerListener, Local: "127.9.9.9:3000"}, sampler.Peer{Kind: sampler.PeerListener, Local: "host-5:3000"}},
		{sampler.Peer{Kind: sampler.PeerUnix, Remote: "/run/ac me/.s.PGSQL.5432", Service: "PostgreSQL"}, sampler.Peer{Kind: sampler.PeerUnix, Remote: "socket-1", Service: "PostgreSQL"}},
		{sampler.Peer{Kind: sampler.PeerUnix, Remote: "@acme"}, sampler.Peer{Kind: sampler.PeerUnix, Remote: "socket-2"}},
		{sampler.Peer{Kind: sampler.PeerUnix, Remote: "10.20.30.40:80"}, sampler.Peer{Kind: sampler.PeerUnix, Remote: "socket-3"}},
		{sampler.Peer{Kind: sampler.PeerListener, Local: "rel/acme.sock"}, sampler.Peer{Kind: sampler.PeerListener, Local: "socket-4"}},
		{sampler.Peer{Kind: sampler.PeerFile, Path: "/var/acme/bob.pdf"}, sampler.Peer{Kind: sampler.PeerFile, Path: "file-1"}},
		{sampler.Peer{Kind: sampler.PeerFile, Path: "/dev/null"}, sampler.Peer{Kind: sampler.PeerFile, Path: "/dev/null"}},
		{sampler.Peer{Kind: sampler.PeerPipe, Path: "pipe:[812]"}, sampler.Peer{Kind: sampler.PeerPipe, Path: "pipe:[812]"}},
		{sampler.Peer{Kind: sampler.PeerPipe, Path: "/run/acme.fifo"}, sampler.Peer{Kind: sampler.PeerPipe, Path: "pipe-1"}},
		{sampler.Peer{Kind: sampler.PeerTTY, Path: "/dev/pts/7"}, sampler.Peer{Kind: sampler.PeerTTY, Path: "tty-1"}},
		{sampler.Peer{Kind: sampler.PeerOther, Path: "anon_inode:[io_uring]"}, sampler.Peer{Kind: sampler.PeerOther, Path: "anon_inode:[io_uring]"}},
		{sampler.Peer{Kind: sampler.PeerOther, Path: "pipe:[812] acme"}, sampler.Peer{Kind: sampler.PeerOther, Path: "file-2"}},
	} {
		got := r.Peer(x.in)
		if got != x.want {
			t.Errorf("%+v became %+v, want %+v", x.in, got, x.want)
		}
		if again := r.Peer(got); again != got { // redacting a redacted value again must not change it
			t.Errorf("%+v became %+v the second time", got, again)
		}
	}
}

func TestRedactedProcess(t *testing.T) {
	r := New()
	p := r.Process(sampler.Process{Title: "acme", User: "alice", Host: "web-1.acme.example", LayoutNote: "in /home/alice/x.json", CommandLine: []string{"acme", "--key=1"}})
	if p.Title != "program-1" || p.User+p.Host != "" || p.CommandLine != nil || p.LayoutNote != "in x.json" {
		t.Errorf("%+v", p)
	}
	if again := r.Process(p); again.Title != p.Title {
		t.Errorf("%+v", again)
	}
	for _, kept := range []string{"puma", "ruby", "ruby3.3", "root"} {
		if r.Program(kept) != kept && r.User(kept) != kept {
			t.Error(kept)
		}
	}
	if got, want := r.Text("alice on web-1.acme.example may not read /home/alice/malice.rb, not even as alicein"), "user-1 on host may not read malice.rb, not even as alicein"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	x := r.Relative(sampler.Relative{Title: "acme", Why: "no Ruby (/opt/ac me/acme)"}, "/opt/ac me/acme")
	if x.Title != "program-1" || x.Why != "no Ruby (program-1)" {
		t.Errorf("%+v", x)
	}
	if n := r.Note(sampler.Note{AtNS: 7, Text: "alice did it"}); n.Text != "note-1" || n.AtNS != 7 || r.Note(n) != n {
		t.Errorf("%+v", n)
	}
	var none *Redactor
	if none.Text("/a/b") != "/a/b" || none.ThreadName("x") != "x" || none.Program("x") != "x" || none.User("x") != "x" || none.Note(sampler.Note{Text: "x"}).Text != "x" {
		t.Error("nothing is left out without a Redactor")
	}
}

// TestRedactorIsBounded: if a process has new names all the time, the Redactor's memory does not exceed its limit.
func TestRedactorIsBounded(t *testing.T) {
	r := New()
	long := strings.Repeat("x", 4096)
	for i := range 2 * maxRedactedBytes / len(long) {
		r.Peer(sampler.Peer{Kind: sampler.PeerUnix, Remote: fmt.Sprint(long, i)})
	}
	if n := len(r.given); n > maxRedactedBytes/len(long) {
		t.Errorf("%d names are remembered", n)
	}
	if p := r.Peer(sampler.Peer{Kind: sampler.PeerUnix, Remote: long}); p.Remote != "socket-other" {
		t.Errorf("%.40q", p.Remote)
	}
}

// TestNamesOfCode: if a path is not the name of a file, it is redacted, because a program may pass any text to eval.
func TestNamesOfCode(t *testing.T) {
	r := New()
	for in, want := range map[string]string{
		"": "", "/srv/acme/app/models/order.rb": "order.rb", "rel acme/x y.html.erb": "x y.html.erb", "bin/rails": "rails", "-e": "-e", "(irb)": "(irb)",
		"(eval at /srv/acme/a.rb:3)": "(eval at a.rb:3)", "(eval at (eval at /srv/the acme/a.rb:-3):7)": "(eval at (eval at a.rb:-3):7)",
		"<internal:kernel>": "<internal:kernel>", "<internal:/usr/lib/x.rb>": "<internal:x.rb>", "/srv/Müller/größe.rb": "größe.rb", "/srv/acme/": "",
	} {
		if f := r.Frame(sampler.Frame{Path: in, AbsolutePath: in}); f.Path != want || f.AbsolutePath != want {
			t.Errorf("%q became %+v, want %q", in, f, want)
		}
	}
	for _, in := range []string{
		"SELECT * FROM orders WHERE name = 'acme'", "select acme", "/srv/x.rb?customer=acme", "a.rb#acme=1", "acme%20inc", "acme@example.com", "key:acme",
		"(eval at SELECT acme:3)", "(eval at /srv/x = 'acme'.rb:3)", "{\"acme\": 1}", "https://acme:acme@example.com/?acme", "two\nlines acme", strings.Repeat("acme", 100),
	} {
		f := r.Frame(sampler.Frame{Path: in})
		if strings.Contains(f.Path, "acme") || f.Path == "" {
			t.Errorf("%q became %q", in, f.Path)
		}
		if again := r.Frame(f); again != f {
			t.Errorf("%+v became %+v the second time", f, again)
		}
	}
	if n := testing.AllocsPerRun(100, func() { r.Frame(sampler.Frame{Path: "/srv/acme/order.rb"}) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

type namedError struct{ text string }

func (e namedError) Error() string { return e.text }
func (e namedError) Named() (users, programs []string) {
	return []string{"alice", "root"}, []string{"acmed", "/opt/a, c:me/bin/acmed", ""}
}

func TestRedactedErrors(t *testing.T) {
	r := New()
	r.Know("rel (acme)/x y.ddtop", "")
	err := fmt.Errorf("not read: %w; %w", namedError{"it belongs to alice, not root; /opt/a, c:me/bin/acmed, which is acmed"}, &fs.PathError{Op: "open", Path: "a:c,me/x", Err: errors.New("no")})
	if got, want := r.Error(err), "not read: it belongs to user-1, not root; program-1, which is program-1; open x: no"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := r.Text("wrote rel (acme)/x y.ddtop"), "wrote x y.ddtop"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var none *Redactor
	none.Know("x")
	if got := none.Error(err); got != err.Error() {
		t.Errorf("without a Redactor: %q", got)
	}
}

// kept are the string fields that a Redactor does not change, by type and field, with the reason. The reason is that
// many programs or machines have the same value, or that a flamegraph needs it.
var kept = map[string]string{
	"Process.RubyVersion": "a release", "Process.RubyDescription": "a release", "Process.Machine": "a machine", "Process.JIT": "a word",
	"Process.Layout": "a release", "Process.PriorityNote": "words of ddtop's",
	"Frame.Label": "the picture", "Frame.Name": "the picture", "Frame.Gem": "the picture", "Peer.Service": "a word of ddtop's",
	"ThreadInfo.Exception": "a class, as in the picture",
}

// TestEveryFieldIsRedacted: each string field of the types is redacted, or is listed in kept. If a field is added to a
// type, this test fails until the field is redacted, or is in kept with a reason.
func TestEveryFieldIsRedacted(t *testing.T) {
	r := New()
	for _, x := range []struct{ full, redacted any }{
		{new(sampler.Process), func(v any) any { return r.Process(*v.(*sampler.Process)) }},
		{new(sampler.Frame), func(v any) any { return r.Frame(*v.(*sampler.Frame)) }},
		{new(sampler.ThreadInfo), func(v any) any { return r.Thread(*v.(*sampler.ThreadInfo)) }},
		{new(sampler.Peer), func(v any) any { return r.Peer(*v.(*sampler.Peer)) }},
		{new(sampler.Note), func(v any) any { return r.Note(*v.(*sampler.Note)) }},
		{new(sampler.End), func(v any) any { return r.End(*v.(*sampler.End)) }},
		{new(sampler.Relative), func(v any) any { x := v.(*sampler.Relative); return r.Relative(*x, "") }},
	} {
		v := reflect.ValueOf(x.full).Elem()
		for i := range v.NumField() {
			switch f := v.Field(i); {
			case f.Kind() == reflect.String:
				f.SetString("/srv/zq secret/file: x")
			case f.Type() == reflect.TypeFor[[]string]():
				f.Set(reflect.ValueOf([]string{"zq"}))
			}
		}
		got := reflect.ValueOf(x.redacted.(func(any) any)(x.full))
		for i := range got.NumField() {
			name := got.Type().Name() + "." + got.Type().Field(i).Name
			text := fmt.Sprint(got.Field(i))
			if k := got.Field(i).Kind(); k != reflect.String && k != reflect.Slice {
				continue
			}
			if has := strings.Contains(text, "zq"); has != (kept[name] != "") {
				t.Errorf("%s became %q", name, text)
			}
		}
	}
}

// TestWorkRedacted: a redacted view shows no values of requests, jobs and statements. A view that hides directories
// does not show them either.
func TestWorkRedacted(t *testing.T) {
	d := sampler.NewDictionary()
	id := d.InternWork(sampler.Work{Number: 1, Kind: sampler.WorkRequest, Endpoint: "GET /zqcustomer/:id", Values: "/zqcustomer/7?zq=1"})
	named := d.InternWork(sampler.Work{Number: 2, Kind: sampler.WorkJob, Endpoint: "Mail::Job", Values: "zq@example.com"})
	asked := d.InternText(`SELECT "orders"."id" FROM orders WHERE name = 'zq''s' AND n = 12.5 AND t2 = "zq x" AND s = 'zq`)
	handled := d.InternText("Timeout::Error: zq took too long")
	for _, text := range []string{"/*zq*/SELECT 1", "zq-1", "'zq'", "(SELECT zq)", "SELECT*FROM`zq`", "zq.example.com:80/x y"} {
		if s := New().View(d).Statement(d.InternText(text)); strings.Contains(s, "zq") {
			t.Errorf("%q for %q", s, text)
		}
	}
	for i, text := range []string{"/zq/a b", "/zq a", "x/zq GET", "GET /zq zq"} {
		e := d.InternWork(sampler.Work{Number: sampler.WorkNumber(10 + i), Kind: sampler.WorkRequest, Endpoint: text})
		if w := New().View(d).Work(e); strings.Contains(w.Endpoint, "zq") {
			t.Errorf("%q for %q", w.Endpoint, text)
		}
	}
	for name, v := range map[string]*sampler.Dictionary{"redacted": New().View(d), "hidden": d.View()} {
		HideDirectories(v, name == "hidden")
		w, x := v.Work(id), v.Work(named)
		for _, text := range []string{w.Values, x.Values, v.Statement(asked), v.Exception(handled)} {
			if strings.Contains(text, "zq") {
				t.Errorf("%s: %q", name, text)
			}
		}
		if v.Exception(handled) != "Timeout::Error" || x.Endpoint != "Mail::Job" || w.Number != 1 {
			t.Errorf("%s: %q, %+v, %+v", name, v.Exception(handled), w, x)
		}
		switch name {
		case "redacted":
			if w.Endpoint != "GET route-1" || v.Statement(asked) != "SELECT statement-1" {
				t.Errorf("redacted: %q, %q", w.Endpoint, v.Statement(asked))
			}
		case "hidden":
			if got := v.Statement(asked); got != `SELECT …` {
				t.Errorf("hidden: %q", got)
			}
		}
	}
	if !strings.Contains(d.Work(id).Values+d.Statement(asked)+d.Exception(handled), "zq") {
		t.Error("without either they are not there")
	}
}

// TestHostileWorkRedacted: a recording has texts that were made to get past the patterns. A redacted view must show no
// part of them. A view that hides directories must show no values of statements.
func TestHostileWorkRedacted(t *testing.T) {
	d := sampler.NewDictionary()
	views := map[string]*sampler.Dictionary{"redacted": New().View(d), "hidden": d.View()}
	HideDirectories(views["hidden"], true)
	for statement, hidden := range map[string]string{
		"zq":                                    "ZQ …",
		"SELECT'zq'":                            "…",
		`SELECT * FROM t WHERE password = "zq"`: "SELECT * FROM t WHERE password = ?",
		`SELECT "t"."a" FROM t WHERE b = $1`:    `SELECT "t"."a" FROM t WHERE b = ?`,
		"SELECT $$ zq $$":                       "SELECT …",
		"SELECT `zq` FROM t":                    "SELECT …",
		`SELECT 'a\'b', zq`:                     "SELECT …",
		"SELECT a /* zq */":                     "SELECT …",
		"SELECT a -- zq":                        "SELECT …",
		"SELECT q'[it's zq]'":                   "SELECT …",
		"SELECT a FROM t WHERE b = 'it''s zq' AND c = 17": "SELECT a FROM t WHERE b = ? AND c = ?",
		"SELECT 'zq" + sampler.CutMark:                    "SELECT …",
		"SELECT a FROM t WHERE" + sampler.CutMark:         "SELECT a FROM t WHERE" + sampler.CutMark,
		"ALTER USER me PASSWORD zq":                       "ALTER …",
		"SELECT 1; ALTER USER me PASSWORD zq":             "SELECT …",
		"SELECT 1 EXEC login zq":                          "SELECT …",
		"SELECT caf\u00e9zq":                              "SELECT …",
		`AUTH "zq"`:                                       "AUTH …",
		`AUTH :zq`:                                        "AUTH …",
		`GET ["zq"]`:                                      "GET …",
		"GET example.com/zq?zq=1":                         "GET …",
		"GET 17":                                          "GET …",
		"GET example.com":                                 "GET example.com",
		"GET and 3 more":                                  "GET and 3 more",
		"HGETALL":                                         "HGETALL",
		"":                                                "",
	} {
		id := d.InternText(statement)
		if got := views["hidden"].Statement(id); got != hidden {
			t.Errorf("hidden: %q became %q", statement, got)
		}
		if got := views["redacted"].Statement(id); strings.Contains(strings.ToLower(got), "zq") {
			t.Errorf("redacted: %q became %q", statement, got)
		}
	}
	for _, w := range []sampler.Work{{Endpoint: "zq.example.com"}, {Endpoint: "GET zq.example.com"}, {Endpoint: "zq /orders"}, {Endpoint: "zq orders#show"},
		{Endpoint: "zq\n"}, {Endpoint: "GET zq orders#show"}, {Endpoint: "zq@example.com", Kind: sampler.WorkJob}, {Endpoint: "GET " + "/zq#x"}} {
		w.Kind = max(w.Kind, sampler.WorkRequest)
		if got := views["redacted"].Work(d.InternWork(w)).Endpoint; strings.Contains(got, "zq") {
			t.Errorf("redacted: %q became %q", w.Endpoint, got)
		}
	}
	for endpoint, want := range map[string]string{"GET orders#show": "GET orders#show", "OPTIONS": "OPTIONS", "": ""} {
		if got := views["redacted"].Work(d.InternWork(sampler.Work{Kind: sampler.WorkRequest, Endpoint: endpoint})).Endpoint; got != want {
			t.Errorf("redacted: %q became %q", endpoint, got)
		}
	}
	if got := views["redacted"].Exception(d.InternText("zq was wrong")); got != "" {
		t.Errorf("redacted: %q", got)
	}
}
