package attach

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/quick"
	"unicode"

	"github.com/ddtop/ddtop/attach/mapped"
)

func TestParseMaps(t *testing.T) {
	const text = `55d0c0a00000-55d0c0a01000 r--p 00000000 08:01 131 /usr/bin/ruby3.1
55d0c0a01000-55d0c0a02000 r-xp 00001000 08:01 131                        /usr/bin/ruby3.1 (deleted)
7f0000000000-7f0000001000 rw-s 00000000 00:05 9 /dev/shm/a b\012c (x)
7f0000002000-7f0000003000 ---p 00000000 00:00 0
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]
7ffd00022000-7ffd00023000 rw-p 00000000 00:00 0                          [anon:Ruby:fiber stack (deleted)]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
`
	got, err := mapped.ParseMaps([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []Mapping{
		{Start: 0x55d0c0a00000, End: 0x55d0c0a01000, Read: true, Device: "08:01", Inode: 131, Path: "/usr/bin/ruby3.1"},
		{Start: 0x55d0c0a01000, End: 0x55d0c0a02000, Read: true, Exec: true, Offset: 0x1000, Device: "08:01", Inode: 131, Path: "/usr/bin/ruby3.1", Deleted: true},
		{Start: 0x7f0000000000, End: 0x7f0000001000, Read: true, Write: true, Shared: true, Device: "00:05", Inode: 9, Path: "/dev/shm/a b\nc (x)"},
		{Start: 0x7f0000002000, End: 0x7f0000003000, Device: "00:00"},
		{Start: 0x7ffd00000000, End: 0x7ffd00021000, Read: true, Write: true, Device: "00:00", Path: "[stack]"},
		{Start: 0x7ffd00022000, End: 0x7ffd00023000, Read: true, Write: true, Device: "00:00", Path: "[anon:Ruby:fiber stack (deleted)]"},
		{Start: 0xffffffffff600000, End: 0xffffffffff601000, Exec: true, Device: "00:00", Path: "[vsyscall]"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	for i, file := range []bool{true, true, true, false, false, false, false} {
		if got[i].IsFile() != file {
			t.Errorf("%v: file is %t", got[i], !file)
		}
	}
}

func TestParseMapsReadsOurOwn(t *testing.T) {
	text, err := os.ReadFile("/proc/self/maps")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("no /proc here")
	}
	if err != nil {
		t.Fatal(err)
	}
	maps, err := mapped.ParseMaps(text)
	if err != nil || len(maps) != strings.Count(string(text), "\n") {
		t.Errorf("%d mappings of %d lines, %v", len(maps), strings.Count(string(text), "\n"), err)
	}
}

func TestParseMapsRefusesOtherText(t *testing.T) {
	for _, line := range []string{
		"x", "1-2", "2-1 r--p 0 0:0 0", "1-1 r--p 0 0:0 0", "1-2 r-- 0 0:0 0", "1-2 r--p z 0:0 0", "1-2 r--p 0 0:0 z",
		"1-2 r--p 0 0:0 ", "12345678901234567890-2 r--p 0 0:0 0", "-1 r--p 0 0:0 0",
	} {
		if got, err := mapped.ParseMaps([]byte("1-2 r--p 0 0:0 0\n" + line + "\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v, %v; want an error that names line 2", line, got, err)
		}
	}
	if got, err := mapped.ParseMaps(nil); err != nil || len(got) != 0 {
		t.Errorf("nothing: %v, %v", got, err)
	}
}

func FuzzParseMaps(f *testing.F) {
	f.Add([]byte("1-2 r--p 0 0:0 1 /a (deleted)\n"))
	f.Add([]byte("55d0c0a00000-55d0c0a01000 r-xp 00000000 08:01 131    /usr/bin/ruby3.1\n\n7ffd-7ffe ---s f 1:2 0 [x]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		maps, err := mapped.ParseMaps(text)
		if err != nil {
			return
		}
		for _, m := range maps {
			if m.End <= m.Start || m.Deleted && m.Inode == 0 {
				t.Errorf("%+v", m)
			}
		}
	})
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("1 (a) S 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22"))
	f.Add([]byte("17 (a b) (c) d)) Z 1 1 1 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 3 0 99 1 2"))
	// fuzzing found this input: a text without a state
	f.Add([]byte("()\x00 4 3 6 7 8 9 10 11 12 13 14 15 16 17 18 \"9 20 2\xdf\xdf\xdf\xdf1 4"))
	f.Fuzz(func(t *testing.T, text []byte) {
		parseStatus(text)
		splitCommandLine(text)
		if s, err := parseStat(text); err == nil && !unicode.IsLetter(rune(s.State)) {
			t.Errorf("%q: %+v", text, s)
		}
	})
}

func TestParseStat(t *testing.T) {
	got, err := parseStat([]byte("25911 (a (b) c) d) R 25833 1 1 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 33 0 987654321 1 2\n"))
	want := processStat{Comm: "a (b) c) d", State: 'R', PPID: 25833, Flags: 4194304, Threads: 33, CPUTicks: 5 + 6,
		StartTicks: 987654321, RSSPages: 2}
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for _, text := range []string{"", "1 a S 1", "1 (a) S 1", ") (", "1 (a) 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22", "1 (a) SS 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22",
		"1 (a) S x 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22", "1 (a) S 2 3 4 5 6 x 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22",
		"1 (a) S 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 x 19 20 21 22", "1 (a) S 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 x 21 22"} {
		if got, err := parseStat([]byte(text)); err == nil {
			t.Errorf("%q is taken as %+v", text, got)
		}
	}
}

func TestParseStatus(t *testing.T) {
	got := parseStatus([]byte("Name:\tx\nTgid:\t12\nTracerPid:\t7\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nNSpid:\t12\t1\nCapPrm:\t0000000000080000\n" +
		"CapEff:\t000001fffeffffff\nSeccomp:\t2\nJunk\nTgid\n"))
	want := processStatus{Name: "x", TGID: 12, TracerPID: 7, UID: [4]int{1, 2, 3, 4}, GID: [4]int{5, 6, 7, 8}, NSPID: []int{12, 1},
		CapPermitted: 0x80000, CapEffective: 0x1fffeffffff, Seccomp: 2}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := parseStatus(nil); got.UID[0] != -1 {
		t.Errorf("an unknown user is %d", got.UID[0])
	}
}

func TestTitleHoldsNoArguments(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "comm"},
		{[]string{"ruby", "app.rb", "--password=x"}, "app.rb"},
		{[]string{"/usr/bin/ruby3.1", "-W0", "-I", "lib", "-Itest", "-r", "set", "/srv/app/bin/rails", "server"}, "rails"},
		{[]string{"ruby", "--yjit", "--parser", "prism", "--encoding=utf-8", "--", "a.rb", "secret"}, "a.rb"},
		{[]string{"ruby", "-e", "token = 'secret'", "x"}, "ruby"},
		{[]string{"ruby", "-etoken", "x"}, "ruby"},
		{[]string{"ruby", "-", "x"}, "ruby"}, {[]string{"ruby", "--"}, "ruby"}, {[]string{"ruby"}, "ruby"}, {[]string{"ruby", "-C", "/x"}, "ruby"},
		{[]string{"puma 6.4.0 (tcp://0.0.0.0:3000) [app]"}, "puma"},
		{[]string{"puma: cluster worker 0: 17 [app]"}, "puma"},
		{[]string{"sidekiq 7.1 app [3 of 10 busy]"}, "sidekiq"},
		{[]string{"/usr/bin/sleep", "60"}, "sleep"},
		{[]string{"rubyfmt", "secret"}, "rubyfmt"},
		{[]string{"/usr/bin/qemu-aarch64-static", "/usr/bin/ruby3.3", "--yjit", "/srv/app.rb", "secret"}, "app.rb"},
		{[]string{"qemu-aarch64", "-L", "/arm64", "-strace", "/arm64/usr/bin/ruby3.3", "app.rb"}, "app.rb"},
		{[]string{"/usr/bin/qemu-aarch64-static", "/usr/bin/ruby3.3", "ruby", "app.rb"}, "app.rb"},
		{[]string{"qemu-aarch64", "/usr/bin/sleep", "60"}, "qemu-aarch64"},
		{[]string{"qemu-system-x86_64", "-m", "1G"}, "qemu-system-x86_64"}, {[]string{"qemu-aarch64", "-L"}, "qemu-aarch64"},
	} {
		if got := titleOf(test.args, "comm"); got != test.want {
			t.Errorf("%q is titled %q, want %q", test.args, got, test.want)
		}
	}
}

