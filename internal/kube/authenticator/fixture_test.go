package authenticator

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/pki"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

const (
	account   = "111122223333"
	region    = "eu-west-1"
	name      = "ironman-2022"
	clusterID = "0123456789ABCDEF0123456789ABCDEF"
	otherID   = "FEDCBA9876543210FEDCBA9876543210"
)

// fixture is an authenticator behind its TLS listener, with one cluster in the store.
type fixture struct {
	t         testing.TB
	store     *store.Store
	auth      *Authenticator
	sts       *fakeSTS
	kube      *fakeKube
	authority *pki.Authority
	server    *httptest.Server
	dir       string
}

func newFixture(t testing.TB, mode ekstypes.AuthenticationMode) *fixture {
	t.Helper()
	kube := newFakeKube(t)
	f := newFixtureFor(t, mode, &rest.Config{Host: kube.server.URL})
	f.kube = kube
	return f
}

// newFixtureFor returns a fixture whose cluster has that API server.
func newFixtureFor(t testing.TB, mode ekstypes.AuthenticationMode, apiServer *rest.Config) *fixture {
	t.Helper()
	return newFixtureOver(t, storetest.New(t), mode, apiServer, func(*Options) {})
}

// newFixtureOver returns a fixture over a store with records in it, and with other options.
func newFixtureOver(t testing.TB, s *store.Store, mode ekstypes.AuthenticationMode, apiServer *rest.Config,
	change func(*Options)) *fixture {
	t.Helper()
	f := &fixture{t: t, store: s, dir: t.TempDir(),
		sts: &fakeSTS{callers: map[string]caller{}, services: map[string]string{}}}
	f.put(f.store.Txn(t.Context(),
		record.Clusters(f.store).CreateOp(record.ClusterKey(account, region, name), record.Cluster{
			Account: account, Region: region, Name: name, ID: clusterID, AuthenticationMode: mode,
		}),
		record.Issuers(f.store).CreateOp(store.Key(clusterID), record.Issuer{Account: account, Region: region,
			Cluster: name}),
		record.ControlPlanes(f.store).CreateOp(record.ClusterKey(account, region, name), record.ControlPlane{
			ClusterID: clusterID, Endpoint: apiServer.Host, Bootstrapped: "fingerprint",
		}),
	))
	options := Options{
		Store:      f.store,
		STS:        f.sts,
		Service:    func(answer *http.Response) string { return answer.Header.Get("Service") },
		Own:        OwnHosts("127.0.0.1:4566"),
		RESTConfig: func(context.Context, record.Cluster) (*rest.Config, error) { return apiServer, nil },
		Instances:  func(record.Cluster) Instances { return fakeInstances{} },
		Dir:        func(id string) string { return filepath.Join(f.dir, id) },
		Now:        func() time.Time { return testNow },
	}
	change(&options)
	f.auth = New(options)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f.auth.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })

	var err error
	if f.authority, err = pki.OpenAuthority(t.TempDir(), "ca", "test"); err != nil {
		t.Fatal(err)
	}
	pair, err := f.authority.Issue(ServerLeaf(net.IPv4(127, 0, 0, 1)))
	if err != nil {
		t.Fatal(err)
	}
	f.server = httptest.NewUnstartedServer(f.auth)
	if f.server.TLS, err = TLSConfig(f.authority, pair); err != nil {
		t.Fatal(err)
	}
	f.server.StartTLS()
	t.Cleanup(f.server.Close)
	return f
}

func (f *fixture) put(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// client returns an HTTPS client with the certificate of the API server of that cluster.
func (f *fixture) client(clusterID string) *http.Client {
	f.t.Helper()
	pair, err := f.authority.Issue(ClientLeaf(clusterID))
	f.put(err)
	cert, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	f.put(err)
	pool := x509.NewCertPool()
	pool.AddCert(f.authority.Certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}}}
	f.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (f *fixture) post(path string, in, out any) (status int, body string) {
	f.t.Helper()
	data, err := json.Marshal(in)
	f.put(err)
	resp, err := f.client(clusterID).Post(f.server.URL+path, "application/json", bytes.NewReader(data))
	f.put(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	f.put(err)
	if resp.StatusCode == http.StatusOK {
		f.put(json.Unmarshal(text, out))
	}
	return resp.StatusCode, string(text)
}

// authenticate sends a token as the API server does.
func (f *fixture) authenticate(token string) authenticationv1.TokenReviewStatus {
	f.t.Helper()
	var out authenticationv1.TokenReview
	status, body := f.post("/clusters/"+clusterID+"/authenticate",
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, &out)
	if status != http.StatusOK {
		f.t.Fatalf("authenticate: %d %s", status, body)
	}
	return out.Status
}

// authorize asks about a request of an authenticated user.
func (f *fixture) authorize(user authenticationv1.UserInfo,
	spec authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
	f.t.Helper()
	spec.User, spec.Groups, spec.UID = user.Username, user.Groups, user.UID
	spec.Extra = map[string]authorizationv1.ExtraValue{}
	for k, v := range user.Extra {
		spec.Extra[k] = authorizationv1.ExtraValue(v)
	}
	var out authorizationv1.SubjectAccessReview
	status, body := f.post("/clusters/"+clusterID+"/authorize", &authorizationv1.SubjectAccessReview{Spec: spec}, &out)
	if status != http.StatusOK {
		f.t.Fatalf("authorize: %d %s", status, body)
	}
	return out.Status
}

func (f *fixture) entry(e record.AccessEntry) {
	f.t.Helper()
	if e.ClusterID == "" {
		e.ClusterID = clusterID
	}
	if e.CreatedAt.IsZero() {
		e.CreatedAt = testNow
	}
	if e.Type == "" {
		e.Type = "STANDARD"
	}
	_, err := record.AccessEntries(f.store).Put(f.t.Context(), record.AccessEntryKey(account, region, name,
		e.PrincipalARN), e)
	f.put(err)
}

func (f *fixture) removeEntry(principalARN string) {
	f.t.Helper()
	f.put(f.store.Txn(f.t.Context(), record.AccessEntries(f.store).RemoveOp(record.AccessEntryKey(account, region, name,
		principalARN))))
}

// log returns the content of the authenticator log.
func (f *fixture) log() string {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, clusterID, "log", "authenticator.log"))
	f.put(err)
	return string(text)
}

