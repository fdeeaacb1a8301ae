package events

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/logs/tokenizer"
)

// model is a store as simple as can be: what a Store must be equal to.
type model struct {
	events  []Event // in the order of Seq
	expired int64
	exists  bool // it has had an event
}

func (m *model) deleteIf(gone func(Event) bool) { m.events = slices.DeleteFunc(m.events, gone) }

func (m *model) read(r Range) []Event {
	var found []Event
	for _, e := range m.events {
		p := Position{e.Timestamp, e.Seq}
		behind := r.After == nil || p.Compare(*r.After) > 0
		if r.Backward {
			behind = r.After == nil || p.Compare(*r.After) < 0
		}
		if e.Timestamp >= r.From && e.Timestamp < r.To && behind && (r.Streams == nil || r.Streams(e.Stream)) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b Event) int {
		c := cmp.Or(cmp.Compare(a.Timestamp, b.Timestamp), cmp.Compare(a.Seq, b.Seq))
		if r.Backward {
			return -c
		}
		return c
	})
	return found
}

func (m *model) stats() (all GroupStat, streams map[StreamID]StreamStat) {
	streams = map[StreamID]StreamStat{}
	for _, e := range m.events {
		st, known := streams[e.Stream]
		streams[e.Stream] = st.withEvent(&e, known)
		if all.Events == 0 {
			all.First, all.Last = e.Timestamp, e.Timestamp
		}
		all.Events++
		all.StoredBytes += int64(len(e.Message)) + 26
		all.First, all.Last = min(all.First, e.Timestamp), max(all.Last, e.Timestamp)
	}
	return all, streams
}

func TestStoreEqualsModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			compareWithModel(t, rand.New(rand.NewPCG(seed, 7)))
		})
	}
}

func compareWithModel(t *testing.T, random *rand.Rand) {
	const g = GroupID(7)
	dir := t.TempDir()
	o := Options{SealBytes: 8 << 10}
	s := open(t, dir, o)
	m := &model{expired: never}
	now := int64(1000)
	for step := range 150 {
		switch n := random.IntN(100); {
		case n < 70:
			now += int64(random.IntN(300))
			events := make([]Event, 1+random.IntN(40))
			for i := range events {
				events[i] = Event{
					Stream: StreamID(1 + random.IntN(5)), Timestamp: now - int64(random.IntN(500)), Ingested: now,
					Message: randomMessage(random),
				}
			}
			before := s.LastSeq(g)
			first, err := s.Append(t.Context(), Batch{Group: g, Events: events})
			if err != nil {
				t.Fatal(err)
			}
			if first != before+1 {
				t.Fatalf("the first Seq is %d, after %d", first, before)
			}
			m.exists = true
			for i, e := range events {
				if e.Seq = first + uint64(i); e.Timestamp >= m.expired {
					m.events = append(m.events, e)
				}
			}
		case n < 74:
			stream := StreamID(1 + random.IntN(5))
			if err := s.DeleteStream(g, stream); err != nil {
				t.Fatal(err)
			}
			m.deleteIf(func(e Event) bool { return e.Stream == stream })
		case n < 78:
			before := now - int64(random.IntN(4000))
			if err := s.Expire(g, before); err != nil {
				t.Fatal(err)
			}
			if m.exists {
				m.expired = max(m.expired, before)
			}
			m.deleteIf(func(e Event) bool { return e.Timestamp < before })
		case n < 79:
			if err := s.DeleteGroup(g); err != nil {
				t.Fatal(err)
			}
			*m = model{expired: never}
		case n < 83:
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, o)
		default:
			compareReads(t, random, s, g, m, now)
		}
		if t.Failed() {
			t.Fatalf("after step %d", step)
		}
	}
	waitFor(t, s, g, func(g *group) bool { return g.unsealed < o.SealBytes })
	compareReads(t, random, s, g, m, now)
	compareView(t, s, g, m)
}

