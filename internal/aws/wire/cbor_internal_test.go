package wire

import (
	"bytes"
	"math"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/wire/model"
)

// cborRequest returns the operation that a body is for, and the body in a request.
func cborRequest(t testing.TB, body []byte) (*operation, *request) {
	t.Helper()
	schema, ok := model.Load(CloudWatch.Name).Operation("GetMetricData")
	if !ok {
		t.Fatal("there is no operation GetMetricData")
	}
	op := newOperation(CloudWatch, "GetMetricData", schema, nil)
	op.input = plannerOf(CloudWatch).planFor(reflect.TypeFor[cloudwatch.GetMetricDataInput](), schema.Input)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://coracle.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	return op, &request{Request: r, body: body}
}

func TestMalformedCBOR(t *testing.T) {
	t.Parallel()
	encode := func(value any) []byte {
		b, err := cbor.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	nested := append(bytes.Repeat([]byte{0x81}, maxDepth+1), 0xf6)
	for name, test := range map[string]struct {
		body []byte
		want string
	}{
		"cut":              {[]byte{0xa1, 0x67}, "is not CBOR"},
		"more":             {[]byte{0xa0, 0xa0}, "is not CBOR"},
		"a list":           {encode([]int{1}), "Expected a structure"},
		"a long list":      {[]byte{0x9b, 0, 0, 0, 1, 0, 0, 0, 0}, "is not CBOR"},
		"a long text":      {[]byte{0x7b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 'x'}, "is not CBOR"},
		"nested":           {nested, "is not CBOR"},
		"a member twice":   {[]byte{0xa2, 0x61, 'a', 1, 0x61, 'a', 2}, "is not CBOR"},
		"a key of numbers": {[]byte{0xa1, 1, 2}, "is not CBOR"},
		"a number":         {encode(map[string]any{"NextToken": 5}), "Expected a string"},
		"a large number":   {encode(map[string]any{"MaxDatapoints": uint64(1) << 40}), "Expected an integer"},
		"a part of one":    {encode(map[string]any{"MaxDatapoints": 1.5}), "Expected an integer"},
		"not a time":       {encode(map[string]any{"StartTime": "now"}), "Expected a timestamp"},
		"a time without a tag": {encode(map[string]any{"StartTime": 5}),
			"Expected a timestamp"},
		"a late time":     {encode(map[string]any{"StartTime": cbor.Tag{Number: 1, Content: 1e300}}), ""},
		"a time of NaN":   {encode(map[string]any{"StartTime": cbor.Tag{Number: 1, Content: math.NaN()}}), ""},
		"a large integer": {[]byte{0xa1, 0x69, 'N', 'e', 'x', 't', 'T', 'o', 'k', 'e', 'n', 0xc2, 0x41, 1}, "is not CBOR"},
		"many values":     {encode(map[string]any{"MetricDataQueries": make([]int, maxNodes+1)}), "more than"},
	} {
		op, r := cborRequest(t, test.body)
		var in cloudwatch.GetMetricDataInput
		err := rpcCBOR{}.decodeRequest(op, r, reflect.ValueOf(&in))
		if test.want == "" { // a time that there is, or an error
			if err == nil && in.StartTime != nil && in.StartTime.Year() > 9999 {
				t.Errorf("%s: %v", name, in.StartTime)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want …%s…", name, err, test.want)
		}
	}
}

// TestFormsOfCBOR reads what encoders may write differently: lists and texts of unknown length, numbers of any width.
func TestFormsOfCBOR(t *testing.T) {
	t.Parallel()
	body := []byte("\xbf" + // a map
		"\x69NextToken" + "\x7f\x62ab\x61c\xff" + // a text in parts
		"\x6dMaxDatapoints" + "\xfb\x40\x14\x00\x00\x00\x00\x00\x00" + // 5.0
		"\x69StartTime" + "\xc1\xfb\x41\xda\xc3\x3f\xe0\x10\x00\x00" + // with a fraction of a second
		"\x67EndTime" + "\xf6" + // null
		"\x67Unknown" + "\x9f\x01\xff" +
		"\xff")
	op, r := cborRequest(t, body)
	var in cloudwatch.GetMetricDataInput
	if err := (rpcCBOR{}).decodeRequest(op, r, reflect.ValueOf(&in)); err != nil {
		t.Fatal(err)
	}
	if *in.NextToken != "abc" || *in.MaxDatapoints != 5 || in.EndTime != nil || in.StartTime == nil {
		t.Errorf("got %+v", in)
	}
}

func TestValuesOfCBORAreCounted(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		body string
		want int
	}{
		{"", 0}, {"\xa1\x61a\x01", 3}, {"\x83\x01\x02\x03", 4}, {"\xc1\xfb\x41\xda\xc3\x3f\xe0\x10\x00\x00", 2},
		{"\x63abc", 1}, {"\x78\x03abc\xf6", 2}, {"\x7b\xff\xff\xff\xff\xff\xff\xff\xffabc", 1}, {"\x9f\x01\xff", 3},
		{"\x1b\x01", 1},
	} {
		if got := countCBOR([]byte(test.body)); got != test.want {
			t.Errorf("%x: counted %d, want %d", test.body, got, test.want)
		}
	}
}

// FuzzCBOR decodes what strangers may send: it ends, with an input or an error, and what was read can be sent.
func FuzzCBOR(f *testing.F) {
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, value := range []any{map[string]any{"NextToken": "x", "MaxDatapoints": 5},
		map[string]any{"StartTime": cbor.Tag{Number: 1, Content: start.Unix()}}, []int{1}} {
		b, err := cbor.Marshal(value)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		op, r := cborRequest(t, body)
		var in cloudwatch.GetMetricDataInput
		if (rpcCBOR{}).decodeRequest(op, r, reflect.ValueOf(&in)) != nil {
			return
		}
		op, r = cborRequest(t, appendCBORMembers(nil, op.input, reflect.ValueOf(in), false))
		var again cloudwatch.GetMetricDataInput
		if err := (rpcCBOR{}).decodeRequest(op, r, reflect.ValueOf(&again)); err != nil {
			t.Fatalf("what we write is not read: %v", err)
		}
		if d := cmp.Diff(appendCBORMembers(nil, op.input, reflect.ValueOf(in), false),
			appendCBORMembers(nil, op.input, reflect.ValueOf(again), false)); d != "" {
			t.Fatalf("what was written is read as something else:\n%s", d)
		}
	})
}