// role makes a role and gives a token of a session of it.
func (f *fixture) role(path, roleName, session string) (token string) {
	f.t.Helper()
	id := "AROA" + strings.ToUpper(roleName)
	_, err := record.Roles(f.store).Put(f.t.Context(), record.RoleKey(account, roleName), record.Role{
		Account: account, Path: path, Name: roleName, ID: id, CreatedAt: testNow.Add(-time.Hour),
	})
	f.put(err)
	return f.token("ASIA"+strings.ToUpper(roleName), caller{"arn:aws:sts::" + account + ":assumed-role/" + roleName +
		"/" + session, id + ":" + session, account}, name)
}

// user makes a user and gives a token of it.
func (f *fixture) user(path, userName string) (token string) {
	f.t.Helper()
	u := record.User{Account: account, Path: path, Name: userName, ID: "AIDA" + strings.ToUpper(userName),
		CreatedAt: testNow.Add(-time.Hour)}
	_, err := record.Users(f.store).Put(f.t.Context(), record.UserKey(account, userName), u)
	f.put(err)
	return f.token("AKIA"+strings.ToUpper(userName), caller{u.ARN(), u.ID, account}, name)
}

const foreignARN = "arn:aws:iam::444455556666:user/eve"

// foreigner makes a user of another account and gives a token of it.
func (f *fixture) foreigner() (token string) {
	f.t.Helper()
	_, err := record.Users(f.store).Put(f.t.Context(), record.UserKey("444455556666", "eve"), record.User{
		Account: "444455556666", Path: "/", Name: "eve", ID: "AIDAEVE", CreatedAt: testNow.Add(-time.Hour),
	})
	f.put(err)
	return f.token("AKIAEVE", caller{foreignARN, "AIDAEVE", "444455556666"}, name)
}

func (f *fixture) root() (token string) {
	return f.token("AKIAROOT", caller{"arn:aws:iam::" + account + ":root", account, account}, name)
}

// token returns a token for a cluster of that name, signed with the access key.
func (f *fixture) token(accessKeyID string, who caller, cluster string) string {
	f.sts.mu.Lock()
	f.sts.callers[accessKeyID] = who
	f.sts.mu.Unlock()
	return asToken(presigned(func(_ *url.URL, q url.Values) {
		q.Set("X-Amz-Credential", accessKeyID+"/20260301/eu-west-1/sts/aws4_request")
		q.Set("X-Amz-Signature", "signed-by-"+accessKeyID+"-for-"+cluster)
	}))
}

type caller struct{ arn, userID, account string }

// fakeSTS knows callers by access key. A signature names the key and the cluster it is for.
type fakeSTS struct {
	mu       sync.Mutex
	callers  map[string]caller
	services map[string]string // that act with the access keys
	json     bool
	fail     int // answer with this status
	asked    int
}

