package forward

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/aws/wire/sigv4"
)

// TestValuesOfHeadersOfS3 checks that only the forms are sent on which all endpoints read as policies do.
func TestValuesOfHeadersOfS3(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]string{
		"PUT /b1b/k If-None-Match: *":                                          "",
		`PUT /b1b/k If-None-Match: "x"`:                                        "NotImplemented",
		`POST /b1b/k?uploadId=1 If-None-Match: "x"`:                            "NotImplemented",
		`PUT /b1b/k If-Match: "0a1b"`:                                          "",
		"PUT /b1b/k If-Match: 0a1b-2":                                          "",
		"PUT /b1b/k If-Match: *":                                               "InvalidArgument",
		`PUT /b1b/k If-Match: "a", "b"`:                                        "InvalidArgument",
		"DELETE /b1b/k If-Match: *":                                            "",
		`PUT /b1b/k If-Match: "a"; If-None-Match: *`:                           "InvalidArgument",
		"PUT /b1b/k If-None-Match: *; X-Amz-Copy-Source: /c1c/k":               "NotImplemented",
		`GET /b1b/k If-None-Match: "x", "y"`:                                   "",
		"PUT /b1b/k X-Amz-Object-Lock-Mode: compliance":                        "InvalidArgument",
		"PUT /b1b/k X-Amz-Object-Lock-Mode: COMPLIANCE":                        "",
		"PUT /b1b/k X-Amz-Object-Lock-Legal-Hold: on":                          "InvalidArgument",
		"PUT /b1b/k X-Amz-Object-Lock-Retain-Until-Date: 2027":                 "InvalidArgument",
		"PUT /b1b/k X-Amz-Object-Lock-Retain-Until-Date: 2027-01-01T00:00:00Z": "",
		"PUT /b1b/k X-Amz-Acl: Public-Read":                                    "InvalidArgument",
		"PUT /b1b/k X-Amz-Server-Side-Encryption: AWS:KMS":                     "InvalidArgument",
		"PUT /b1b/k X-Amz-Server-Side-Encryption: aws:kms":                     "",
		"PUT /b1b/k X-Amz-Storage-Class: standard":                             "InvalidArgument",
		"PUT /b1b/k X-Amz-Storage-Class: REDUCED_REDUNDANCY":                   "",
		"PUT /b1b/k X-Amz-Copy-Source: /c1c/k; X-Amz-Metadata-Directive: copy": "InvalidArgument",
	} {
		line := strings.SplitN(request, " ", 3)
		r := httptest.NewRequest(line[0], line[1], http.NoBody)
		r.RequestURI = line[1]
		for _, header := range strings.Split(line[2], "; ") {
			name, value, _ := strings.Cut(header, ": ")
			r.Header.Set(name, value)
		}
		got := ""
		_, err := readS3(&wire.Forwarded{Request: r, Signature: &sigv4.Signature{}})
		var refused *wire.Error
		if errors.As(err, &refused) {
			got = refused.Code
		}
		if got != want {
			t.Errorf("%s: %q, want %q", request, got, want)
		}
	}
}
