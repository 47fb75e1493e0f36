package live_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// originProgram parks a thread in code of each origin (the program's own, gems, the standard library and so on). It
// also prints what Ruby reports: the folders of the loaded gems and of the standard library.
const originProgram = `
require "json"; require "find"; require "rbconfig"; require "fileutils"
def write(path, text)
  FileUtils.mkdir_p(File.dirname(path)); File.write(path, text); path
end
here = File.realpath(Dir.pwd)
home = "#{here}/home"
write("#{home}/gems/tiny-web-1.2.3/lib/tiny.rb", "module Tiny; def self.in_gem; yield; end; end\n")
write("#{home}/specifications/tiny-web-1.2.3.gemspec", <<SPEC)
Gem::Specification.new { |s| s.name = "tiny-web"; s.version = "1.2.3"; s.summary = "t"; s.authors = ["t"]
  s.files = ["lib/tiny.rb"]; s.require_paths = ["lib"] }
SPEC
Gem.use_paths(home, [home])
Gem::Specification.reset
gem "tiny-web"
require "tiny"
git = "#{home}/bundler/gems/gitty-0123456789ab"
write("#{git}/lib/gitty.rb", "module Gitty; def self.in_git; yield; end; end\n")
$LOAD_PATH.unshift("#{git}/lib")
require "gitty"
write("#{here}/lib/mine.rb", "module Mine; def self.in_lib; yield; end; end\n")
$LOAD_PATH.unshift("#{here}/lib")
require "mine"
late = "#{here}/late/#{RbConfig::CONFIG["ruby_version"]}"
load write("#{late}/late.rb", "module Late; def self.in_late; yield; end; end\n")
def in_app; yield; end
eval("def in_eval; yield; end")
eval("def in_named; yield; end", binding, File.expand_path(__FILE__), 1)
write("#{here}/lib/body.rb", "in_app { park }\n")
def park; Thread.current[:up] = true; sleep; end
parked = {
  "app" => -> { in_app { park } }, "eval" => -> { in_eval { park } }, "named" => -> { in_named { park } },
  "gem" => -> { Tiny.in_gem { park } }, "git" => -> { Gitty.in_git { park } }, "lib" => -> { Mine.in_lib { park } },
  "late" => -> { Late.in_late { park } }, "stdlib" => -> { Find.find(here) { park } },
  "core" => -> { [1].each { park } }, "require" => -> { require "body" },
}.map { |name, body| t = Thread.new(&body); t.name = name; t }
sleep 0.01 until parked.all? { |t| t[:up] && t.status == "sleep" }
config = RbConfig::CONFIG
puts JSON.generate(
  "gems" => Gem.loaded_specs.values.map { |s| [s.full_gem_path, "#{s.name} #{s.version}"] }.to_h.merge(git => "gitty 0123456789ab"),
  "stdlib" => [config["rubylibdir"], config["rubyarchdir"], "#{config["vendordir"]}/rubygems", "#{config["sitedir"]}/rubygems"],
  "threads" => parked.map(&:name))
$stdout.flush
$stdin.gets
$LOAD_PATH << late
puts "grown"; $stdout.flush
$stdin.gets
`

type originTruth struct {
	Gems    map[string]string `json:"gems"`
	Stdlib  []string          `json:"stdlib"`
	Threads []string          `json:"threads"`
}

// of returns the origin (own code, a gem, the standard library …) that a frame must have. It uses the folders that the
// program reports.
func (w originTruth) of(f sampler.Frame) (sampler.Origin, string) {
	file := f.AbsolutePath
	below := func(dir string) bool { return strings.HasPrefix(file, dir+"/") }
	switch {
	case f.C || strings.HasPrefix(f.Path, "<internal:"):
		return sampler.OriginCore, ""
	case strings.HasPrefix(f.Path, "(eval"): // the code belongs to the file that called eval, if Ruby names that file
		if at, ok := sampler.EvalFile(f.Path); ok {
			file = at
		}
		if file == "" {
			return sampler.OriginEval, ""
		}
	}
	for dir, gem := range w.Gems {
		if below(dir) {
			return sampler.OriginGem, gem
		}
	}
	if slices.ContainsFunc(w.Stdlib, below) {
		return sampler.OriginStdlib, ""
	}
	return sampler.OriginApp, ""
}

// TestOrigins compares the origin of each frame with the gems and folders that the program reports.
func TestOrigins(t *testing.T) {
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, originProgram, rubytest.Options{})
		var said originTruth
		p.JSON(t, &said)
		s := open(t, p.PID, live.Options{})
		seen := map[string]sampler.Frame{} // one frame of each method
		check := func(sample *sampler.Sample) {
			for i := range sample.Threads {
				th := &sample.Threads[i]
				info, _ := s.Dictionary().Thread(th.ID)
				if !slices.Contains(said.Threads, info.Name) {
					continue
				}
				stack := frames(s.Dictionary(), th.Stack)
				if len(stack) < 3 {
					t.Errorf("%s: %d frames", info.Name, len(stack))
				}
				for _, f := range stack {
					if !f.C {
						seen[f.Name] = f
					}
					if f.Name == "in_late" {
						continue
					}
					if origin, gem := said.of(f); f.Origin != origin || f.Gem != gem {
						t.Errorf("%s: %s (%s, %s) is %v %q, the program says %v %q", info.Name, f.Label, f.Path, f.AbsolutePath,
							f.Origin, f.Gem, origin, gem)
					}
				}
			}
		}
		check(once(t, s))
		for name, want := range map[string]sampler.Origin{"in_app": sampler.OriginApp, "in_eval": sampler.OriginEval,
			"in_named": sampler.OriginApp, "in_gem": sampler.OriginGem, "in_git": sampler.OriginGem, "in_lib": sampler.OriginApp,
			"in_late": sampler.OriginApp, "find": sampler.OriginStdlib} {
			f, ok := seen[name]
			if _, at := sampler.EvalFile(f.Path); want == sampler.OriginEval && (at || f.AbsolutePath != "") {
				want = sampler.OriginApp
			}
			if !ok || f.Origin != want {
				t.Errorf("%s: seen %v: %+v, want %v", name, ok, f, want)
			}
		}
		// The program now adds a folder to its load path. Until now, code in this folder counted as the program's own.
		// From now on it must count as part of the standard library.
		p.Send(t, "grow")
		p.Expect(t, "grown")
		ctx, cancel := context.WithTimeout(context.Background(), rubytest.Timeout)
		defer cancel()
		if err := s.Run(ctx, func(sample *sampler.Sample) {
			if sample.Depth == sampler.StackTick {
				if check(sample); seen["in_late"].Origin == sampler.OriginStdlib {
					cancel()
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		if got := seen["in_late"]; got.Origin != sampler.OriginStdlib {
			t.Errorf("after the load path has grown: %+v", got)
		}
	})
}
