package proof

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// snapshot is a request or response as the SDK's snapshot files have it: a first line, headers and body, with empty
// lines between.
type snapshot struct {
	first  string
	header http.Header
	body   []byte
}

func readSnapshot(path string) (*snapshot, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	rest = bytes.TrimPrefix(rest, []byte("\n"))
	s := &snapshot{first: string(first), header: http.Header{}}
	for {
		line, after, ok := bytes.Cut(rest, []byte("\n"))
		name, value, isHeader := bytes.Cut(line, []byte(": "))
		if !ok || !isHeader || bytes.ContainsAny(name, "{&=") {
			break
		}
		s.header.Add(string(name), string(value))
		rest = after
	}
	s.body = bytes.TrimPrefix(rest, []byte("\n"))
	return s, nil
}

// notInInput are parameters that the SDK sends and keeps in an unexported field: what the handler gets cannot hold
// them.
var notInInput = map[string]string{
	// for the presigned URL; the region of the request's signature says the same
	"ec2.CopySnapshot": "DestinationRegion",
}

// olderThanSnapshots are the services whose module here ships no snapshots of requests: it is older.
var olderThanSnapshots = map[*wire.Service]bool{wire.CloudTrail: true, wire.EKSAuth: true, wire.Shield: true,
	wire.WAFRegional: true, wire.WAFv2: true}

func TestRequestSnapshots(t *testing.T) {
	r := theRig()
	files := map[*wire.Service]map[string]string{}
	for _, s := range wire.Services() {
		files[s] = snapshots(t, s, "request_snapshot", ".request.snap")
		if len(files[s]) == 0 && !olderThanSnapshots[s] {
			t.Fatalf("the module of %s ships no request snapshots", s.Name)
		}
	}
	r.each(t, "request snapshots", func(t *testing.T, op wire.Operation) error {
		path, ok := files[op.Service][op.Name]
		if !ok && (op.EventStream || olderThanSnapshots[op.Service]) {
			// The SDK ships none for these. What it sends instead of one:
			return r.roundTrip(t, op, r.sent(t, op))
		}
		if !ok {
			return errors.New("the SDK ships no request snapshot")
		}
		snap, err := readSnapshot(path)
		if err != nil {
			return err
		}
		return r.roundTrip(t, op, snap)
	})
}

// sent is the request that the SDK sends for a generated input.
func (r *rig) sent(t *testing.T, op wire.Operation) *snapshot {
	t.Helper()
	in, _ := r.types(op)
	input := reflect.New(in)
	newFiller(op.Name).fill(input.Elem())
	var c capture
	_, err := r.call(context.WithValue(t.Context(), captureKey{}, &c), op, input.Interface())
	if !errors.Is(err, errCaptured) {
		t.Fatalf("%s: the SDK did not send it: %v", op.Name, err)
	}
	snap := &snapshot{first: c.request.Method + " " + c.request.URL.RequestURI(), header: http.Header{}, body: c.body}
	for _, name := range []string{"Content-Type", "X-Amz-Target"} {
		snap.header.Set(name, c.request.Header.Get(name))
	}
	return snap
}

