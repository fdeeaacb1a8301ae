package daemon

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/metadata"
	"github.com/coracle-eks/coracle/internal/kube/authenticator"
	"github.com/coracle-eks/coracle/internal/pki"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// The kinds of credentials that a daemon gives out or accepts. Each is good at one endpoint, and at no other.
const (
	accessKeyID       = "the ID of an access key"
	secretKey         = "the secret of an access key"
	accessKey         = "an access key"
	temporaryID       = "the access key ID of temporary credentials"
	sessionToken      = "the session token of temporary credentials"
	temporary         = "temporary credentials"
	presignedURL      = "a presigned URL of EKS"
	registryPassword  = "the password of a registry"
	registryToken     = "an authorization token as ECR gives it"
	layerToken        = "the token in the URL of a layer"
	uploadState       = "the state of an upload"
	clusterToken      = "the token of a user for a cluster"
	otherClusterToken = "the token of a user for another cluster"
	podToken          = "a service account's token for STS"
	podTokenCluster   = "a service account's token for its cluster"
	podTokenForged    = "a service account's token that another key signed"
	metadataToken     = "a session token of the metadata service"
	otherMetadata     = "a session token of the metadata service for another instance"
	cloudToken        = "the token of a cloud controller manager"
	otherCloudToken   = "the token of another cluster's cloud controller manager"
	pageToken         = "the token of a page"
	nothing           = "nothing"
)

// shown is a credential that somebody shows.
type shown struct {
	kind string
	text string          // what is shown where one text is asked for
	key  aws.Credentials // of those that sign
}

// forms returns the forms in which a text may be shown where another is expected.
func (c shown) forms() []string {
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	return []string{
		c.text, encode(c.text), encode(c.text + ":"), encode(":" + c.text), encode("AWS:" + c.text),
		"k8s-aws-v1." + base64.RawURLEncoding.EncodeToString([]byte(c.text)),
	}
}

const (
	walkAccount, walkRegion = "111122223333", "eu-west-1"
	walkCluster             = "0123456789ABCDEF0123456789ABCDEF"
	walkOtherCluster        = "FEDCBA9876543210FEDCBA9876543210"
	walkRegistry            = walkAccount + ".dkr.ecr." + walkRegion + ".amazonaws.com"
	walkListen              = "127.0.0.1:4566"
)

// walk is a daemon's endpoints without its processes: the handlers that it serves, over a store of the test's own.
type walk struct {
	*testing.T
	daemon   *daemon
	api      *httptest.Server // the AWS endpoint on the host
	inside   *httptest.Server // the same inside VPCs
	webhook  *httptest.Server // the token webhook
	webhooks *http.Client     // with the certificate of the cluster's API server
	metadata string           // URL of the metadata service

	root, user aws.Credentials // user has all permissions, too
	session    aws.Credentials // of a role
	layers     []string        // of the image app:v1
}

func newWalk(t *testing.T) *walk {
	t.Helper()
	dir, err := datadir.At(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &walk{T: t, daemon: &daemon{
		dir: dir, log: slog.New(slog.DiscardHandler), store: storetest.New(t), events: newEvents(),
		settings: datadir.Settings{Listen: walkListen, Region: walkRegion, Account: walkAccount, Machines: "simulated"},
	}}
	d := w.daemon
	w.must(dir.Create())
	d.authority, err = pki.OpenAuthority(dir.PKI(), "ca", "coracle")
	w.must(err)
	d.host, err = d.openHost()
	w.must(err)
	t.Cleanup(func() { w.check(d.host.close()) })
	d.logs, err = d.openLogs()
	w.must(err)
	t.Cleanup(func() { w.check(d.logs.close()) })
	d.catalog, err = d.openCatalog()
	w.must(err)
	d.api, err = d.openAPI(t.Context())
	w.must(err)

	handler := d.handler()
	w.api, w.inside = httptest.NewServer(handler), httptest.NewServer(d.insideVPCs(handler))
	t.Cleanup(w.api.Close)
	t.Cleanup(w.inside.Close)
	keys, err := dir.ReadCredentials()
	w.must(err)
	w.root = aws.Credentials{AccessKeyID: keys[walkAccount].AccessKeyID,
		SecretAccessKey: keys[walkAccount].SecretAccessKey}
	w.makePrincipals()
	w.makeClusters()
	w.serveWebhook()
	w.serveMetadata()
	w.pushImage()
	return w
}

func (w *walk) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *walk) check(err error) {
	w.Helper()
	if err != nil {
		w.Error(err)
	}
}

