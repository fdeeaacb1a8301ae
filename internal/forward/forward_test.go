package forward_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/aws/wire/sigv4"
	"github.com/coracle-eks/coracle/internal/forward"
)

// secret is that of the endpoint, which only it and the daemon know.
const secret = "the endpoint's own secret"

// endpoint is one of the operator's, with objects and the requests for JSON services that it got.
type endpoint struct {
	*httptest.Server

	mu       sync.Mutex
	objects  map[string]string // by path
	requests []string
	header   http.Header // of the last one
	// secrets are the answers to DescribeSecret by the body of the request; asked are those bodies.
	secrets map[string]string
	asked   []string
}

func newEndpoint(t *testing.T) *endpoint {
	e := &endpoint{objects: map[string]string{}}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := e.serve(w, r); err != nil {
			w.WriteHeader(http.StatusForbidden)
			code := "EndpointRefuses"
			var refused *sigv4.Error
			if errors.As(err, &refused) {
				code = refused.Code
			}
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, err)
		}
	}))
	t.Cleanup(e.Close)
	return e
}

// serve verifies the signature of a request, as any endpoint does, and keeps or returns an object.
func (e *endpoint) serve(w http.ResponseWriter, r *http.Request) error {
	signature, err := sigv4.Parse(r)
	if err != nil {
		return err
	}
	if signature.AccessKeyID != "ENDPOINT" || signature.SessionToken != "" || signature.Presigned {
		return fmt.Errorf("signed by %s", signature.AccessKeyID)
	}
	var body []byte
	if signature.Service == "s3" {
		payload, err := signature.VerifyHead(r.Body, secret, time.Now())
		if err != nil {
			return err
		}
		if body, err = io.ReadAll(payload); err != nil {
			return err
		}
		if want := r.Header.Get("X-Amz-Trailer"); want != "" && payload.Trailer.Get(want) == "" {
			return errors.New("no trailer " + want)
		}
	} else {
		if body, err = io.ReadAll(r.Body); err != nil {
			return err
		}
		if err := signature.Verify(body, secret, time.Now()); err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.Header.Get("X-Amz-Target") == "secretsmanager.DescribeSecret" {
		e.asked = append(e.asked, string(body))
		answer, ok := e.secrets[string(body)]
		if !ok {
			answer = `{"__type":"ResourceNotFoundException"}`
		}
		if strings.Contains(answer, "__type") {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, err := io.WriteString(w, answer)
		return err
	}
	path := r.URL.Path
	e.header = r.Header
	e.requests = append(e.requests, r.Method+" "+r.Header.Get("X-Amz-Target")+r.URL.RequestURI()+" "+string(body))
	switch {
	case signature.Service != "s3":
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		_, err = io.WriteString(w, `{"endpoint":"has it"}`)
	case r.Method == http.MethodPost && r.URL.Query().Has("delete"):
		_, err = io.WriteString(w, "<DeleteResult></DeleteResult>")
	case r.Method == http.MethodPut && r.Header.Get("X-Amz-Copy-Source") != "":
		_, err = io.WriteString(w, "<CopyObjectResult></CopyObjectResult>")
	case r.Method == http.MethodPut:
		e.objects[path] = string(body)
	case r.URL.Query().Has("list-type"):
		_, err = io.WriteString(w, "<ListBucketResult><Name>bkt</Name></ListBucketResult>")
	case e.objects[path] == "":
		w.WriteHeader(http.StatusNotFound)
		_, err = io.WriteString(w, "<Error><Code>NoSuchKey</Code></Error>")
	default:
		_, err = io.WriteString(w, e.objects[path])
	}
	return err
}

// last returns what the endpoint got last; empty when it got nothing since.
func (e *endpoint) last() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.requests) == 0 {
		return ""
	}
	last := e.requests[len(e.requests)-1]
	e.requests = nil
	return last
}