// roundTrip decodes a request and lets the SDK send what was decoded.
func (r *rig) roundTrip(t *testing.T, op wire.Operation, snap *snapshot) error {
	method, uri, _ := strings.Cut(snap.first, " ")
	req, err := http.NewRequest(method, "http://coracle.test"+uri, bytes.NewReader(snap.body))
	if err != nil {
		return err
	}
	req.Header = snap.header.Clone()
	name, input, err := r.mux.Decode(op.Service, req)
	if err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if name != op.Name {
		return fmt.Errorf("routed to %s", name)
	}
	var got capture
	if _, err := r.call(context.WithValue(t.Context(), captureKey{}, &got), op, input); !errors.Is(err, errCaptured) {
		return fmt.Errorf("the SDK did not send it again: %w", err)
	}
	if got.request.Method != method {
		return fmt.Errorf("method %s, want %s", got.request.Method, method)
	}
	want := req.URL
	if got.request.URL.EscapedPath() != want.EscapedPath() {
		return fmt.Errorf("path %s, want %s", got.request.URL.EscapedPath(), want.EscapedPath())
	}
	if d := cmp.Diff(want.Query(), got.request.URL.Query()); d != "" {
		return fmt.Errorf("query (-want +got):\n%s", d)
	}
	for name := range snap.header {
		if got.request.Header.Get(name) != snap.header.Get(name) {
			return fmt.Errorf("header %s is %q, want %q", name, got.request.Header.Get(name), snap.header.Get(name))
		}
	}
	wantBody, err := canonical(snap.header, snap.body)
	if err != nil {
		return err
	}
	gotBody, err := canonical(snap.header, got.body)
	if err != nil {
		return err
	}
	if hidden := notInInput[op.Service.Name+"."+op.Name]; hidden != "" {
		wantBody.(url.Values).Del(hidden)
		gotBody.(url.Values).Del(hidden)
	}
	if d := cmp.Diff(wantBody, gotBody); d != "" {
		return fmt.Errorf("body (-want +got):\n%s", d)
	}

	// Our own client side, which tests of authorization use, sends the same.
	ours, err := op.NewRequest("http://coracle.test", input)
	if err != nil {
		return err
	}
	again, inputAgain, err := r.mux.Decode(op.Service, ours)
	if err != nil || again != op.Name {
		return fmt.Errorf("our own request is decoded as %s: %w", again, err)
	}
	if d := cmp.Diff(input, inputAgain, exported); d != "" {
		return fmt.Errorf("our own request (-want +got):\n%s", d)
	}
	return nil
}

// canonical is a body in a form in which order and spacing do not count.
func canonical(header http.Header, body []byte) (any, error) {
	switch {
	case strings.HasPrefix(header.Get("Content-Type"), "application/x-www-form-urlencoded"):
		return url.ParseQuery(string(body))
	case len(body) == 0:
		return nil, nil
	case header.Get("Smithy-Protocol") == "rpc-v2-cbor":
		mode, err := cbor.DecOptions{DefaultMapType: reflect.TypeFor[map[string]any]()}.DecMode()
		if err != nil {
			return nil, err
		}
		var v any
		if err := mode.Unmarshal(body, &v); err != nil {
			return nil, fmt.Errorf("%x: %w", body, err)
		}
		return v, nil
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("%q: %w", body, err)
	}
	return v, nil
}

// The services with schemas ship response snapshots too: decoded by the SDK and encoded by us, they come out as they
// were.
func TestResponseSnapshots(t *testing.T) {
	r := theRig()
	for _, service := range wire.Services() {
		files := snapshots(t, service, "response_snapshot", ".response.snap")
		if len(files) == 0 {
			continue
		}
		t.Run(service.Name, func(t *testing.T) {
			passed, total := 0, 0
			for name, path := range files {
				op, ok := r.ops[service.Name+"."+name]
				if !ok {
					t.Errorf("%s is not an operation", name)
					continue
				}
				total++
				if err := r.answerAgain(t, op, path); err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				passed++
			}
			fmt.Printf("%-24s response snapshots: %d of %d\n", service.Name, passed, total)
		})
	}
}

func (r *rig) answerAgain(t *testing.T, op wire.Operation, path string) error {
	snap, err := readSnapshot(path)
	if err != nil {
		return err
	}
	status, err := strconv.Atoi(snap.first)
	if err != nil {
		return err
	}
	ctx := context.WithValue(t.Context(), replyKey{}, reply(status, snap.header, snap.body))
	in, _ := r.types(op)
	out, err := r.call(ctx, op, reflect.New(in).Interface())
	if err != nil {
		return fmt.Errorf("the SDK does not read its own snapshot: %w", err)
	}
	r.answers.Store(op.Service.Name+"."+op.Name, func(any) (any, error) { return out, nil })
	_, body, err := r.rawWithStatus(t, op, status)
	if err != nil {
		return err
	}
	want, err := canonical(snap.header, snap.body)
	if err != nil {
		return err
	}
	have, err := canonical(snap.header, body)
	if err != nil {
		return err
	}
	if want == nil {
		want = map[string]any{} // an empty answer may be no body or an empty structure
	}
	if d := cmp.Diff(want, have); d != "" {
		return fmt.Errorf("body (-want +got):\n%s", d)
	}
	return nil
}

