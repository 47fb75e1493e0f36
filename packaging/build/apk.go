package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// checkAPK checks an unsigned package of Alpine Linux in the same way as the package manager apk before an
// installation. The package must have two parts: one with the file .PKGINFO, and one with the package's files. .PKGINFO
// must have the hash of the second part. checkAPK also prints the fields of .PKGINFO and the names of the files.
func checkAPK(args []string) error {
	b, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var parts [][]byte
	for rest := bytes.NewReader(b); rest.Len() > 0; {
		from := len(b) - rest.Len()
		z, err := gzip.NewReader(rest) // rest has ReadByte, so the gzip reader reads no byte beyond its part
		if err != nil {
			return fmt.Errorf("part %d: %w", len(parts)+1, err)
		}
		z.Multistream(false)
		if _, err := io.Copy(io.Discard, z); err != nil {
			return fmt.Errorf("part %d: %w", len(parts)+1, err)
		}
		parts = append(parts, b[from:len(b)-rest.Len()])
	}
	if len(parts) != 2 {
		return fmt.Errorf("it has %d parts: a package without a signature has two", len(parts))
	}
	control, err := unpackPart(parts[0])
	if err != nil {
		return err
	}
	info, ok := control[".PKGINFO"]
	if !ok {
		return errors.New("it has no .PKGINFO")
	}
	fields := make(map[string]string)
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " = "); ok && !strings.HasPrefix(line, "#") {
			fields[name] = value
		}
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(parts[1])); fields["datahash"] != sum {
		return fmt.Errorf("its files have the hash %s, .PKGINFO says %q", sum, fields["datahash"])
	}
	data, err := unpackPart(parts[1])
	if err != nil {
		return err
	}
	for _, name := range []string{"pkgname", "pkgver", "arch", "license", "url"} {
		if fields[name] == "" {
			return fmt.Errorf(".PKGINFO has no %s", name)
		}
		fmt.Println(name, fields[name])
	}
	for name := range data {
		fmt.Println(name)
	}
	return nil
}

// unpackPart returns the files in one part of a package, by name. Each part is a tar file. unpackPart accepts a tar
// file without the mark at its end, because the first part has no such mark.
func unpackPart(packed []byte) (files, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	all := make(files)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if all[h.Name], err = io.ReadAll(r); err != nil {
			return nil, err
		}
	}
}
