package bench

import (
	"bufio"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/klauspost/compress/zstd"

	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
)

// corpusSource has the files that make a corpus: a change of one makes another corpus.
//
//go:embed corpus_test.go load_test.go loadrequests_test.go
var corpusSource embed.FS

// corpusEvents is the number of audit events in the corpus, unless CORACLE_BENCH_EVENTS sets another number.
const corpusEvents = 1_000_000

// corpus returns the path of audit events as a real API server wrote them, one a line, compressed, and their number.
// They are stored in bin/bench, and made by a cluster under load when they do not exist.
func corpus(b testing.TB) (path string, events int) {
	b.Helper()
	events = corpusEvents
	if text := os.Getenv("CORACLE_BENCH_EVENTS"); text != "" {
		var err error
		if events, err = strconv.Atoi(text); err != nil || events < 1000 {
			b.Fatalf("CORACLE_BENCH_EVENTS is %q, not a number from 1000 up", text)
		}
	}
	hash := sha256.New()
	for _, name := range []string{"corpus_test.go", "load_test.go", "loadrequests_test.go"} {
		source, err := corpusSource.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		hash.Write(source)
	}
	path = filepath.Join(testenv.Root(), "bin", "bench", fmt.Sprintf("audit-%s-%d.jsonl.zst",
		hex.EncodeToString(hash.Sum(nil)[:4]), events))
	if _, err := os.Stat(path); err == nil {
		return path, events
	}
	makeCorpus(b, path, events)
	return path, events
}

// makeCorpus lets a cluster of Kubernetes 1.35 write audit events under load until there are enough.
func makeCorpus(b testing.TB, path string, events int) {
	b.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	out, err := os.CreateTemp(filepath.Dir(path), "making-*")
	if err != nil {
		b.Fatal(err)
	}
	defer os.Remove(out.Name())
	defer out.Close()
	encoder, err := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		b.Fatal(err)
	}

	start := time.Now()
	d := harness.Start(b)
	d.CreateCluster("corpus", version, d.ClusterRole(), d.Subnets())
	d.AwaitStatus("corpus", ekstypes.ClusterStatusActive)
	client, config := kubernetesClient(b, d, "corpus")
	defaultServiceAccount(b, client)
	// The log that is being written; rotated ones have a time in their names.
	files, err := filepath.Glob(filepath.Join(d.Dir, "clusters", "*", "log", "kube-apiserver-audit*.log"))
	logs := slices.DeleteFunc(files, func(f string) bool { return strings.Contains(filepath.Base(f), "T") })
	if err != nil || len(logs) != 1 {
		b.Fatalf("the audit log of the cluster is not to be found: %v, %v", logs, err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	done := make(chan error, 1)
	l := &clusterLoad{client: client, config: config}
	l.token.Store(&config.BearerToken)
	go func() { done <- l.run(ctx) }()
	renew := time.NewTicker(5 * time.Minute) // tokens of EKS are good for a quarter of an hour
	defer renew.Stop()

	var written, size int
	progress := time.NewTicker(10 * time.Second)
	defer progress.Stop()
	err = followAudit(ctx, logs[0], func(line []byte) (more bool, err error) {
		select {
		case err := <-done:
			return false, fmt.Errorf("the load ended: %w", err)
		case <-renew.C:
			_, config := kubernetesClient(b, d, "corpus")
			l.token.Store(&config.BearerToken)
		case <-progress.C:
			fmt.Fprintf(os.Stderr, "making %s: %d of %d audit events after %s\n", path, written, events,
				time.Since(start).Round(time.Second))
		default:
		}
		written++
		size += len(line) - 1
		_, err = encoder.Write(line)
		return written < events, err
	})
	if err != nil {
		b.Fatal(err)
	}
	cancel()
	<-done // what the end interrupts says nothing
	if err := errors.Join(encoder.Close(), out.Sync(), os.Rename(out.Name(), path)); err != nil {
		b.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "made %s in %s: %d audit events of %d bytes on average\n", path,
		time.Since(start).Round(time.Second), written, size/written)
}

// followAudit gives each the lines of a log as they are written, across its rotations, which rename the
// file, until each wants no more.
func followAudit(ctx context.Context, path string, each func(line []byte) (more bool, err error)) error {
	for {
		file, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) { // in the middle of a rotation
			<-time.After(time.Millisecond)
			continue
		}
		if err != nil {
			return err
		}
		more, err := followFile(ctx, file, path, each)
		file.Close()
		if err != nil || !more {
			return err
		}
	}
}

// followFile does what followAudit does, for one file; it returns true when another file has taken its place.
func followFile(ctx context.Context, file *os.File, path string, each func([]byte) (bool, error)) (bool, error) {
	reader := bufio.NewReaderSize(file, 1<<20)
	var line []byte
	replaced := false
	for {
		part, err := reader.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			more, err := each(line)
			if err != nil || !more {
				return false, err
			}
			line = line[:0]
		case errors.Is(err, bufio.ErrBufferFull):
		case !errors.Is(err, io.EOF):
			return false, err
		case replaced && len(line) == 0: // read to its end after it was known to be complete
			return true, nil
		default:
			select {
			case <-ctx.Done():
				return false, ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
			ours, err := file.Stat()
			if err != nil {
				return false, err
			}
			current, err := os.Stat(path)
			replaced = err == nil && !os.SameFile(ours, current)
		}
	}
}
