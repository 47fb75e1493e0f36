package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/ddtop/ddtop/export/page"
	"github.com/ddtop/ddtop/recording"
)

// pagePicture makes a picture of the HTML page about an incident, with a browser. If there is no browser, the existing
// picture stays.
func pagePicture(ctx context.Context, folder string) (err error) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		fmt.Println("no picture of a page: it needs chromium (apt-get install chromium)")
		return nil
	}
	r, err := recording.Open(filepath.Join(folder, "recordings", "hog.ddtop"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	n := page.NewIncident(r.Process(), r.Dictionary(), nil)
	from, to := r.Span()
	if err := r.Range(from, to+1, n.Feed); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "ddtop-page")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	file, err := os.Create(filepath.Join(tmp, "page.html"))
	if err != nil {
		return err
	}
	if err := errors.Join(page.WriteIncident(file, n), file.Close()); err != nil {
		return err
	}
	path, err := filepath.Abs(filepath.Join(folder, "page.png"))
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1280,1180", "--virtual-time-budget=5000",
		"--blink-settings=preferredColorScheme=0", "--user-data-dir="+filepath.Join(tmp, "browser"), "--screenshot="+path, "file://"+file.Name())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", browser, err, out)
	}
	fmt.Println("wrote", filepath.Join(folder, "page.png"))
	return nil
}
