package main

import (
	"encoding/json"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/ddtop/ddtop/internal/cli"
)

// statement is an in-toto statement (version 1) with an SLSA provenance (version 1.0).
type statement struct {
	Type          string     `json:"_type"`
	Subject       []material `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     struct {
		BuildDefinition struct {
			BuildType            string            `json:"buildType"`
			ExternalParameters   map[string]string `json:"externalParameters"`
			ResolvedDependencies []material        `json:"resolvedDependencies"`
		} `json:"buildDefinition"`
		RunDetails struct {
			Builder struct {
				ID string `json:"id"`
			} `json:"builder"`
			Metadata struct {
				StartedOn string `json:"startedOn"`
			} `json:"metadata"`
		} `json:"runDetails"`
	} `json:"predicate"`
}

type material struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

// provenance writes provenance.intoto.json, which names the sources of a release's files. provenance does not sign this
// file. A signature is not needed: anyone can build the commit again and compare the bytes. The release workflow on
// GitHub signs the files of the release with its own identity.
func provenance(args []string) error {
	dist, commit := args[0], args[1]
	when, err := sourceDate()
	if err != nil {
		return err
	}
	sums, err := readChecksums(filepath.Join(dist, checksumsFile))
	if err != nil {
		return err
	}
	var s statement
	s.Type, s.PredicateType = "https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1"
	for name, sum := range sums {
		s.Subject = append(s.Subject, material{Name: name, Digest: map[string]string{"sha256": sum}})
	}
	slices.SortFunc(s.Subject, func(a, b material) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	d := &s.Predicate.BuildDefinition
	d.BuildType = "https://github.com/ddtop/ddtop/blob/main/scripts/release"
	d.ExternalParameters = map[string]string{"version": cli.Version, "command": "make release"}
	d.ResolvedDependencies = []material{{URI: "git+https://github.com/ddtop/ddtop", Digest: map[string]string{"gitCommit": commit}}}
	s.Predicate.RunDetails.Builder.ID = "https://github.com/ddtop/ddtop/blob/main/Makefile"
	// The time in the file is the time of the commit, so that two builds of a commit make the same file.
	s.Predicate.RunDetails.Metadata.StartedOn = when.Format(time.RFC3339)
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dist, "provenance.intoto.json"), 0o644, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}
