package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"

	"github.com/coracle-eks/coracle/internal/nodeimage"
)

// home is the directory of the archive's files in a package or an image. Programs are found beside coracle.
const home = "usr/lib/coracle"

// writeImage writes an image for "docker load", "podman load" and "ctr images import". Its base is the node image, so
// that there is a shell; above it are a layer for each kind of programs, so that another version of coracle alone is a
// small one.
func (d distribution) writeImage(ctx context.Context, path string, files []file) error {
	var bundles, nodes, own []file
	for _, f := range files {
		switch top, _, _ := strings.Cut(f.name, "/"); top {
		case "bundles":
			bundles = append(bundles, f)
		case "node":
			nodes = append(nodes, f)
		default:
			own = append(own, f)
		}
	}
	base := slices.IndexFunc(files, func(f file) bool { return filepath.Base(f.name) == nodeimage.ArchiveName })
	if base < 0 {
		return errors.New("there is no node image")
	}
	level := gzip.DefaultCompression
	if d.fast {
		level = gzip.BestSpeed
	}
	image := empty.Image
	for _, open := range []tarball.Opener{
		func() (io.ReadCloser, error) { return openZstd(files[base].source) },
		d.openLayer(bundles), d.openLayer(nodes), d.openLayer(own),
	} {
		layer, err := tarball.LayerFromOpener(open, tarball.WithCompressedCaching, tarball.WithCompressionLevel(level))
		if err != nil {
			return err
		}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{
			Created: v1.Time{Time: d.time}, CreatedBy: "make dist"}}); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", d.architecture, v1.Time{Time: d.time}
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/coracle"},
		Cmd:        []string{"serve"},
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8",
			"CORACLE_LISTEN=0.0.0.0:4566", "CORACLE_ADVERTISE_ADDRESS=auto"},
		WorkingDir:   "/",
		ExposedPorts: map[string]struct{}{"4566/tcp": {}},
		Volumes:      map[string]struct{}{"/var/lib/coracle": {}},
		StopSignal:   "SIGTERM",
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "/usr/bin/coracle", "status"},
			Interval: 10 * time.Second, Timeout: 5 * time.Second, StartPeriod: 30 * time.Second, Retries: 3},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "Coracle",
			"org.opencontainers.image.version":  d.version,
			"org.opencontainers.image.created":  d.time.UTC().Format("2006-01-02T15:04:05Z"),
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.source":   "https://github.com/coracle-eks/coracle",
		},
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	tag, err := name.NewTag("coracle:" + tagOf(d.version))
	if err != nil {
		return err
	}
	latest, err := name.NewTag("coracle:latest")
	if err != nil {
		return err
	}
	return replaceFile(path, func(w io.Writer) error {
		return tarball.MultiWrite(map[name.Tag]v1.Image{tag: image, latest: image}, w)
	})
}

// tagOf returns a version as the tag of an image, in which there are no plus signs.
func tagOf(version string) string { return strings.ReplaceAll(version, "+", "-") }

func openZstd(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	z, err := zstd.NewReader(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return readCloser{z, func() error { z.Close(); return f.Close() }}, nil
}

type readCloser struct {
	io.Reader
	close func() error
}

func (r readCloser) Close() error { return r.close() }

// openLayer returns what opens the layer with the files: an archive below the root.
func (d distribution) openLayer(files []file) tarball.Opener {
	return func() (io.ReadCloser, error) {
		r, w := io.Pipe()
		go func() { w.CloseWithError(d.writeLayer(w, files)) }()
		return r, nil
	}
}

func (d distribution) writeLayer(w io.Writer, files []file) error {
	archive := tar.NewWriter(w)
	if slices.ContainsFunc(files, func(f file) bool { return f.name == "coracle" }) {
		for _, header := range []*tar.Header{
			{Name: "usr/bin/coracle", Linkname: "../lib/coracle/coracle", Mode: 0o777, Typeflag: tar.TypeSymlink},
			{Name: "tmp/", Mode: 0o1777, Typeflag: tar.TypeDir},
			{Name: "root/", Mode: 0o700, Typeflag: tar.TypeDir},
			{Name: "var/lib/coracle/", Mode: 0o700, Typeflag: tar.TypeDir}, // a new volume has its mode
		} {
			header.ModTime, header.Format = d.time, tar.FormatPAX
			if err := archive.WriteHeader(header); err != nil {
				return err
			}
		}
	}
	for _, f := range files {
		if err := d.writeFile(archive, home, f); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return archive.Close()
}
