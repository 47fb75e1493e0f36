package datadog

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/internal/sorting"
)

// provenance is the content of code-provenance.json. It says to which library a file of code belongs.
type provenance struct {
	V1 []library `json:"v1"`
}

type library struct {
	Kind    string   `json:"kind"`
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Paths   []string `json:"paths"`
}

// stdlibMapping is the name of the mapping for functions of Ruby's standard library. A mapping in ddtop's profiles
// stands for a library.
const stdlibMapping = "ruby stdlib"

// provenanceOf returns the libraries to which a profile's functions belong. It recognizes a library by the name of the
// function's mapping, such as "gem rack 2.2.7" or "ruby stdlib".
func provenanceOf(p *profile.Profile, ruby string) provenance {
	libraries := make(map[string]*library) // the keys are the names of the mappings
	for _, l := range p.Location {
		if l.Mapping == nil {
			continue
		}
		lib := library{Kind: "standard library", Name: "stdlib", Version: ruby}
		name, version, isGem := gemOf(l.Mapping.File)
		if isGem {
			lib = library{Kind: "library", Name: name, Version: version}
		} else if l.Mapping.File != stdlibMapping {
			continue
		}
		if libraries[l.Mapping.File] == nil {
			libraries[l.Mapping.File] = &lib
		}
		known := libraries[l.Mapping.File]
		for _, line := range l.Line {
			folder := stdlibOf(line.Function.Filename)
			if isGem {
				folder = upTo(line.Function.Filename, "/"+name+"-"+version+"/")
			}
			if folder != "" && !slices.Contains(known.Paths, folder) {
				known.Paths = append(known.Paths, folder)
			}
		}
	}
	out := provenance{V1: []library{}}
	byName := func(a, b *library) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	}
	for _, lib := range sorting.Sorted(maps.Values(libraries), byName) {
		if len(lib.Paths) > 0 {
			out.V1 = append(out.V1, *lib)
		}
	}
	return out
}

// gemOf splits the name of a gem's mapping, such as "gem rack 2.2.7", into the gem's name and version.
func gemOf(mapping string) (name, version string, ok bool) {
	words := strings.Fields(mapping)
	if len(words) != 3 || words[0] != "gem" {
		return "", "", false
	}
	return words[1], words[2], true
}

// upTo returns the beginning of a path (file), up to and including the last occurrence of folder. The argument folder
// ends with a slash, which is not part of the result. The result is empty if folder does not occur in the path.
func upTo(file, folder string) string {
	if i := strings.LastIndex(file, folder); i >= 0 {
		return file[:i+len(folder)-1]
	}
	return ""
}

// stdlibOf returns the folder of the standard library that contains a file, such as .../lib/ruby/3.4.0. It is empty if
// the file is in no such folder.
func stdlibOf(file string) string {
	i := strings.LastIndex(file, "/ruby/")
	if i < 0 {
		return ""
	}
	version, _, below := strings.Cut(file[i+len("/ruby/"):], "/")
	if !below || version == "" || strings.Trim(version, "0123456789.") != "" {
		return ""
	}
	return file[:i+len("/ruby/")+len(version)]
}
