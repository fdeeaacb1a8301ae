package vended

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/diskspace"
)

var web = Log{Account: "111122223333", ID: "50dc6c495c0c9188", Type: ApplicationAccess}

// writes returns a Writer whose entries are written by flush alone, and what it logs.
func writes(t *testing.T, root string) (*Writer, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	w := NewWriter(slog.New(slog.NewTextHandler(&log, nil)))
	w.free = func(string) (int64, error) { return diskspace.Reserve, nil }
	w.SetDirectory(root)
	return w, &log
}

// readAll returns the texts from a position on, and the position after them.
func readAll(t *testing.T, root string, l Log, from Position) (texts []string, next Position) {
	t.Helper()
	for next = from; ; {
		entries, after, err := Read(root, l, next)
		if err != nil {
			t.Fatal(err)
		}
		if next = after; len(entries) == 0 {
			return texts, next
		}
		for _, e := range entries {
			texts = append(texts, e.Text)
		}
	}
}

func TestEntriesComeOnceAndInOrder(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "logs")
	w, _ := writes(t, root)
	at := time.UnixMilli(1700000000123)
	w.Add(web, at, "one")
	w.Add(web, at, "two 2")
	other := Log{Account: "444455556666", ID: "1", Type: NetworkAccess}
	w.Add(other, at, "other")
	w.flush()
	entries, next, err := Read(root, web, Position{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Entry{{1700000000123, "one"}, {1700000000123, "two 2"}}, entries); diff != "" {
		t.Error(diff)
	}
	if all, err := Logs(root); err != nil || len(all) != 2 || !slices.Contains(all, web) || !slices.Contains(all, other) {
		t.Errorf("the logs are %v, %v", all, err)
	}
	w.Add(web, at, "three")
	w.flush()
	got, next := readAll(t, root, web, next)
	if !slices.Equal(got, []string{"three"}) {
		t.Errorf("got %q", got)
	}
	// A process that was killed has left a part of an entry; its successor writes to another file.
	if err := appendTo(segmentFile(web.dir(root), 1), "1700000000123 a pa"); err != nil {
		t.Fatal(err)
	}
	w, _ = writes(t, root)
	w.Add(web, at, "four")
	w.flush()
	if got, next = readAll(t, root, web, next); !slices.Equal(got, []string{"four"}) || next.Segment != 2 {
		t.Errorf("got %q, then %+v", got, next)
	}
	if err := Trim(root, web, next); err != nil {
		t.Fatal(err)
	}
	if segments, err := listSegments(web.dir(root)); err != nil || len(segments) != 1 || segments[0].number != 2 {
		t.Errorf("left are %v, %v", segments, err)
	}
	// The files have gone with the last delivery, and there is one again.
	if err := Remove(root, web); err != nil {
		t.Fatal(err)
	}
	w.Add(web, at, "five")
	w.flush()
	if got, _ := readAll(t, root, web, Position{}); !slices.Equal(got, []string{"five"}) {
		t.Errorf("got %q", got)
	}
	if got, _ := readAll(t, root, web, Position{Segment: 99, Offset: 7}); !slices.Equal(got, []string{"five"}) {
		t.Errorf("after a restoration: %q", got)
	}
	if err := Remove(root, other); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, other.Account)); err == nil {
		t.Error("the directory of an account without logs is left")
	}
}