// fixture is an AWS endpoint that forwards.
type fixture struct {
	*iamtest.AWS
	endpoint      *endpoint
	plain, secure *httptest.Server
	secret        atomic.Value // of the endpoint, as its operator has written it
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{AWS: iamtest.New(t), endpoint: newEndpoint(t)}
	f.secret.Store(secret)
	var texts []string
	for _, name := range forward.Names() {
		texts = append(texts, name+"="+f.endpoint.URL)
	}
	endpoints, err := forward.Parse(texts)
	if err != nil {
		t.Fatal(err)
	}
	forwarder := forward.New(forward.Options{Mux: f.Mux, Endpoints: endpoints, Log: slog.New(slog.DiscardHandler),
		Credentials: func(service, account string) (aws.Credentials, string, error) {
			if account != iamtest.Account {
				return aws.Credentials{}, "", &forward.NoCredentialsError{Remedy: "ask the operator"}
			}
			return aws.Credentials{AccessKeyID: "ENDPOINT", SecretAccessKey: f.secret.Load().(string)}, "", nil
		}})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := forwarder.Find(r); h != nil {
			h(w, r)
			return
		}
		f.Mux.ServeHTTP(w, r)
	})
	f.plain, f.secure = httptest.NewServer(handler), httptest.NewTLSServer(handler)
	t.Cleanup(f.plain.Close)
	t.Cleanup(f.secure.Close)
	return f
}

func (f *fixture) s3(with aws.Credentials, server *httptest.Server) *s3.Client {
	return s3.New(s3.Options{Region: iamtest.Region, BaseEndpoint: &server.URL, HTTPClient: server.Client(),
		Credentials: credentials.StaticCredentialsProvider{Value: with}, RetryMaxAttempts: 1, UsePathStyle: true})
}

func codeOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return fmt.Sprint(err)
}

// The SDK sends the hash of a payload over HTTP, and a checksum behind the payload over TLS.
func TestObjectsPassThrough(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	user := f.NewUser(t, "ada", `{"Statement":{"Effect":"Allow","Action":"s3:*Object","Resource":"arn:aws:s3:::bkt/*"}}`)
	keys := []string{"plain", "a b+c/ü(1)~'*/%2f", "folder/"}
	for name, server := range map[string]*httptest.Server{"http": f.plain, "https": f.secure} {
		client := f.s3(user, server)
		for _, size := range []int{0, 1, 64 << 10, 200_000} {
			content := strings.Repeat("x", size)
			for _, key := range keys {
				if strings.HasSuffix(key, "/") && size > 256 { // no folder
					continue
				}
				if _, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("bkt"), Key: &key,
					Body: strings.NewReader(content)}); err != nil {
					t.Fatalf("%s %s: %v", name, key, err)
				}
				if got, ok := f.endpoint.objects["/bkt/"+key]; !ok || got != content {
					t.Fatalf("%s: the endpoint has %d bytes of %s, not %d", name, len(got), key, size)
				}
			}
			if size == 0 {
				continue
			}
			out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("bkt"), Key: &keys[1]})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, err := io.ReadAll(out.Body)
			if err != nil || string(got) != content {
				t.Fatalf("%s: %d bytes come back, not %d: %v", name, len(got), size, err)
			}
		}
	}
	if _, err := f.s3(user, f.secure).GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("bkt"),
		Key: aws.String("none")}); codeOf(err) != "NoSuchKey" {
		t.Errorf("the endpoint's own error comes as %v", err)
	}
}

func TestPresignedURLs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpoint.objects["/bkt/k"] = "content"
	get, err := s3.NewPresignClient(f.s3(f.Root, f.plain)).PresignGetObject(t.Context(),
		&s3.GetObjectInput{Bucket: aws.String("bkt"), Key: aws.String("k"), ResponseContentType: aws.String("text/x")})
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Get(get.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != "content" {
		t.Errorf("got %q, %v", body, err)
	}
	if got := f.endpoint.last(); !strings.HasPrefix(got, "GET /bkt/k?response-content-type=text%2Fx") {
		t.Errorf("the endpoint got %q", got)
	}
}

