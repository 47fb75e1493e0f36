package page

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html"
	"io"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
)

//go:generate go test . -run TestStatesScript -update

// pageFiles are the style and the scripts of pages. They hold no data. The scripts write names into the document only
// through textContent, so that a name cannot become markup.
//
//go:embed *.css *.js
var pageFiles embed.FS

// scripts are the scripts of an incident's page, in the order in which they run.
var scripts = []string{"states.js", "base.js", "timeline.js", "flame.js", "tables.js", "dump.js", "incident.js"}

// WriteIncident writes an incident as one HTML file: findings, a timeline of threads, a flamegraph, requests, locks,
// collections and thread dumps. The file needs no other file and can be opened from disk. Its Content Security Policy
// forbids loading anything else. The markup has no text from the target, because all data is JSON in a script element
// that never runs. The file is smaller than 3 MB.
func WriteIncident(w io.Writer, n *Incident) error { return WriteIncidents(w, []*Incident{n}) }

// WriteIncidents writes a page of several processes, as WriteIncident does for one. The page shows one process at a
// time, and the reader of the page chooses this process. The page begins with the process that used the most CPU time.
// If the data of a process does not fit, the data is left out and the page names the process.
func WriteIncidents(w io.Writer, list []*Incident) error {
	of, found := make([]*measure.Measure, len(list)), make([][]report.StatFinding, len(list))
	for i, n := range list {
		n.Finish()
		of[i], found[i] = n.measure, n.stat.Findings
	}
	measure.PlanTogether(of, found)
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(x, y *Incident) int {
		return cmp.Compare(y.stat.Process.CPUNS, x.stat.Process.CPUNS)
	})
	if len(list) > 1 {
		stats := make([]export.ProcessStat, len(list))
		for i, n := range list {
			stats[i] = export.ProcessStat{Process: n.process, Stat: n.stat}
		}
		list[0].shared = export.SharedLines(stats)
	}
	all, left := make([][]byte, len(list)), maxIncidentBytes
	// begin with the least busy process, so that busier processes can use the bytes that are left over
	for i, n := range slices.Backward(list) {
		data, err := n.data(left / (i + 1))
		if err != nil {
			return err
		}
		all[i] = bytes.TrimSpace(data)
		left -= len(all[i]) + 1
	}
	data, title := all[0], export.ProgramName(list[0].process)
	if len(list) > 1 {
		data = append(append([]byte("["), bytes.Join(all, []byte(","))...), ']')
		title = cmp.Or(list[0].process.Title, "ruby") + ", " + units.Plural(len(list), "process", "processes")
	}
	return Write(w, title+" · ddtop", data, scripts)
}

// Write writes a page that consists of a style, data and scripts. data must be JSON with <, > and & escaped.
func Write(w io.Writer, title string, data []byte, scripts []string) error {
	style, err := pageFiles.ReadFile("page.css")
	if err != nil {
		return err
	}
	var script strings.Builder
	script.WriteString("\"use strict\";\n(function () {\n")
	for _, name := range scripts {
		text, err := pageFiles.ReadFile(name)
		if err != nil {
			return err
		}
		script.Write(text)
	}
	script.WriteString("})();\n")
	policy := "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; script-src " + sourceHash(script.String()) + "; style-src " + sourceHash(string(style))
	for _, part := range []string{
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
		"<meta http-equiv=\"Content-Security-Policy\" content=\"", policy, "\">\n",
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"referrer\" content=\"no-referrer\">\n",
		"<meta name=\"color-scheme\" content=\"light dark\">\n<title>", html.EscapeString(flamegraph.Printable(title)), "</title>\n",
		"<style>", string(style), "</style>\n</head>\n<body>\n<noscript>This page needs JavaScript. It loads nothing from elsewhere.</noscript>\n",
		"<script type=\"application/json\" id=\"data\">", strings.TrimSpace(string(data)), "</script>\n",
		"<script>", script.String(), "</script>\n</body>\n</html>\n",
	} {
		if _, err := io.WriteString(w, part); err != nil {
			return err
		}
	}
	return nil
}

// sourceHash returns the source expression with which a Content Security Policy allows an inline script or style with
// this text.
func sourceHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