func TestPartOfATitle(t *testing.T) {
	for _, test := range []struct{ title, part, now string }{
		{"puma 6.4.0 (tcp://worker 7:3000) [worker 8]", "", ""},
		{"puma: cluster worker 0: 17 [worker 8]", "w0", ""},
		{"puma: cluster worker 12: 17", "w12", ""},
		{"unicorn master -c config.rb", "master", ""},
		{"unicorn worker[3] -c config.rb", "w3", ""},
		{"pitchfork (gen:2) worker[1] - requests: 17", "w1", ""},
		{"pitchfork (gen:2) mold", "mold", ""},
		{"sidekiq 6.4.1 shop [3 of 5 busy]", "", "[3 of 5 busy]"},
		{"sidekiq 6.4.1 master [0 of 5 busy] stopping", "", "[0 of 5 busy] quiet"},
		{"app worker[12345678901]", "", ""},
		{"puma", "", ""},
	} {
		part, now := partOf([]string{test.title})
		if part != test.part || now != test.now {
			t.Errorf("%q has the part %q and %q, want %q and %q", test.title, part, now, test.part, test.now)
		}
	}
	if part, now := partOf([]string{"ruby", "app.rb", "worker 3"}); part != "" || now != "" {
		t.Errorf("arguments make the part %q and %q", part, now)
	}
}

