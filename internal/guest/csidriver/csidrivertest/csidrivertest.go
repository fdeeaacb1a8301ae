//go:build linux

// Package csidrivertest has what the tests of CSI drivers share: the sanity suite of the CSI, and a mounter that
// mounts nothing.
package csidrivertest

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/guest/csidriver"
)

// Sanity runs the suite of the CSI for drivers, of which there is one in a process, but for specs whose names contain
// those to skip. Volumes are made with these parameters.
func Sanity(t *testing.T, parameters map[string]string, register func(*grpc.Server), skip ...string) {
	t.Helper()
	dir := t.TempDir()
	socket := filepath.Join(dir, "csi.sock")
	endpoint := "unix://" + socket
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- csidriver.Serve(ctx, slog.New(slog.DiscardHandler), endpoint, register) }()
	eventually.Nil(t, "the driver listens", func() error {
		c, err := net.Dial("unix", socket) // the socket is there before
		if err == nil {
			err = c.Close()
		}
		return err
	})
	config := sanity.NewTestConfig()
	config.TargetPath, config.StagingPath = filepath.Join(dir, "target"), filepath.Join(dir, "staging")
	config.TestVolumeParameters = parameters
	// The suite uses a connection that it has for its address, which is none. It would wait for its own to become ready,
	// for a minute and in vain if that was ready before.
	suite := sanity.GinkgoTest(&config)
	connection, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	suite.Conn = connection
	gomega.RegisterFailHandler(ginkgo.Fail)
	settings, _ := ginkgo.GinkgoConfiguration()
	settings.SkipStrings = append(settings.SkipStrings, skip...)
	ginkgo.RunSpecs(t, "CSI", settings)
	suite.Finalize()
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// Mounter keeps mounts in memory, and directories in a real one. Its zero value is ready.
type Mounter struct {
	mu     sync.Mutex
	mounts map[string]string // sources by path
	calls  []string
}

// Set mounts a source at a path. A call that is not empty is one of Calls.
func (m *Mounter) Set(path, source, call string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mounts == nil {
		m.mounts = make(map[string]string)
	}
	m.mounts[path] = cmp.Or(m.mounts[source], source)
	if call != "" {
		m.calls = append(m.calls, call)
	}
}

// Source returns what is mounted at a path.
func (m *Mounter) Source(path string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mounts[path]
}

// Count returns the number of mounts.
func (m *Mounter) Count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.mounts)
}

// Calls returns the options of each mount so far.
func (m *Mounter) Calls() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

// MakeDir makes a directory.
func (m *Mounter) MakeDir(path string) error { return os.MkdirAll(path, 0o755) }

// IsMounted reports whether something is mounted at a path.
func (m *Mounter) IsMounted(path string) (bool, error) { return m.Source(path) != "", nil }

// MountedDevice returns what is mounted, and how many times it is anywhere.
func (m *Mounter) MountedDevice(path string) (string, int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	source, references := m.mounts[path], 0
	for _, s := range m.mounts {
		if s == source && s != "" {
			references++
		}
	}
	return source, references, nil
}

// Mount mounts a source, or what is mounted there.
func (m *Mounter) Mount(source, target, _ string, options []string) error {
	m.Set(target, source, fmt.Sprint(options))
	return nil
}

// Unmount unmounts what is mounted, if there is something, and removes the path.
func (m *Mounter) Unmount(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mounts, path)
	err := os.Remove(path)
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

// Usage returns that of an empty file system of 1 GiB.
func (m *Mounter) Usage(path string) ([]*csi.VolumeUsage, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fs.ErrNotExist
	}
	const gib = 1 << 30
	return []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: gib, Available: gib}}, nil
}
