package processcontext

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
)

// publisher is a running program of testdata/publisher.c.
type publisher struct {
	*attach.Process
	in  io.Writer
	out *bufio.Reader
}

func (p *publisher) line(t *testing.T) string {
	t.Helper()
	s, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the program says %q: %v", s, err)
	}
	return strings.TrimSpace(s)
}

// publish compiles and starts the C program that publishes what the tests need. It writes each argument of type []byte
// to a file, and passes the file's name to the program instead.
func publish(t *testing.T, args ...any) *publisher {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "publisher")
	cmd := exec.Command(rubytest.Program(t, "gcc", "gcc libc6-dev"), "-O1", "-w", "-o", program, "testdata/publisher.c")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var words []string
	for i, a := range args {
		if b, ok := a.([]byte); ok {
			path := filepath.Join(dir, strconv.Itoa(i))
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			a = path
		}
		words = append(words, fmt.Sprint(a))
	}
	cmd = exec.Command(program, words...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	p := &publisher{in: in, out: bufio.NewReader(out)}
	if line := p.line(t); line == "unnamed" {
		rubytest.Skip(t, "this kernel names no anonymous memory (CONFIG_ANON_VMA_NAME)")
	} else if line != "ready" {
		t.Fatalf("the program says %q", line)
	}
	p.Process = open(t, cmd.Process.Pid)
	return p
}

func open(t *testing.T, pid int) *attach.Process {
	t.Helper()
	p, err := attach.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// message returns a payload with attributes of the process, and attributes that say how threads publish their spans.
func message(attributes map[string]string, threadKeys ...string) (out []byte) {
	var resource []byte
	for key, value := range attributes {
		resource = append(resource, field(resourceAttribute, text(key, value))...)
	}
	out = slices.Concat(field(contextResource, resource), field(contextAttribute, text(keyTags, "entrypoint.name:rails,,odd,svc.user:true")))
	if len(threadKeys) > 0 {
		var array []byte
		for _, key := range threadKeys {
			array = append(array, field(arrayValue, field(valueString, []byte(key)))...)
		}
		out = slices.Concat(out, field(contextAttribute, text(keyThreads, "tls_v1")),
			field(contextAttribute, append(field(pairKey, []byte(keyThreadNames)), field(pairValue, field(valueArray, array))...)))
	}
	return out
}

// shop has the attributes that most tests publish.
var shop = map[string]string{keyService: "shop", keyEnv: "prod", keyVersion: "1.2", keyRuntimeID: "0f7a", keyHost: "h1", keyContainer: "c1", keyTracer: "libdatadog",
	keyTracerVer: "2.46.0", keyTracerLang: "ruby", "team": "payments"}

// asShop checks that a Context has the attributes of shop.
func asShop(t *testing.T, c Context) {
	t.Helper()
	want := Context{Service: "shop", Env: "prod", Version: "1.2", RuntimeID: "0f7a", Host: "h1", ContainerID: "c1", Tracer: "libdatadog", TracerVersion: "2.46.0",
		TracerLanguage: "ruby", Tags: []string{"entrypoint.name:rails", "svc.user:true"}, Threads: ThreadSchema{"tls_v1", []string{"root", "http.route"}},
		Source: OpenTelemetry, PublishedNS: c.PublishedNS}
	if len(c.Attributes) != len(shop) || !slices.IsSortedFunc(c.Attributes, func(a, b Attribute) int { return strings.Compare(a.Key, b.Key) }) {
		t.Errorf("attributes: %v", c.Attributes)
	}
	for _, a := range c.Attributes {
		if shop[a.Key] != a.Value {
			t.Errorf("%s is %q", a.Key, a.Value)
		}
	}
	if c.Attributes = nil; !reflect.DeepEqual(c, want) {
		t.Errorf("it says %+v, not %+v", c, want)
	}
}

func TestRead(t *testing.T) {
	for _, how := range []string{"memfd", "anon"} {
		t.Run(how, func(t *testing.T) {
			c, err := Read(publish(t, "mapped", how, message(shop, "root", "http.route")).Process)
			if err != nil || c.PublishedNS != 1 {
				t.Fatalf("%+v, %v", c, err)
			}
			asShop(t, c)
		})
	}
	t.Run("nothing", func(t *testing.T) {
		if c, err := Read(publish(t, "files").Process); err != nil || c.Source != None {
			t.Errorf("%+v, %v", c, err)
		}
	})
}

// TestHostileMapping: whatever a program writes into the mapping, ddtop reads only this program's memory, and not more
// than the limits allow.
func TestHostileMapping(t *testing.T) {
	head := func(change func(h []byte)) []byte {
		h := make([]byte, headerSize)
		copy(h, signature)
		binary.LittleEndian.PutUint32(h[8:], mappingVersion)
		binary.LittleEndian.PutUint32(h[12:], 64)
		binary.LittleEndian.PutUint64(h[16:], 1)
		change(h)
		return h
	}
	for name, h := range map[string][]byte{
		"being written":    head(func(h []byte) { clear(h[16:24]) }),
		"another version":  head(func(h []byte) { h[8] = 1 }),
		"no signature":     head(func(h []byte) { h[0] = 0 }),
		"no memory there":  head(func(h []byte) { binary.LittleEndian.PutUint64(h[24:], 0xdead0000) }),
		"the end of all":   head(func(h []byte) { binary.LittleEndian.PutUint64(h[24:], 1<<64-32) }),
		"huge":             head(func(h []byte) { binary.LittleEndian.PutUint32(h[12:], 1<<32-1) }),
		"more than is":     head(func(h []byte) { binary.LittleEndian.PutUint32(h[12:], maxPayload) }),
		"the kernel's own": head(func(h []byte) { binary.LittleEndian.PutUint64(h[24:], 0xffffffff81000000) }),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Read(publish(t, "mapped", "memfd", message(shop), h).Process)
			if err != nil || !reflect.DeepEqual(c, Context{}) {
				t.Errorf("%+v, %v", c, err)
			}
		})
	}
}

