package events

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// The tests of crashes run this test binary again as a child, which appends until it is killed.
const (
	childDir   = "CORACLE_EVENTS_CHILD_DIR"   // its store
	childPoint = "CORACLE_EVENTS_CHILD_POINT" // where it kills itself, as name:times
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	childGroup     = GroupID(1)
	childBatch     = 20 // events
	childPerStream = 15 // batches; then the next stream begins, and the one before the last is deleted
)

// child appends batches, and goes on where its mark says. It says "appended N" when N batches are
// durable, and "deleted N" when all streams before N are gone.
func child(dir string) error {
	if name, times, armed := strings.Cut(os.Getenv(childPoint), ":"); armed {
		left, err := strconv.Atoi(times)
		if err != nil {
			return err
		}
		at = func(point string) {
			if point == name {
				if left--; left == 0 {
					_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
					select {}
				}
			}
		}
	}
	s, err := Open(dir, childOptions())
	if err != nil {
		return err
	}
	mark, err := s.Mark("batches")
	if err != nil {
		return err
	}
	n := 0
	if mark != nil {
		if n, err = strconv.Atoi(string(mark)); err != nil {
			return err
		}
	}
	for ; ; n++ {
		stream := n / childPerStream
		if n%childPerStream == 0 && stream >= 2 {
			if err := s.DeleteStream(childGroup, StreamID(1+stream-2)); err != nil {
				return err
			}
			fmt.Println("deleted", stream-1)
		}
		if n%50 == 0 {
			if _, err := s.Append(context.Background(),
				Batch{Group: 2, Events: []Event{{Stream: 1, Message: strings.Repeat("x", 2000)}}}); err != nil {
				return err
			}
			if err := s.DeleteGroup(2); err != nil {
				return err
			}
		}
		if _, err := s.Append(context.Background(), Batch{Group: childGroup, Events: childEvents(n),
			Marks: map[string][]byte{"batches": []byte(strconv.Itoa(n + 1))}}); err != nil {
			return err
		}
		fmt.Println("appended", n+1)
	}
}

func childOptions() Options { return Options{SealBytes: 16 << 10} }

func childEvents(n int) []Event {
	events := make([]Event, childBatch)
	for i := range events {
		events[i] = Event{
			Stream: StreamID(1 + n/childPerStream), Timestamp: int64(n*1000 + i), Ingested: int64(n*1000 + 500),
			Message: fmt.Sprintf(`{"batch":%d,"event":%d,"padding":%q}`, n, i, strings.Repeat(strconv.Itoa(n), 10)),
		}
	}
	return events
}

func TestKilledAtAnyTimeNothingIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	points := []string{"appended:37", "part written:1", "part named:1", "part cataloged:1", "part written:4",
		"part named:7", "part cataloged:9", "group deleted:1", ""}
	if testing.Short() {
		points = points[:5]
	}
	dir := t.TempDir()
	appended, deleted := 0, 0
	for round, point := range points {
		killAfter := 0
		if point == "" {
			killAfter = 20 + random.IntN(200)
		}
		a, d := runChild(t, dir, point, killAfter)
		appended, deleted = max(appended, a), max(deleted, d)
		verifyChild(t, dir, appended, deleted)
		if t.Failed() {
			t.Fatalf("round %d, killed at %q after %d", round, point, killAfter)
		}
	}
}

// runChild runs a child until it dies at a point, or is killed after so many lines, and returns what it said last.
func runChild(t *testing.T, dir, point string, killAfter int) (appended, deleted int) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childDir+"="+dir, childPoint+"="+point)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for scan := bufio.NewScanner(out); scan.Scan(); lines++ {
		var what string
		var n int
		if _, err := fmt.Sscan(scan.Text(), &what, &n); err != nil {
			t.Fatalf("it said %q: %v", scan.Text(), err)
		}
		switch what {
		case "appended":
			appended = n
		case "deleted":
			deleted = n
		}
		if lines+1 == killAfter {
			if err := c.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		if lines > 5000 {
			_ = c.Process.Kill()
			t.Fatalf("it never came to %q", point)
		}
	}
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("it ended with %v: %s", err, stderr.Bytes())
	}
	return appended, deleted
}

// verifyChild opens what a child left and compares it with what it said.
func verifyChild(t *testing.T, dir string, appended, deleted int) {
	t.Helper()
	s := open(t, dir, childOptions())
	defer s.Close()
	mark, err := s.Mark("batches")
	if err != nil {
		t.Fatal(err)
	}
	batches, err := strconv.Atoi(string(mark))
	if err != nil || batches < appended || batches > appended+1 {
		t.Fatalf("the mark is %q, and %d batches were acknowledged", mark, appended)
	}
	if err := s.WaitIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A stream whose deletion was under way may be gone or not.
	for range 2 {
		n := deleted * childPerStream
		maybe := batches / childPerStream * childPerStream
		var position Position
		next, seen := 0, map[int]int{}
		for e, err := range s.Events(t.Context(), childGroup, Range{From: 0, To: 1 << 60}) {
			if err != nil {
				t.Fatal(err)
			}
			if p := (Position{e.Timestamp, e.Seq}); p.Compare(position) <= 0 {
				t.Fatalf("%v follows %v", p, position)
			} else {
				position = p
			}
			batch := int(e.Timestamp / 1000)
			want := childEvents(batch)[seen[batch]%childBatch]
			if want.Seq = e.Seq; e != want {
				t.Fatalf("got %+v, want %+v", e, want)
			}
			seen[batch]++
			next = batch
		}
		if next != batches-1 && batches > 0 {
			t.Errorf("the last batch is %d of %d", next, batches)
		}
		for batch := range batches {
			switch {
			case seen[batch] == childBatch && batch >= n:
			case seen[batch] == 0 && batch < n:
			case seen[batch] == 0 && batch < n+childPerStream && maybe > 0: // the next to be deleted
			default:
				t.Fatalf("batch %d of %d is there %d/%d times; all before %d are deleted", batch, batches, seen[batch],
					childBatch, n)
			}
		}
		entries, err := os.ReadDir(s.parts)
		if err != nil {
			t.Fatal(err)
		}
		g := s.ensureGroup(childGroup)
		if len(entries) != len(g.parts) {
			t.Errorf("%d files for %d parts", len(entries), len(g.parts))
		}
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir, Options{})
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("the same process may open it twice: %v", err)
	}
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childDir+"="+dir)
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is another process using it?") {
		t.Errorf("another process may open it: %v: %s", err, out)
	}
}