func appendTo(file, text string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

func TestWhatHasNoPlaceIsLostAndTold(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	w, log := writes(t, root)
	long := strings.Repeat("x", readSize/2)
	for range 10 {
		w.Add(web, time.Now(), long) // 4 MiB have place
	}
	w.Add(Log{Account: "2", ID: "1", Type: ApplicationAccess}, time.Now(), "another account has place")
	w.flush()
	if got, _ := readAll(t, root, web, Position{}); len(got) != 7 {
		t.Errorf("%d entries were written", len(got))
	}
	if !strings.Contains(log.String(), "entries=3") {
		t.Errorf("the log says %s", log)
	}
	if got, _ := readAll(t, root, Log{Account: "2", ID: "1", Type: ApplicationAccess}, Position{}); len(got) != 1 {
		t.Errorf("the other account has %d entries", len(got))
	}

	// The disk: nobody delivers.
	w.told = map[string]time.Time{}
	log.Reset()
	for range accountDisk / (readSize / 2) {
		w.Add(web, time.Now(), long)
		w.flush()
	}
	var size int64
	segments, err := listSegments(web.dir(root))
	for _, s := range segments {
		size += s.size
	}
	if err != nil || size > accountDisk || size < accountDisk-readSize {
		t.Errorf("the files take %d bytes, %v", size, err)
	}
	if !strings.Contains(log.String(), "wait for their delivery") {
		t.Errorf("the log says %s", log)
	}
	// Delivery makes place.
	_, next := readAll(t, root, web, Position{})
	if err := Trim(root, web, next); err != nil {
		t.Fatal(err)
	}
	w.now = func() time.Time { return time.Now().Add(recount) } // it is seen after a second
	w.Add(web, time.Now(), "again")
	w.flush()
	if got, _ := readAll(t, root, web, next); !slices.Equal(got, []string{"again"}) {
		t.Errorf("got %d entries", len(got))
	}

	w, log = writes(t, root)
	w.free = func(string) (int64, error) { return diskspace.Reserve - 1, nil }
	w.Add(web, time.Now(), "no")
	w.flush()
	if got, _ := readAll(t, root, web, next); len(got) != 1 || !strings.Contains(log.String(), "the disk is full") {
		t.Errorf("on a full disk: %q, %s", got, log)
	}
}

// An account that has filled its share, in many logs, has its files counted once in a while, and not for each log.
func TestFullAccountsAreCountedOnce(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	w, _ := writes(t, root)
	now := time.Now()
	w.now = func() time.Time { return now }
	const logs = 40
	add := func(size int) {
		for i := range logs {
			w.Add(Log{web.Account, fmt.Sprintf("%016x", i), ApplicationAccess}, now, strings.Repeat("x", size))
		}
		w.flush()
	}
	for range accountDisk/(logs*accountMemory/50) + 1 {
		add(accountMemory / 50)
	}
	now = now.Add(recount)
	for range 3 { // flushes in a second
		before := w.counts
		add(accountMemory / 50)
		if n := w.counts - before; n > logs {
			t.Errorf("a flush of %d logs of a full account reads %d directories", logs, n)
		}
	}
	before := w.counts
	add(accountMemory / 50)
	if n := w.counts - before; n > 0 {
		t.Errorf("it reads %d directories in the same second", n)
	}
	if got := w.losses[web.Account].entries; got == 0 {
		t.Error("nothing is lost: the account is not full")
	}
}

// A log that has nothing new costs next to nothing: each delivery looks each second.
func TestReadsOfNothingNewAreCheap(t *testing.T) {
	root := t.TempDir()
	w, _ := writes(t, root)
	w.Add(web, time.Now(), "one")
	w.flush()
	_, at := readAll(t, root, web, Position{})
	result := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if _, next, err := Read(root, web, at); err != nil || next != at {
				b.Fatal(next, err)
			}
		}
	})
	if n := result.AllocedBytesPerOp(); n > 16<<10 {
		t.Errorf("a read at the end takes %d bytes", n)
	}
	w.Add(web, time.Now(), "two")
	w.flush()
	if got, _ := readAll(t, root, web, at); !slices.Equal(got, []string{"two"}) {
		t.Errorf("got %q", got)
	}
}

