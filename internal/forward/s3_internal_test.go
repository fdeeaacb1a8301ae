package forward

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/aws/wire/sigv4"
)

// TestS3Operations follows the tables of actions in Amazon's documentation.
func TestS3Operations(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]string{
		"GET /":                                            "ListAllMyBuckets *",
		"GET /b1b":                                         "ListBucket b1b",
		"GET /b1b?list-type=2&prefix=a":                    "ListBucket b1b",
		"GET /b1b/?versions":                               "ListBucketVersions b1b",
		"GET /b1b?uploads":                                 "ListBucketMultipartUploads b1b",
		"GET /b1b?location":                                "GetBucketLocation b1b",
		"HEAD /b1b":                                        "ListBucket b1b",
		"PUT /b1b":                                         "CreateBucket b1b",
		"PUT /b1b?policy":                                  "PutBucketPolicy b1b CreateBucket b1b",
		"DELETE /b1b":                                      "DeleteBucket b1b",
		"DELETE /b1b?policy":                               "DeleteBucketPolicy b1b DeleteBucket b1b",
		"DELETE /b1b?lifecycle":                            "PutLifecycleConfiguration b1b DeleteBucket b1b",
		"GET /b1b/a/b?x-id=GetObject":                      "GetObject b1b/a/b",
		"GET /b1b/k?versionId=1":                           "GetObjectVersion b1b/k",
		"GET /b1b/k?acl&versionId=1":                       "GetObjectVersionAcl b1b/k GetObjectVersion b1b/k",
		"GET /b1b/k?attributes":                            "GetObjectAttributes b1b/k GetObject b1b/k",
		"GET /b1b/k?uploadId=1":                            "ListMultipartUploadParts b1b/k",
		"HEAD /b1b/k":                                      "GetObject b1b/k",
		"PUT /b1b/k":                                       "PutObject b1b/k",
		"PUT /b1b/k?partNumber=1&uploadId=1":               "PutObject b1b/k",
		"PUT /b1b/k?tagging":                               "PutObjectTagging b1b/k PutObject b1b/k",
		"PUT /b1b/k?x-amz-acl=public-read":                 "PutObject b1b/k PutObjectAcl b1b/k",
		"POST /b1b/k?uploads":                              "PutObject b1b/k",
		"POST /b1b/k?uploadId=1":                           "PutObject b1b/k",
		"POST /b1b/k?restore":                              "NotImplemented",
		"GET /b1b/k?versionId=%20":                         "InvalidArgument",
		"PUT /b1b/k?x-amz-tagging=a%3Db":                   "PutObject b1b/k PutObjectTagging b1b/k",
		"PUT /b1b/k?x-amz-tagging=a%3Db;c":                 "InvalidArgument",
		"PUT /b1b/k?x-amz-tagging=%25":                     "InvalidArgument",
		"PUT /b1b/k?x-amz-meta-snowball-auto-extract=true": "NotImplemented",
		"PUT /b1b/k?x-amz-meta-minio-snowball-prefix=secret": "NotImplemented",
		// What an endpoint might take for the operation on the whole needs permission for it, too.
		"DELETE /b1b?website":                  "DeleteBucketWebsite b1b DeleteBucket b1b",
		"PUT /b1b?metrics&id=x":                "PutMetricsConfiguration b1b CreateBucket b1b",
		"GET /b1b/k?retention":                 "GetObjectRetention b1b/k GetObject b1b/k",
		"PUT /b1b/k?tagging&x-amz-acl=private": "PutObjectTagging b1b/k PutObject b1b/k PutObjectAcl b1b/k",
		"GET /b1b?policyStatus&list-type=2":    "InvalidArgument",
		"GET /b1b?versions&list-type=2":        "InvalidArgument",
		"GET /b1b?list-type=3":                 "InvalidArgument",
		"PUT /b1b/k?versionId=1":               "InvalidArgument",
		"POST /b1b/k?uploads&versionId=1":      "InvalidArgument",
		"PUT /b1b/k?uploadId=1":                "InvalidArgument",
		"PUT /b1b/k?partNumber=1":              "InvalidArgument",
		"PUT /b1b/k?uploadId=1&partNumber=":    "InvalidArgument",
		// IDs that endpoints decode: two that are no names, and one as clients get it.
		"DELETE /b1b/k?uploadId=eC4uLi8wMTIz":                              "InvalidArgument",
		"PUT /b1b/k?partNumber=1&uploadId=eC4uLi8uLi8uLi9vdGhlci9zZWNyZXQ": "InvalidArgument",
		"GET /b1b/secret%5Ck":                                              "InvalidURI",
		"GET /b1b/%5Csecret/k":                                             "InvalidURI",
		"GET /b1b/a%FF":                                                    "InvalidURI",
		"GET /b1b/.uploads%5C1":                                            "InvalidURI",
		"DELETE /b1b/k?uploadId=1%2F..%2F..%2Fsecret":                      "InvalidArgument",
		// Versions and uploads of other keys, where the endpoint puts an ID and a key together.
		"GET /b1b/k?versionId=" + strings.Repeat("V", 32) + "_secret":    "InvalidArgument",
		"GET /b1b/k?versionId=" + strings.Repeat("V", 32) + "_":          "InvalidArgument",
		"GET /b1b/k?versionId=" + strings.Repeat("V", 30) + "_-":         "GetObjectVersion b1b/k",
		"PUT /b1b/k?partNumber=1&uploadId=txt.2~x":                       "InvalidArgument",
		"GET /b1b/k?versionId=..":                                        "InvalidArgument",
		"GET /b1b/k?versionId=x%2F..%2Fl":                                "InvalidArgument",
		"PUT /b1b/k?uploadId=1&partNumber=x":                             "InvalidArgument",
		"GET /b1b?prefix=/secret/":                                       "InvalidArgument",
		"GET /b1b?list-type=2&prefix=secret%5C":                          "InvalidArgument",
		"PUT /b1b/k?x-amz-copy-source=/c1c/k%3FversionId=..%2Fl":         "InvalidArgument",
		"PUT /b1b/k?x-amz-copy-source=/c1c/a%253Fk":                      "NotImplemented",
		"PUT /b1b/k?x-amz-copy-source=/c1c/a%255Ck":                      "InvalidURI",
		"GET /b1b?list-type=2&prefix=home/alice/&start-after=secret/":    "InvalidArgument",
		"GET /b1b?marker=a%5Bminio_cache%3Ax%5D":                         "InvalidArgument",
		"GET /b1b?list-type=2&prefix=home/&start-after=home/alice/k":     "ListBucket b1b",
		"GET /b1b?versions&key-marker=a/../b":                            "InvalidArgument",
		"GET /b1b?versions&key-marker=a&version-id-marker=../b":          "InvalidArgument",
		"GET /b1b?max-keys=1%26x":                                        "InvalidArgument",
		"GET /b1b?prefix=a/../b":                                         "InvalidArgument",
		"GET /b1b?prefix=home/alice/&delimiter=/&marker=home/alice/x/":   "ListBucket b1b",
		"GET /b1b?encoding-type=x":                                       "InvalidArgument",
		"GET /b1b?max-keys=-5":                                           "InvalidArgument",
		"PUT /b1b/k?x-amz-server-side-encryption-aws-kms-key-id=../k":    "InvalidArgument",
		"PUT /b1b/k?x-amz-server-side-encryption-aws-kms-key-id=alias/k": "PutObject b1b/k",
		"PUT /b1b/k?x-amz-object-lock-legal_hold=ON":                     "NotImplemented",
		"GET /b1b/k/":                            "GetObject b1b/k/ GetObject b1b/k",
		"DELETE /b1b/k/":                         "DeleteObject b1b/k/ DeleteObject b1b/k",
		"PUT /b1b/k/":                            "PutObject b1b/k/ PutObject b1b/k",
		"POST /b1b/k/?uploads":                   "NotImplemented",
		"PUT /b1b/k?x-amz-copy-source=/c1c/k/":   "NotImplemented",
		"GET /b1b?prefix=a//b":                   "InvalidArgument",
		"GET /b1b?prefix=a/.":                    "ListBucket b1b",
		"GET /b1b?prefix=":                       "ListBucket b1b",
		"DELETE /b1b/k?uploadId=":                "InvalidArgument",
		"GET /b1b/k?versionId=":                  "InvalidArgument",
		"GET /tables/k":                          "InvalidBucketName",
		"GET /b1b/a/k.versions/v_1":              "InvalidURI",
		"GET /b1b/.sgwtmp/multipart/1":           "InvalidURI",
		"GET /b1b/.uploads/1/1.part":             "InvalidURI",
		"GET /b1b/a__XLDIR__":                    "InvalidURI",
		"PUT /b1b/k?x-amz-tagging=a%3Db%26a%3Dc": "InvalidArgument",
		"PUT /b1b/k?x-amz-copy-source=/c1c/k":    "PutObject b1b/k GetObject c1c/k GetObjectTagging c1c/k",
		"DELETE /b1b/k":                          "DeleteObject b1b/k",
		"DELETE /b1b/k?versionId=1":              "DeleteObjectVersion b1b/k",
		"DELETE /b1b/k?uploadId=1":               "AbortMultipartUpload b1b/k",
		"GET /b1b/k?session":                     "NotImplemented",
		"PUT /b1b/k?renameObject":                "NotImplemented",
		"POST /b1b":                              "NotImplemented",
		"POST /b1b/k":                            "NotImplemented",
		"PATCH /b1b/k":                           "NotImplemented",
		"PUT /":                                  "NotImplemented",
		"HEAD /b1b?acl":                          "NotImplemented",
		"GET /b1b/k?acl&tagging":                 "InvalidArgument",
		"GET /b1b/k?versionId=1&versionId=2":     "InvalidArgument",
		"PUT /b1b/k?x-amz-trailer=x":             "InvalidArgument",
		"GET /b1b/k?%zz":                         "InvalidArgument",
		"GET /B/k":                               "InvalidBucketName",
		"GET /minio/admin/v3/info":               "InvalidBucketName",
		"GET /v20180820/bucket":                  "InvalidBucketName",
		"GET //b1b/k":                            "InvalidBucketName",
		"GET /b1b%2Fk":                           "InvalidBucketName",
		"GET /b1b/../c1c/k":                      "InvalidURI",
		"GET /b1b/a%2F..%2F..%2Fc1c/k":           "InvalidURI",
		"GET /b1b/a/%2e%2e/k":                    "InvalidURI",
		"GET /b1b/..%5Ck":                        "InvalidURI",
		"GET /b1b/./k":                           "InvalidURI",
		"GET /b1b//k":                            "InvalidURI",
		"GET /b1b/a//k":                          "InvalidURI",
		"GET /b1b/a%2F%2Fk":                      "InvalidURI",
		"GET /b1b/k?=1":                          "InvalidArgument",
		"PUT /b1b/k?x-amz-write-over=1":          "NotImplemented",
		"GET /admin/metadata/user":               "InvalidBucketName",
		"GET /iceberg/v1/w/namespaces":           "InvalidBucketName",
		"GET /b1b/%00":                           "InvalidURI",
		"GET /b1b/" + strings.Repeat("k", 1025):  "KeyTooLongError",

		"PUT /b1b/k?x-amz-tagging=" + "a%26b%26c%26d%26e%26f%26g%26h%26i%26j%26k": "InvalidArgument",

		"DELETE /b1b/k?uploadId=MGExYjJjM2QtMDAwMC00MDAwLTgwMDAtMDAwMDAwMDAwMDAwLjRlNWY2YTdiLTExMTEtNDExMS04MTExLTExMTExMTExMTExMXgxNzAwMDAwMDAw": "AbortMultipartUpload b1b/k",

		"PUT /b1b/k?x-amz-copy-source=/c1c/k%3FversionId=" + strings.Repeat("V", 32) + "_secret": "InvalidArgument",

		"GET /b1b?list-type=2&prefix=home/alice/&continuation-token=secret/a": "InvalidArgument",

		"GET /b1b?list-type=2&prefix=home/alice/&continuation-token=c2VjcmV0L2E%3D": "InvalidArgument",

		"GET /b1b?list-type=2&continuation-token=YVttaW5pb19jYWNoZTp4XQ%3D%3D": "InvalidArgument",

		"GET /b1b?list-type=2&prefix=home/alice/&continuation-token=aG9tZS9hbGljZS9rW21pbmlvX2NhY2hlOnYyLHJldHVybjpd": "ListBucket b1b",

		"GET /b1b?list-type=2&prefix=home/alice/&continuation-token=%5DaG9tZS9hbGljZS9r": "ListBucket b1b",

		"GET /b1b?list-type=2&prefix=home/alice/&continuation-token=opaque-1": "ListBucket b1b",

		"GET /b1b?list-type=2&continuation-token=1ueGcxLPRx1T//XYExHnhbYLgveDs2J/wm36Hy4vbOwM": "ListBucket b1b",

		"GET /b1b?marker=a/b%5Bminio_cache%3Av2%2Cid%3A01234567-89ab-cdef-0123-456789abcdef%2Cp%3A0%2Cs%3A0%5D": "ListBucket b1b",

		"GET /b1b?prefix=home/alice/&delimiter=alice/x&start-after=home/alice/x": "InvalidArgument",

		"GET /b1b?prefix=home/alice/&delimiter=x%5Bminio_cache%3Av2%2Creturn%3A%5D&start-after=home/alice/x%5Bminio_cache%3Av2%2Creturn%3A%5D": "InvalidArgument",

		"PUT /b1b/k?x-amz-copy-source=/c1c/k&x-amz-tagging-directive=replace": "InvalidArgument",
	} {
		method, target, _ := strings.Cut(request, " ")
		got := needsOfS3(t, method, target, http.Header{})
		if got != want {
			t.Errorf("%.80s: %s, want %s", request, got, want)
		}
	}
}

