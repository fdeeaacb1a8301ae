package ecr_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecr/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/host/image"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// call sends a request of the registry's protocol, with a password unless that is empty, and returns its status and
// what its body begins with.
func (w *fixture) call(t *testing.T, method, path, password string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, w.server.URL+path, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	if password != "" {
		r.SetBasicAuth("AWS", password)
	}
	client := w.server.Client()
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 500))
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, strings.ToValidUTF8(string(body), "?")
}

// layersOf returns the digests of the layers of an image.
func layersOf(t *testing.T, img v1.Image) []string {
	t.Helper()
	manifest, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	var digests []string
	for _, l := range manifest.Layers {
		digests = append(digests, l.Digest.String())
	}
	return digests
}

// layerURL returns the path and query of a layer's URL.
func (w *fixture) layerURL(t *testing.T, with aws.Credentials, repository, digest string) *url.URL {
	t.Helper()
	out, err := w.ecr(with).GetDownloadUrlForLayer(t.Context(),
		&ecr.GetDownloadUrlForLayerInput{RepositoryName: &repository, LayerDigest: &digest})
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(*out.DownloadUrl)
	if err != nil {
		t.Fatal(err)
	}
	u.Scheme, u.Host, u.Path = "", "", strings.Replace(u.Path, "/v2/", "/v2/"+host+"/", 1)
	return u
}

// Nothing but an authorization token is a password: no part of an access key, and no session token, which are in every
// presigned URL.
func TestWhatIsNoPassword(t *testing.T) {
	t.Parallel()
	w := newFixture(t, image.Options{})
	w.create(t, "app")
	good, err := w.login(t, w.Root).Authorization()
	if err != nil {
		t.Fatal(err)
	}
	img, err := w.push(t, host+"/app:v1", &authn.Basic{Username: "AWS", Password: good.Password})
	if err != nil {
		t.Fatal(err)
	}
	alice := w.NewUser(t, "alice",
		`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"ecr:*","Resource":"*"}}`)
	own, err := w.STS(alice).GetSessionToken(t.Context(), &sts.GetSessionTokenInput{})
	if err != nil {
		t.Fatal(err)
	}
	session := aws.Credentials{AccessKeyID: *own.Credentials.AccessKeyId,
		SecretAccessKey: *own.Credentials.SecretAccessKey, SessionToken: *own.Credentials.SessionToken}
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	for name, c := range map[string]aws.Credentials{"root": w.Root, "user": alice, "session": session} {
		layer := w.layerURL(t, c, "app", layersOf(t, img)[0]).Query()
		passwords := map[string]string{
			"the access key ID":                       c.AccessKeyID,
			"the access key ID, encoded":              encode(c.AccessKeyID),
			"the access key ID without a token":       encode(c.AccessKeyID + ":"),
			"the access key":                          encode(c.AccessKeyID + ":" + c.SecretAccessKey),
			"the secret":                              c.SecretAccessKey,
			"the session token":                       c.SessionToken,
			"the access key ID and the session token": encode(c.AccessKeyID + ":" + c.SessionToken),
			"nothing, encoded":                        encode(":"),
			"the authorization token as it is given":  encode("AWS:" + good.Password),
			"an altered authorization token":          good.Password[:len(good.Password)-6] + "AAAAA=",
		}
		for parameter := range layer {
			passwords["the "+parameter+" of a layer's URL"] = layer.Get(parameter)
		}
		for what, password := range passwords {
			for _, request := range []struct{ method, path string }{
				{http.MethodGet, "/v2/" + host + "/app/tags/list"},
				{http.MethodGet, "/v2/" + host + "/app/manifests/v1"},
				{http.MethodGet, "/v2/" + host + "/app/blobs/" + layersOf(t, img)[0]},
				{http.MethodHead, "/v2/" + host + "/app/blobs/" + layersOf(t, img)[0]},
				{http.MethodPost, "/v2/" + host + "/app/blobs/uploads/"},
				{http.MethodPut, "/v2/" + host + "/app/manifests/pwned"},
				{http.MethodGet, "/v2/"},
				{http.MethodGet, "/v2/?ns=" + host},
			} {
				if status, body := w.call(t, request.method, request.path, password); status != http.StatusForbidden &&
					status != http.StatusUnauthorized {
					t.Errorf("%s, with %s as the password: %s %s: %d %s", name, what, request.method, request.path,
						status, body)
				}
			}
		}
	}
	if status, body := w.call(t, http.MethodGet, "/v2/"+host+"/app/tags/list",
		good.Password); status != http.StatusOK || !strings.Contains(body, `["v1"]`) {
		t.Errorf("with an authorization token: %d %s", status, body)
	}
}

