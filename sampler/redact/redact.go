// Package redact leaves out of what ddtop hands out what can name a person, a machine, a network, a directory or a
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

// maxRedactedBytes bounds the names that a Redactor remembers, in bytes; those beyond have no pseudonym of their own.
const maxRedactedBytes = 16 << 20

// Redactor replaces what can name a person, a machine, a network, a directory or a customer by pseudonyms. The same
// name gets the same pseudonym. They are numbered in the order in which names are met, so they say nothing of the name.
// docs/reference/redaction.md says what is replaced and what stays. A pseudonym is not replaced again. A nil Redactor
// leaves everything as it is. Any number of goroutines may use one.
type Redactor struct {
	mu sync.Mutex
	// given are the pseudonyms, by kind and name. taken are all of them. last is the last number by kind.
	given map[redacted]string
	taken map[string]struct{}
	last  map[string]int
	bytes int
	// words stand for names in sentences: of users and hosts. paths are files that sentences may name.
	words map[string]string
	paths []string
}

type redacted struct{ kind, name string }

// New returns a Redactor that has given out no pseudonym.
func New() *Redactor {
	return &Redactor{given: make(map[redacted]string), taken: make(map[string]struct{}), last: make(map[string]int), words: make(map[string]string)}
}

// View returns a Dictionary of the same entries that hands out what the Redactor leaves of them; d itself when r is
// nil.
func (r *Redactor) View(d *sampler.Dictionary) *sampler.Dictionary {
	if r == nil {
		return d
	}
	return d.Filtered(r)
}

// pseudonym returns what stands for a name: what the kind's maker makes of the kind's next number at its first sight.
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

// numbered returns kind-1, kind-2 …
func (r *Redactor) numbered(kind, name string) string {
	return r.pseudonym(kind, name, func(n int) string { return kind + "-" + strconv.Itoa(n) })
}

// Process returns a Process without command line, user and host, under a pseudonym if it has no well-known title.
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

// knownPart is a part of a process in its service that names no one: a number, or a word of a well-known server.
var knownPart = regexp.MustCompile(`^(w\d{1,4}|master|mold|monitor)$`)

// partOnly returns a known part, and nothing for any other: a recording can hold any text.
func partOnly(part string) string {
	if knownPart.MatchString(part) {
		return part
	}
	return ""
}

// programs are titles that do not identify their owner.
var programs = []string{
	"ruby", "irb", "rails", "rake", "rackup", "bundle", "bundler", "puma", "unicorn", "unicorn_rails", "falcon", "thin", "passenger",
	"webrick", "sidekiq", "sidekiqswarm", "resque", "good_job", "solid_queue", "delayed_job", "shoryuken", "karafka", "racecar", "que",
	"clockwork", "spring", "foreman", "rspec", "minitest", "cucumber", "jekyll", "qemu", "sh", "bash", "tini", "dumb-init", "ddtop",
}

// Program returns what stands for a program's name: itself for Ruby and well-known servers and tools, else a pseudonym.
func (r *Redactor) Program(title string) string {
	release, isRuby := strings.CutPrefix(title, "ruby") // ruby3.3
	if r == nil || title == "" || slices.Contains(programs, title) || isRuby && strings.Trim(release, "-.0123456789") == "" {
		return title
	}
	return r.numbered("program", title)
}

// User returns what stands for a user's name: itself for root, else a pseudonym.
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

// frame returns a Frame whose files have no directories. The names of methods, files and gems stay: without them there
// is no picture.
func (r *Redactor) Frame(f sampler.Frame) sampler.Frame {
	f.Path, f.AbsolutePath = r.file(f.Path), r.file(f.AbsolutePath)
	if f.IsNative() && !plain(f.Native.Library) {
		library := r.numbered("library", f.Native.Library)
		f.Label = strings.ReplaceAll(f.Label, f.Native.Library, library)
		f.Name, f.Native.Library = f.Label, library
	}
	return f
}

// fileName is a usual file name of code, with what Ruby puts around it: "order.rb", "x y.html.erb", "rails", "(irb)",
// "<internal:kernel>", "(eval at order.rb:3)". eval takes any text for one: a query, a link, a customer's words.
var fileName = regexp.MustCompile(`^(?:\(eval at |<internal:)*(?:\(?[\pL\pN\pM._+~-]{1,255}\)?|[\pL\pN\pM ._+~,()\[\]-]{1,250}\.` +
	`(?:rb|ru|rake|erb|haml|slim|builder|jbuilder|rabl|arb|prawn|liquid|gemspec|thor))(?::-?\d+\)|>)*$`)

