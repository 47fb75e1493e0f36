// Package redact removes from ddtop's output what can identify a person, a machine, a network, a directory or a
// customer.
package redact

import (
	"cmp"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/ddtop/ddtop/sampler"
)

// maxRedactedBytes limits the total size of the names that a Redactor remembers, in bytes. Above the limit, all new
// names of one kind get the same pseudonym, "kind-other".
const maxRedactedBytes = 16 << 20

// Redactor replaces what can identify a person, a machine, a network, a directory or a customer by pseudonyms. The
// same name always gets the same pseudonym. Pseudonyms are numbered in the order in which the names first appear, so
// they reveal nothing about the names. A pseudonym is not replaced again. docs/reference/redaction.md lists what is
// replaced and what is kept. A nil Redactor changes nothing. Several goroutines may use a Redactor at once.
type Redactor struct {
	mu sync.Mutex
	// given has the pseudonym of each name, by kind and name. taken has all pseudonyms. last has, for each kind, the
	// number of the last pseudonym.
	given map[redacted]string
	taken map[string]struct{}
	last  map[string]int
	bytes int
	// words has the pseudonyms of users and hosts, which are also replaced in sentences. paths are files that may be
	// named in sentences.
	words map[string]string
	paths []string
}

type redacted struct{ kind, name string }

// New returns a Redactor without any pseudonyms.
func New() *Redactor {
	return &Redactor{given: make(map[redacted]string), taken: make(map[string]struct{}), last: make(map[string]int), words: make(map[string]string)}
}

// View returns a Dictionary with the entries of d, which it redacts when they are read. If r is nil, View returns d
// itself.
func (r *Redactor) View(d *sampler.Dictionary) *sampler.Dictionary {
	if r == nil {
		return d
	}
	return d.Filtered(r)
}

// pseudonym returns the pseudonym of a name. If the name is new, it calls the function make with the next number of the
// kind to get a pseudonym.
func (r *Redactor) pseudonym(kind, name string, make func(n int) string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, ok := r.given[redacted{kind, name}]; ok {
		return p
	}
	if _, ok := r.taken[name]; ok {
		return name
	}
	if r.bytes += len(name); r.bytes > maxRedactedBytes {
		return kind + "-other"
	}
	r.last[kind]++
	p := make(r.last[kind])
	r.given[redacted{kind, name}] = p
	r.taken[p] = struct{}{}
	return p
}

// numbered returns a pseudonym of the form kind-1, kind-2 and so on.
func (r *Redactor) numbered(kind, name string) string {
	return r.pseudonym(kind, name, func(n int) string { return kind + "-" + strconv.Itoa(n) })
}

// Process returns p without command line, user and host. It replaces the title by a pseudonym, unless the title is well
// known.
func (r *Redactor) Process(p sampler.Process) sampler.Process {
	if r == nil {
		return p
	}
	r.User(p.User)
	if p.Host != "" && p.Host != "localhost" {
		r.mu.Lock()
		r.words[p.Host] = "host"
		r.mu.Unlock()
	}
	p = Bare(p)
	p.Title, p.Part = r.Program(p.Title), partOnly(p.Part)
	return p
}

// knownPart matches roles of processes in their service (sampler.Process.Part) that identify no person: w with a
// number, and words of well-known servers.
var knownPart = regexp.MustCompile(`^(w\d{1,4}|master|mold|monitor)$`)

// partOnly returns part if it is a known role of a process. Otherwise it returns "", because the role in a recording
// can be any text.
func partOnly(part string) string {
	if knownPart.MatchString(part) {
		return part
	}
	return ""
}

// programs are titles of processes that are so common that they do not identify anyone.
var programs = []string{
	"ruby", "irb", "rails", "rake", "rackup", "bundle", "bundler", "puma", "unicorn", "unicorn_rails", "falcon", "thin", "passenger",
	"webrick", "sidekiq", "sidekiqswarm", "resque", "good_job", "solid_queue", "delayed_job", "shoryuken", "karafka", "racecar", "que",
	"clockwork", "spring", "foreman", "rspec", "minitest", "cucumber", "jekyll", "qemu", "sh", "bash", "tini", "dumb-init", "ddtop",
}

