package sigv4_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/coracle-eks/coracle/internal/aws/wire/sigv4"
)

// The examples of https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html and
// https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming-trailers.html.
var (
	exampleTime   = time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)
	exampleSecret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	exampleChunks = []string{
		"10000;chunk-signature=%s\r\n" + strings.Repeat("a", 65536) + "\r\n",
		"400;chunk-signature=%s\r\n" + strings.Repeat("a", 1024) + "\r\n",
		"0;chunk-signature=%s\r\n",
	}
)

const exampleTrailer = "x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:%s\r\n\r\n"

func exampleRequest(payload, signature string) *http.Request {
	r := httptest.NewRequest(http.MethodPut, "https://s3.amazonaws.com/examplebucket/chunkObject.txt", http.NoBody)
	signed := "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;" +
		"x-amz-storage-class"
	r.Header.Set("Content-Encoding", "aws-chunked")
	r.ContentLength = 66824
	if strings.HasSuffix(payload, "TRAILER") {
		signed = "content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;" +
			"x-amz-storage-class;x-amz-trailer"
		r.Header.Set("X-Amz-Trailer", "x-amz-checksum-crc32c")
		r.ContentLength = -1
	}
	r.Header.Set("X-Amz-Date", "20130524T000000Z")
	r.Header.Set("X-Amz-Storage-Class", "REDUCED_REDUNDANCY")
	r.Header.Set("X-Amz-Content-Sha256", payload)
	r.Header.Set("X-Amz-Decoded-Content-Length", "66560")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"+
		"SignedHeaders="+signed+",Signature="+signature)
	return r
}

func readPayload(r *http.Request, body string) (read string, payload *sigv4.Payload, err error) {
	s, err := sigv4.Parse(r)
	if err != nil {
		return "", nil, err
	}
	payload, err = s.VerifyHead(iotest.HalfReader(strings.NewReader(body)), exampleSecret, exampleTime)
	if err != nil {
		return "", nil, err
	}
	all, err := io.ReadAll(payload)
	return string(all), payload, err
}

const (
	signedPayload  = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
	trailedPayload = signedPayload + "-TRAILER"
)

// exampleSignatures are those of the heads of the examples.
var exampleSignatures = map[string]string{
	signedPayload:  "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
	trailedPayload: "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e",
}

// examplePayloads returns the bodies of the examples.
func examplePayloads() (plain, behind string) {
	chunks := func(signatures ...string) (all string) {
		for i, signature := range signatures {
			all += fmt.Sprintf(exampleChunks[i], signature)
		}
		return all
	}
	return chunks("ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
			"0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
			"b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9") + "\r\n",
		chunks("b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
			"1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
			"2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992") + fmt.Sprintf(exampleTrailer,
			"d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435")
}

func TestStreamingPayloads(t *testing.T) {
	t.Parallel()
	const signed, trailed = signedPayload, trailedPayload
	plain, behind := examplePayloads()
	for _, test := range []struct {
		name, payload, body, code string
	}{
		{"signed chunks", signed, plain, ""},
		{"without the last line", signed, strings.TrimSuffix(plain, "\r\n"), ""},
		{"another byte", signed, strings.Replace(plain, "aa", "ab", 1), sigv4.SignatureDoesNotMatch},
		{"another last byte", signed, strings.Replace(plain, "a\r\n0;", "b\r\n0;", 1), sigv4.SignatureDoesNotMatch},
		{"another end", signed, strings.Replace(plain, "b6c6", "b6c7", 1), sigv4.SignatureDoesNotMatch},
		{"chunks in another order", signed, plain[65536+90:], sigv4.SignatureDoesNotMatch},
		{"no end", signed, plain[:65536+1024+175], "IncompleteBody"},
		{"cut", signed, plain[:65536], "IncompleteBody"},
		{"a size that is none", signed, "x" + plain, "InvalidRequest"},
		{"a negative size", signed, "-" + plain, "InvalidRequest"},
		{"a chunk that is too long", signed, strings.Replace(plain, "\r\n400;", "\r\n401;", 1), "IncompleteBody"},
		{"no signatures", signed, strings.ReplaceAll(plain, "chunk-signature", "x"), "InvalidRequest"},
		{"more behind it", signed, plain + "0\r\n\r\n", "InvalidRequest"},
		{"a long line", signed, strings.Repeat("0", 2000), "InvalidRequest"},
		{"a trailer", trailed, behind, ""},
		{"another trailer", trailed, strings.Replace(behind, "sOO8", "sOO9", 1), sigv4.SignatureDoesNotMatch},
		{"a trailer of another name", trailed, strings.Replace(behind, "crc32c", "crc32", 1), "MalformedTrailerError"},
		{"no trailer", trailed, behind[:strings.Index(behind, "x-amz-checksum")], "MalformedTrailerError"},
		{"a trailer without its signature", trailed, behind[:strings.Index(behind, "x-amz-trailer-")],
			sigv4.SignatureDoesNotMatch},
	} {
		got, payload, err := readPayload(exampleRequest(test.payload, exampleSignatures[test.payload]), test.body)
		if code(err) != test.code {
			t.Errorf("%s: %v, want %q", test.name, err, test.code)
			continue
		}
		whole := strings.Repeat("a", 66560)
		if test.code != "" {
			if len(got) >= len(whole) {
				t.Errorf("%s: all of it was given out before it was refused", test.name)
			}
			continue
		}
		if got != whole || payload.Length != 66560 || payload.Hash != sigv4.UnsignedPayload || payload.Err() != nil {
			t.Errorf("%s: %d bytes, %+v", test.name, len(got), payload.Length)
		}
		if test.payload == trailed && payload.Trailer.Get("x-amz-checksum-crc32c") != "sOO8/Q==" {
			t.Errorf("%s: %v", test.name, payload.Trailer)
		}
	}
	other := exampleRequest(signed, exampleSignatures[trailed])
	if _, _, err := readPayload(other, plain); code(err) != sigv4.SignatureDoesNotMatch {
		t.Errorf("another signature of the head: %v", err)
	}
}

// FuzzPayload changes some bytes of a payload at a place: nobody gets the whole of one that is not what was signed.
func FuzzPayload(f *testing.F) {
	plain, behind := examplePayloads()
	f.Add(false, 0, 0, "")
	f.Add(true, 0, 0, "")
	f.Add(false, 0, 1, "+1")
	f.Add(true, len(behind)-4, 4, "\r\nx-amz-checksum-crc32c:AAAAAA==\r\n\r\n")
	f.Add(false, len(plain)-90, 0, "0;chunk-signature=\r\n")
	f.Fuzz(func(t *testing.T, hasTrailer bool, at, removed int, added string) {
		payload, body := signedPayload, plain
		if hasTrailer {
			payload, body = trailedPayload, behind
		}
		at = min(max(at, 0), len(body))
		removed = min(max(removed, 0), len(body)-at)
		got, _, err := readPayload(exampleRequest(payload, exampleSignatures[payload]), body[:at]+added+body[at+removed:])
		whole := strings.Repeat("a", 66560)
		if err == nil && got != whole || err != nil && len(got) >= len(whole) {
			t.Errorf("%d bytes at %d replaced by %q: %d bytes, %v", removed, at, added, len(got), err)
		}
	})
}