// TestRun writes what many add at once.
func TestRun(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	w, _ := writes(t, root)
	ctx, cancel := context.WithCancel(t.Context())
	var running, adding sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	for n := range 8 {
		adding.Go(func() {
			for i := range 1000 {
				w.Add(web, time.Now(), fmt.Sprint(n, " ", i))
			}
		})
	}
	adding.Wait()
	cancel()
	running.Wait()
	got, _ := readAll(t, root, web, Position{})
	next := map[string]int{}
	for _, text := range got {
		var n string
		var i int
		if _, err := fmt.Sscan(text, &n, &i); err != nil || next[n] != i {
			t.Fatalf("%q comes after %d entries", text, next[n])
		}
		next[n]++
	}
	if len(got) != 8000 {
		t.Errorf("%d entries were written", len(got))
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	access, _ := TypeNamed(ApplicationAccess)
	network, _ := TypeNamed(NetworkAccess)
	const entry = `http 2018-07-02T22:23:00.186641Z app/lb/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.000 0.001 ` +
		`0.000 200 200 34 366 "GET http://www.example.com:80/?a=\x22b\x22 HTTP/1.1" "curl \xc3\xa4 <x>" - - arn:tg ` +
		`"Root=1" "-" "-" 0 2018-07-02T22:22:48.364000Z "forward" "-" "-" "10.0.0.1:80" "200" "-" "-" TID_1 "-" "-" - ` +
		`10.0.0.20`
	const tlsEntry = `tls 2.0 2018-12-20T02:59:40 net/lb/c6e77e28c25b2234 g3d4b5e8bb8464cd 72.21.218.154:51341 ` +
		`172.100.100.185:443 5 2 98 246 - arn:c - ECDHE-RSA-AES128-SHA tlsv12 - a.example h2 h2 "h2","http/1.1" ` +
		`2018-12-20T02:59:30`
	for _, c := range []struct {
		name      string
		kind      Type
		fields    []string
		json      bool
		delimiter string
		entry     string
		want      string
	}{
		{"plain, all fields", access, nil, false, "", entry, entry},
		{"plain, some fields", access, []string{"elb_status_code", "request_line", "client:port"}, false, ",", entry,
			`200,"GET http://www.example.com:80/?a=\x22b\x22 HTTP/1.1",192.168.131.39:2817`},
		{"JSON, some fields", access, []string{"elb_status_code", "request_line", "user_agent", "ip_address"}, true, "",
			entry, `{"elb_status_code":"200","request_line":"GET http://www.example.com:80/?a=\"b\" HTTP/1.1",` +
				`"user_agent":"curl ä <x>","ip_address":"10.0.0.20"}`},
		{"JSON, a field that is missing", access, []string{"type", "ip_address"}, true, "", "http",
			`{"type":"http","ip_address":"-"}`},
		{"plain, of a Network Load Balancer", network, nil, false, "", tlsEntry, tlsEntry},
		{"JSON, a list in quotes", network, []string{"alpn_client_preference_list", "tls_connection_creation_time"}, true,
			"", tlsEntry, `{"alpn_client_preference_list":"\"h2\",\"http/1.1\"",` +
				`"tls_connection_creation_time":"2018-12-20T02:59:30"}`},
	} {
		f, err := NewFormat(c.kind, c.fields, c.json, c.delimiter)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Message(c.entry); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.name, got, c.want)
		}
	}
	if _, err := NewFormat(access, []string{"color"}, false, ""); err == nil {
		t.Error("a field that there is not is taken")
	}
	for _, text := range []string{"", "plain text", `it's "quoted"`, "ä\n\x00\\x", `\x4`} {
		if got := unescape(Escape(text)); got != text || strings.ContainsAny(Escape(text), "\"\n") {
			t.Errorf("%q becomes %q, and then %q", text, Escape(text), got)
		}
	}
}

// FuzzMessage makes JSON of entries with any text in their fields.
func FuzzMessage(f *testing.F) {
	f.Add(`a "b" c`, "\xff\x00")
	access, _ := TypeNamed(ApplicationAccess)
	format, err := NewFormat(access, []string{"request_line", "user_agent", "ssl_cipher"}, true, "")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, line, agent string) {
		entry := strings.Repeat("- ", 12) + `"` + Escape(line) + `" "` + Escape(agent) + `" cipher`
		got := format.Message(entry)
		if !strings.HasSuffix(got, `,"ssl_cipher":"cipher"}`) || strings.Contains(got, "\n") {
			t.Errorf("%q becomes %s", entry, got)
		}
	})
}
