package application

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/coracle-eks/coracle/internal/eventually"
)

// streams is a client of HTTP/2 that sends what Go's would not.
type streams struct {
	t      *testing.T
	mu     sync.Mutex
	framer *http2.Framer
	reset  map[uint32]bool   // streams that the server has reset
	ended  map[uint32]bool   // streams that the server has ended
	status map[uint32]string // of answers
	next   uint32
	closed bool
}

// newStreams connects to a rig, and says how many bytes of each answer it takes.
func newStreams(t *testing.T, address string, window uint32) *streams {
	t.Helper()
	c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"},
		ServerName: "a.example"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(eventually.Limit)); err != nil {
		t.Fatal(err)
	}
	s := &streams{t: t, framer: http2.NewFramer(c, c), reset: map[uint32]bool{}, ended: map[uint32]bool{},
		status: map[uint32]string{}, next: 1}
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := s.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}); err != nil {
		t.Fatal(err)
	}
	s.framer.ReadMetaHeaders = hpack.NewDecoder(1, nil) // it keeps no field, although the server may think so
	go s.read()
	return s
}

// read answers pings, and notes what becomes of streams, until the connection ends.
func (s *streams) read() {
	for {
		f, err := s.framer.ReadFrame()
		s.mu.Lock()
		if err != nil {
			s.closed = true
			s.mu.Unlock()
			return
		}
		switch f := f.(type) {
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = s.framer.WritePing(true, f.Data)
			}
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = s.framer.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			s.status[f.StreamID] = f.PseudoValue("status")
			s.ended[f.StreamID] = s.ended[f.StreamID] || f.StreamEnded()
		case *http2.DataFrame:
			s.ended[f.StreamID] = s.ended[f.StreamID] || f.StreamEnded()
		case *http2.RSTStreamFrame:
			s.reset[f.StreamID] = true
		}
		s.mu.Unlock()
	}
}

// send sends a request of a.example with fields, which may replace those that each has, and returns its stream.
func (s *streams) send(fields ...string) uint32 {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var b bytes.Buffer
	encoder := hpack.NewEncoder(&b)
	all := []string{":method", "GET", ":scheme", "https", ":authority", "a.example", ":path", "/"}
	for i := 0; i < len(fields); i += 2 {
		if at := slices.Index(all, fields[i]); fields[i][0] == ':' {
			all[at+1] = fields[i+1]
		} else {
			all = append(all, fields[i], fields[i+1])
		}
	}
	for i := 0; i < len(all); i += 2 {
		if err := encoder.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]}); err != nil {
			s.t.Fatal(err)
		}
	}
	id := s.next
	s.next += 2
	const frame = 16 << 10
	err := s.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: b.Next(frame), EndStream: true,
		EndHeaders: b.Len() == 0})
	for err == nil && b.Len() > 0 {
		part := b.Next(frame)
		err = s.framer.WriteContinuation(id, b.Len() == 0, part)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

// ping has the server say something.
func (s *streams) ping() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.framer.WritePing(false, [8]byte{}); err != nil {
		s.t.Fatal(err)
	}
}

// wait waits for the status of the answer of a stream; without one the connection has ended.
func (s *streams) wait(id uint32) (status string) {
	s.t.Helper()
	eventually.True(s.t, "an answer", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		status = s.status[id]
		return status != "" || s.closed
	})
	return status
}

// TestAnswersReferToNoOthers has a client that keeps no header fields: net/http changes the table of those which it has
// sent when a client says so, and uses it at the same time.
func TestAnswersReferToNoOthers(t *testing.T) {
	t.Parallel()
	rig := newRig(t, secure(t, forwarding(groupOf("g", say(t, "small"))), "a.example"))
	s := newStreams(t, rig.address, 1<<16-1)
	for range 3 {
		if status := s.wait(s.send()); status != "200" {
			t.Errorf("an answer like the one before it: %s", status)
		}
	}
}

// TestAnswersThatNobodyTakesEnd has a client that takes nothing of answers on HTTP/2 of each kind. Its requests count
// until they are ended, and what is refused is not kept for the client.
func TestAnswersThatNobodyTakesEnd(t *testing.T) {
	t.Parallel()
	spec := forwarding(groupOf("g", say(t, "small")))
	spec.Rules = append([]Rule{{Priority: "1", Conditions: []Condition{{Field: FieldPath, Values: []string{"/fixed"}}},
		Actions: []Action{fixed("x")}}}, spec.Rules...)
	spec.Attributes.Idle = 1
	var used atomic.Int64 // by requests
	source := make(chan netip.Addr, 100)
	rig := newRig(t, secure(t, spec, "a.example"), func(o *Options) {
		o.Acquire = func(from netip.Addr) (func(), bool) {
			if !from.IsValid() {
				return func() {}, true
			}
			source <- from
			used.Add(1)
			return func() { used.Add(-1) }, true
		}
	})
	s := newStreams(t, rig.address, 0)
	reset := func(id uint32) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.reset[id]
	}
	for _, path := range []string{"/", "/fixed"} {
		id := s.send(":path", path)
		if status := s.wait(id); status != "200" || used.Load() != 1 && !reset(id) {
			t.Errorf("%s: %s, and %d requests count", path, status, used.Load())
		}
		if from := <-source; !from.IsLoopback() {
			t.Errorf("a request counts for %s", from)
		}
		eventually.True(t, path+" is ended", func() bool {
			s.ping()
			return reset(id) && used.Load() == 0
		})
	}
	refused := s.send(":authority", "a b")
	if status := s.wait(refused); status != "400" {
		t.Errorf("a request without a valid host: %s", status)
	}
	eventually.True(t, "a request that is refused ends at once", func() bool {
		s.ping()
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.ended[refused] && !s.reset[refused] && used.Load() == 0
	})
	large := make([]string, 0, 40)
	for range 20 {
		large = append(large, "cookie", strings.Repeat("a", 3900)) // by an index: Go refuses this itself
	}
	id := s.send(large...)
	if status := s.wait(id); status != "431" {
		t.Errorf("a request with a long header: %s", status)
	}
	eventually.True(t, "what Go refuses is ended", func() bool { return reset(id) })
	// One that takes answers has them.
	s = newStreams(t, rig.address, 1<<16-1)
	for _, path := range []string{"/", "/fixed"} {
		id := s.send(":path", path)
		eventually.True(t, path+" is answered", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.ended[id] && !s.reset[id]
		})
	}
}