// The URL of a layer downloads that layer from that repository and does nothing else, for as long as its maker may.
func TestALayerURLIsForOneLayer(t *testing.T) {
	t.Parallel()
	w := newFixture(t, image.Options{})
	auth := w.login(t, w.Root)
	w.create(t, "app")
	w.create(t, "other")
	img, err := w.push(t, host+"/app:v1", auth)
	if err != nil {
		t.Fatal(err)
	}
	other, err := w.push(t, host+"/other:v1", auth)
	if err != nil {
		t.Fatal(err)
	}
	layers, foreign := layersOf(t, img), layersOf(t, other)
	puller := w.NewUser(t, "puller",
		`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"ecr:*","Resource":"*"}}`)
	for name, c := range map[string]aws.Credentials{"root": w.Root, "user": puller} {
		u := w.layerURL(t, c, "app", layers[0])
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if status, body := w.call(t, method, u.String(), ""); status != http.StatusOK {
				t.Errorf("%s: %s: %d %s", name, method, status, body)
			}
		}
		for what, request := range map[string]struct{ method, path string }{
			"replace":          {http.MethodPut, u.Path},
			"delete":           {http.MethodDelete, u.Path},
			"post":             {http.MethodPost, u.Path},
			"another layer":    {http.MethodGet, "/v2/" + host + "/app/blobs/" + layers[1]},
			"look for another": {http.MethodHead, "/v2/" + host + "/app/blobs/" + layers[1]},
			"another image's":  {http.MethodGet, "/v2/" + host + "/other/blobs/" + foreign[0]},
			"another place":    {http.MethodGet, "/v2/" + host + "/other/blobs/" + layers[0]},
			"another region": {http.MethodGet, "/v2/" + strings.Replace(host, region, "eu-west-1", 1) +
				"/app/blobs/" + layers[0]},
			"a manifest":        {http.MethodGet, "/v2/" + host + "/app/manifests/v1"},
			"its own manifest":  {http.MethodGet, "/v2/" + host + "/app/manifests/" + layers[0]},
			"replace manifests": {http.MethodPut, "/v2/" + host + "/app/manifests/v1"},
			"the tags":          {http.MethodGet, "/v2/" + host + "/app/tags/list"},
			"an upload":         {http.MethodPost, "/v2/" + host + "/app/blobs/uploads/"},
			"the base":          {http.MethodGet, "/v2/"},
		} {
			if status, body := w.call(t, request.method, request.path+"?"+u.RawQuery,
				""); status != http.StatusForbidden && status != http.StatusUnauthorized &&
				status != http.StatusMethodNotAllowed {
				t.Errorf("%s, %s: %d %s", name, what, status, body)
			}
		}
	}

	u := w.layerURL(t, puller, "app", layers[0])
	// Whatever a client of the registry may come to ask with such a token, it reads that layer only.
	r := httptest.NewRequest(http.MethodGet, u.String(), nil)
	for action, allowed := range map[string]bool{"ecr:GetDownloadUrlForLayer": true, "ecr:BatchGetImage": false,
		"ecr:PutImage": false} {
		err := w.access.Allow(t.Context(), image.Request{
			HTTP: r, LayerToken: u.Query().Get("layer-token"), Layer: layers[0], Account: account, Region: region,
			Repository: "app", Actions: []string{action},
		})
		if (err == nil) != allowed {
			t.Errorf("%s with the token of a layer's URL: %v", action, err)
		}
	}
	deny := `{"Version":"2012-10-17","Statement":{"Effect":"Deny","Action":"ecr:GetDownloadUrlForLayer","Resource":"*"}}`
	if _, err := w.IAM(w.Root).PutUserPolicy(t.Context(), &iam.PutUserPolicyInput{UserName: aws.String("puller"),
		PolicyName: aws.String("deny"), PolicyDocument: &deny}); err != nil {
		t.Fatal(err)
	}
	if status, body := w.call(t, http.MethodGet, u.String(), ""); status != http.StatusForbidden ||
		!strings.Contains(body, "explicit deny") {
		t.Errorf("after its maker lost the permission: %d %s", status, body)
	}
	if _, err := w.IAM(w.Root).DeleteUserPolicy(t.Context(), &iam.DeleteUserPolicyInput{UserName: aws.String("puller"),
		PolicyName: aws.String("deny")}); err != nil {
		t.Fatal(err)
	}
	if status, body := w.call(t, http.MethodGet, u.String(), ""); status != http.StatusOK {
		t.Errorf("after its maker got it back: %d %s", status, body)
	}
	w.SetNow(time.Now().Add(time.Hour + time.Minute))
	if status, body := w.call(t, http.MethodGet, u.String(), ""); status != http.StatusForbidden ||
		!strings.Contains(body, "expired") {
		t.Errorf("after an hour: %d %s", status, body)
	}
}