func TestMastersAreFound(t *testing.T) {
	list := []Candidate{
		{PID: 1, Title: "puma"}, {PID: 2, PPID: 1, Title: "puma", Part: "w0"},
		{PID: 3, PPID: 2, Title: "puma", Part: "w1"}, {PID: 4, Title: "foreman"}, {PID: 5, PPID: 4, Title: "puma", Part: "w0"}, {PID: 6, Title: "puma"},
	}
	findMasters(list)
	for i, want := range []string{MasterPart, "w0", "w1", "", "w0", ""} {
		if list[i].Part != want {
			t.Errorf("process %d has the part %q, want %q", list[i].PID, list[i].Part, want)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{"ruby": true, "ruby3.1": true, "ruby27": true, "ruby-3.4.9": true, "jruby": false, "rubyfmt": false, "": false} {
		if mapped.IsRubyName(name) != want {
			t.Errorf("isRubyName(%q) is %t", name, !want)
		}
	}
	for path, want := range map[string]bool{
		"/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1.2": true, "/opt/lib/libruby.so.3.4": true, "libruby27.so.2.7": true, "libruby.so": true,
		"/usr/lib/librubygc.default.so": false, "librubyvm.so": false, "libruby": false, "libruby-static.a": false, "/x/libruby/foo.so": false, "librubyx-3.so": false,
	} {
		if mapped.IsLibRuby(path) != want {
			t.Errorf("isLibRuby(%q) is %t", path, !want)
		}
	}
	for v, want := range map[string]bool{"3.4.11": true, "4.1.0": true, "": false, "x": false, "3.4.0dev": false, ".3": false} {
		if mapped.IsVersion(v) != want {
			t.Errorf("isVersion(%q) is %t", v, !want)
		}
	}
}

func TestSplitCommandLine(t *testing.T) {
	for text, want := range map[string]string{"": "[]", "a\x00b c\x00\x00d\x00": `["a" "b c" "" "d"]`, "puma [x]\x00\x00\x00\x00": `["puma [x]"]`} {
		if got := fmt.Sprintf("%q", splitCommandLine([]byte(text))); got != want {
			t.Errorf("%q gives %s, want %s", text, got, want)
		}
	}
	if err := quick.Check(func(b []byte) bool {
		for _, a := range splitCommandLine(b) {
			if strings.Contains(a, "\x00") {
				return false
			}
		}
		return true
	}, nil); err != nil {
		t.Error(err)
	}
}

func TestForeignPrograms(t *testing.T) {
	has := func(names ...string) func(string) bool {
		return func(name string) bool {
			for _, n := range names {
				if n == name {
					return true
				}
			}
			return false
		}
	}
	for _, test := range []struct {
		program mapped.ForeignProgram
		want    string
	}{
		{mapped.ForeignProgram{Exe: "/opt/truffleruby/bin/truffleruby"}, "TruffleRuby"},
		{mapped.ForeignProgram{Exe: "/usr/lib/jvm/bin/java", Libraries: []string{"/usr/lib/jvm/lib/server/libjvm.so"}, Title: "java -cp jruby.jar org.jruby.Main"}, "JRuby"},
		{mapped.ForeignProgram{Exe: "/usr/lib/jvm/bin/java", Libraries: []string{"/usr/lib/jvm/lib/server/libjvm.so"}, Title: "java Foo"}, "Java VM"},
		{mapped.ForeignProgram{Exe: "/usr/bin/mruby"}, "mruby"},
		{mapped.ForeignProgram{Exe: "/srv/app", Symbol: has("mrb_open")}, "mruby"},
		{mapped.ForeignProgram{Exe: "/usr/bin/caddy", Section: has(".go.buildinfo")}, "a Go program (caddy)"},
		{mapped.ForeignProgram{Exe: "/usr/bin/python3.11"}, "Python"},
		{mapped.ForeignProgram{Exe: "/opt/uwsgi", Libraries: []string{"/usr/lib/libpython3.11.so.1.0"}}, "Python"},
		{mapped.ForeignProgram{Exe: "/usr/bin/node"}, "Node.js"},
		{mapped.ForeignProgram{Exe: "/usr/bin/bash"}, "it runs /usr/bin/bash"},
	} {
		if test.program.Section == nil {
			test.program.Section = has()
		}
		if test.program.Symbol == nil {
			test.program.Symbol = has()
		}
		what, help := test.program.Describe()
		if !strings.Contains(what, test.want) || help == "" {
			t.Errorf("%s: %q, %q; want %q", test.program.Exe, what, help, test.want)
		}
	}
}

func TestTargetErrorText(t *testing.T) {
	err := &TargetError{PID: 17, Kind: ErrPermission, Cause: "it belongs to user app", Help: "Run `sudo ddtop -p 17`.", Err: os.ErrPermission}
	const want = "process 17: no permission to read the process: it belongs to user app (permission denied). Run `sudo ddtop -p 17`."
	if err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	if !errors.Is(err, ErrPermission) || !errors.Is(err, os.ErrPermission) || errors.Is(err, ErrGone) {
		t.Error("it does not unwrap to its kind and cause")
	}
	if got := (&TargetError{PID: 1, Kind: ErrGone}).Error(); got != "process 1: the process has ended" {
		t.Error(got)
	}
}