// TestWhatGoRefusesCounts has a client that takes nothing of the answers to requests which net/http refuses without a
// handler, until there is no room for more.
func TestWhatGoRefusesCounts(t *testing.T) {
	t.Parallel()
	const room = 6
	var used atomic.Int64
	rig := newRig(t, secure(t, Listener{Attributes: DefaultAttributes(), Rules: []Rule{defaultRule(fixed("x"))}},
		"a.example"), func(o *Options) {
		o.Acquire = func(netip.Addr) (func(), bool) {
			if used.Add(1) > room {
				used.Add(-1)
				return nil, false
			}
			return func() { used.Add(-1) }, true
		}
	})
	for _, refused := range []struct {
		status string
		fields []string
	}{
		{"431", slices.Repeat([]string{"cookie", strings.Repeat("a", 3900)}, 20)},
		{"400", []string{"te", "gzip"}},
	} {
		s := newStreams(t, rig.address, 0)
		var all []uint32
		for number := range room + mostUncounted {
			all = append(all, s.send(refused.fields...))
			if status := s.wait(all[number]); status != refused.status || used.Load() != min(int64(number)+1, room) {
				t.Errorf("request %d: %s, and %d count", number, status, used.Load())
			}
		}
		for _, id := range all { // those that nobody awaits count no longer
			s.mu.Lock()
			err := s.framer.WriteRSTStream(id, http2.ErrCodeCancel)
			s.mu.Unlock()
			if err != nil {
				t.Fatal(err)
			}
		}
		eventually.True(t, "nothing counts once the server has said something else", func() bool {
			s.ping()
			return used.Load() == 0
		})
		for range room {
			s.wait(s.send(refused.fields...))
		}
		if status := s.wait(s.send()); status != "503" {
			t.Errorf("a request that there is no room for: %s", status)
		}
		for range mostUncounted + 1 {
			s.send(refused.fields...)
		}
		eventually.True(t, "the connection ends", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.closed
		})
		eventually.True(t, "nothing counts", func() bool { return used.Load() == 0 })
	}
	s := newStreams(t, rig.address, 0)
	s.wait(s.send("x-one", strings.Repeat("~", 2*headerPart), "x-two", strings.Repeat("~", headerPart)))
	if n := used.Load(); n != 4 {
		t.Errorf("a request with a large header counts %d times", n)
	}
}

// TestRulesJudgeWhatTargetsGetOfHTTP2 has requests that HTTP/1.1, by which they go on, would say otherwise.
func TestRulesJudgeWhatTargetsGetOfHTTP2(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 100)
	spec := forwarding(groupOf("g", serveTarget(t, func(_ http.ResponseWriter, r *http.Request) {
		seen <- fmt.Sprint(r.Host, r.RequestURI, r.Header["X-Debug"])
	})))
	spec.Rules = append([]Rule{{Priority: "1", Conditions: []Condition{{Field: FieldHeader, Header: "X-Debug",
		Values: []string{"true"}}}, Actions: []Action{{FixedResponse: &FixedResponse{Status: 403}}}}}, spec.Rules...)
	s := newStreams(t, newRig(t, secure(t, spec, "a.example")).address, 1<<16-1)
	for _, c := range []struct{ name, value, want string }{
		{"x-debug", "true", "403"}, {"x-debug", " true", "400"}, {"x-debug", "true\t", "400"}, {"x-debug", "", "200"},
		{":authority", "münchen.example", "400"}, {":authority", "public.example /", "400"},
		{":authority", "b.example:443", "200"}, {":path", "/a?b HTTP/1.0", "400"}, {":path", "/a?b%20c", "200"},
		{":path", "/a b", "400"}, {":method", "connect", "405"}, {":method", "trace", "405"},
	} {
		if got := s.wait(s.send(c.name, c.value)); got != c.want {
			t.Errorf("%s %q: %s, want %s", c.name, c.value, got, c.want)
		}
	}
	close(seen)
	var all []string
	for text := range seen {
		all = append(all, text)
	}
	if want := []string{"a.example/[]", "b.example/[]", "a.example/a?b%20c[]"}; !slices.Equal(all, want) {
		t.Errorf("the target gets %q, want %q", all, want)
	}
}
