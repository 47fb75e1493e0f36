package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/ddtop/ddtop/internal/cli"
)

// The media types of the files of a container image (OCI image specification 1.1).
const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// descriptor refers to a blob of an image by its digest. A blob is a file in an OCI layout that is named by its digest.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// index is a list of image manifests. The file index.json of a layout is an index. An image for several platforms is an
// index, too.
type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

// manifest is the image of one platform.
type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        descriptor        `json:"config"`
	Layers        []descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// config says how to run the image of one platform.
type config struct {
	Created string `json:"created"`
	platform
	Config struct {
		User       string            `json:"User"`
		Env        []string          `json:"Env"`
		Entrypoint []string          `json:"Entrypoint"`
		Labels     map[string]string `json:"Labels"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// archived describes the image of one platform in the form that `docker load` needs. Docker reads OCI layouts only with
// the containerd image store. Without it, Docker reads manifest.json, which is a list of archived structs
// (image/tarexport/load.go, Moby 20.10 to 28).
type archived struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// mostUsed is the architecture whose image also has the release's plain name in manifest.json. All images have a name
// that ends with their architecture. But a `docker load` that reads this file can give the plain name to only one
// image.
const mostUsed = "amd64"

// layout writes the files of an OCI layout into a tar file.
type layout struct {
	tar  *tar.Writer
	when time.Time
	have map[string]bool
}

// image writes a tar file with an OCI layout, which has an image for each of the given binaries. An argument has the
// form linux/ARCH=BINARY. An image contains only the binary, and the certificates that TLS needs. All times in it are
// SOURCE_DATE_EPOCH, so that the same binaries always give the same file.
func image(args []string) error {
	when, err := sourceDate()
	if err != nil {
		return err
	}
	return writeFile(args[0], 0o644, func(w io.Writer) error {
		l := &layout{tar: tar.NewWriter(w), when: when, have: make(map[string]bool)}
		if err := l.images(args[1:]); err != nil {
			return err
		}
		return l.tar.Close()
	})
}

// sourceDate returns the time in the environment variable SOURCE_DATE_EPOCH, which is the time of the commit.
func sourceDate() (time.Time, error) {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is %q, not seconds since 1970", os.Getenv("SOURCE_DATE_EPOCH"))
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// writeFile writes a file with the function write. If write fails, writeFile removes the file.
func writeFile(path string, mode os.FileMode, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	err = write(f)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		os.Remove(path)
	}
	return err
}

func (l *layout) images(binaries []string) error {
	if err := l.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	of := index{SchemaVersion: 2, MediaType: indexType}
	var docker []archived
	name := "ghcr.io/ddtop/ddtop:" + cli.Version
	for _, word := range binaries {
		target, path, ok := strings.Cut(word, "=")
		arch, linux := strings.CutPrefix(target, "linux/")
		if !ok || !linux {
			return fmt.Errorf("%q is not linux/ARCH=BINARY", word)
		}
		binary, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		d, m, err := l.image(platform{arch, "linux"}, binary)
		if err != nil {
			return err
		}
		of.Manifests = append(of.Manifests, d)
		a := archived{Config: blobPath(m.Config), RepoTags: []string{name + "-" + arch}, Layers: []string{blobPath(m.Layers[0])}}
		if arch == mostUsed {
			a.RepoTags = append(a.RepoTags, name)
		}
		docker = append(docker, a)
	}
	all, err := l.object(indexType, of)
	if err != nil {
		return err
	}
	all.Annotations = map[string]string{"org.opencontainers.image.ref.name": cli.Version, "io.containerd.image.name": name}
	text, err := json.Marshal(index{2, indexType, []descriptor{all}})
	if err != nil {
		return err
	}
	if err := l.file("index.json", text); err != nil {
		return err
	}
	if text, err = json.Marshal(docker); err != nil {
		return err
	}
	return l.file("manifest.json", text)
}

// image adds the image of one platform, which contains the binary, to the layout.
func (l *layout) image(on platform, binary []byte) (descriptor, manifest, error) {
	var m manifest
	packed, diffID, err := l.layer(binary)
	if err != nil {
		return descriptor{}, m, err
	}
	layer, err := l.blob(layerType, packed)
	if err != nil {
		return descriptor{}, m, err
	}
	labels := map[string]string{
		"org.opencontainers.image.title":    "ddtop",
		"org.opencontainers.image.source":   "https://github.com/ddtop/ddtop",
		"org.opencontainers.image.version":  cli.Version,
		"org.opencontainers.image.licenses": "MIT",
	}
	c := config{Created: l.when.Format(time.RFC3339), platform: on}
	c.Config.User, c.Config.Entrypoint, c.Config.Labels = "65532:65532", []string{"/ddtop"}, labels
	c.Config.Env = []string{"PATH=/", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"}
	c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{diffID}
	configured, err := l.object(configType, c)
	if err != nil {
		return descriptor{}, m, err
	}
	m = manifest{2, manifestType, configured, []descriptor{layer}, labels}
	d, err := l.object(manifestType, m)
	d.Platform = &on
	return d, m, err
}

// layer returns the compressed tar file with an image's files. diffID is the digest of the tar file before compression.
func (l *layout) layer(binary []byte) (packed []byte, diffID string, err error) {
	var plain, z bytes.Buffer
	w := tar.NewWriter(&plain)
	for _, f := range []struct {
		name string
		mode int64
		text []byte
	}{
		{"ddtop", 0o755, binary}, {"etc/", 0o755, nil}, {"etc/ssl/", 0o755, nil}, {"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, certificates()},
		{"tmp/", 0o1777, nil}, // the folder for recordings and for the output of `ddtop -- COMMAND`
	} {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.text)), ModTime: l.when, Typeflag: tar.TypeReg}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, "", err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, "", err
		}
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	zw, err := gzip.NewWriterLevel(&z, gzip.BestCompression)
	if err != nil {
		return nil, "", err
	}
	if _, err := zw.Write(plain.Bytes()); err != nil {
		return nil, "", err
	}
	if err := zw.Close(); err != nil {
		return nil, "", err
	}
	return z.Bytes(), digest(plain.Bytes()), nil
}

// certificates returns Mozilla's root certificates. They are from a Go module in go.mod, so they are the same on every
// build machine.
func certificates() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		// Mozilla trusts some certificates only with a constraint. A PEM file cannot express a constraint, so these
		// certificates are left out.
		if root.Constraint == nil {
			b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return b.Bytes()
}

func digest(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

// object encodes a value (of) as JSON, and adds the JSON as a blob.
func (l *layout) object(mediaType string, of any) (descriptor, error) {
	text, err := json.Marshal(of)
	if err != nil {
		return descriptor{}, err
	}
	return l.blob(mediaType, text)
}

func (l *layout) blob(mediaType string, b []byte) (descriptor, error) {
	d := descriptor{MediaType: mediaType, Digest: digest(b), Size: len(b)}
	name := blobPath(d)
	if l.have[name] {
		return d, nil
	}
	l.have[name] = true
	return d, l.file(name, b)
}

func blobPath(d descriptor) string { return "blobs/" + strings.Replace(d.Digest, ":", "/", 1) }

func (l *layout) file(name string, b []byte) error {
	if err := l.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(b)), ModTime: l.when, Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err := l.tar.Write(b)
	return err
}

// unpack writes the files in the image of one platform into a folder, as a container runtime would. It checks every
// digest and size, and prints how the image is to be run.
func unpack(args []string) error {
	blobs, err := readTar(args[0])
	if err != nil {
		return err
	}
	var top, of index
	var m manifest
	var c config
	if err := json.Unmarshal(blobs["index.json"], &top); err != nil {
		return err
	}
	if len(top.Manifests) != 1 {
		return fmt.Errorf("there are %d images in the layout, not one", len(top.Manifests))
	}
	if err := blobs.object(top.Manifests[0], &of); err != nil {
		return err
	}
	for _, d := range of.Manifests {
		if d.Platform == nil || d.Platform.OS != "linux" || d.Platform.Architecture != args[1] {
			continue
		}
		if err := blobs.object(d, &m); err != nil {
			return err
		}
		if err := blobs.object(m.Config, &c); err != nil {
			return err
		}
		for i, layer := range m.Layers {
			if err := blobs.extract(layer, c.RootFS.DiffIDs[i], args[2]); err != nil {
				return err
			}
		}
		_, err := fmt.Printf("user %s, entrypoint %s, %d bytes packed\n", c.Config.User, strings.Join(c.Config.Entrypoint, " "), m.Layers[0].Size)
		return err
	}
	return fmt.Errorf("there is no image for linux/%s", args[1])
}

// files are the contents of a tar file, by name.
type files map[string][]byte

func readTar(path string) (files, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := make(files)
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if all[h.Name], err = io.ReadAll(r); err != nil {
			return nil, err
		}
	}
}

// blob returns a blob after it has checked the blob's size and digest.
func (f files) blob(d descriptor) ([]byte, error) {
	b, ok := f[blobPath(d)]
	if !ok {
		return nil, fmt.Errorf("%s is missing", d.Digest)
	}
	if digest(b) != d.Digest || len(b) != d.Size {
		return nil, fmt.Errorf("%s is another blob: %d bytes, %s", d.Digest, len(b), digest(b))
	}
	return b, nil
}

func (f files) object(d descriptor, into any) error {
	b, err := f.blob(d)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

// extract writes the files of an image's layer into a folder, after it has checked the layer's digest (diffID).
func (f files) extract(layer descriptor, diffID, folder string) error {
	packed, err := f.blob(layer)
	if err != nil {
		return err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		return err
	}
	if digest(plain) != diffID {
		return fmt.Errorf("the layer's files are %s, its image says %s", digest(plain), diffID)
	}
	for r := tar.NewReader(bytes.NewReader(plain)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(folder, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(path, 0o755); err != nil {
				return err
			}
			continue
		}
		err = writeFile(path, os.FileMode(h.Mode), func(w io.Writer) error { _, err := io.Copy(w, r); return err })
		if err != nil {
			return err
		}
	}
}
