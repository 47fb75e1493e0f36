// Demo shows the made-up order service on the real screen, to try out changes of the screen.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/ddtop/ddtop/ui"
	"github.com/ddtop/ddtop/ui/internal/demosource"
)

func main() {
	length := flag.Duration("length", 10*time.Minute, "how long the target lives")
	http := flag.Int("http", 8, "http threads")
	hog := flag.Duration("hog", 5*time.Second, "when worker-3 begins to hog the GVL")
	theme := flag.String("theme", "auto", "theme")
	ascii := flag.Bool("ascii", false, "ASCII only")
	flag.Parse()
	src := demosource.New(demosource.Options{Length: *length, HTTP: *http, HogAfter: *hog, Realtime: true, KilledAtEnd: true})
	if err := ui.Run(context.Background(), ui.Options{Source: src, Theme: *theme, ASCII: *ascii, Folder: os.TempDir()}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