func compareReads(t *testing.T, random *rand.Rand, s *Store, g GroupID, m *model, now int64) {
	t.Helper()
	r := Range{From: 0, To: 1 << 60, Backward: random.IntN(2) == 0}
	if random.IntN(2) == 0 {
		r.From = random.Int64N(now)
		r.To = r.From + random.Int64N(now)
	}
	if random.IntN(3) == 0 {
		wanted := StreamID(1 + random.IntN(5))
		r.Streams = func(s StreamID) bool { return s == wanted }
	}
	if random.IntN(3) == 0 && len(m.events) > 0 {
		e := m.events[random.IntN(len(m.events))]
		r.After = &Position{e.Timestamp, e.Seq}
	}
	var got []Event
	for e, err := range s.Events(t.Context(), g, r) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if diff := gocmp.Diff(m.read(r), got); diff != "" {
		t.Errorf("events of %+v (-want +got):\n%s", r, diff)
	}

	var after uint64
	if len(m.events) > 0 {
		after = m.events[random.IntN(len(m.events))].Seq - uint64(random.IntN(2))
	}
	var since []Event
	for {
		some, err := s.Since(t.Context(), g, after, 1+random.IntN(50))
		if err != nil {
			t.Fatal(err)
		}
		if len(some) == 0 {
			break
		}
		since = append(since, some...)
		after = some[len(some)-1].Seq
	}
	var want []Event
	if len(since) > 0 {
		want = m.events[slices.IndexFunc(m.events, func(e Event) bool { return e.Seq == since[0].Seq }):]
	}
	if diff := gocmp.Diff(want, since); diff != "" {
		t.Errorf("events since (-want +got):\n%s", diff)
	}

	all, streams := m.stats()
	if diff := gocmp.Diff(all, s.GroupStat(g)); diff != "" {
		t.Errorf("statistics of the group (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff(slices.Sorted(maps.Keys(streams)), s.Streams(g)); diff != "" {
		t.Errorf("streams (-want +got):\n%s", diff)
	}
	for id, want := range streams {
		got, _ := s.StreamStat(g, id)
		got.LastIngested = want.LastIngested // may be of an event that expired
		got.Last = max(got.Last, want.Last)
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("statistics of stream %d (-want +got):\n%s", id, diff)
		}
	}
	if len(m.events) > 0 {
		want := m.events[random.IntN(len(m.events))]
		got, found, err := s.Event(g, Position{want.Timestamp, want.Seq})
		if err != nil || !found || got != want {
			t.Errorf("event %+v: got %+v, %v, %v", want, got, found, err)
		}
		if _, found, err := s.Event(g, Position{want.Timestamp + 1, want.Seq}); found || err != nil {
			t.Errorf("an event that isn't there: %v, %v", found, err)
		}
	}
}

// compareView compares each row of each block with the model, and columns and words with what a slow
// reader of the message finds.
func compareView(t *testing.T, s *Store, g GroupID, m *model) {
	t.Helper()
	v, err := s.View(g, 0, 1<<60)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	left := map[uint64]Event{}
	for _, e := range m.events {
		left[e.Seq] = e
	}
	for _, b := range v.Blocks() {
		rows, err := b.Rows()
		if err != nil {
			t.Fatal(err)
		}
		messages, err := b.Messages()
		if err != nil {
			t.Fatal(err)
		}
		raw := int64(0)
		for i := range b.Len() {
			message := messages.At(i)
			raw += int64(len(message))
			if len(message) != int(rows.Size[i]) {
				t.Errorf("size %d of a message of %d", rows.Size[i], len(message))
			}
			if rows.Timestamp[i] < b.MinTime() || rows.Timestamp[i] > b.MaxTime() {
				t.Errorf("time %d is not in the block's time from %d to %d", rows.Timestamp[i], b.MinTime(),
					b.MaxTime())
			}
			want, there := left[rows.Seq[i]]
			delete(left, rows.Seq[i])
			if live := rows.Live == nil || rows.Live(i); live != there {
				t.Errorf("row with Seq %d: live is %v", rows.Seq[i], live)
			} else if got := (Event{rows.Stream[i], rows.Timestamp[i], rows.Ingested[i], rows.Seq[i],
				string(message)}); live && got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			tokenizer.Each(message, func(w []byte) bool {
				if !b.MayContain(string(w)) {
					t.Errorf("the filter denies the word %q of %q", w, message)
				}
				return true
			})
		}
		if raw != b.RawBytes() {
			t.Errorf("%d bytes of messages, %d in the block", raw, b.RawBytes())
		}
		var all [][]byte
		for i := range b.Len() {
			all = append(all, bytes.Clone(messages.At(i)))
		}
		messages.Release()
		checkColumns(t, all, b.Column)
	}
	if len(left) > 0 {
		t.Errorf("%d events are in no block", len(left))
	}
}

