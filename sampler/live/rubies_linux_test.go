package live

import (
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
)

// twoRubies is a program that loads further libruby libraries: a copy of its own libruby, and each libruby of another
// release that it finds. No Ruby is started in these libraries. Libraries that are loaded later have lower addresses.
const twoRubies = `require "fiddle"
require "fileutils"
require "rbconfig"
$stdout.sync = true
config = RbConfig::CONFIG
own = %w[archlibdir libdir].map { |dir| File.join(config[dir].to_s, config["LIBRUBY_SO"]) }.find { |path| File.file?(path) }
loaded = []
if own
  FileUtils.cp(own, "libruby-9.9.so")
  loaded << Fiddle.dlopen("./libruby-9.9.so")
  Dir[File.join(File.dirname(own), "libruby-*.so.?.?")].each { |path| loaded << Fiddle.dlopen(path) if File.realpath(path) != File.realpath(own) }
end
puts loaded.size
Thread.new { sleep }.name = "asleep"
sleep
`

// TestSeveralRubies: if a process has several libraries with a Ruby, ddtop must find the Ruby whose VM runs. ddtop's
// list of processes must show the version of this Ruby.
func TestSeveralRubies(t *testing.T) {
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, twoRubies, rubytest.Options{})
		if p.Line(t) == "0" {
			rubytest.Skip(t, "%s has no libruby", r)
		}
		s, err := Open(t.Context(), p.PID, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if v := s.Process().RubyVersion; v != r.Version {
			t.Errorf("it is read as Ruby %s, want %s", v, r.Version)
		}
		if strings.HasSuffix(s.vmPath, "/libruby-9.9.so") {
			t.Errorf("its VM is in %s", s.vmPath)
		}
		x, err := s.Once(t.Context())
		if err != nil || len(x.Threads) != 2 {
			t.Errorf("%d threads, %v", len(x.Threads), err)
		}
		list, err := attach.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(list, func(c attach.Candidate) bool { return c.PID == p.PID }); i < 0 {
			t.Error("it is not in the list")
		} else if c := list[i]; c.Version != r.Version || c.Err != nil {
			t.Errorf("the list says %q, %v, want %q", c.Version, c.Err, r.Version)
		}
	})
}