// config returns the configuration of an SDK client with those credentials.
func (w *walk) config(with aws.Credentials) aws.Config {
	return aws.Config{Region: walkRegion, BaseEndpoint: &w.api.URL, HTTPClient: awsclient.HTTP(),
		Credentials: credentials.StaticCredentialsProvider{Value: with}, RetryMaxAttempts: 1}
}

const allowAll = `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}`

// makePrincipals makes a user and a role that may do everything, and the identity provider of the cluster.
func (w *walk) makePrincipals() {
	w.Helper()
	ctx, client := w.Context(), iam.NewFromConfig(w.config(w.root))
	_, err := client.CreateUser(ctx, &iam.CreateUserInput{UserName: aws.String("jane")})
	w.must(err)
	_, err = client.PutUserPolicy(ctx, &iam.PutUserPolicyInput{UserName: aws.String("jane"),
		PolicyName: aws.String("all"), PolicyDocument: aws.String(allowAll)})
	w.must(err)
	key, err := client.CreateAccessKey(ctx, &iam.CreateAccessKeyInput{UserName: aws.String("jane")})
	w.must(err)
	w.user = aws.Credentials{AccessKeyID: *key.AccessKey.AccessKeyId, SecretAccessKey: *key.AccessKey.SecretAccessKey}
	provider, err := client.CreateOpenIDConnectProvider(ctx, &iam.CreateOpenIDConnectProviderInput{
		Url: aws.String(record.IssuerURL(walkRegion, walkCluster)), ClientIDList: []string{"sts.amazonaws.com"},
		ThumbprintList: []string{strings.Repeat("0", 40)},
	})
	w.must(err)
	_, err = client.CreateRole(ctx, &iam.CreateRoleInput{RoleName: aws.String("app"),
		AssumeRolePolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Principal":{"AWS":"` + walkAccount + `"},"Action":"sts:AssumeRole"},
		{"Effect":"Allow","Principal":{"Service":"eks.amazonaws.com"},"Action":"sts:AssumeRole"},
		{"Effect":"Allow","Principal":{"Federated":"` + *provider.OpenIDConnectProviderArn +
			`"},"Action":"sts:AssumeRoleWithWebIdentity"}]}`)})
	w.must(err)
	_, err = client.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: aws.String("app"),
		PolicyName: aws.String("all"), PolicyDocument: aws.String(allowAll)})
	w.must(err)
	out, err := sts.NewFromConfig(w.config(w.user)).AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: aws.String(walkRole),
		RoleSessionName: aws.String("session")})
	w.must(err)
	w.session = aws.Credentials{AccessKeyID: *out.Credentials.AccessKeyId,
		SecretAccessKey: *out.Credentials.SecretAccessKey, SessionToken: *out.Credentials.SessionToken}
}

const walkRole = "arn:aws:iam::" + walkAccount + ":role/app"