// Program returns a program's name if it is Ruby or a well-known server or tool. Otherwise it returns a pseudonym.
func (r *Redactor) Program(title string) string {
	release, isRuby := strings.CutPrefix(title, "ruby") // ruby3.3
	if r == nil || title == "" || slices.Contains(programs, title) || isRuby && strings.Trim(release, "-.0123456789") == "" {
		return title
	}
	return r.numbered("program", title)
}

// User returns a pseudonym for a user's name. It does not change the name root.
func (r *Redactor) User(name string) string {
	if r == nil || name == "" || name == "root" {
		return name
	}
	p := r.numbered("user", name)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.words[name] = p
	return p
}

// Frame returns f with the directories removed from its files. It keeps the names of methods, files and gems, because a
// flamegraph is useless without them.
func (r *Redactor) Frame(f sampler.Frame) sampler.Frame {
	f.Path, f.AbsolutePath = r.file(f.Path), r.file(f.AbsolutePath)
	if f.IsNative() && !plain(f.Native.Library) {
		library := r.numbered("library", f.Native.Library)
		f.Label = strings.ReplaceAll(f.Label, f.Native.Library, library)
		f.Name, f.Native.Library = f.Label, library
	}
	return f
}

// fileName matches a usual name of a file with code, and what Ruby puts around it: "order.rb", "x y.html.erb", "rails",
// "(irb)", "<internal:kernel>", "(eval at order.rb:3)". Other names get a pseudonym, because a program can pass any
// text to eval as the file name: a query, a link, a customer's words.
var fileName = regexp.MustCompile(`^(?:\(eval at |<internal:)*(?:\(?[\pL\pN\pM._+~-]{1,255}\)?|[\pL\pN\pM ._+~,()\[\]-]{1,250}\.` +
	`(?:rb|ru|rake|erb|haml|slim|builder|jbuilder|rabl|arb|prawn|liquid|gemspec|thor))(?::-?\d+\)|>)*$`)

// NativeFrame returns f without the directories of its file. It does not change the names of C functions.
func (r *Redactor) NativeFrame(f sampler.NativeFrame) sampler.NativeFrame {
	if r == nil {
		return f
	}
	if f.Path != "" {
		f.Path = r.file(f.Path)
	}
	if !plain(f.Library) {
		f.Library = r.numbered("library", f.Library)
	}
	return f
}

// file returns a path of code without the directories. If the remaining name is not a usual file name, it returns a
// pseudonym.
func (r *Redactor) file(path string) string {
	name := withoutDirectories(path)
	if plain(name) || fileName.MatchString(name) {
		return name
	}
	return r.numbered("code", name)
}

// plain reports whether a name has only characters that are common in file names.
func plain(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return len(name) <= 255
}

// Thread returns t with its name redacted by ThreadName.
func (r *Redactor) Thread(t sampler.ThreadInfo) sampler.ThreadInfo {
	t.Name = r.ThreadName(t.Name)
	return t
}

// threadWords are the words that Ruby, its libraries and C libraries use in the names of threads.
var threadWords = strings.Fields(`
	main ruby thread threads thr thd pool threadpool worker workers wrk wrkr timer tim timeout stdlib io fast default
	http https server srv tp reactor check stat pld plgn plugin bg trimmer trim reap reaper signal ctrl listener listen
	accept acceptor connection connections puma sidekiq processor scheduler heartbeat manager poller fetcher launcher
	capsule activerecord actioncable concurrent async transport core remote telemetry datadog sentry newrelic nr agent
	statsd logger log monitor metrics profiler profiling collectors webrick unicorn falcon resque goodjob good job jobs
	solid queue karafka rdkafka rdk broker bunny redis grpc global watcher watch background executor executors cache
	consumer producer dispatcher supervisor jemalloc iou sqp finalizer irb debug`)

// maxKeptDigits and maxKeptNumbers limit which numbers in a thread's name are kept: how many digits each number may
// have, and how many numbers there may be. Within these limits, numbers only count threads. Longer numbers could be
// addresses.
const (
	maxKeptDigits  = 3
	maxKeptNumbers = 2
)

