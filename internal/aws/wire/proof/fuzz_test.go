package proof

import (
	"bytes"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// Each fuzz target takes a first line (method and URI), the X-Amz-Target header and a body. What decodes must, encoded
// and decoded again, encode to the same request:
//
//	go test ./internal/aws/wire/proof -run XXX -fuzz FuzzEC2Query -fuzztime 1m

func FuzzRestJSON(f *testing.F) { fuzzDecoder(f, wire.EKS) }
func FuzzAwsJSON(f *testing.F)  { fuzzDecoder(f, wire.SSM, wire.SQS, wire.Logs, wire.ECR) }
func FuzzQuery(f *testing.F) {
	fuzzDecoder(f, wire.IAM, wire.CloudFormation, wire.STS, wire.AutoScaling)
}
func FuzzEC2Query(f *testing.F) { fuzzDecoder(f, wire.EC2) }

func fuzzDecoder(f *testing.F, services ...*wire.Service) {
	r := theRig()
	for _, s := range seeds(f, services...) {
		f.Add(s.first, s.target, s.body)
	}
	f.Fuzz(func(t *testing.T, first, target string, body []byte) {
		r.survives(t, services, seed{first, target, body})
	})
}

// seed is a request as the fuzz targets take it.
type seed struct {
	first, target string
	body          []byte
}

func seeds(t testing.TB, services ...*wire.Service) []seed {
	var list []seed
	for _, s := range services {
		files := snapshots(t, s, "request_snapshot", ".request.snap")
		for _, name := range slices.Sorted(maps.Keys(files)) {
			snap, err := readSnapshot(files[name])
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, seed{snap.first, snap.header.Get("X-Amz-Target"), snap.body})
		}
	}
	return list
}

// survives checks that a request does not make the decoder panic, and that what it decodes, encoded and decoded again,
// is encoded the same.
func (r *rig) survives(t testing.TB, services []*wire.Service, in seed) {
	method, uri, _ := strings.Cut(in.first, " ")
	for _, s := range services {
		req, err := http.NewRequest(method, "http://coracle.test"+uri, bytes.NewReader(in.body))
		if err != nil {
			return // not an HTTP request
		}
		if in.target != "" {
			req.Header.Set("X-Amz-Target", in.target)
		}
		name, input, err := r.mux.Decode(s, req)
		if err != nil {
			continue
		}
		once, err := r.ops[s.Name+"."+name].NewRequest("http://coracle.test", input)
		if err != nil {
			continue // a label holds what no URI can
		}
		if uri := once.URL.EscapedPath(); strings.Contains(uri, "//") || strings.Contains(uri, "{") ||
			strings.HasSuffix(uri, "/") && uri != "/" {
			continue // a label is empty
		}
		first := text(t, once)
		nameAgain, inputAgain, err := r.mux.Decode(s, once)
		if err != nil || nameAgain != name {
			t.Fatalf("%s is sent again as %q: %v\n%q\n%s", name, nameAgain, err, in.body, first)
		}
		twice, err := r.ops[s.Name+"."+name].NewRequest("http://coracle.test", inputAgain)
		if err != nil {
			t.Fatal(err)
		}
		if second := text(t, twice); second != first {
			t.Fatalf("%s from %q is sent as\n%s\nand then as\n%s", name, in.body, first, second)
		}
	}
}

// text is a request as it is sent; its body can still be read.
func text(t testing.TB, r *http.Request) string {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r.Method + " " + r.URL.RequestURI() + "\n" + string(body)
}

// The fuzz engine is slow on a binary of this size. Random damage to the snapshots finds the common mistakes in
// seconds; MUTATIONS sets how many requests are tried for each decoder.
func TestDamagedRequests(t *testing.T) {
	count := 4000
	if n, err := strconv.Atoi(os.Getenv("MUTATIONS")); err == nil {
		count = n
	}
	r := theRig()
	for _, services := range [][]*wire.Service{{wire.EKS}, {wire.SSM}, {wire.SQS}, {wire.Logs}, {wire.IAM},
		{wire.CloudFormation}, {wire.AutoScaling}, {wire.EC2}} {
		t.Run(services[0].Name, func(t *testing.T) {
			t.Parallel()
			list := seeds(t, services...)
			random := rand.New(rand.NewPCG(uint64(count), 1))
			for range count {
				in := list[random.IntN(len(list))]
				other := list[random.IntN(len(list))]
				for range 1 + random.IntN(4) {
					if random.IntN(3) == 0 {
						in.first = string(damage(random, []byte(in.first), []byte(other.first)))
					} else {
						in.body = damage(random, in.body, other.body)
					}
				}
				r.survives(t, services, in)
			}
		})
	}
}

// damage changes one place of a text: what protocols care about, bytes at random, or a piece of another text.
func damage(random *rand.Rand, text, other []byte) []byte {
	const delicate = `.,:;=&%+/{}[]"\'<>0123456789-eE \x00\xff`
	if len(text) == 0 {
		return bytes.Clone(other)
	}
	at := random.IntN(len(text))
	end := min(len(text), at+1+random.IntN(8))
	switch random.IntN(6) {
	case 0: // another character
		out := bytes.Clone(text)
		out[at] = delicate[random.IntN(len(delicate))]
		return out
	case 1: // a character more
		return slices.Insert(bytes.Clone(text), at, delicate[random.IntN(len(delicate))])
	case 2: // a piece less
		return slices.Delete(bytes.Clone(text), at, end)
	case 3: // a piece twice
		return slices.Insert(bytes.Clone(text), at, bytes.Clone(text[at:end])...)
	case 4: // the end missing
		return bytes.Clone(text[:at])
	}
	if len(other) == 0 {
		return text
	}
	from := random.IntN(len(other))
	return slices.Insert(bytes.Clone(text), at, other[from:min(len(other), from+random.IntN(40))]...)
}
