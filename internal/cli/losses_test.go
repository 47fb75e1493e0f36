package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/streamtest"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// heldFile is a file that accepts no data until the channel held is closed. It imitates a disk that hangs.
type heldFile struct {
	*os.File
	held chan struct{}
}

func (f *heldFile) Write(b []byte) (int, error) {
	<-f.held
	return f.File.Write(b)
}

// TestReportOfWhatTheDiskLost: if the disk is too slow for a recording, ddtop drops samples. The report of the
// recording must count these lost samples, even those at the end of the recording.
func TestReportOfWhatTheDiskLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.ddtop")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	disk := &heldFile{file, make(chan struct{})}
	dict := sampler.NewDictionary()
	stream := streamtest.New(3, dict)
	w, err := recording.NewWriter(disk, streamtest.Process(1000, 100), dict)
	if err != nil {
		t.Fatal(err)
	}
	w.Live(true)
	var first, last uint64 // how many samples the stream itself had lost at the first and at the last sample
	for n := 0; w.Lost() == 0; n++ {
		s := stream.Next()
		if err := w.Write(s); err != nil {
			t.Fatal(err)
		}
		if last = s.Reads.Lost; n == 0 {
			first = last
		}
	}
	want := last - first + w.Lost()
	close(disk.held)
	if err := w.Close(&sampler.End{Reason: "exited"}); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	var stat report.Stat
	r := run(t, "report", path, "--json")
	if err := json.Unmarshal([]byte(r.out), &stat); err != nil || stat.Lost != want {
		t.Errorf("%d samples are lost, the report says %d (%v; %s)", want, stat.Lost, err, r.err)
	}
	if r := run(t, "report", path); !strings.Contains(r.out, fmt.Sprintf(", lost %d", want)) {
		t.Errorf("it does not say that %d samples are lost: %s%s", want, r.out, r.err)
	}
}