// ThreadName returns a thread's name unchanged if all of its words are common in well-known libraries ("puma srv tp
// 003"). Other names become "thread A". If names differ only in their digits, they become "thread B 1", "thread B 2",
// so that the members of a pool can be recognized.
func (r *Redactor) ThreadName(name string) string {
	if r == nil || name == "" || wellKnown(name) {
		return name
	}
	r.mu.Lock()
	_, ours := r.taken[name]
	r.mu.Unlock()
	if ours {
		return name
	}
	stem := strings.Map(func(c rune) rune {
		if unicode.IsDigit(c) {
			return -1
		}
		return c
	}, name)
	pool := r.pseudonym("thread", stem, func(n int) string { return "thread " + letters(n) })
	if stem == name {
		return pool
	}
	return r.pseudonym(pool, name, func(n int) string { return pool + " " + strconv.Itoa(n) })
}

func wellKnown(name string) bool {
	if strings.ContainsFunc(name, func(c rune) bool { return c > unicode.MaxASCII }) {
		return false // other characters, such as ①, can carry information
	}
	words := strings.FieldsFunc(strings.ToLower(name), func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })
	numbers, known := 0, 0
	for _, w := range words {
		word := strings.TrimRight(w, "0123456789")
		switch {
		case word != "" && !slices.Contains(threadWords, word), len(w)-len(word) > maxKeptDigits:
			return false
		case word != "":
			known++
		}
		if w != word {
			numbers++
		}
	}
	return known > 0 && numbers <= maxKeptNumbers
}

// letters converts a number to letters: A, B … Z, AA, AB and so on.
func letters(n int) string {
	s := ""
	for ; n > 0; n = (n - 1) / 26 {
		s = string(rune('A'+(n-1)%26)) + s
	}
	return s
}

// kernelName matches a text of a link in /proc/PID/fd that the kernel itself chose, so that it reveals nothing about
// the program (proc_pid_fd(5)).
var kernelName = regexp.MustCompile(`^(anon_inode:(\[[a-z_-]+\]|[a-z_-]+)|(pipe|socket|net|mnt|pid|user|uts|ipc|cgroup|time):\[\d+\])$`)

// devices are files that exist on every machine.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// Peer returns p with pseudonyms: "host-1:5432", "socket-1" or "file-1". It keeps the port and Service.
func (r *Redactor) Peer(p sampler.Peer) sampler.Peer {
	p.Remote, p.Local = r.address(p.Kind, p.Remote), r.address(p.Kind, p.Local)
	if p.Process != "" {
		p.Process = r.numbered("program", p.Process)
	}
	if p.Path == "" || kernelName.MatchString(p.Path) || slices.Contains(devices, p.Path) {
		return p
	}
	kind := "file"
	switch p.Kind {
	case sampler.PeerPipe:
		kind = "pipe"
	case sampler.PeerTTY:
		kind = "tty"
	}
	p.Path = r.numbered(kind, p.Path)
	return p
}

// address returns a pseudonym for the address of one end of a socket. It does not change 127.0.0.1, ::1 and "any
// address", because they are the same on every machine.
func (r *Redactor) address(kind sampler.PeerKind, address string) string {
	if address == "" {
		return ""
	}
	if kind == sampler.PeerTCP || kind == sampler.PeerUDP || kind == sampler.PeerListener {
		if a, err := netip.ParseAddrPort(address); err == nil {
			if h := r.host(a.Addr()); h != "" {
				return h + ":" + strconv.Itoa(int(a.Port()))
			}
			return address
		}
		if a, err := netip.ParseAddr(address); err == nil {
			if h := r.host(a); h != "" {
				return h
			}
			return address
		}
		if host, port, ok := strings.Cut(address, ":"); ok && r.hasGiven(host) && strings.Trim(port, "0123456789") == "" {
			return address
		}
	}
	return r.numbered("socket", address)
}

// host returns a pseudonym for an IP address. It returns "" if the address identifies nothing, so that no pseudonym is
// needed.
func (r *Redactor) host(a netip.Addr) string {
	a = a.Unmap()
	if a.IsUnspecified() || a == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || a == netip.IPv6Loopback() {
		return ""
	}
	return r.numbered("host", a.String())
}

func (r *Redactor) hasGiven(pseudonym string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.taken[pseudonym]
	return ok
}