// needsOfS3 returns the actions and resources that a request for S3 needs permission for, or the code of its error.
func needsOfS3(t *testing.T, method, target string, header http.Header) string {
	t.Helper()
	r := httptest.NewRequest(method, "/", http.NoBody)
	r.RequestURI, r.Header = target, header
	r.URL.Path, r.URL.RawQuery, _ = strings.Cut(target, "?")
	c, err := readS3(&wire.Forwarded{Request: r, Signature: &sigv4.Signature{}})
	var refused *wire.Error
	switch {
	case errors.As(err, &refused):
		return refused.Code
	case err != nil:
		t.Fatal(err)
	}
	var needs []string
	for _, target := range c.targets {
		needs = append(needs, strings.TrimPrefix(target.Action, "s3:"), strings.TrimPrefix(target.Resource, "arn:aws:s3:::"))
	}
	return strings.Join(needs, " ")
}

// A header that is there twice could be read as the other one.
func TestHeadersOfS3AreThereOnce(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPut, "/b1b/k", http.NoBody)
	r.Header["X-Amz-Copy-Source"] = []string{"", "/c1c/k"}
	if _, err := readS3(&wire.Forwarded{Request: r, Signature: &sigv4.Signature{}}); err == nil {
		t.Error("two sources of a copy are one")
	}
}