// Layers of EKS's own images have URLs in every region.
func TestLayerURLsOfEKS(t *testing.T) {
	t.Parallel()
	w := newFixture(t, image.Options{})
	if _, err := w.images.Load(t.Context(), dockerArchive(t, image.Host(region)+"/eks/pause:3.10"),
		w.access); err != nil {
		t.Fatal(err)
	}
	eks := image.EKSAccount
	got, err := w.ecr(w.Root).BatchGetImage(t.Context(), &ecr.BatchGetImageInput{RegistryId: &eks,
		RepositoryName: aws.String("eks/pause"), ImageIds: []types.ImageIdentifier{{ImageTag: aws.String("3.10")}}})
	if err != nil || len(got.Images) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	manifest, err := v1.ParseManifest(strings.NewReader(*got.Images[0].ImageManifest))
	if err != nil {
		t.Fatal(err)
	}
	layer := manifest.Layers[0].Digest.String()
	for _, r := range []string{region, "eu-west-1"} {
		c := ecr.New(ecr.Options{Region: r, BaseEndpoint: aws.String(w.URL), HTTPClient: awsclient.HTTP(),
			Credentials: credentials.StaticCredentialsProvider{Value: w.Root}})
		out, err := c.GetDownloadUrlForLayer(t.Context(), &ecr.GetDownloadUrlForLayerInput{RegistryId: &eks,
			RepositoryName: aws.String("eks/pause"), LayerDigest: &layer})
		if err != nil {
			t.Fatal(err)
		}
		path := strings.Replace(*out.DownloadUrl, "https://", "/v2/", 1)
		path = strings.Replace(path, ".com/v2/", ".com/", 1)
		if status, body := w.call(t, http.MethodGet, path, ""); status != http.StatusOK {
			t.Errorf("%s: %d %s", r, status, body)
		}
	}
}