// Note returns n with a pseudonym instead of its text, because a user can have written anything.
func (r *Redactor) Note(n sampler.Note) sampler.Note {
	if r != nil {
		n.Text = r.numbered("note", n.Text)
	}
	return n
}

// Notes returns the notes of a recording, with a pseudonym instead of each text.
func (r *Redactor) Notes(list []sampler.Note) []sampler.Note {
	if r == nil {
		return list
	}
	list = slices.Clone(list)
	for i := range list {
		list[i] = r.Note(list[i])
	}
	return list
}

// End returns e with a reason that names no directory, user or host.
func (r *Redactor) End(e sampler.End) sampler.End {
	e.Reason = r.Text(e.Reason)
	return e
}

// Relative returns x without the names of its program, except well-known names. exe is the path of the program.
// Relative also redacts this path in x.Why. It does not redact the Source, which the caller must redact.
func (r *Redactor) Relative(x sampler.Relative, exe string) sampler.Relative {
	if r == nil {
		return x
	}
	title := r.Program(x.Title)
	if exe != "" {
		x.Why = strings.ReplaceAll(x.Why, exe, r.Program(withoutDirectories(exe)))
	}
	if x.Title != "" {
		x.Why = replaceWord(x.Why, x.Title, title)
	}
	x.Title, x.Part, x.Why = title, partOnly(x.Part), r.Text(x.Why)
	return x
}

// maxKnownPaths limits how many paths the method Know remembers.
const maxKnownPaths = 1024

// Know remembers paths, such as the paths on the command line. The method Text then removes their directories from
// every sentence. Paths beyond maxKnownPaths are ignored.
func (r *Redactor) Know(paths ...string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paths = append(r.paths, paths[:min(len(paths), maxKnownPaths-len(r.paths))]...)
}

// namesIn is an error that can report the names in its text, so that a Redactor can replace them.
type namesIn interface {
	error
	// Named returns the users, and the names or paths of programs, that are in the error's text.
	Named() (users, programs []string)
}

// Error returns an error's text, redacted by the method Text. If the error reports the names in its text (namesIn),
// Error also replaces these names of users and programs.
func (r *Redactor) Error(err error) string {
	text := err.Error()
	if r == nil {
		return text
	}
	var named namesIn
	if errors.As(err, &named) {
		users, programs := named.Named()
		for _, u := range users {
			r.User(u)
		}
		programs = slices.Clone(programs)
		// a path can contain a name, so longer texts come first
		slices.SortFunc(programs, func(x, y string) int { return cmp.Compare(len(y), len(x)) })
		for _, p := range programs {
			text = replaceWord(text, p, r.Program(withoutDirectories(p)))
		}
	}
	return r.Text(text, pathsOf(err)...)
}

// pathsOf returns the paths that are in an error's text, as the error itself reports them.
func pathsOf(err error) []string {
	var paths []string
	switch e := err.(type) {
	case *fs.PathError:
		paths = []string{e.Path}
	case *os.LinkError:
		paths = []string{e.Old, e.New}
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			paths = append(paths, pathsOf(inner)...)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			paths = append(paths, pathsOf(inner)...)
		}
	}
	return slices.DeleteFunc(paths, func(p string) bool { return p == "" })
}

// Text returns a sentence without directories (BareText). It also replaces the names of all users and hosts that the
// Redactor has seen.
func (r *Redactor) Text(text string, paths ...string) string {
	if r == nil {
		return text
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	text = BareText(text, append(slices.Clone(r.paths), paths...)...)
	for name, p := range r.words {
		text = replaceWord(text, name, p)
	}
	return text
}

// replaceWord replaces a name in a text, unless the name is part of a longer word.
func replaceWord(text, name, by string) string {
	inWord := func(s string, last bool) bool {
		if s == "" {
			return false
		}
		c := []rune(s)[0]
		if last {
			runes := []rune(s)
			c = runes[len(runes)-1]
		}
		return unicode.IsLetter(c) || unicode.IsDigit(c)
	}
	var b strings.Builder
	for {
		i := strings.Index(text, name)
		if i < 0 || name == "" {
			return b.String() + text
		}
		end := i + len(name)
		if inWord(text[:i], true) || inWord(text[end:], false) {
			b.WriteString(text[:end])
		} else {
			b.WriteString(text[:i] + by)
		}
		text = text[end:]
	}
}
