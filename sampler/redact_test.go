package sampler

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"testing"
)

func TestThreadNames(t *testing.T) {
	r := NewRedactor()
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
	r := NewRedactor()
	for _, x := range []struct{ in, want Peer }{
		{Peer{Kind: PeerTCP, Remote: "10.20.30.40:5432", Local: "192.168.7.9:41000", Service: "PostgreSQL"},
			Peer{Kind: PeerTCP, Remote: "host-1:5432", Local: "host-2:41000", Service: "PostgreSQL"}},
		{Peer{Kind: PeerTCP, Remote: "[::ffff:10.20.30.40]:80"}, Peer{Kind: PeerTCP, Remote: "host-1:80"}}, // the same machine
		{Peer{Kind: PeerUDP, Remote: "[fe80::1%eth0]:53"}, Peer{Kind: PeerUDP, Remote: "host-3:53"}},
		{Peer{Kind: PeerTCP, Remote: "2001:db8::7"}, Peer{Kind: PeerTCP, Remote: "host-4"}}, // without its port
		{Peer{Kind: PeerTCP, Remote: "127.0.0.1:6379", Local: "[::1]:9"}, Peer{Kind: PeerTCP, Remote: "127.0.0.1:6379", Local: "[::1]:9"}},
		{Peer{Kind: PeerListener, Local: "0.0.0.0:3000"}, Peer{Kind: PeerListener, Local: "0.0.0.0:3000"}},
		{Peer{Kind: PeerListener, Local: "127.9.9.9:3000"}, Peer{Kind: PeerListener, Local: "host-5:3000"}},
		{Peer{Kind: PeerUnix, Remote: "/run/ac me/.s.PGSQL.5432", Service: "PostgreSQL"}, Peer{Kind: PeerUnix, Remote: "socket-1", Service: "PostgreSQL"}},
		{Peer{Kind: PeerUnix, Remote: "@acme"}, Peer{Kind: PeerUnix, Remote: "socket-2"}},
		{Peer{Kind: PeerUnix, Remote: "10.20.30.40:80"}, Peer{Kind: PeerUnix, Remote: "socket-3"}},
		{Peer{Kind: PeerListener, Local: "rel/acme.sock"}, Peer{Kind: PeerListener, Local: "socket-4"}},
		{Peer{Kind: PeerFile, Path: "/var/acme/bob.pdf"}, Peer{Kind: PeerFile, Path: "file-1"}},
		{Peer{Kind: PeerFile, Path: "/dev/null"}, Peer{Kind: PeerFile, Path: "/dev/null"}},
		{Peer{Kind: PeerPipe, Path: "pipe:[812]"}, Peer{Kind: PeerPipe, Path: "pipe:[812]"}},
		{Peer{Kind: PeerPipe, Path: "/run/acme.fifo"}, Peer{Kind: PeerPipe, Path: "pipe-1"}},
		{Peer{Kind: PeerTTY, Path: "/dev/pts/7"}, Peer{Kind: PeerTTY, Path: "tty-1"}},
		{Peer{Kind: PeerOther, Path: "anon_inode:[io_uring]"}, Peer{Kind: PeerOther, Path: "anon_inode:[io_uring]"}},
		{Peer{Kind: PeerOther, Path: "pipe:[812] acme"}, Peer{Kind: PeerOther, Path: "file-2"}},
	} {
		got := r.peer(x.in)
		if got != x.want {
			t.Errorf("%+v became %+v, want %+v", x.in, got, x.want)
		}
		if again := r.peer(got); again != got { // a redacted recording is redacted once more, or a source twice
			t.Errorf("%+v became %+v the second time", got, again)
		}
	}
}

