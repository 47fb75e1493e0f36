package ruby

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// encodingsProgram has a thread for each encoding. The thread's method, block, class and file have names in this
// encoding. The program prints the names as Ruby converts them to UTF-8. The last file's name is not text in any
// encoding.
const encodingsProgram = `# encoding: utf-8
require "json"
Thread.report_on_exception = true
def parked(name)
  thread = Thread.new { Thread.current.name = name; yield }
  # It is asleep where it waits for a lock, too, on its way there.
  sleep 0.01 until thread.status == "sleep" && thread.backtrace_locations(0, 1)&.first&.base_label == "sleep"
  thread
end
code = "# encoding: %s\nclass << (漢字 = Object.new)\n  def 名前(n)\n    [n].each { |数| 待つ }\n  end\n  def 待つ; sleep; end\nend\n漢字.名前(1)\n"
threads = %w[UTF-8 EUC-JP Windows-31J].map do |encoding|
  parked(encoding) { eval((code % encoding).encode(encoding), TOPLEVEL_BINDING.dup, "道/#{encoding}の経路.rb".encode(encoding), 7) }
end
# A file whose name is not UTF-8, with a source in another encoding still.
name = "sources\xA4\xC6.rb".b
File.binwrite(name, "# encoding: iso-8859-1\ndef gr\xF6\xDFe; sleep; end\ngr\xF6\xDFe\n".b)
threads << parked("bytes") { load(File.join(Dir.pwd.b, name)) }
text = lambda do |s|
  next s if s.nil?
  # What is valid in an encoding that has a place in Ruby is its characters, all else its bytes, as inspect prints them.
  s = s.dup.force_encoding("UTF-8") if s.encoding == Encoding::BINARY || s.encoding == Encoding::US_ASCII
  if s.encoding == Encoding::ISO_8859_1 || !s.valid_encoding?
    s.bytes.map { |b| b < 128 ? b.chr : format("\\x%02X", b) }.join
  else
    s.encode("UTF-8")
  end
end
puts JSON.generate(threads: threads.map { |t|
  { name: t.name, status: "sleep", frames: t.backtrace_locations.map { |l|
    { path: text.(l.path), absolute_path: text.(l.absolute_path), line: l.lineno, label: text.(l.label), base_label: text.(l.base_label) } } } })
$stdout.flush
STDIN.gets
`

// TestDecodeEncodings: if names of methods and files are in another encoding than UTF-8, ddtop must show the same names
// as Ruby prints.
func TestDecodeEncodings(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, encodingsProgram, rubytest.Options{Env: []string{"LANG=C.UTF-8"}})
		var truth rubytest.Truth
		p.JSON(t, &truth)
		g := openTarget(t, p.PID)
		compareThreads(t, g, truth, true)
		said := 0
		for _, th := range truth.Threads {
			for _, f := range th.Frames {
				if f.BaseLabel == "待つ" && strings.HasPrefix(text(f.Path), "道/") || f.BaseLabel == `gr\xF6\xDFe` && strings.HasSuffix(text(f.Path), `sources\xA4\xC6.rb`) {
					said++
				}
			}
		}
		if said != 4 {
			t.Errorf("%d of 4 threads are where they should be: %+v", said, truth)
		}
	})
}