// checkColumns asks for all paths that the messages have and some that they don't, and compares what
// is offered with every reading of the path that any reader may come to.
func checkColumns(t testing.TB, messages [][]byte, column func(string) (*Column, bool, error)) (offered int) {
	t.Helper()
	paths := map[string]bool{"a": true, "a.b": true, "a.b.c": true, "verb": true, "requestObject.x": true, "x.9": true,
		"x.00": true, "": true, "nothing.here": true}
	trees := make([]any, len(messages))
	for i, m := range messages {
		if tree, ok := parse(m); ok {
			trees[i] = tree
			collect(tree, "", paths)
		}
	}
	for path := range paths {
		c, ok, err := column(path)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			continue
		}
		offered++
		if len(c.Codes) != len(messages) {
			t.Fatalf("column %q has %d rows of %d", path, len(c.Codes), len(messages))
		}
		for i, code := range c.Codes {
			got := "absent"
			if code != NoValue {
				got = c.Values[code]
			}
			readings := map[string]bool{}
			resolve(trees[i], path, readings)
			if len(readings) == 0 {
				readings["absent"] = true
			}
			if len(readings) != 1 || !readings[got] {
				t.Errorf("column %q says %s of %q, where a reader sees %q", path, got, messages[i],
					slices.Collect(maps.Keys(readings)))
			}
		}
	}
	return offered
}

// member is a key and a value of an object; members keep what a map would lose.
type member struct {
	key   string
	value any
}
type members []member
type elements []any
type scalar string

func parse(m []byte) (any, bool) {
	if !json.Valid(m) {
		return nil, false
	}
	tree, err := parseValue(m)
	_, object := tree.(members)
	return tree, err == nil && object
}