// TestRacingWriter: a program publishes two contexts alternately, in memory that it frees afterwards. ddtop must never
// read a mix of both contexts.
func TestRacingWriter(t *testing.T) {
	rubytest.OftenEnough(t)
	rounds := 20_000
	if rubytest.Short(t) {
		rounds = 5_000
	}
	large := map[string]string{keyService: "large", keyEnv: "large", keyVersion: "large"}
	for i := range 50 {
		large["filler"+strconv.Itoa(i)] = strings.Repeat("large", 20)
	}
	p := publish(t, "race", message(map[string]string{keyService: "small", keyEnv: "small", keyVersion: "small"}), message(large))
	read := make(map[string]int)
	deadline := time.Now().Add(rubytest.Timeout)
	for n := 0; n < rounds || (read["small"] == 0 || read["large"] == 0) && time.Now().Before(deadline); n++ {
		c, err := Read(p.Process)
		if err != nil {
			t.Fatal(err)
		}
		read[c.Service]++
		want := map[string]int{"": 0, "small": 3, "large": 53}[c.Service]
		if c.Env != c.Service || c.Version != c.Service || len(c.Attributes) != want {
			t.Fatalf("it says %+v", c)
		}
	}
	t.Log(read)
	if read["small"] == 0 || read["large"] == 0 {
		rubytest.TooSeldom(t, "not both were read: %v", read)
	}
}

// pack returns a MessagePack map of the attributes, with other values in between, which the decoder must skip.
func pack(attributes ...string) []byte {
	b := []byte{0xde, 0, byte(len(attributes)/2 + 3)}
	word := func(s string) { b = append(append(b, 0xd9, byte(len(s))), s...) }
	word("schema_version")
	b = append(b, 2)
	word("nothing")
	b = append(b, 0xc0)
	word("more")
	b = append(b, 0x93, 0xcd, 1, 2, 0x81, 0xa1, 'x', 0xc4, 1, 0, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0)
	for _, s := range attributes {
		word(s)
	}
	return b
}

func TestTracerInfo(t *testing.T) {
	old := pack("runtime_id", "old", "service_name", "first")
	info := pack("runtime_id", "0f7a", "tracer_language", "ruby", "tracer_version", "2.16", "hostname", "h", "service_name", "shop", "service_env", "prod",
		"service_version", "1.2", "process_tags", "a:b,c:d", "container_id", "c1")
	p := publish(t, "files", "datadog-tracer-info-AAAAAAAA", old, "datadog-tracer-info-BBBBBBBB", info, "datadog-tracer-info-CCCCCCCC", []byte("junk"), "other", old)
	own, err := Read(p.Process)
	if err != nil {
		t.Fatal(err)
	}
	attributes := own.Attributes
	own.Attributes = nil
	want := Context{Service: "shop", Env: "prod", Version: "1.2", RuntimeID: "0f7a", Host: "h", ContainerID: "c1", TracerVersion: "2.16", TracerLanguage: "ruby",
		Tags: []string{"a:b", "c:d"}, Source: Datadog}
	if !reflect.DeepEqual(own, want) || len(attributes) != 8 {
		t.Errorf("it says %+v, not %+v; %v", own, want, attributes)
	}
	// A forked child that has not configured its tracer has its parent's file. ddtop must not use the parent's
	// runtime-id for the child.
	fmt.Fprintln(p.in, "fork")
	pid, err := strconv.Atoi(p.line(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Kill(pid, unix.SIGKILL) })
	child, err := Read(open(t, pid))
	if err != nil || child.Service != "shop" || child.RuntimeID != "" || len(child.Attributes) != 7 {
		t.Errorf("of the child it says %+v: %v", child, err)
	}
}

// TestLooksLikeTracerInfo: a file in the root folder can have the same name as a memfd. A program can have this file
// open without the right to read it. ddtop must not read such a file in the belief that it is the program's memfd.
func TestLooksLikeTracerInfo(t *testing.T) {
	path := "/memfd:" + tracerInfoFile + "file" + strconv.Itoa(os.Getpid())
	f, err := os.Create(path)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.EPERM) {
		rubytest.Skip(t, "writing into the root folder needs root")
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	t.Cleanup(func() { os.Remove(path) })
	p := publish(t, "files", path, pack("service_name", "shop"))
	if c, err := Read(p.Process); err != nil || !reflect.DeepEqual(c, Context{}) {
		t.Errorf("%+v, %v", c, err)
	}
}
