package forward

import (
	"bytes"
	"crypto/tls"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/s3name"
)

const (
	// maxObject limits the payload of a request, as S3 does that of PutObject: larger objects have parts.
	maxObject = 5 << 30
	// maxDeletion limits the body of DeleteObjects, which names up to maxDeleted objects.
	maxDeletion = 2 << 20
	// maxTags is how many tags an object may have.
	maxTags    = 10
	maxDeleted = 1000
	// maxElements is the number of tags in DeleteObjects, and maxTag the length in bytes of one.
	maxElements = 8*maxDeleted + 16
	// maxFolder is the most bytes of an object that stands for a folder.
	maxFolder = 256
	maxTag    = 256
)

// signatureParameters are those of a presigned URL, in lower case.
var signatureParameters = map[string]bool{
	"x-amz-algorithm": true, "x-amz-content-sha256": true, "x-amz-credential": true, "x-amz-date": true,
	"x-amz-expires": true, "x-amz-security-token": true, "x-amz-signature": true, "x-amz-signedheaders": true,
}

// reservedPaths are what programs that stand for S3 have beside their buckets, some of it to administrate them, under
// names that a bucket could have.
var reservedPaths = map[string]bool{
	"admin": true, "auth": true, "buckets": true, "get-table": true, "health": true, "healthz": true, "iceberg": true,
	"latest": true, "metrics": true, "minio": true, "moto-api": true, "namespaces": true, "profile": true,
	"readyz": true, "restapis": true, "rustfs": true, "shell": true, "status": true, "swift": true, "tables": true,
	"tag": true, "v20180820": true,
}

// reservedSegments are names under which such programs have uploads and other things beside the objects; segments that
// end in ".versions" or "__XLDIR__" are, too.
var reservedSegments = map[string]bool{
	".metacache": true, ".minio.sys": true, ".sgwtmp": true, ".trash": true, ".uploads": true,
}

// readS3 returns what a request for Amazon S3 asks for.
func readS3(r *wire.Forwarded) (*call, error) {
	bucket, key, err := locate(r.Request)
	if err != nil {
		return nil, err
	}
	for name, values := range r.Header {
		ofS3 := strings.HasPrefix(name, "X-Amz-")
		if len(values) > 1 && (ofS3 || slices.Contains(sentHeaders, name)) { // the endpoint might read the other one
			return nil, invalidArgument("the header " + name + " is there twice")
		}
		if !ofS3 {
			continue
		}
		if err := checkHeader(name); err != nil {
			return nil, err
		}
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalidArgument("the query string could not be read")
	}
	in := &s3Request{Forwarded: r, bucket: bucket, key: key, query: query, header: map[string]string{}}
	for _, step := range []func() error{in.readQuery, in.authorize, in.checkQuery, in.checkPayload} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	path := "/" + bucket
	if key != "" {
		path += "/" + key
	}
	return &call{operation: strings.TrimPrefix(in.targets[0].Action, "s3:"), targets: in.targets, path: path,
		query: in.query, header: in.header, encode: in.encode}, nil
}

// s3Request is a request for Amazon S3 that is being read.
type s3Request struct {
	*wire.Forwarded
	bucket, key string
	query       url.Values // of the request to the endpoint
	subresource string
	header      map[string]string // as in call
	targets     []wire.Target
	encode      func() ([]byte, error) // as in call
	source      string                 // of a copy: BUCKET/KEY
	// versionUnread says that versions of objects are named elsewhere than in the query.
	versionUnread bool
	keys          map[string][]string // condition keys, of all targets
}

// locate returns the bucket and the key of a request, decoded; "" for what it has not. The names that it returns are
// the same however an endpoint reads the path that is made of them.
func locate(r *http.Request) (bucket, key string, err error) {
	path := r.URL.EscapedPath()
	if strings.HasPrefix(r.RequestURI, "/") {
		path, _, _ = strings.Cut(r.RequestURI, "?") // what was signed
	}
	path = strings.TrimPrefix(path, "/")
	host := hostOf(r)
	inHost, ofAWS := s3name.ParseHost(host)
	if !ofAWS {
		inHost, _ = strings.CutSuffix(host, ".localhost")
		if inHost == host {
			inHost = ""
		}
	}
	if inHost != "" {
		bucket, key = inHost, path
	} else {
		bucket, key, _ = strings.Cut(path, "/")
	}
	if key, err = url.PathUnescape(key); err != nil {
		return "", "", invalidURI("it could not be decoded")
	}
	if bucket == "" && key == "" {
		return "", "", nil
	}
	return bucket, key, checkName(bucket, key)
}