// A body of many values costs no more than others, whatever its sender may do.
func TestBodiesOfManyValues(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"an unknown member": `{"X":[` + strings.Repeat(`{"":0},`, 1<<20) + `0]}`,
		"a transaction":     `{"TransactItems":[` + strings.Repeat(`{"Put":{"TableName":"t"}},`, 101) + `{}]}`,
	} {
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		r.Header.Set("X-Amz-Target", "DynamoDB_20120810.TransactWriteItems")
		_, err := readDynamoDB(&wire.Forwarded{Request: r, Signature: &sigv4.Signature{}, Body: []byte(body)})
		if err == nil || !strings.Contains(err.Error(), "more than 200000 values") &&
			!strings.Contains(err.Error(), "the maximum is 100") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The conditions of a request are made once for all that it names.
func TestConditionsAreMadeOnce(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPut, "/b1b/k", http.NoBody)
	r.Header.Set("X-Amz-Acl", "private")
	in := &s3Request{Forwarded: &wire.Forwarded{Request: r, Signature: &sigv4.Signature{}}, bucket: "b1b", key: "k"}
	if err := in.authorize(); err != nil || len(in.targets) < 2 {
		t.Fatalf("%+v, %v", in.targets, err)
	}
	if reflect.ValueOf(in.targets[0].Conditions).Pointer() != reflect.ValueOf(in.targets[1].Conditions).Pointer() {
		t.Error("each target has conditions of its own")
	}
}
