package ruby

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// handledTags is a program with threads that serve one request after another. They handle exceptions in many ways,
// within requests and between them. Every exception's message has the thread's number, and the request's number or
// "idle".
const handledTags = `
class Tagged < StandardError; end
def busy(n)
  case n % 4
  when 0 then sleep 0.0005
  when 1 then 300.times { |i| i.to_s }
  when 2 then Thread.pass
  end
end
def fails(tag)
  raise Tagged, tag
end
def call(env, tag, n)
  case n % 6
  when 0 then begin fails(tag); rescue Tagged; busy(n / 6); end
  when 1 then begin begin fails(tag); ensure busy(n / 6); end; rescue Tagged; 1; end
  when 2 then begin fails(tag); rescue Tagged; begin fails(tag); rescue Tagged; busy(n / 6); end; busy(n / 6 + 1); end
  when 3 then m = 0; begin m += 1; fails(tag) if m < 4; busy(n / 6); rescue Tagged; busy(n / 6); retry; end
  when 4 then (fails(tag) rescue busy(n / 6))
  when 5 then begin fails(tag); rescue Tagged; Fiber.new { begin fails(tag); rescue Tagged; busy(n / 6); end }.resume; busy(n); end
  end
  busy(n)
end
def serve(k, n)
  env = {"REQUEST_METHOD" => "GET", "REQUEST_URI" => "/#{k}/#{n}", "PATH_INFO" => "/#{k}/#{n}", "HTTP_HOST" => "host#{k}"}
  call(env, "#{k}/#{n}", n)
end
def idle(k, n)
  begin fails("#{k}/idle"); rescue Tagged; busy(n); end
  busy(n)
end
4.times { |k| Thread.new { Thread.current.name = "server #{k}"; n = 0; loop { serve(k, n += 1); idle(k, n / 3) if n % 3 == 0 } } }
Thread.new { loop { sleep 0.002; GC.start } }
Thread.new { loop { sleep 0.005; GC.compact } } if ARGV[0] == "compact" && GC.respond_to?(:compact)
puts "ready"; $stdout.flush; $stdin.gets`

// TestHandledRacing: ddtop takes samples while the program runs and handles exceptions. In no sample may a thread have
// an exception of another thread or of another request.
func TestHandledRacing(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		for _, v := range r.Variants(t) {
			for _, mode := range []string{"plain", "compact"} {
				t.Run(v.Name+" "+mode, func(t *testing.T) {
					p := r.Start(t, handledTags, v.Apply(rubytest.Options{Args: []string{mode}}))
					p.Expect(t, "ready")
					raceHandled(t, openReaderWith(t, p.PID, Options{Values: true}), raceSamples(t)/4)
				})
			}
		}
	})
}

// oddException returns an error if the thread cannot have handled this exception during the request or job w.
func oddException(thread, exception string, w *sampler.Work) error {
	tag, ok := strings.CutPrefix(thread, "server ")
	if !ok {
		return fmt.Errorf("thread %q handles %q", thread, exception)
	}
	rest, ok := strings.CutPrefix(exception, "Tagged: "+tag+"/")
	if !ok {
		return fmt.Errorf("thread %q handles %q", thread, exception)
	}
	if path := "/" + tag + "/" + rest; w.Number != 0 && w.Values != path {
		return fmt.Errorf("thread %q handles %q in %q", thread, exception, w.Values)
	}
	return nil
}

// raceHandled takes samples until ddtop has found a handled exception of a thread as often as the parameter want says.
func raceHandled(t *testing.T, rd *Reader, want int) {
	var s sampler.Sample
	found, none, inRequest := 0, 0, 0
	for deadline := time.Now().Add(raceTime); found < want && time.Now().Before(deadline); {
		if err := rd.Read(sampler.StackTick, &s); err != nil {
			if notNow(err) {
				continue
			}
			t.Fatal(err)
		}
		for i := range s.Threads {
			th := &s.Threads[i]
			exception := rd.dict.Exception(th.Serving.Exception)
			if th.Quality&sampler.StackFresh == 0 || exception == "" {
				none++
				continue
			}
			found++
			info, _ := rd.dict.Thread(th.ID)
			w := rd.dict.Work(th.Serving.Work)
			if w.Number != 0 {
				inRequest++
			}
			if err := oddException(info.Name, exception, &w); err != nil && info.Name != "" {
				t.Fatalf("after %d: %v", found, err)
			}
		}
	}
	rubytest.Report(t, "%d exceptions handled, %d of them in a request, %d threads of samples without", found, inRequest, none)
	if found < want {
		rubytest.TooSeldom(t, "%d exceptions handled, %d of them in a request, %d threads of samples without", found, inRequest, none)
	}
}
