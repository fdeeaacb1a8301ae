package proof

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// Each fuzz target takes a first line (method and URI), the X-Amz-Target header and a body. What decodes must, encoded and decoded again, encode to the same request:
//
//	go test ./internal/aws/wire/proof -run XXX -fuzz FuzzEC2Query -fuzztime 1m

func FuzzRestJSON(f *testing.F) { fuzzDecoder(f, wire.EKS) }
func FuzzAwsJSON(f *testing.F)  { fuzzDecoder(f, wire.SSM, wire.SQS) }
func FuzzQuery(f *testing.F)    { fuzzDecoder(f, wire.IAM, wire.CloudFormation) }
func FuzzEC2Query(f *testing.F) { fuzzDecoder(f, wire.EC2) }

func fuzzDecoder(f *testing.F, services ...*wire.Service) {
	r := theRig()
	for _, s := range services {
		for _, path := range snapshots(f, s, "request_snapshot", ".request.snap") {
			snap, err := readSnapshot(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(snap.first, snap.header.Get("X-Amz-Target"), snap.body)
		}
	}
	f.Fuzz(func(t *testing.T, first, target string, body []byte) {
		method, uri, _ := strings.Cut(first, " ")
		req, err := http.NewRequest(method, "http://coracle.test"+uri, bytes.NewReader(body))
		if err != nil {
			t.Skip("not an HTTP request")
		}
		if target != "" {
			req.Header.Set("X-Amz-Target", target)
		}
		for _, s := range services {
			name, input, err := r.mux.Decode(s, req)
			if err != nil {
				continue
			}
			once, err := r.ops[s.Name+"."+name].NewRequest("http://coracle.test", input)
			if err != nil {
				t.Skip("a label holds what no URI can")
			}
			if uri := once.URL.EscapedPath(); strings.Contains(uri, "//") || strings.Contains(uri, "{") || strings.HasSuffix(uri, "/") && uri != "/" {
				t.Skip("a label is empty")
			}
			first := text(t, once)
			nameAgain, inputAgain, err := r.mux.Decode(s, once)
			if err != nil || nameAgain != name {
				t.Fatalf("%s is sent again as %q: %v\n%s", name, nameAgain, err, first)
			}
			twice, err := r.ops[s.Name+"."+name].NewRequest("http://coracle.test", inputAgain)
			if err != nil {
				t.Fatal(err)
			}
			if second := text(t, twice); second != first {
				t.Fatalf("%s is sent as\n%s\nand then as\n%s", name, first, second)
			}
		}
	})
}

// text is a request as it is sent; its body can still be read.
func text(t *testing.T, r *http.Request) string {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r.Method + " " + r.URL.RequestURI() + "\n" + string(body)
}