// makeClusters makes two clusters, as far as the store knows of them. The user has access to both.
func (w *walk) makeClusters() {
	w.Helper()
	s := w.daemon.store
	jane, err := iam.NewFromConfig(w.config(w.user)).GetUser(w.Context(), &iam.GetUserInput{})
	w.must(err)
	for id, name := range map[string]string{walkCluster: "one", walkOtherCluster: "two"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		w.must(err)
		jwks, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "key",
			Algorithm: "ES256", Use: "sig"}}})
		w.must(err)
		der, err := x509.MarshalECPrivateKey(key)
		w.must(err)
		c := record.Cluster{Account: walkAccount, Region: walkRegion, Name: name, ID: id, RoleARN: walkRole,
			AuthenticationMode: ekstypes.AuthenticationModeApi}
		principal := "arn:aws:iam::" + walkAccount + ":user/jane"
		w.must(s.Txn(w.Context(),
			record.Clusters(s).CreateOp(c.Key(), c),
			record.Issuers(s).CreateOp(store.Key(id), record.Issuer{Account: walkAccount, Region: walkRegion,
				Cluster: name, JWKS: jwks}),
			record.ControlPlaneSecretsTable(s).CreateOp(c.Key(), record.ControlPlaneSecrets{ClusterID: id,
				ServiceAccountKey: der}),
			record.AccessEntries(s).CreateOp(record.AccessEntryKey(walkAccount, walkRegion, name, principal),
				record.AccessEntry{
					ClusterID: id, PrincipalARN: principal, PrincipalID: *jane.User.UserId, ID: "entry",
					Type:     "STANDARD",
					Username: principal, CreatedAt: time.Now(),
				}),
		))
	}
}

// serveWebhook serves the token webhook to the API server of the cluster.
func (w *walk) serveWebhook() {
	w.Helper()
	d := w.daemon
	webhooks := authenticator.New(authenticator.Options{
		Store: d.store, STS: d.api.mux.Transport(), Own: authenticator.OwnHosts(d.ownAddresses()...), Log: d.log,
		RESTConfig: func(context.Context, record.Cluster) (*rest.Config, error) {
			return nil,
				errors.New("no API server")
		},
		Dir: func(id string) string { return filepath.Join(string(d.dir), "clusters", id) },
	})
	pair, err := d.authority.Issue(authenticator.ServerLeaf(net.IPv4(127, 0, 0, 1)))
	w.must(err)
	w.webhook = httptest.NewUnstartedServer(webhooks)
	w.webhook.TLS, err = authenticator.TLSConfig(d.authority, pair)
	w.must(err)
	w.webhook.StartTLS()
	w.Cleanup(w.webhook.Close)
	own, err := d.authority.Issue(authenticator.ClientLeaf(walkCluster))
	w.must(err)
	certificate, err := tls.X509KeyPair(own.Certificate, own.Key)
	w.must(err)
	roots := x509.NewCertPool()
	roots.AddCert(d.authority.Certificate)
	w.webhooks = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots,
		Certificates: []tls.Certificate{certificate}}}}
	w.Cleanup(w.webhooks.CloseIdleConnections)
}

// router stands for the router of a VPC whose instances are the loopback addresses of this host.
type router struct {
	once      sync.Once
	listening chan net.Listener
}

func (r *router) Listen(context.Context, string, string, string) (net.Listener, error) {
	err := error(fs.ErrNotExist)
	var l net.Listener
	r.once.Do(func() {
		if l, err = net.Listen("tcp4", "127.0.0.1:0"); err == nil {
			r.listening <- l
		}
	})
	return l, err
}

func (r *router) Identity(string) (uint64, error) { return 1, nil }

func (r *router) Carries(string, netip.Addr, string) bool { return true }

func (r *router) RouterSource() reconcile.Source {
	return func(ctx context.Context, _ func(string)) { <-ctx.Done() }
}