// NativeFrame returns a NativeFrame whose file has no directories. The names of C functions stay.
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

// file returns the last name in a path of code, or a pseudonym if that is not a usual file name.
func (r *Redactor) file(path string) string {
	name := withoutDirectories(path)
	if plain(name) || fileName.MatchString(name) {
		return name
	}
	return r.numbered("code", name)
}

// plain reports whether a name has no other characters than most names of files.
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

// thread returns a ThreadInfo under what ThreadName gives.
func (r *Redactor) Thread(t sampler.ThreadInfo) sampler.ThreadInfo {
	t.Name = r.ThreadName(t.Name)
	return t
}

// threadWords are the words that Ruby, its libraries and C libraries name threads with.
var threadWords = strings.Fields(`
	main ruby thread threads thr thd pool threadpool worker workers wrk wrkr timer tim timeout stdlib io fast default
	http https server srv tp reactor check stat pld plgn plugin bg trimmer trim reap reaper signal ctrl listener listen
	accept acceptor connection connections puma sidekiq processor scheduler heartbeat manager poller fetcher launcher
	capsule activerecord actioncable concurrent async transport core remote telemetry datadog sentry newrelic nr agent
	statsd logger log monitor metrics profiler profiling collectors webrick unicorn falcon resque goodjob good job jobs
	solid queue karafka rdkafka rdk broker bunny redis grpc global watcher watch background executor executors cache
	consumer producer dispatcher supervisor jemalloc iou sqp finalizer irb debug`)

// maxKeptDigits and maxKeptNumbers limit the numbers that stay in a thread's name: the digits of each, and how many
// there are. Such numbers count threads, and are not addresses.
const (
	maxKeptDigits  = 3
	maxKeptNumbers = 2
)

// ThreadName returns a thread's name if all of its words come from well-known libraries ("puma srv tp 003"). Other
// names become "thread A". Names that differ only in their digits become "thread B 1", "thread B 2", so that the
// members of a pool stay together.
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
		return false // ①, and whatever else is neither letter nor digit and says something
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

// letters counts A, B … Z, AA, AB …
func letters(n int) string {
	s := ""
	for ; n > 0; n = (n - 1) / 26 {
		s = string(rune('A'+(n-1)%26)) + s
	}
	return s
}

// kernelName is the text of the link of a descriptor that has no name of the program's (proc_pid_fd(5)).
var kernelName = regexp.MustCompile(`^(anon_inode:(\[[a-z_-]+\]|[a-z_-]+)|(pipe|socket|net|mnt|pid|user|uts|ipc|cgroup|time):\[\d+\])$`)

// devices are files that every machine has.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// peer returns a Peer under pseudonyms: "host-1:5432", with its port and Service, "socket-1", "file-1".
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

// address returns what stands for one end of a socket. The machine itself and "any address" are the same everywhere,
// and stay.
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

// host returns what stands for an address; "" where it stays.
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

// Note returns a Note under a pseudonym: a person can have written anything.
func (r *Redactor) Note(n sampler.Note) sampler.Note {
	if r != nil {
		n.Text = r.numbered("note", n.Text)
	}
	return n
}

// Notes returns the notes under pseudonyms.
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

// End returns an End whose reason names no directory, user or host.
func (r *Redactor) End(e sampler.End) sampler.End {
	e.Reason = r.Text(e.Reason)
	return e
}

// Relative returns a Relative under a pseudonym; exe is the path of the file it runs, which Why may name. Its Source
// has to be redacted by itself.
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

// maxKnownPaths bounds the paths that Know keeps.
const maxKnownPaths = 1024

// Know makes paths known that any sentence may name, such as those on the command line. Those beyond a limit are not
// kept.
func (r *Redactor) Know(paths ...string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paths = append(r.paths, paths[:min(len(paths), maxKnownPaths-len(r.paths))]...)
}

// namesIn is an error that says which names are in its text.
type namesIn interface {
	error
	// namesIn returns users, and programs by their names or paths.
	Named() (users, programs []string)
}

// Error returns an error's text as Text does, without the users and programs that the error names.
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
		slices.SortFunc(programs, func(x, y string) int { return cmp.Compare(len(y), len(x)) }) // paths before the names in them
		for _, p := range programs {
			text = replaceWord(text, p, r.Program(withoutDirectories(p)))
		}
	}
	return r.Text(text, pathsOf(err)...)
}

// pathsOf returns the paths in an error, if it says which they are.
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

// Text returns a sentence without directories, as BareText, and without the names of the users and hosts that were met.
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

// replaceWord replaces a name where it stands for itself, not as a part of a longer word.
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
