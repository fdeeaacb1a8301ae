package forward

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// headers are those of S3 that are sent on; one that ends in a hyphen stands for all that begin with it. Others are
// refused: they might make another operation of a request.
// https://docs.aws.amazon.com/AmazonS3/latest/API/API_Operations_Amazon_Simple_Storage_Service.html
var headers = []string{
	"x-amz-acl", "x-amz-bucket-object-lock-", "x-amz-bypass-governance-retention", "x-amz-checksum-",
	"x-amz-confirm-remove-self-bucket-access", "x-amz-copy-source", "x-amz-copy-source-if-", "x-amz-copy-source-range",
	"x-amz-copy-source-server-side-encryption-customer-", "x-amz-expected-bucket-owner", "x-amz-grant-",
	"x-amz-if-match-", "x-amz-max-parts", "x-amz-meta-", "x-amz-metadata-directive", "x-amz-mfa", "x-amz-mp-object-size",
	"x-amz-object-attributes", "x-amz-object-lock-", "x-amz-object-ownership", "x-amz-optional-object-attributes",
	"x-amz-part-number-marker", "x-amz-request-payer", "x-amz-sdk-checksum-algorithm", "x-amz-server-side-encryption",
	"x-amz-server-side-encryption-", "x-amz-skip-destination-validation", "x-amz-source-expected-bucket-owner",
	"x-amz-storage-class", "x-amz-tagging", "x-amz-tagging-directive", "x-amz-transition-default-minimum-object-size",
	"x-amz-website-redirect-location",
}

// unsentHeaders are those that say nothing to an endpoint.
var unsentHeaders = []string{"X-Amz-Id-2", "X-Amz-Te", "X-Amz-User-Agent"}

// checkHeader refuses a header of S3 that is not known.
func checkHeader(name string) error {
	canonical := http.CanonicalHeaderKey(name)
	if slices.Contains(ownHeaders, canonical) || slices.Contains(unsentHeaders, canonical) {
		return nil
	}
	name = strings.ToLower(name)
	if strings.Contains(name, "_") && !strings.HasPrefix(name, "x-amz-meta-") { // a hyphen, for some
		return refuse("the header %s of S3", name)
	}
	// With these, MinIO writes what an archive has under names of its own.
	if strings.HasPrefix(name, "x-amz-meta-snowball-") || strings.HasPrefix(name, "x-amz-meta-minio-") {
		return refuse("the header %s of S3", name)
	}
	for _, known := range headers {
		if name == known || strings.HasSuffix(known, "-") && strings.HasPrefix(name, known) {
			return nil
		}
	}
	return refuse("the header %s of S3", name)
}

// headerValues are the values that headers may have. An endpoint might take another form for the same value, or for the
// default, while policies see a third one.
var headerValues = map[string]func(string) bool{
	"x-amz-acl": isOneOf("private", "public-read", "public-read-write", "authenticated-read", "aws-exec-read",
		"bucket-owner-read", "bucket-owner-full-control", "log-delivery-write"),
	"x-amz-bucket-object-lock-enabled": isOneOf("true", "false"),
	"x-amz-metadata-directive":         isOneOf("COPY", "REPLACE"),
	"x-amz-object-lock-legal-hold":     isOneOf("ON", "OFF"),
	"x-amz-object-lock-mode":           isOneOf("GOVERNANCE", "COMPLIANCE"),
	"x-amz-object-lock-retain-until-date": regexp.MustCompile(
		`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:?[0-9]{2})$`).MatchString,
	"x-amz-object-ownership": isOneOf(
		"BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter"),
	"x-amz-server-side-encryption":                    isOneOf("AES256", "aws:fsx", "aws:kms", "aws:kms:dsse"),
	"x-amz-server-side-encryption-aws-kms-key-id":     isKMSKey,
	"x-amz-server-side-encryption-customer-algorithm": isOneOf("AES256"),
	// Endpoints have classes of their own.
	"x-amz-storage-class":     regexp.MustCompile(`^[A-Z][A-Z0-9_-]*$`).MatchString,
	"x-amz-tagging-directive": isOneOf("COPY", "REPLACE"),
}