func TestCallersNeedPermission(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	user := f.NewUser(t, "ada", `{"Statement":[
		{"Effect":"Allow","Action":["s3:GetObject","s3:PutObject","s3:DeleteObject"],"Resource":"arn:aws:s3:::bkt/mine/*"},
		{"Effect":"Allow","Action":"s3:ListBucket","Resource":"arn:aws:s3:::bkt",
			"Condition":{"StringEquals":{"s3:prefix":"mine/"}}}]}`)
	client := f.s3(user, f.plain)
	b, mine, other := aws.String("bkt"), aws.String("mine/k"), aws.String("other/k")
	list := func(prefix *string) error {
		_, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: b, Prefix: prefix})
		return err
	}
	put := func(in s3.PutObjectInput) error {
		in.Bucket, in.Body = b, strings.NewReader("x")
		_, err := client.PutObject(ctx, &in)
		return err
	}
	remove := func(keys ...*string) error {
		var all []types.ObjectIdentifier
		for _, key := range keys {
			all = append(all, types.ObjectIdentifier{Key: key})
		}
		_, err := client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: b, Delete: &types.Delete{Objects: all}})
		return err
	}
	fromTo := func(source string, to *string) error {
		_, err := client.CopyObject(ctx, &s3.CopyObjectInput{Bucket: b, Key: to, CopySource: &source,
			TaggingDirective: types.TaggingDirectiveReplace})
		return err
	}
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"put", put(s3.PutObjectInput{Key: mine}), ""},
		{"put elsewhere", put(s3.PutObjectInput{Key: other}), "AccessDenied"},
		{"put for everybody", put(s3.PutObjectInput{Key: mine, ACL: types.ObjectCannedACLPublicRead}), "AccessDenied"},
		{"put with tags", put(s3.PutObjectInput{Key: mine, Tagging: aws.String("a=b")}), "AccessDenied"},
		{"list", list(aws.String("mine/")), ""},
		{"list all", list(nil), "AccessDenied"},
		{"delete several", remove(mine, aws.String("mine/l")), ""},
		{"delete one of others", remove(mine, other), "AccessDenied"},
		{"copy", fromTo("bkt/mine/k", aws.String("mine/l")), ""},
		{"copy of others", fromTo("bkt/other/k", mine), "AccessDenied"},
		{"copy of another bucket", fromTo("ckt/mine%2Fk", mine), "AccessDenied"},
		{"the key climbs", put(s3.PutObjectInput{Key: aws.String("mine/../other")}), "InvalidURI"},
		{"the source climbs", fromTo("bkt/mine/%2e%2e/other", mine), "InvalidURI"},
	} {
		if got := codeOf(test.err); test.want == "" && test.err != nil || test.want != "" && got != test.want {
			t.Errorf("%s: %v, want %q", test.name, test.err, test.want)
		}
	}
	f.endpoint.last()
	if err := put(s3.PutObjectInput{Key: other}); err == nil || f.endpoint.last() != "" {
		t.Errorf("a refused request reached the endpoint: %v", err)
	} else if !strings.Contains(err.Error(), "User: arn:aws:iam::111122223333:user/ada is not authorized to perform: "+
		"s3:PutObject on resource: arn:aws:s3:::bkt/other/k") {
		t.Errorf("the refusal says %v", err)
	}
	denials := f.Identity.Denials(iamtest.Account)
	if len(denials) == 0 {
		t.Error("coracle denied knows no denials")
	}
	if _, err := f.s3(f.NewAccount(t, iamtest.Other), f.plain).ListBuckets(ctx, nil); codeOf(err) != "AccessDenied" ||
		!strings.Contains(err.Error(), "no credentials at the endpoint") {
		t.Errorf("an account without credentials at the endpoint gets %v", err)
	}
}

func TestEndpointAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpoint.Close()
	_, err := f.s3(f.Root, f.plain).ListBuckets(t.Context(), nil)
	if codeOf(err) != "ServiceUnavailable" || !strings.Contains(err.Error(), "StatusCode: 503") ||
		!strings.Contains(err.Error(), f.endpoint.URL) {
		t.Errorf("got %v", err)
	}
	status, body := f.post(t, f.Root, "dynamodb", "DynamoDB_20120810.ListTables", "{}")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, f.endpoint.URL) {
		t.Errorf("got %d %s", status, body)
	}
}

// sign signs a request as the SDK does.
func sign(t *testing.T, r *http.Request, with aws.Credentials, service, hash string) {
	t.Helper()
	if hash != "" {
		r.Header.Set("X-Amz-Content-Sha256", hash)
	} else {
		sum := sha256.Sum256(nil)
		if r.GetBody != nil {
			body, _ := r.GetBody()
			content, _ := io.ReadAll(body)
			sum = sha256.Sum256(content)
		}
		hash = hex.EncodeToString(sum[:])
	}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = service == "s3" })
	if err := signer.SignHTTP(context.Background(), with, r, hash, service, iamtest.Region, time.Now()); err != nil {
		t.Fatal(err)
	}
}

func do(t *testing.T, r *http.Request) (status int, body string) {
	t.Helper()
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

// post sends a request to a service whose requests are JSON.
func (f *fixture) post(t *testing.T, with aws.Credentials, service, target, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, f.plain.URL+"/", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", target)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	sign(t, r, with, service, "")
	return do(t, r)
}

// An object that is not what was signed never becomes one of the endpoint's.
func TestPayloadsThatWereNotSigned(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	signed := strings.Repeat("x", 100_000)
	sum := sha256.Sum256([]byte(signed))
	for name, test := range map[string]struct{ hash, body, code string }{
		"the same":         {hex.EncodeToString(sum[:]), signed, ""},
		"another end":      {hex.EncodeToString(sum[:]), signed[1:] + "y", "XAmzContentSHA256Mismatch"},
		"no hash at all":   {"x", signed, "InvalidRequest"},
		"another coding":   {"STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", signed, "NotImplemented"},
		"not in chunks":    {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD", signed, "InvalidRequest"},
		"nobody signed it": {"UNSIGNED-PAYLOAD", signed, ""},
	} {
		path := "/bkt/" + strings.ReplaceAll(name, " ", "-")
		r, err := http.NewRequest(http.MethodPut, f.plain.URL+path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(test.hash, "STREAMING") {
			r.Header.Set("X-Amz-Decoded-Content-Length", fmt.Sprint(len(test.body)))
		}
		sign(t, r, f.Root, "s3", test.hash)
		status, answer := do(t, r)
		if test.code == "" && status != http.StatusOK || !strings.Contains(answer, test.code) {
			t.Errorf("%s: %d %s", name, status, answer)
		}
		f.endpoint.mu.Lock()
		if _, ok := f.endpoint.objects[path]; ok != (test.code == "") {
			t.Errorf("%s: the endpoint has it: %v", name, ok)
		}
		f.endpoint.mu.Unlock()
	}
}

func TestTablesAndSecrets(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := f.NewUser(t, "ada", `{"Statement":[
		{"Effect":"Allow","Action":"dynamodb:*Item","Resource":"arn:aws:dynamodb:us-east-1:111122223333:table/mine"},
		{"Effect":"Allow","Action":"dynamodb:GetItem","Resource":"*","Condition":
			{"ForAllValues:StringEquals":{"dynamodb:LeadingKeys":"ada"}}},
		{"Effect":"Allow","Action":"secretsmanager:GetSecretValue",
			"Resource":"arn:aws:secretsmanager:us-east-1:111122223333:secret:mine-??????"}]}`)
	const dynamo = "DynamoDB_20120810."
	for _, test := range []struct {
		name, service, target, body string
		status                      int
		says                        string
	}{
		{"a table", "dynamodb", dynamo + "GetItem", `{"TableName":"mine","Key":{}}`, 200, "endpoint"},
		{"its ARN", "dynamodb", dynamo + "PutItem",
			`{"TableName":"arn:aws:dynamodb:us-east-1:111122223333:table/mine"}`, 200, "endpoint"},
		{"another table", "dynamodb", dynamo + "PutItem", `{"TableName":"other"}`, 400, "AccessDeniedException"},
		{"items of other people", "dynamodb", dynamo + "GetItem", `{"TableName":"other"}`, 400, "AccessDeniedException"},
		{"a name in other case", "dynamodb", dynamo + "PutItem", `{"TableName":"mine","tableName":"other"}`, 400,
			"SerializationException"},
		{"in a transaction", "dynamodb", dynamo + "TransactWriteItems",
			`{"TransactItems":[{"Put":{"TableName":"mine","tablename":"other"}}]}`, 400, "SerializationException"},
		{"no name", "dynamodb", dynamo + "PutItem", `{}`, 400, "ValidationException"},
		{"a table of others", "dynamodb", dynamo + "PutItem",
			`{"TableName":"arn:aws:dynamodb:us-east-1:444455556666:table/mine"}`, 501, "NotImplemented"},
		{"a table of another region", "dynamodb", dynamo + "TagResource",
			`{"ResourceArn":"arn:aws:dynamodb:eu-west-1:111122223333:table/mine"}`, 501, "NotImplemented"},
		{"an index that means nothing", "dynamodb", dynamo + "PutItem", `{"TableName":"mine","IndexName":"i"}`, 200,
			"endpoint"},
		{"two names", "dynamodb", dynamo + "PutItem", `{"TableName":"other","TableName":"mine"}`, 400,
			"SerializationException"},
		{"a batch", "dynamodb", dynamo + "BatchGetItem", `{"RequestItems":{"mine":{"Keys":[]},"other":{}}}`, 400,
			"table/other"},
		{"a transaction", "dynamodb", dynamo + "TransactWriteItems",
			`{"TransactItems":[{"Put":{"TableName":"mine"}},{"Delete":{"TableName":"mine"}}]}`, 200, "endpoint"},
		{"one of others in a transaction", "dynamodb", dynamo + "TransactWriteItems",
			`{"TransactItems":[{"Put":{"TableName":"mine"}},{"Delete":{"TableName":"other"}}]}`, 400,
			"dynamodb:DeleteItem on resource: arn:aws:dynamodb:us-east-1:111122223333:table/other"},
		{"SQL", "dynamodb", dynamo + "ExecuteStatement", `{"Statement":"SELECT * FROM mine"}`, 501, "NotImplemented"},
		{"no operation", "dynamodb", "GetItem", `{}`, 400, "UnknownOperationException"},
		{"no JSON", "dynamodb", dynamo + "GetItem", `{`, 400, "SerializationException"},
		{"a secret", "secretsmanager", "secretsmanager.GetSecretValue", `{"SecretId":"mine"}`, 200, "endpoint"},
		{"its ARN without the end", "secretsmanager", "secretsmanager.GetSecretValue",
			`{"SecretId":"arn:aws:secretsmanager:us-east-1:111122223333:secret:mine"}`, 400, "six characters"},
		{"a pattern", "secretsmanager", "secretsmanager.GetSecretValue", `{"SecretId":"m*"}`, 400,
			"ValidationException"},
		{"another secret", "secretsmanager", "secretsmanager.GetSecretValue", `{"SecretId":"other"}`, 400,
			"secret:other-??????"},
		{"some secrets", "secretsmanager", "secretsmanager.BatchGetSecretValue", `{"SecretIdList":["mine"]}`, 400,
			"BatchGetSecretValue"},
		{"a service that is not forwarded", "sns", "x.y", `{}`, 501, "UnknownService"},
	} {
		f.endpoint.last()
		status, body := f.post(t, user, test.service, test.target, test.body)
		if status != test.status || !strings.Contains(body, test.says) {
			t.Errorf("%s: %d %s", test.name, status, body)
		}
		want := ""
		if test.status == http.StatusOK {
			want = "POST " + test.target + "/ " + test.body
		}
		if got := f.endpoint.last(); got != want {
			t.Errorf("%s: the endpoint got %q", test.name, got)
		}
	}
	wrong := user
	wrong.SecretAccessKey = "another"
	if status, body := f.post(t, wrong, "dynamodb", dynamo+"ListTables", "{}"); status != http.StatusBadRequest ||
		!strings.Contains(body, "InvalidSignatureException") {
		t.Errorf("a wrong secret: %d %s", status, body)
	}
}

// Nothing in a request but its signature says where it goes.
func TestRequestsDoNotChooseTheirWay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a request came here")
	}))
	defer elsewhere.Close()
	f.endpoint.objects["/bkt/k"] = "content"
	r, err := http.NewRequest(http.MethodGet, f.plain.URL+"/bkt/k", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = strings.TrimPrefix(elsewhere.URL, "http://")
	r.Header.Set("X-Forwarded-Host", r.Host)
	r.Header.Set("Forwarded", "host="+r.Host)
	sign(t, r, f.Root, "s3", "UNSIGNED-PAYLOAD")
	if status, body := do(t, r); status != http.StatusOK || body != "content" {
		t.Errorf("%d %s", status, body)
	}
	for name, change := range map[string]func(*http.Request){
		"a bucket in the name": func(r *http.Request) { r.URL.Path, r.Host = "/k", "bkt.s3.us-east-1.amazonaws.com" },
		"no bucket":            func(r *http.Request) { r.URL.Path, r.Host = "/bkt/k", "s3.us-east-1.amazonaws.com" },
	} {
		r, err := http.NewRequest(http.MethodGet, f.plain.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		change(r)
		sign(t, r, f.Root, "s3", "UNSIGNED-PAYLOAD")
		if status, body := do(t, r); status != http.StatusOK || body != "content" {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	r, err = http.NewRequest(http.MethodGet, f.plain.URL+"/k", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "bkt.s3.us-east-1.amazonaws.com"
	if status, body := do(t, r); status != http.StatusForbidden || !strings.Contains(body, "<Code>AccessDenied</Code>") {
		t.Errorf("an unsigned request: %d %s", status, body)
	}
	for query, header := range map[string]string{"": "AWS AKIA:x", "?AWSAccessKeyId=AKIA&Signature=x&Expires=1": ""} {
		r, err := http.NewRequest(http.MethodGet, f.plain.URL+"/bkt/k"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", header)
		if status, body := do(t, r); status != http.StatusBadRequest || !strings.Contains(body, "AWS4-HMAC-SHA256.<") {
			t.Errorf("a request signed by version 2: %d %s", status, body)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"s3=http://127.0.0.1:9000": "", "dynamodb=https://db.example/": "", "secretsmanager=http://[::1]:4000": "",
		"s3": "SERVICE=URL", "=http://a": "none of the services", "lambda=http://a": "dynamodb, s3, secretsmanager",
		"eks=http://a": "coracle serves eks itself", "logs=http://a": "coracle serves logs itself",
		"s3=127.0.0.1:9000": "cannot be read", "s3=ftp://a": "http:// or https://", "s3=http://": "http:// or https://",
		"s3=http://a b": "cannot be read", "s3=http://u:p@a": "password", "s3=http://a/path": "more than a host",
		"s3=http://a?x": "more than a host",
	} {
		_, err := forward.Parse([]string{text})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := forward.Parse([]string{"s3=http://a", "s3=http://b"}); err == nil {
		t.Error("one service has two endpoints")
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	if got := forward.Names(); !slices.IsSorted(got) {
		t.Errorf("%q is not sorted, as messages show it", got)
	}
}