func (s *fakeSTS) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	w := httptest.NewRecorder()
	key, _, _ := strings.Cut(r.URL.Query().Get("X-Amz-Credential"), "/")
	who, ok := s.callers[key]
	w.Header().Set("Service", s.services[key])
	refuse := func(status int, code string) {
		w.WriteHeader(status)
		if s.json {
			fmt.Fprintf(w, `{"Error":{"Code":%q,"Message":"m","Type":"Sender"},"RequestId":"r"}`, code)
			return
		}
		fmt.Fprintf(w,
			"<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\n  <Error>\n    "+
				"<Type>Sender</Type>\n    <Code>%s</Code>\n    <Message>m</Message>\n  </Error>\n  "+
				"<RequestId>r</RequestId>\n</ErrorResponse>", code)
	}
	switch {
	case s.fail != 0:
		refuse(s.fail, "Throttling")
	case r.Method != http.MethodGet || r.URL.Query().Get("Action") != "GetCallerIdentity":
		refuse(400, "InvalidAction")
	case !ok:
		refuse(403, "InvalidClientTokenId")
	case r.URL.Query().Get("X-Amz-Signature") != "signed-by-"+key+"-for-"+r.Header.Get("x-k8s-aws-id"):
		refuse(403, "SignatureDoesNotMatch")
	case s.json:
		fmt.Fprintf(w,
			`{"GetCallerIdentityResponse":{"GetCallerIdentityResult":{"Account":%q,"Arn":%q,"UserId":%q},"ResponseMetadata":{"RequestId":"r"}}}`, who.account, who.arn, who.userID)
	default:
		fmt.Fprintf(w,
			"<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\n  "+
				"<GetCallerIdentityResult>\n    <Arn>%s</Arn>\n    <UserId>%s</UserId>\n    <Account>%s</Account>\n  "+
				"</GetCallerIdentityResult>\n  "+
				"<ResponseMetadata><RequestId>r</RequestId></ResponseMetadata>\n</GetCallerIdentityResponse>", who.arn,
			who.userID, who.account)
	}
	return w.Result(), nil
}

type fakeInstances struct{}

func (fakeInstances) DescribeInstances(_ context.Context, in *ec2.DescribeInstancesInput, _ ...func(*ec2.Options)) (
	*ec2.DescribeInstancesOutput, error) {
	id := in.InstanceIds[0]
	if id != "i-0123456789abcdef0" {
		return nil, fmt.Errorf("InvalidInstanceID.NotFound: The instance ID '%s' does not exist", id)
	}
	return &ec2.DescribeInstancesOutput{Reservations: []ec2types.Reservation{{Instances: []ec2types.Instance{{
		InstanceId: &id, PrivateDnsName: new("ip-10-0-1-7.eu-west-1.compute.internal"),
	}}}}}, nil
}

// fakeKube is the part of an API server that serves one ConfigMap to list and watch.
type fakeKube struct {
	server *httptest.Server

	mu      sync.Mutex
	version int
	current *corev1.ConfigMap // nil: there is none
	changed chan struct{}
	down    bool
	broken  []string // what a client asked that it should not
}

func newFakeKube(t testing.TB) *fakeKube {
	k := &fakeKube{version: 1, changed: make(chan struct{})}
	k.server = httptest.NewServer(k)
	t.Cleanup(func() {
		k.setDown(true) // ends the watches
		k.server.Close()
		for _, b := range k.broken {
			t.Error(b)
		}
	})
	return k
}

func (k *fakeKube) bump(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
	k.version++
	close(k.changed)
	k.changed = make(chan struct{})
}

// set writes aws-auth; nil deletes it.
func (k *fakeKube) set(data map[string]string) {
	k.bump(func() {
		if k.current = nil; data != nil {
			k.current = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "aws-auth"},
				Data: data}
		}
	})
}

func (k *fakeKube) setDown(down bool) { k.bump(func() { k.down = down }) }

func (k *fakeKube) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.URL.Path != "/api/v1/namespaces/kube-system/configmaps" ||
		q.Get("fieldSelector") != "metadata.name=aws-auth" || !strings.HasPrefix(r.UserAgent(),
		"aws-iam-authenticator") {
		k.broken = append(k.broken, fmt.Sprintf("asked %s as %s", r.URL, r.UserAgent()))
	}
	switch {
	case k.down:
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	case q.Get("sendInitialEvents") == "true":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"sendInitialEvents is forbidden"}`)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	object := func(c *corev1.ConfigMap, version int) *corev1.ConfigMap {
		c = c.DeepCopy()
		c.Kind, c.APIVersion, c.ResourceVersion = "ConfigMap", "v1", fmt.Sprint(version)
		return c
	}
	encode := json.NewEncoder(w)
	if q.Get("watch") == "" {
		list := corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{Kind: "ConfigMapList", APIVersion: "v1"},
			ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(k.version)}}
		if k.current != nil {
			list.Items = append(list.Items, *object(k.current, k.version))
		}
		_ = encode.Encode(list)
		return
	}
	var seen int
	fmt.Sscan(q.Get("resourceVersion"), &seen)
	last := k.current
	w.WriteHeader(http.StatusOK)
	for !k.down {
		if k.version > seen {
			event := map[string]any{"type": "MODIFIED"}
			switch {
			case k.current != nil:
				event["object"], last = object(k.current, k.version), k.current
			case last != nil:
				event["type"], event["object"] = "DELETED", object(last, k.version)
			}
			if event["object"] != nil {
				_ = encode.Encode(event)
			}
			seen = k.version
		}
		w.(http.Flusher).Flush()
		changed := k.changed
		k.mu.Unlock()
		select {
		case <-changed:
		case <-r.Context().Done():
		}
		k.mu.Lock()
		if r.Context().Err() != nil {
			return
		}
	}
}