func parseValue(raw json.RawMessage) (any, error) {
	raw = bytes.TrimSpace(raw)
	if raw[0] != '{' && raw[0] != '[' {
		return scalar(raw), nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	open, err := d.Token()
	if err != nil {
		return nil, err
	}
	var object members
	var array elements
	for d.More() {
		var key any
		if open == json.Delim('{') {
			if key, err = d.Token(); err != nil {
				return nil, err
			}
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		value, err := parseValue(raw)
		if err != nil {
			return nil, err
		}
		if open == json.Delim('{') {
			object = append(object, member{key.(string), value})
		} else {
			array = append(array, value)
		}
	}
	if open == json.Delim('{') {
		return object, nil
	}
	return array, nil
}

func collect(tree any, prefix string, paths map[string]bool) {
	add := func(key string, value any) {
		path := strings.TrimPrefix(prefix+"."+key, ".")
		paths[path] = true
		paths[path+".no"] = true
		collect(value, path, paths)
	}
	switch tree := tree.(type) {
	case members:
		for _, m := range tree {
			add(m.key, m.value)
		}
	case elements:
		for i, e := range tree {
			add(strconv.Itoa(i), e)
		}
	}
}

// resolve records all values that a path may be read as.
func resolve(tree any, path string, readings map[string]bool) {
	step := func(key string, value any) {
		if path == key {
			switch value := value.(type) {
			case scalar:
				readings[string(value)] = true
			default:
				readings[fmt.Sprintf("%T", value)] = true
			}
		} else if rest, ok := strings.CutPrefix(path, key+"."); ok {
			resolve(value, rest, readings)
		}
	}
	switch tree := tree.(type) {
	case members:
		for _, m := range tree {
			step(m.key, m.value)
		}
	case elements:
		first, _, _ := strings.Cut(path, ".")
		if i, err := strconv.Atoi(first); err == nil && i >= 0 && i < len(tree) {
			step(first, tree[i])
		}
	}
}

// randomMessage returns JSON, often ordinary, sometimes nasty, and sometimes text that is not JSON.
func randomMessage(r *rand.Rand) string {
	switch r.IntN(40) {
	case 0:
		return randomJSON(r, 0)
	case 1:
		return "plain text with words " + strconv.Itoa(r.IntN(1000))
	case 2:
		return []string{"", `{`, `{"a":1} x`, `[1,2]`, `{"a":01}`, "I {\"a\":1}", `{"a":"\x"}`, "{\"a\":\"\x01\"}",
			`{"a":1,}`}[r.IntN(9)]
	}
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	return fmt.Sprintf(
		`{"verb":"%s","user":{"username":"u%d","groups":["g%d","g"]},"objectRef":{"name":"n-%d"},"code":%d%s}`,
		pick("get", "list"), r.IntN(4), r.IntN(3), r.IntN(50), 200+r.IntN(3), pick("", `,"annotations":{"a.b/c":"x"}`,
			`,"requestObject":{"x":{"y":1}}`))
}

func randomJSON(r *rand.Rand, depth int) string {
	keys := []string{"a", "b", "a.b", "b.c", "a.b.c", "", ".", "a.", "0", "1", "00", "verb", "requestObject", `\u0061`,
		"é", "c", "x", "-1"}
	space := []string{"", "", " ", "\n\t"}[r.IntN(4)]
	n := r.IntN(5)
	if r.IntN(20) == 0 {
		n = 12
	}
	var parts []string
	kind := r.IntN(4)
	if depth == 0 {
		kind = 0
	}
	switch {
	case kind == 0 && depth < 6:
		for range n {
			parts = append(parts, `"`+keys[r.IntN(len(keys))]+`":`+space+randomJSON(r, depth+1))
		}
		return "{" + space + strings.Join(parts, space+","+space) + space + "}"
	case kind == 1 && depth < 6:
		for range n {
			parts = append(parts, randomJSON(r, depth+1))
		}
		return "[" + space + strings.Join(parts, ","+space) + space + "]"
	}
	return []string{"1", "-0.5e+3", "true", "false", "null", `"s"`, `"\"quoted\" \\ \u00e9"`, `"é"`, `""`,
		"12345678901234567890"}[r.IntN(10)]
}

func TestColumnsEqualSlowReader(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	offered := 0
	for range 2000 {
		messages := make([][]byte, 1+random.IntN(6))
		for i := range messages {
			messages[i] = []byte(randomJSON(random, 0))
			if random.IntN(3) == 0 {
				messages[i] = []byte(randomMessage(random))
			}
		}
		offered += checkColumns(t, messages, extracted(messages))
		if t.Failed() {
			return
		}
	}
	if offered < 1000 {
		t.Errorf("only %d columns were offered", offered)
	}
}

// extracted offers the columns of messages as a block that holds them does.
func extracted(messages [][]byte) func(string) (*Column, bool, error) {
	x := newExtractor()
	for _, m := range messages {
		x.add(m)
	}
	kept, opaque, all := x.columns(1 << 20)
	return func(path string) (*Column, bool, error) {
		for _, k := range kept {
			if k.path == path {
				return &k.Column, true, nil
			}
		}
		if all && isAbsent(path, opaque) {
			return &Column{Codes: slices.Repeat([]uint16{NoValue}, len(messages))}, true, nil
		}
		return nil, false, nil
	}
}

func FuzzColumns(f *testing.F) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 30 {
		f.Add(randomJSON(random, 0), randomMessage(random))
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		messages := [][]byte{[]byte(a), []byte(b)}
		checkColumns(t, messages, extracted(messages))
	})
}

func TestAuditEventsHaveTheColumnsThatQueriesAsk(t *testing.T) {
	t.Parallel()
	var messages [][]byte
	for _, m := range corpus(t, 1500) {
		messages = append(messages, []byte(m))
	}
	column := extracted(messages)
	for _, path := range []string{
		"level", "stage", "verb", "user.username", "user.groups.0", "sourceIPs.0", "userAgent", "objectRef.resource",
		"objectRef.namespace", "objectRef.name",
		"objectRef.apiGroup", "objectRef.subresource", "responseStatus.code",
		"annotations.authorization.k8s.io/decision", "requestObject.data.mapRoles",
	} {
		if _, ok, _ := column(path); ok == (path == "requestObject.data.mapRoles") &&
			bytes.Contains(bytes.Join(messages, nil), []byte("requestObject")) {
			t.Errorf("column %s: %v", path, ok)
		} else if !ok && path != "requestObject.data.mapRoles" {
			t.Errorf("column %s is not kept", path)
		}
	}
	checkColumns(t, messages[:200], extracted(messages[:200]))
}