// checkName refuses what some endpoints would take for another bucket or key.
func checkName(bucket, key string) error {
	if !s3name.IsBucket(bucket) || reservedPaths[bucket] {
		return &wire.Error{Code: "InvalidBucketName", Status: http.StatusBadRequest,
			Message: fmt.Sprintf("The specified bucket is not valid: %q", bucket)}
	}
	if len(key) > 1024 {
		return &wire.Error{Code: "KeyTooLongError", Status: http.StatusBadRequest, Message: "Your key is too long"}
	}
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "." || segment == ".." || reservedSegments[segment] || strings.HasSuffix(segment, ".versions") ||
			strings.HasSuffix(segment, "__XLDIR__") {
			return invalidURI("a key with the segment " + segment + " is not forwarded")
		}
	}
	switch {
	case strings.ContainsRune(key, 0), !utf8.ValidString(key):
		return invalidURI("a key with a null character, or that is not UTF-8, is not forwarded")
	case strings.Contains(key, `\`): // which some take for a slash
		return invalidURI("a key with a backslash is not forwarded")
	case strings.HasPrefix(key, "/"), strings.Contains(key, "//"): // some take several slashes for one
		return invalidURI("a key with an empty segment is not forwarded")
	}
	return nil
}

func invalidURI(why string) error {
	return &wire.Error{Code: "InvalidURI", Message: "Couldn't parse the specified URI: " + why + ".",
		Status: http.StatusBadRequest}
}

func invalidArgument(why string) error {
	return &wire.Error{Code: "InvalidArgument", Message: "Invalid Argument: " + why + ".", Status: http.StatusBadRequest}
}

// readQuery finds the subresource of a request, of which there is one at most, and leaves what is sent in the query.
// Presigned URLs have headers among their parameters, which become headers.
func (in *s3Request) readQuery() error {
	for _, name := range slices.Sorted(maps.Keys(in.query)) {
		values := in.query[name]
		lower := strings.ToLower(name)
		switch {
		case signatureParameters[lower], name == "x-id": // the latter is for logs
			delete(in.query, name)
		case name == "":
			return invalidArgument("a parameter has no name")
		case len(values) > 1:
			return invalidArgument("the parameter " + name + " is there twice")
		case strings.HasPrefix(lower, "x-amz-"):
			if in.Header.Get(lower) != "" || in.header[lower] != "" {
				return invalidArgument(name + " is there twice")
			}
			if slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)) {
				return invalidArgument(name + " is a header")
			}
			if err := checkHeader(name); err != nil {
				return err
			}
			in.header[lower] = values[0]
			delete(in.query, name)
		case isParameter[name]:
		case in.subresource != "":
			return invalidArgument("the parameters " + in.subresource + " and " + name + " do not go together")
		default:
			in.subresource = name
		}
	}
	return nil
}

// need adds an action on a resource to what the request needs permission for.
func (in *s3Request) need(action, resource string) {
	in.targets = append(in.targets, wire.Target{Action: "s3:" + action, Resource: resource,
		Conditions: in.keys, Unread: in.isUnread})
	if file := strings.TrimRight(resource, "/"); file != resource { // which some endpoints take it for
		in.need(action, file)
	}
}

func bucketARN(bucket string) string { return "arn:aws:s3:::" + bucket }

func objectARN(bucket, key string) string { return bucketARN(bucket) + "/" + key }

// authorize finds what the request needs permission for.
func (in *s3Request) authorize() error {
	var err error
	if in.keys, err = in.conditions(); err != nil {
		return err
	}
	if err := in.checkValues(); err != nil {
		return err
	}
	if in.bucket == "" {
		if in.Method != http.MethodGet || in.subresource != "" {
			return refuse("%s %s of S3", in.Method, in.subresource)
		}
		in.need("ListAllMyBuckets", "*")
		return nil
	}
	if in.key == "" && in.Method == http.MethodPost && in.subresource == "delete" {
		return in.authorizeDeletion()
	}
	actions, err := in.actionsNeeded()
	if err != nil {
		return err
	}
	source, err := in.readSource(actions[0])
	if err != nil {
		return err
	}
	resource := bucketARN(in.bucket)
	if in.key != "" {
		resource = objectARN(in.bucket, in.key)
	}
	for _, action := range actions {
		if ofVersion := versionActions[action]; ofVersion != "" && in.query.Has("versionId") {
			in.need(ofVersion, resource)
			continue
		}
		in.need(action, resource)
		switch action {
		case "CreateBucket":
			in.needOfBucket(resource)
		case "PutObject":
			in.needOfObject(resource)
		}
	}
	if in.param("x-amz-bypass-governance-retention") != "" {
		in.need("BypassGovernanceRetention", resource)
	}
	if source != nil {
		in.needSource(source)
	}
	return nil
}

// needOfBucket adds what the headers of CreateBucket need permission for.
func (in *s3Request) needOfBucket(resource string) {
	if in.hasParam("x-amz-acl") || in.hasParam("x-amz-grant-") {
		in.need("PutBucketAcl", resource)
	}
	if in.hasParam("x-amz-bucket-object-lock-") {
		in.need("PutBucketObjectLockConfiguration", resource)
		in.need("PutBucketVersioning", resource)
	}
	if in.hasParam("x-amz-object-ownership") {
		in.need("PutBucketOwnershipControls", resource)
	}
}

// needOfObject adds what the headers of PutObject and its siblings need permission for.
func (in *s3Request) needOfObject(resource string) {
	if in.hasParam("x-amz-acl") || in.hasParam("x-amz-grant-") {
		in.need("PutObjectAcl", resource)
	}
	if in.hasParam("x-amz-tagging") {
		in.need("PutObjectTagging", resource)
	}
	if in.hasParam("x-amz-object-lock-mode") || in.hasParam("x-amz-object-lock-retain-until-date") {
		in.need("PutObjectRetention", resource)
	}
	if in.hasParam("x-amz-object-lock-legal-hold") {
		in.need("PutObjectLegalHold", resource)
	}
}

// copySource is the object that a copy is of.
type copySource struct{ bucket, key, version string }

// readSource reads the header that says what a copy is of, and writes it anew; nil without one.
func (in *s3Request) readSource(action string) (*copySource, error) {
	text := in.param("x-amz-copy-source")
	if text == "" {
		return nil, nil
	}
	if action != "PutObject" || in.Method != http.MethodPut {
		return nil, invalidArgument("x-amz-copy-source")
	}
	path, query, _ := strings.Cut(text, "?")
	path, err := url.PathUnescape(strings.TrimPrefix(path, "/"))
	if err != nil {
		return nil, invalidArgument("x-amz-copy-source could not be decoded")
	}
	s := &copySource{}
	s.bucket, s.key, _ = strings.Cut(path, "/")
	if s.key == "" {
		return nil, invalidArgument("x-amz-copy-source must be BUCKET/KEY")
	}
	if err := checkName(s.bucket, s.key); err != nil {
		return nil, err
	}
	if strings.HasSuffix(s.key, "/") {
		return nil, refuse("copies of folders")
	}
	if strings.ContainsAny(s.key, "?%") { // which some read as the end of the key once they have decoded it
		return nil, refuse("copies of objects whose keys have %q or %q", '?', '%')
	}
	var ok bool
	if s.version, ok = strings.CutPrefix(query, "versionId="); !ok && query != "" || ok && !isVersionID(s.version) {
		return nil, invalidArgument("x-amz-copy-source")
	}
	in.header["x-amz-copy-source"] = encodePath(s.bucket + "/" + s.key)
	if s.version != "" {
		in.header["x-amz-copy-source"] += "?versionId=" + s.version
		in.versionUnread = true
	}
	in.source = s.bucket + "/" + s.key
	in.keys["s3:x-amz-copy-source"] = []string{in.source}
	return s, nil
}

// needSource adds what a copy needs permission for on the object that it is of.
func (in *s3Request) needSource(s *copySource) {
	action, tagging := "GetObject", "GetObjectTagging"
	if s.version != "" {
		action, tagging = "GetObjectVersion", "GetObjectVersionTagging"
	}
	in.need(action, objectARN(s.bucket, s.key))
	if !in.query.Has("uploadId") && in.param("x-amz-tagging-directive") != "REPLACE" {
		in.need(tagging, objectARN(s.bucket, s.key))
	}
}

// authorizeDeletion reads which objects DeleteObjects deletes. Its body is sent as it was understood.
func (in *s3Request) authorizeDeletion() error {
	if err := checkMarkup(in.Body); err != nil {
		return err
	}
	type object struct {
		Key       string
		VersionID string `xml:"VersionId,omitempty"`
		// Others, which would be left out, are conditions on the object.
		Others []struct{} `xml:",any"`
	}
	var deletion struct {
		XMLName xml.Name `xml:"Delete"`
		Objects []object `xml:"Object"`
		Quiet   bool
	}
	err := xml.Unmarshal(in.Body, &deletion)
	if err != nil || len(deletion.Objects) == 0 || len(deletion.Objects) > maxDeleted {
		return malformedXML()
	}
	for _, o := range deletion.Objects {
		if err := checkName(in.bucket, o.Key); err != nil {
			return err
		}
		if o.Key == "" {
			return malformedXML()
		}
		if len(o.Others) > 0 {
			return refuse("DeleteObjects with conditions")
		}
		if o.VersionID != "" && !isVersionID(o.VersionID) {
			return invalidArgument("VersionId")
		}
		action := "DeleteObject"
		if o.VersionID != "" {
			action, in.versionUnread = "DeleteObjectVersion", true
		}
		in.need(action, objectARN(in.bucket, o.Key))
		if in.param("x-amz-bypass-governance-retention") != "" {
			in.need("BypassGovernanceRetention", objectARN(in.bucket, o.Key))
		}
	}
	// Written anew, so that the endpoint reads the same objects in it.
	in.encode = func() ([]byte, error) { return xml.Marshal(deletion) }
	return nil
}

// checkMarkup refuses XML of more elements than DeleteObjects has, or with long tags: anybody with an access key can
// have it decoded.
func checkMarkup(body []byte) error {
	elements := 0
	for rest := body; ; elements++ {
		begin := bytes.IndexByte(rest, '<')
		if begin < 0 {
			break
		}
		rest = rest[begin+1:]
		if end := bytes.IndexByte(rest, '>'); end > maxTag || end < 0 {
			return malformedXML()
		}
	}
	if elements > maxElements {
		return malformedXML()
	}
	return nil
}

func malformedXML() error {
	return &wire.Error{Code: "MalformedXML", Status: http.StatusBadRequest,
		Message: "The XML you provided was not well-formed or did not validate against our published schema"}
}

// isUnreadKey reports whether the value of a condition key is never known: one of what the endpoint has, or of bodies.
var isUnreadKey = unreadKeys("s3", append(lowerKeys(headerKeys), "s3:signatureversion", "s3:authtype", "s3:prefix",
	"s3:delimiter", "s3:max-keys", "s3:versionid", "s3:resourceaccount", "s3:tlsversion", "s3:x-amz-copy-source",
	// There are no access points.
	"s3:dataaccesspointarn", "s3:dataaccesspointaccount", "s3:accesspointnetworkorigin", "s3:accessgrantsinstancearn",
)...)

func lowerKeys(m map[string]string) (all []string) {
	for key := range m {
		all = append(all, strings.ToLower(key))
	}
	return all
}

// isUnread reports whether the value of a condition key is not known.
func (in *s3Request) isUnread(key string) bool {
	key = strings.ToLower(key)
	ofTags := strings.HasPrefix(key, "s3:requestobjecttag")
	switch {
	case key == "s3:versionid" && in.versionUnread,
		in.Method == http.MethodPut && in.subresource == "tagging" && ofTags,
		in.Method == http.MethodPut && (in.subresource == "retention" || in.subresource == "legal-hold") &&
			strings.HasPrefix(key, "s3:object-lock-"): // the body has it
		return true
	}
	return !ofTags && isUnreadKey(key)
}

// conditions returns the condition keys of S3.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/amazon-s3-policy-keys.html
func (in *s3Request) conditions() (map[string][]string, error) {
	account := []string{wire.CallerFrom(in.Context()).Account}
	keys := map[string][]string{"s3:signatureversion": {"AWS4-HMAC-SHA256"}, "s3:authType": {"REST-HEADER"},
		"s3:ResourceAccount": account, "aws:ResourceAccount": account}
	if in.Signature.Presigned {
		keys["s3:authType"] = []string{"REST-QUERY-STRING"}
		if in.Payload != nil {
			keys["s3:x-amz-content-sha256"] = []string{in.Payload.Hash}
		}
	}
	if in.TLS != nil {
		keys["s3:TlsVersion"] = []string{strings.TrimPrefix(tls.VersionName(in.TLS.Version), "TLS ")}
	}
	if in.key == "" {
		for _, name := range []string{"prefix", "delimiter", "max-keys"} {
			if in.query.Has(name) {
				keys["s3:"+name] = []string{in.query.Get(name)}
			}
		}
	}
	if version := in.query.Get("versionId"); version != "" {
		keys["s3:VersionId"] = []string{version}
	}
	for key, header := range headerKeys {
		if value := in.param(header); value != "" {
			keys[key] = []string{value}
		}
	}
	tags, err := url.ParseQuery(in.param("x-amz-tagging"))
	if err != nil || len(tags) > maxTags {
		return nil, invalidArgument("x-amz-tagging")
	}
	for name, values := range tags {
		if len(values) > 1 { // of which the endpoint might keep either
			return nil, invalidArgument("x-amz-tagging has " + name + " twice")
		}
	}
	if len(tags) > 0 {
		keys["s3:RequestObjectTagKeys"] = slices.Sorted(maps.Keys(tags))
		for name, values := range tags {
			keys["s3:RequestObjectTag/"+name] = values
		}
	}
	return keys, nil
}