func isOneOf(values ...string) func(string) bool {
	return func(value string) bool { return slices.Contains(values, value) }
}

// etag is one entity tag.
var etag = regexp.MustCompile(`^("[^"*,]+"|[A-Za-z0-9-]+)$`)

// checkValues refuses values of headers that an endpoint might read otherwise than policies do.
func (in *s3Request) checkValues() error {
	for name, is := range headerValues {
		if value := in.param(name); value != "" && !is(value) {
			return invalidArgument(name)
		}
	}
	match, none := in.Header.Get("If-Match"), in.Header.Get("If-None-Match")
	if in.Method == http.MethodGet || in.Method == http.MethodHead || match == "" && none == "" {
		return nil
	}
	// Policies that let objects be written once rely on these. Endpoints differ in how they treat other values, and both
	// headers in copies.
	// https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html
	switch {
	case in.param("x-amz-copy-source") != "":
		return refuse("copies with If-Match or If-None-Match")
	case match != "" && none != "":
		return invalidArgument("If-Match and If-None-Match cannot both be there")
	case none != "" && none != "*":
		return refuse("a value of If-None-Match other than %q", "*")
	case match != "" && !etag.MatchString(match) && (match != "*" || in.Method != http.MethodDelete):
		return invalidArgument("If-Match")
	}
	return nil
}

// param returns what a request has in a header of S3, or presigned in its place.
func (in *s3Request) param(name string) string { return cmp.Or(in.header[name], in.Header.Get(name)) }

// hasParam reports whether a request has a header, or one of those whose names begin with one that ends in a hyphen.
func (in *s3Request) hasParam(name string) bool {
	is := func(header string) bool {
		header = strings.ToLower(header)
		return header == name || strings.HasSuffix(name, "-") && strings.HasPrefix(header, name)
	}
	for header := range in.Header {
		if is(header) {
			return true
		}
	}
	for header := range in.header {
		if is(header) {
			return true
		}
	}
	return false
}

// headerKeys are condition keys that have the values of headers.
var headerKeys = map[string]string{
	"s3:if-match": "if-match", "s3:if-none-match": "if-none-match",
	"s3:object-lock-legal-hold":                          "x-amz-object-lock-legal-hold",
	"s3:object-lock-mode":                                "x-amz-object-lock-mode",
	"s3:object-lock-retain-until-date":                   "x-amz-object-lock-retain-until-date",
	"s3:x-amz-acl":                                       "x-amz-acl",
	"s3:x-amz-content-sha256":                            "x-amz-content-sha256",
	"s3:x-amz-grant-full-control":                        "x-amz-grant-full-control",
	"s3:x-amz-grant-read":                                "x-amz-grant-read",
	"s3:x-amz-grant-read-acp":                            "x-amz-grant-read-acp",
	"s3:x-amz-grant-write":                               "x-amz-grant-write",
	"s3:x-amz-grant-write-acp":                           "x-amz-grant-write-acp",
	"s3:x-amz-metadata-directive":                        "x-amz-metadata-directive",
	"s3:x-amz-object-ownership":                          "x-amz-object-ownership",
	"s3:x-amz-server-side-encryption":                    "x-amz-server-side-encryption",
	"s3:x-amz-server-side-encryption-aws-kms-key-id":     "x-amz-server-side-encryption-aws-kms-key-id",
	"s3:x-amz-server-side-encryption-customer-algorithm": "x-amz-server-side-encryption-customer-algorithm",
	"s3:x-amz-storage-class":                             "x-amz-storage-class",
	"s3:x-amz-website-redirect-location":                 "x-amz-website-redirect-location",
}
