package ruby

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// jobInItself is a program that runs a job whose wrapper contains itself as its argument.
const jobInItself = `
def process(job_hash)
  puts "ready"; $stdout.flush; $stdin.gets
end
inner = {"job_class" => "A::JobWrapper", "job_id" => "1"}
inner["arguments"] = [inner]
process({"class" => "B::JobWrapper", "jid" => "2", "args" => [inner]})`

// TestJobInItself: ddtop searches a job's wrapper for the real job. If the argument of the wrapper is the wrapper
// itself, the search must end.
func TestJobInItself(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, jobInItself, rubytest.Options{})
		p.Expect(t, "ready")
		rd := openReaderWith(t, p.PID, Options{Values: true})
		var s sampler.Sample
		var w sampler.Work
		for deadline := time.Now().Add(rubytest.Timeout); w.Number == 0 && time.Now().Before(deadline); {
			if err := rd.Read(sampler.StackTick, &s); err != nil {
				t.Fatal(err)
			}
			for i := range s.Threads {
				if x := rd.dict.Work(s.Threads[i].Serving.Work); x.Number != 0 {
					w = x
				}
			}
		}
		if w.Kind != sampler.WorkJob || w.Endpoint != "A::JobWrapper" {
			t.Errorf("%+v", w)
		}
	})
}