// serveMetadata serves the metadata of two instances, 127.0.0.1 and 127.0.0.2. Both demand tokens.
func (w *walk) serveMetadata() {
	w.Helper()
	s, r := w.daemon.store, &router{listening: make(chan net.Listener, 1)}
	resource := func(id string) record.EC2Resource {
		return record.EC2Resource{Account: walkAccount, Region: walkRegion, ID: id}
	}
	key := func(id string) string { return record.EC2Key(walkAccount, walkRegion, id) }
	ops := []store.Op{
		record.VPCs(s).CreateOp(key("vpc-1"), record.VPC{EC2Resource: resource("vpc-1")}),
		record.Subnets(s).CreateOp(key("subnet-1"), record.Subnet{EC2Resource: resource("subnet-1"), VPCID: "vpc-1",
			CIDR: "127.0.0.0/24"}),
		record.AddressBlocks(s).CreateOp(record.AddressBlockKey(walkAccount, walkRegion, "subnet-1", "127.0.0.0"),
			record.AddressBlock{
				Addresses: map[string]string{"127.0.0.1": "eni-1", "127.0.0.2": "eni-2"},
			}),
	}
	for _, n := range []string{"1", "2"} {
		ops = append(ops,
			record.NetworkInterfaces(s).CreateOp(key("eni-"+n), record.NetworkInterface{
				EC2Resource: resource("eni-" + n), VPCID: "vpc-1", SubnetID: "subnet-1",
				PrivateIPs: []string{"127.0.0." + n},
				Attachment: &record.NetworkInterfaceAttachment{InstanceID: "i-" + n},
			}),
			record.Instances(s).CreateOp(key("i-"+n), record.Instance{EC2Resource: resource("i-" + n),
				Metadata: record.InstanceMetadataOptions{
					HTTPEndpoint: ec2types.InstanceMetadataEndpointStateEnabled,
					HTTPTokens:   ec2types.HttpTokensStateRequired, HTTPPutResponseHopLimit: 1,
				}}))
	}
	w.must(s.Txn(w.Context(), ops...))
	service := metadata.New(metadata.Options{
		Store: s, Network: r, Dir: w.daemon.dir.Join("metadata"), Log: w.daemon.log,
		Credentials: func(context.Context, record.Instance, string) (aws.Credentials, error) {
			return aws.Credentials{}, errors.New("no role")
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- reconcile.Run(ctx, w.daemon.log, service.Controllers()...) }()
	w.Cleanup(func() { cancel(); <-ended })
	eventually.True(w.T, "the metadata service listens", func() bool {
		select {
		case l := <-r.listening:
			w.metadata = "http://" + l.Addr().String()
			return true
		default:
			return false
		}
	})
}

// pushImage pushes an image with two layers as app:v1.
func (w *walk) pushImage() {
	w.Helper()
	client := ecr.NewFromConfig(w.config(w.user))
	_, err := client.CreateRepository(w.Context(), &ecr.CreateRepositoryInput{RepositoryName: aws.String("app")})
	w.must(err)
	img, err := random.Image(100, 2)
	w.must(err)
	reference, err := name.ParseReference(strings.TrimPrefix(w.api.URL, "http://") + "/" + walkRegistry + "/app:v1")
	w.must(err)
	w.must(remote.Write(reference, img, remote.WithAuth(&authn.Basic{Username: "AWS", Password: w.password()}),
		remote.WithContext(w.Context())))
	manifest, err := img.Manifest()
	w.must(err)
	for _, l := range manifest.Layers {
		w.layers = append(w.layers, l.Digest.String())
	}
}

// credentials makes one credential of each kind.
func (w *walk) credentials() []shown {
	w.Helper()
	d, ctx := w.daemon, w.Context()
	layer, err := ecr.NewFromConfig(w.config(w.user)).GetDownloadUrlForLayer(ctx,
		&ecr.GetDownloadUrlForLayerInput{RepositoryName: aws.String("app"), LayerDigest: &w.layers[0]})
	w.must(err)
	u, err := url.Parse(*layer.DownloadUrl)
	w.must(err)
	page, err := eks.NewFromConfig(w.config(w.user)).ListClusters(ctx, &eks.ListClustersInput{MaxResults: aws.Int32(1)})
	w.must(err)
	_, state := w.upload()
	cloud := map[string]string{}
	for _, id := range []string{walkCluster, walkOtherCluster} {
		c, err := d.clusterByID(ctx, id)
		w.must(err)
		cloud[id], err = d.credentialsToken(c)
		w.must(err)
	}
	return []shown{
		{kind: nothing},
		{kind: accessKeyID, text: w.user.AccessKeyID},
		{kind: secretKey, text: w.user.SecretAccessKey},
		{kind: accessKey, text: w.user.AccessKeyID + ":" + w.user.SecretAccessKey, key: w.user},
		{kind: temporaryID, text: w.session.AccessKeyID},
		{kind: sessionToken, text: w.session.SessionToken},
		{kind: temporary, text: w.session.AccessKeyID + ":" + w.session.SessionToken, key: w.session},
		{kind: presignedURL, text: w.presign()},
		{kind: registryPassword, text: w.password()},
		{kind: registryToken, text: w.authorizationToken()},
		{kind: layerToken, text: u.Query().Get("layer-token")},
		{kind: uploadState, text: state},
		{kind: clusterToken, text: w.tokenFor("one")},
		{kind: otherClusterToken, text: w.tokenFor("two")},
		{kind: podToken, text: w.serviceAccountToken("sts.amazonaws.com", false)},
		{kind: podTokenCluster, text: w.serviceAccountToken("https://kubernetes.default.svc", false)},
		{kind: podTokenForged, text: w.serviceAccountToken("sts.amazonaws.com", true)},
		{kind: metadataToken, text: w.metadataTokenOf("127.0.0.1")},
		{kind: otherMetadata, text: w.metadataTokenOf("127.0.0.2")},
		{kind: cloudToken, text: cloud[walkCluster]},
		{kind: otherCloudToken, text: cloud[walkOtherCluster]},
		{kind: pageToken, text: *page.NextToken},
	}
}

// TestEveryCredentialIsForOneEndpoint shows every kind of credential to every endpoint that takes one. All but the
// diagonal refuse.
func TestEveryCredentialIsForOneEndpoint(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	app := "/v2/" + walkRegistry + "/app/"
	all := w.credentials()
	accepted := map[string]bool{}
	for _, endpoint := range []struct {
		name    string
		accepts []string
		show    func(shown) (bool, string)
	}{
		{"the AWS APIs, signed in the header", []string{accessKey, temporary}, w.signed},
		{"the AWS APIs, signed in the query", []string{presignedURL}, w.inQuery},
		{"the registry: is the password good", []string{registryPassword, registryToken},
			w.toRegistry(http.MethodGet, "/v2/")},
		{"the registry: list tags", []string{registryPassword, registryToken},
			w.toRegistry(http.MethodGet, app+"tags/list")},
		{"the registry: pull a manifest", []string{registryPassword, registryToken},
			w.toRegistry(http.MethodGet, app+"manifests/v1")},
		{"the registry: push a layer", []string{registryPassword, registryToken},
			w.toRegistry(http.MethodPost, app+"blobs/uploads/")},
		{"the registry: go on with an upload", []string{uploadState}, w.toUpload},
		{"the URL of a layer", []string{layerToken}, w.toLayer(app + "blobs/" + w.layers[0])},
		{"the URL of another layer", nil, w.toLayer(app + "blobs/" + w.layers[1])},
		{"the token webhook of a cluster", []string{clusterToken}, w.toWebhook},
		{"sts:AssumeRoleWithWebIdentity", []string{podToken}, w.toSTS},
		{"the metadata service", []string{metadataToken}, w.toMetadata},
		{"/credentials on the host", []string{cloudToken}, w.toCredentials(w.api.URL)},
		{"/credentials inside VPCs", nil, w.toCredentials(w.inside.URL)},
		{"the next page", []string{pageToken}, w.toPage},
		{"the commands of the admin socket", nil, w.toCommands},
	} {
		for _, c := range all {
			got, said := endpoint.show(c)
			if want := slices.Contains(endpoint.accepts, c.kind); got != want {
				t.Errorf("%s, shown %s: accepted is %v, want %v: %s", endpoint.name, c.kind, got, want, said)
			}
			accepted[c.kind] = accepted[c.kind] || got
		}
	}
	// A credential that is good nowhere would show nothing.
	for _, c := range all {
		part := []string{nothing, accessKeyID, secretKey, temporaryID, sessionToken, otherClusterToken, podTokenCluster,
			podTokenForged, otherMetadata, otherCloudToken}
		if !accepted[c.kind] && !slices.Contains(part, c.kind) {
			t.Errorf("%s is good for nothing", c.kind)
		}
	}
}