// What a policy says about requests holds for those of the registry's protocol as for those of the API.
func TestTheRegistryEvaluatesGlobalConditionKeys(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		condition string
		tls       bool
		allowed   bool
	}{
		"its address":                {`"IpAddress":{"aws:SourceIp":"127.0.0.0/8"}`, false, false},
		"another address":            {`"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}`, false, true},
		"not from a network":         {`"NotIpAddress":{"aws:SourceIp":"10.0.0.0/8"}`, false, false},
		"plain text":                 {`"Bool":{"aws:SecureTransport":"false"}`, false, false},
		"TLS":                        {`"Bool":{"aws:SecureTransport":"false"}`, true, true},
		"after a time that is over":  {`"DateGreaterThan":{"aws:CurrentTime":"2020-01-01T00:00:00Z"}`, false, false},
		"after a time that is to be": {`"DateGreaterThan":{"aws:CurrentTime":"2200-01-01T00:00:00Z"}`, false, true},
		"since the epoch":            {`"NumericGreaterThan":{"aws:EpochTime":"1000"}`, false, false},
		"its region":                 {`"StringEquals":{"aws:RequestedRegion":"us-east-1"}`, false, false},
		"another region":             {`"StringEquals":{"aws:RequestedRegion":"eu-west-1"}`, false, true},
		"its program":                {`"StringLike":{"aws:UserAgent":"Go-http-client/*"}`, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, image.Options{})
			if test.tls {
				w.server.Close()
				w.server = httptest.NewTLSServer(w.images.Handler(w.access))
				t.Cleanup(w.server.Close)
			}
			w.create(t, "app")
			user := w.NewUser(t,
				"reader", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"ecr:*","Resource":"*"},
				{"Effect":"Deny","Action":"ecr:ListImages","Resource":"*","Condition":{`+test.condition+`}}]}`)
			password, err := w.login(t, user).Authorization()
			if err != nil {
				t.Fatal(err)
			}
			status, body := w.call(t, http.MethodGet, "/v2/"+host+"/app/tags/list", password.Password)
			denied := status == http.StatusForbidden && strings.Contains(body,
				"explicit deny in an identity-based policy")
			if denied == test.allowed {
				t.Errorf("%d %s", status, body)
			}
		})
	}
}

func TestRegistriesOfRegionsThatDoNotExist(t *testing.T) {
	t.Parallel()
	w := newFixture(t, image.Options{})
	password, err := w.login(t, w.Root).Authorization()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.images.Load(t.Context(), dockerArchive(t, image.Host(region)+"/eks/pause:3.10"),
		w.access); err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]int{"eu-west-1": http.StatusOK, "mars-1": http.StatusNotFound,
		"us-east-1a": http.StatusNotFound} {
		registry := strings.Replace(image.Host(region), region, in, 1)
		if status, body := w.call(t, http.MethodGet, "/v2/"+registry+"/eks/pause/tags/list",
			password.Password); status != want {
			t.Errorf("%s: %d %s", registry, status, body)
		}
	}
}

// A path that leaves its registry is refused before anybody looks what is there.
func TestPathsThatLeaveTheirRegistry(t *testing.T) {
	t.Parallel()
	w := newFixture(t, image.Options{})
	w.create(t, "app")
	img, err := w.push(t, host+"/app:v1", w.login(t, w.Root))
	if err != nil {
		t.Fatal(err)
	}
	stranger := w.NewAccount(t, iamtest.Other)
	own, err := w.login(t, stranger).Authorization()
	if err != nil {
		t.Fatal(err)
	}
	layer := layersOf(t, img)[0]
	for _, path := range []string{
		"/v2/localhost:5000/../" + host + "/app/blobs/" + layer,
		"/v2/localhost:5000/x/../../" + host + "/app/blobs/" + layer,
		"/v2/localhost:5000/%2e%2e/" + host + "/app/blobs/" + layer,
		"/v2/localhost:5000//" + host + "/app/blobs/" + layer,
		"/v2/localhost:5000/./" + host + "/app/blobs/" + layer,
		"/v2/./" + host + "/app/blobs/" + layer,
		"/v2//" + host + "/app/blobs/" + layer,
		"/v2/../v2/" + host + "/app/blobs/" + layer,
		"/v2/" + strings.Replace(host, account, iamtest.Other, 1) + "/../" + host + "/app/blobs/" + layer,
		"/v2/../" + host + "/app/blobs/" + layer + "?ns=localhost:5000",
		"/v2/app/blobs/" + layer + "?ns=" + host + ":443",
		"/v2/app/blobs/" + layer + "?ns=" + host + ".",
		"/v2/app/blobs/" + layer + "?ns=localhost/" + host,
		"/v2/app/blobs/" + layer + "?ns=" + strings.ToUpper(host),
	} {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:4566/", nil)
		var ok bool
		if r.URL.Path, r.URL.RawQuery, ok = strings.Cut(path, "?"); !ok {
			r.URL.RawQuery = ""
		}
		if unescaped, err := url.PathUnescape(r.URL.Path); err == nil {
			r.URL.Path = unescaped
		}
		r.SetBasicAuth("AWS", own.Password)
		answer := httptest.NewRecorder()
		w.images.Handler(w.access).ServeHTTP(answer, r)
		if answer.Code < 400 {
			t.Errorf("%s: %d %v", path, answer.Code, answer.Header())
		}
	}
}