func TestRedactedProcess(t *testing.T) {
	r := NewRedactor()
	p := r.Process(Process{Title: "acme", User: "alice", Host: "web-1.acme.example", LayoutNote: "in /home/alice/x.json", CommandLine: []string{"acme", "--key=1"}})
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
	x := r.Relative(Relative{Title: "acme", Why: "no Ruby (/opt/ac me/acme)"}, "/opt/ac me/acme")
	if x.Title != "program-1" || x.Why != "no Ruby (program-1)" {
		t.Errorf("%+v", x)
	}
	if n := r.Note(Note{AtNS: 7, Text: "alice did it"}); n.Text != "note-1" || n.AtNS != 7 || r.Note(n) != n {
		t.Errorf("%+v", n)
	}
	var none *Redactor
	if none.Text("/a/b") != "/a/b" || none.ThreadName("x") != "x" || none.Program("x") != "x" || none.User("x") != "x" || none.Note(Note{Text: "x"}).Text != "x" {
		t.Error("nothing is left out without a Redactor")
	}
}

// TestRedactorIsBounded: a process that names ever other things can't make ddtop large.
func TestRedactorIsBounded(t *testing.T) {
	r := NewRedactor()
	long := strings.Repeat("x", 4096)
	for i := range 2 * maxRedactedBytes / len(long) {
		r.peer(Peer{Kind: PeerUnix, Remote: fmt.Sprint(long, i)})
	}
	if n := len(r.given); n > maxRedactedBytes/len(long) {
		t.Errorf("%d names are remembered", n)
	}
	if p := r.peer(Peer{Kind: PeerUnix, Remote: long}); p.Remote != "socket-other" {
		t.Errorf("%.40q", p.Remote)
	}
}