// raw sends a minimal request through the SDK's signer and returns our response as it is on the wire.
func (r *rig) raw(t *testing.T, op wire.Operation) (*http.Response, error) {
	var c capture
	_, err := r.call(context.WithValue(t.Context(), captureKey{}, &c), op, op.MinimalInput())
	if !errors.Is(err, errCaptured) {
		return nil, err
	}
	req := c.request.Clone(t.Context())
	req.Body = http.NoBody
	if c.body != nil {
		req.Body = reply(0, nil, c.body).Body
	}
	return r.mux.Transport().RoundTrip(req)
}

// rawWithStatus returns the header and the body of an answer as raw does, and an error unless it has the status.
func (r *rig) rawWithStatus(t *testing.T, op wire.Operation, status int) (http.Header, []byte, error) {
	got, err := r.raw(t, op)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(got.Body)
	if err == nil && got.StatusCode != status {
		err = fmt.Errorf("status %d, want %d", got.StatusCode, status)
	}
	return got.Header, body, err
}

// The error snapshots of the services that ship them: read by the SDK, rendered by us, they come out with the same
// status and members.
func TestErrorSnapshots(t *testing.T) {
	r := theRig()
	passed, total := map[string]int{}, map[string]int{}
	var order []string
	files := map[string]map[string]string{}
	for _, s := range wire.Services() {
		if files[s.Name] = snapshots(t, s, "response_snapshot", ".error.snap"); len(files[s.Name]) > 0 {
			order = append(order, s.Name)
		}
	}
	for _, e := range modelledErrors {
		path, ok := files[e.service][e.typ.Name()]
		if !ok {
			continue
		}
		total[e.service]++
		if err := r.errorAgain(t, r.ops[e.service+"."+e.operation], e.typ, path); err != nil {
			t.Errorf("%s: %s: %v", e.service, e.typ.Name(), err)
			continue
		}
		passed[e.service]++
	}
	for _, s := range order {
		if total[s] != len(files[s]) {
			t.Errorf("%s: %d error snapshots, of which %d belong to a modeled error", s, len(files[s]), total[s])
		}
		fmt.Printf("%-24s error snapshots: %d of %d\n", s, passed[s], total[s])
	}
}

func (r *rig) errorAgain(t *testing.T, op wire.Operation, typ reflect.Type, path string) error {
	snap, err := readSnapshot(path)
	if err != nil {
		return err
	}
	status, err := strconv.Atoi(snap.first)
	if err != nil {
		return err
	}
	in, _ := r.types(op)
	_, err = r.call(context.WithValue(t.Context(), replyKey{}, reply(status, snap.header, snap.body)), op,
		reflect.New(in).Interface())
	read := reflect.New(reflect.PointerTo(typ))
	if !errors.As(err, read.Interface()) {
		return fmt.Errorf("the SDK does not read its own snapshot: %w", err)
	}
	r.answers.Store(op.Service.Name+"."+op.Name, func(any) (any, error) { return nil, read.Elem().Interface().(error) })
	header, body, err := r.rawWithStatus(t, op, status)
	if err != nil {
		return err
	}
	want, err := canonical(snap.header, snap.body)
	if err != nil {
		return err
	}
	have, err := canonical(header, body)
	if err != nil {
		return err
	}
	// The name may come with its namespace; clients cut it off.
	if object := have.(map[string]any); object["__type"] != nil {
		_, name, ok := strings.Cut(object["__type"].(string), "#")
		if ok {
			object["__type"] = name
		}
	}
	if d := cmp.Diff(want, have); d != "" {
		return fmt.Errorf("body (-want +got):\n%s", d)
	}
	return nil
}
