package forward

import (
	"encoding/base64"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Actions of Amazon S3 by method and subresource, the query parameter that makes a request one of another operation.
// What is not here is refused.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html,
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
var (
	bucketActions = map[string]map[string]string{
		http.MethodGet: {
			"": "ListBucket", "accelerate": "GetAccelerateConfiguration", "acl": "GetBucketAcl",
			"analytics": "GetAnalyticsConfiguration", "cors": "GetBucketCORS",
			"encryption":          "GetEncryptionConfiguration",
			"intelligent-tiering": "GetIntelligentTieringConfiguration", "inventory": "GetInventoryConfiguration",
			"lifecycle": "GetLifecycleConfiguration", "location": "GetBucketLocation", "logging": "GetBucketLogging",
			"metrics": "GetMetricsConfiguration", "notification": "GetBucketNotification",
			"object-lock": "GetBucketObjectLockConfiguration", "ownershipControls": "GetBucketOwnershipControls",
			"policy": "GetBucketPolicy", "policyStatus": "GetBucketPolicyStatus",
			"publicAccessBlock": "GetBucketPublicAccessBlock", "replication": "GetReplicationConfiguration",
			"requestPayment": "GetBucketRequestPayment", "tagging": "GetBucketTagging",
			"uploads": "ListBucketMultipartUploads", "versioning": "GetBucketVersioning",
			"versions": "ListBucketVersions", "website": "GetBucketWebsite",
		},
		http.MethodHead: {"": "ListBucket"},
		http.MethodPut: {
			"": "CreateBucket", "accelerate": "PutAccelerateConfiguration", "acl": "PutBucketAcl",
			"analytics": "PutAnalyticsConfiguration", "cors": "PutBucketCORS",
			"encryption":          "PutEncryptionConfiguration",
			"intelligent-tiering": "PutIntelligentTieringConfiguration", "inventory": "PutInventoryConfiguration",
			"lifecycle": "PutLifecycleConfiguration", "logging": "PutBucketLogging",
			"metrics": "PutMetricsConfiguration", "notification": "PutBucketNotification",
			"object-lock": "PutBucketObjectLockConfiguration", "ownershipControls": "PutBucketOwnershipControls",
			"policy": "PutBucketPolicy", "publicAccessBlock": "PutBucketPublicAccessBlock",
			"replication": "PutReplicationConfiguration", "requestPayment": "PutBucketRequestPayment",
			"tagging": "PutBucketTagging", "versioning": "PutBucketVersioning", "website": "PutBucketWebsite",
		},
		http.MethodDelete: {
			"": "DeleteBucket", "analytics": "PutAnalyticsConfiguration", "cors": "PutBucketCORS",
			"encryption":          "PutEncryptionConfiguration",
			"intelligent-tiering": "PutIntelligentTieringConfiguration", "inventory": "PutInventoryConfiguration",
			"lifecycle": "PutLifecycleConfiguration", "metrics": "PutMetricsConfiguration",
			"ownershipControls": "PutBucketOwnershipControls", "policy": "DeleteBucketPolicy",
			"publicAccessBlock": "PutBucketPublicAccessBlock", "replication": "PutReplicationConfiguration",
			"tagging": "PutBucketTagging", "website": "DeleteBucketWebsite",
		},
	}
	objectActions = map[string]map[string]string{
		http.MethodGet: {
			"": "GetObject", "acl": "GetObjectAcl", "attributes": "GetObjectAttributes",
			"legal-hold": "GetObjectLegalHold", "retention": "GetObjectRetention", "tagging": "GetObjectTagging",
			"uploadId": "ListMultipartUploadParts",
		},
		http.MethodHead: {"": "GetObject"},
		http.MethodPut: {
			"": "PutObject", "acl": "PutObjectAcl", "legal-hold": "PutObjectLegalHold",
			"retention": "PutObjectRetention", "tagging": "PutObjectTagging", "uploadId": "PutObject",
		},
		http.MethodPost: {
			"select": "GetObject", "uploads": "PutObject", "uploadId": "PutObject",
		},
		http.MethodDelete: {"": "DeleteObject", "tagging": "DeleteObjectTagging", "uploadId": "AbortMultipartUpload"},
	}
	// versionActions are those that have another name for a version of an object than for the object.
	versionActions = map[string]string{
		"DeleteObject": "DeleteObjectVersion", "DeleteObjectTagging": "DeleteObjectVersionTagging",
		"GetObject": "GetObjectVersion", "GetObjectAcl": "GetObjectVersionAcl",
		"GetObjectAttributes": "GetObjectVersionAttributes", "GetObjectTagging": "GetObjectVersionTagging",
		"PutObjectAcl": "PutObjectVersionAcl", "PutObjectTagging": "PutObjectVersionTagging",
	}
)

// parameters are those that an operation may have beside its subresource, by level, method and subresource. Others are
// refused: an endpoint might take the request for another operation.
var parameters = map[string][]string{
	"GET service": {"bucket-region", "continuation-token", "max-buckets", "prefix"},
	"GET bucket": {"list-type", "prefix", "delimiter", "marker", "max-keys", "start-after", "continuation-token",
		"encoding-type", "fetch-owner"},
	"GET bucket?versions": {"prefix", "delimiter", "max-keys", "encoding-type", "key-marker", "version-id-marker"},
	"GET bucket?uploads":  {"prefix", "delimiter", "max-uploads", "encoding-type", "key-marker", "upload-id-marker"},

	"GET bucket?analytics": idParameters, "GET bucket?intelligent-tiering": idParameters,
	"GET bucket?inventory": idParameters, "GET bucket?metrics": idParameters,
	"PUT bucket?analytics": idParameters, "PUT bucket?intelligent-tiering": idParameters,
	"PUT bucket?inventory": idParameters, "PUT bucket?metrics": idParameters,
	"DELETE bucket?analytics": idParameters, "DELETE bucket?intelligent-tiering": idParameters,
	"DELETE bucket?inventory": idParameters, "DELETE bucket?metrics": idParameters,

	"GET object": readParameters, "HEAD object": readParameters,
	"GET object?acl": versionParameters, "GET object?attributes": versionParameters,
	"GET object?legal-hold": versionParameters, "GET object?retention": versionParameters,
	"GET object?tagging": versionParameters,
	"PUT object?acl":     versionParameters, "PUT object?legal-hold": versionParameters,
	"PUT object?retention": versionParameters, "PUT object?tagging": versionParameters,
	"DELETE object": versionParameters, "DELETE object?tagging": versionParameters,

	"GET object?uploadId": {"max-parts", "part-number-marker"},
	"PUT object?uploadId": {"partNumber"},
	"POST object?select":  {"select-type"},
}

var (
	idParameters      = []string{"id", "continuation-token"}
	versionParameters = []string{"versionId"}
	readParameters    = []string{"versionId", "partNumber", "response-cache-control", "response-content-disposition",
		"response-content-encoding", "response-content-language", "response-content-type", "response-expires"}
	// values are what values of parameters have to be, which an endpoint might otherwise take for missing, or for a path.
	values = map[string]func(string) bool{
		"bucket-region": isWord, "delimiter": utf8.ValidString,
		"encoding-type": func(kind string) bool { return kind == "url" },
		"fetch-owner":   isWord, "id": isID,
		"list-type":   func(kind string) bool { return kind == "2" },
		"max-buckets": isNumber, "max-keys": isNumber, "max-parts": isNumber, "max-uploads": isNumber,
		"part-number-marker": isNumber, "partNumber": regexp.MustCompile(`^[1-9][0-9]{0,4}$`).MatchString,
		"prefix": isPrefix, "select-type": isWord, "uploadId": isUploadID,
		"upload-id-marker":  func(id string) bool { return id == "" || isUploadID(id) },
		"versionId":         isVersionID,
		"version-id-marker": func(id string) bool { return id == "" || isVersionID(id) },
	}
	id     = regexp.MustCompile(`^[A-Za-z0-9._~+=-]+$`)
	kmsKey = regexp.MustCompile(`^[A-Za-z0-9:/_.+=@-]+$`)
	number = regexp.MustCompile(`^[0-9]*$`)
	word   = regexp.MustCompile(`^[A-Za-z0-9-]*$`)
)

// isWord reports whether a text is a region or another word.
func isWord(text string) bool { return word.MatchString(text) }

func isNumber(text string) bool { return number.MatchString(text) }

// isKMSKey reports whether a text can be the ID, the ARN or the alias of a key, wherever an endpoint puts it.
func isKMSKey(text string) bool {
	return len(text) <= 2*maxID && kmsKey.MatchString(text) && isPlain(text)
}

// isUploadID does what isID does for an upload, whose ID some endpoints decode before they use its end as a name.
func isUploadID(text string) bool {
	if decoded, err := base64.RawURLEncoding.DecodeString(text); err == nil {
		_, path, _ := strings.Cut(string(decoded), ".")
		if slices.Contains(strings.Split(path, "/"), "..") {
			return false
		}
	}
	// The names that Ceph gives to parts of an upload begin with the key, a period, and the ID.
	return isID(text) && !strings.Contains(text, ".")
}

// maxVersionID is the maximum length of a version ID that has an underscore, as LocalStack's have.
const maxVersionID = 32

// isVersionID does what isID does for a version. The name that Ceph gives it is its ID, which has 32 characters, an
// underscore, and the key: a longer ID with an underscore would name a version of another key.
func isVersionID(text string) bool {
	return isID(text) && (len(text) <= maxVersionID || !strings.Contains(text, "_"))
}

const maxID = 1024

// isID reports whether a text can be the ID of an upload, a version or a configuration, and nothing but that.
func isID(text string) bool {
	return len(text) <= maxID && id.MatchString(text) && strings.Trim(text, ".") != ""
}

// isParameter has the names of all parameters; others are subresources.
var isParameter = func() map[string]bool {
	all := map[string]bool{}
	for _, names := range parameters {
		for _, name := range names {
			all[name] = true
		}
	}
	return all
}()

// ownOperations are those on a part of a bucket or an object that every endpoint has. One that lacks another operation
// might leave the subresource out: "DELETE bucket?website" would delete the bucket.
var ownOperations = []string{"GET bucket?location", "GET bucket?uploads", "GET bucket?versioning",
	"GET bucket?versions", "GET object?uploadId", "DELETE object?uploadId"}

// operation returns what an operation is called in tables.
func (in *s3Request) operation() string {
	level := "object"
	switch {
	case in.bucket == "":
		level = "service"
	case in.key == "":
		level = "bucket"
	}
	if in.subresource != "" {
		level += "?" + in.subresource
	}
	return in.Method + " " + level
}

// checkQuery refuses parameters that the operation does not have.
func (in *s3Request) checkQuery() error {
	known := parameters[in.operation()]
	for name := range in.query {
		if name != in.subresource && !slices.Contains(known, name) {
			return invalidArgument("the operation does not have the parameter " + name)
		}
		value := in.query.Get(name)
		valid := values[name]
		switch {
		case name == "marker", name == "key-marker", name == "start-after":
			valid = func(key string) bool { return isMarker(key, in.query.Get("prefix"), in.query.Get("delimiter")) }
		case name == "continuation-token":
			valid = func(token string) bool { return isToken(token, in.query.Get("prefix"), in.query.Get("delimiter")) }
		case strings.HasPrefix(name, "response-"):
			valid = func(header string) bool { return !strings.ContainsFunc(header, unicode.IsControl) }
		}
		if valid != nil && !valid(value) {
			return invalidArgument("endpoints may read the value of the parameter " + name + " otherwise than policies do")
		}
	}
	if in.operation() == "PUT object?uploadId" && !in.query.Has("partNumber") {
		return invalidArgument("the parameter uploadId needs partNumber beside it")
	}
	return nil
}

// checkPayload refuses a payload where the operation has none, and one that endpoints read as a query.
func (in *s3Request) checkPayload() error {
	takes := in.Method == http.MethodPut && in.source == "" || in.Method == http.MethodPost && in.subresource != "uploads"
	content := strings.ToLower(in.Header.Get("Content-Type"))
	if strings.HasSuffix(in.key, "/") && (in.source != "" || strings.HasPrefix(in.subresource, "upload") ||
		in.Payload != nil && in.Payload.Length > maxFolder) {
		return refuse("an object with content whose key ends with a slash")
	}
	switch {
	case !takes && in.Payload != nil && in.Payload.Length != 0:
		return invalidArgument("the operation has no payload")
	case takes && slices.ContainsFunc([]string{"urlencoded", "url-encoded", "form-data"}, func(form string) bool {
		return strings.Contains(content, form)
	}):
		return refuse("the Content-Type %q of S3, which some endpoints read parameters from", content)
	case !takes && in.source == "" && in.subresource != "uploads": // whose objects have it
		in.header["Content-Type"] = ""
	}
	return nil
}

// actionsNeeded returns the actions that the operation needs permission for: its own, and that of the operation that
// it would be without its subresource.
func (in *s3Request) actionsNeeded() ([]string, error) {
	actions := bucketActions
	if in.key != "" {
		actions = objectActions
	}
	action, ok := actions[in.Method][in.subresource]
	if !ok {
		return nil, refuse("the operation %s %q of S3", in.Method, in.subresource)
	}
	all := []string{action}
	if whole := actions[in.Method][""]; whole != "" && whole != action && !slices.Contains(ownOperations, in.operation()) {
		all = append(all, whole)
	}
	return all, nil
}

// s3BodyLimit returns the BodyLimit of Amazon S3: of DeleteObjects, whose body says what is deleted.
func s3BodyLimit(r *http.Request) int64 {
	if r.Method == http.MethodPost && r.URL.Query().Has("delete") {
		return maxDeletion
	}
	return 0
}