// TestNamesOfCode: what is not a file's name may be anything that a program has given to eval.
func TestNamesOfCode(t *testing.T) {
	r := NewRedactor()
	for in, want := range map[string]string{
		"": "", "/srv/acme/app/models/order.rb": "order.rb", "rel acme/x y.html.erb": "x y.html.erb", "bin/rails": "rails", "-e": "-e", "(irb)": "(irb)",
		"(eval at /srv/acme/a.rb:3)": "(eval at a.rb:3)", "(eval at (eval at /srv/the acme/a.rb:-3):7)": "(eval at (eval at a.rb:-3):7)",
		"<internal:kernel>": "<internal:kernel>", "<internal:/usr/lib/x.rb>": "<internal:x.rb>", "/srv/Müller/größe.rb": "größe.rb", "/srv/acme/": "",
	} {
		if f := r.frame(Frame{Path: in, AbsolutePath: in}); f.Path != want || f.AbsolutePath != want {
			t.Errorf("%q became %+v, want %q", in, f, want)
		}
	}
	for _, in := range []string{
		"SELECT * FROM orders WHERE name = 'acme'", "select acme", "/srv/x.rb?customer=acme", "a.rb#acme=1", "acme%20inc", "acme@example.com", "key:acme",
		"(eval at SELECT acme:3)", "(eval at /srv/x = 'acme'.rb:3)", "{\"acme\": 1}", "https://acme:acme@example.com/?acme", "two\nlines acme", strings.Repeat("acme", 100),
	} {
		f := r.frame(Frame{Path: in})
		if strings.Contains(f.Path, "acme") || f.Path == "" {
			t.Errorf("%q became %q", in, f.Path)
		}
		if again := r.frame(f); again != f {
			t.Errorf("%+v became %+v the second time", f, again)
		}
	}
	if n := testing.AllocsPerRun(100, func() { r.frame(Frame{Path: "/srv/acme/order.rb"}) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

type namedError struct{ text string }

func (e namedError) Error() string { return e.text }
func (e namedError) Named() (users, programs []string) {
	return []string{"alice", "root"}, []string{"acmed", "/opt/a, c:me/bin/acmed", ""}
}

func TestRedactedErrors(t *testing.T) {
	r := NewRedactor()
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

// kept are the strings that a Redactor leaves, by type and field: what any Ruby or machine has, and what the picture is made of.
var kept = map[string]string{
	"Process.RubyVersion": "a release", "Process.RubyDescription": "a release", "Process.Machine": "a machine", "Process.JIT": "a word",
	"Process.Layout": "a release", "Process.PriorityNote": "words of ddtop's",
	"Frame.Label": "the picture", "Frame.Name": "the picture", "Frame.Gem": "the picture", "Peer.Service": "a word of ddtop's",
}

// TestEveryFieldIsRedacted gives a secret to each string of all that a Redactor is for: a field that is added has to be
// redacted, or to be among those kept.
func TestEveryFieldIsRedacted(t *testing.T) {
	r := NewRedactor()
	for _, x := range []struct{ full, redacted any }{
		{new(Process), func(v any) any { return r.Process(*v.(*Process)) }},
		{new(Frame), func(v any) any { return r.frame(*v.(*Frame)) }},
		{new(ThreadInfo), func(v any) any { return r.thread(*v.(*ThreadInfo)) }},
		{new(Peer), func(v any) any { return r.peer(*v.(*Peer)) }},
		{new(Note), func(v any) any { return r.Note(*v.(*Note)) }},
		{new(End), func(v any) any { return r.End(*v.(*End)) }},
		{new(Relative), func(v any) any { x := v.(*Relative); return r.Relative(*x, "") }},
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

// TestWorkRedacted: a redacted view has no values, and one that hides directories none either.
func TestWorkRedacted(t *testing.T) {
	d := NewDictionary()
	id := d.InternWork(Work{Number: 1, Kind: WorkRequest, Endpoint: "GET /zqcustomer/:id", Values: "/zqcustomer/7?zq=1"})
	named := d.InternWork(Work{Number: 2, Kind: WorkJob, Endpoint: "Mail::Job", Values: "zq@example.com"})
	asked := d.InternText(`SELECT "orders"."id" FROM orders WHERE name = 'zq''s' AND n = 12.5 AND t2 = "zq x" AND s = 'zq`)
	handled := d.InternText("Timeout::Error: zq took too long")
	for _, text := range []string{"/*zq*/SELECT 1", "zq-1", "'zq'", "(SELECT zq)", "SELECT*FROM`zq`", "zq.example.com:80/x y"} {
		if s := d.Redacted(NewRedactor()).Statement(d.InternText(text)); strings.Contains(s, "zq") {
			t.Errorf("%q for %q", s, text)
		}
	}
	for i, text := range []string{"/zq/a b", "/zq a", "x/zq GET", "GET /zq zq"} {
		e := d.InternWork(Work{Number: WorkNumber(10 + i), Kind: WorkRequest, Endpoint: text})
		if w := d.Redacted(NewRedactor()).Work(e); strings.Contains(w.Endpoint, "zq") {
			t.Errorf("%q for %q", w.Endpoint, text)
		}
	}
	for name, v := range map[string]*Dictionary{"redacted": d.Redacted(NewRedactor()), "hidden": d.View()} {
		v.HideDirectories(name == "hidden")
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

// TestHostileWorkRedacted: what a recording with values holds, whatever it is, is not in a redacted view, nor in one that hides values.
func TestHostileWorkRedacted(t *testing.T) {
	d := NewDictionary()
	views := map[string]*Dictionary{"redacted": d.Redacted(NewRedactor()), "hidden": d.View()}
	views["hidden"].HideDirectories(true)
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
		"SELECT 'zq" + CutMark:                            "SELECT …",
		"SELECT a FROM t WHERE" + CutMark:                 "SELECT a FROM t WHERE" + CutMark,
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
	for _, w := range []Work{{Endpoint: "zq.example.com"}, {Endpoint: "GET zq.example.com"}, {Endpoint: "zq /orders"}, {Endpoint: "zq orders#show"},
		{Endpoint: "zq\n"}, {Endpoint: "GET zq orders#show"}, {Endpoint: "zq@example.com", Kind: WorkJob}, {Endpoint: "GET " + "/zq#x"}} {
		w.Kind = max(w.Kind, WorkRequest)
		if got := views["redacted"].Work(d.InternWork(w)).Endpoint; strings.Contains(got, "zq") {
			t.Errorf("redacted: %q became %q", w.Endpoint, got)
		}
	}
	for endpoint, want := range map[string]string{"GET orders#show": "GET orders#show", "OPTIONS": "OPTIONS", "": ""} {
		if got := views["redacted"].Work(d.InternWork(Work{Kind: WorkRequest, Endpoint: endpoint})).Endpoint; got != want {
			t.Errorf("redacted: %q became %q", endpoint, got)
		}
	}
	if got := views["redacted"].Exception(d.InternText("zq was wrong")); got != "" {
		t.Errorf("redacted: %q", got)
	}
}
