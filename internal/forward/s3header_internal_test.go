package forward

import (
	"net/http"
	"strings"
	"testing"
)

// TestValuesOfHeadersOfS3 checks that a value is sent on only in the form that all endpoints read as policies do.
func TestValuesOfHeadersOfS3(t *testing.T) {
	t.Parallel()
	const allowed = ""
	for request, want := range map[string]string{
		"PUT /b1b/k If-None-Match: *":                                          allowed,
		`PUT /b1b/k If-None-Match: "x"`:                                        "NotImplemented",
		`POST /b1b/k?uploadId=1 If-None-Match: "x"`:                            "NotImplemented",
		`PUT /b1b/k If-Match: "0a1b"`:                                          allowed,
		"PUT /b1b/k If-Match: 0a1b-2":                                          allowed,
		"PUT /b1b/k If-Match: *":                                               "InvalidArgument",
		`PUT /b1b/k If-Match: "a", "b"`:                                        "InvalidArgument",
		"DELETE /b1b/k If-Match: *":                                            allowed,
		`PUT /b1b/k If-Match: "a"; If-None-Match: *`:                           "InvalidArgument",
		"PUT /b1b/k If-None-Match: *; X-Amz-Copy-Source: /c1c/k":               "NotImplemented",
		`GET /b1b/k If-None-Match: "x", "y"`:                                   allowed,
		"PUT /b1b/k X-Amz-Object-Lock-Mode: compliance":                        "InvalidArgument",
		"PUT /b1b/k X-Amz-Object-Lock-Mode: COMPLIANCE":                        allowed,
		"PUT /b1b/k X-Amz-Object-Lock-Legal-Hold: on":                          "InvalidArgument",
		"PUT /b1b/k X-Amz-Object-Lock-Retain-Until-Date: 2027":                 "InvalidArgument",
		"PUT /b1b/k X-Amz-Object-Lock-Retain-Until-Date: 2027-01-01T00:00:00Z": allowed,
		"PUT /b1b/k X-Amz-Acl: Public-Read":                                    "InvalidArgument",
		"PUT /b1b/k X-Amz-Server-Side-Encryption: AWS:KMS":                     "InvalidArgument",
		"PUT /b1b/k X-Amz-Server-Side-Encryption: aws:kms":                     allowed,
		"PUT /b1b/k X-Amz-Storage-Class: standard":                             "InvalidArgument",
		"PUT /b1b/k X-Amz-Storage-Class: REDUCED_REDUNDANCY":                   allowed,
		"PUT /b1b/k X-Amz-Copy-Source: /c1c/k; X-Amz-Metadata-Directive: copy": "InvalidArgument",
	} {
		line := strings.SplitN(request, " ", 3)
		header := http.Header{}
		for _, h := range strings.Split(line[2], "; ") {
			name, value, _ := strings.Cut(h, ": ")
			header.Set(name, value)
		}
		got := needsOfS3(t, line[0], line[1], header)
		if strings.Contains(got, " ") { // actions and resources
			got = allowed
		}
		if got != want {
			t.Errorf("%s: %q, want %q", request, got, want)
		}
	}
}
