package controlplane

import (
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam"
	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	coraclekms "github.com/coracle-eks/coracle/internal/aws/kms"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/kube/kmsplugin"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const eksRoleName = "AWSServiceRoleForAmazonEKS"

// keyService is KMS with the real IAM over the store of a daemon.
type keyService struct {
	service *coraclekms.Service
	who     *identity.Identity
	mux     *wire.Mux
	root    *kms.Client
	plugins *kmsplugin.Plugins
}

// newKeyService starts KMS, with plugins that use it as EKS does.
func newKeyService(t testing.TB, s *store.Store, dir string) *keyService {
	t.Helper()
	k := &keyService{service: coraclekms.New(coraclekms.Options{Store: s})}
	var err error
	if k.who, err = identity.New(t.Context(), s, identity.Options{Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	k.mux = wire.NewMux(wire.Options{Credentials: k.who, Authorizer: k.who, Region: region})
	k.service.Register(k.mux)
	key, err := iam.Bootstrap(t.Context(), s, account)
	if err != nil {
		t.Fatal(err)
	}
	if err := iam.NewServiceLinkedRoles(s, nil).Ensure(t.Context(), account, "eks.amazonaws.com"); err != nil {
		t.Fatal(err)
	}
	k.root = k.client(credentials.NewStaticCredentialsProvider(key.ID, key.Secret, ""))
	k.plugins = kmsplugin.New(kmsplugin.Options{Dir: dir, KMS: func(account, _ string) kmsplugin.KMS {
		return k.client(k.who.ServiceRoleCredentials(account, eksRoleName, SessionName))
	}})
	t.Cleanup(k.plugins.Close)
	return k
}

func (k *keyService) client(who aws.CredentialsProvider) *kms.Client {
	return kms.New(kms.Options{Region: region, BaseEndpoint: aws.String("http://coracle.internal"), Credentials: who,
		HTTPClient: &http.Client{Transport: k.mux.Transport()}, RetryMaxAttempts: 1})
}

// give gives a cluster the key, as CreateCluster and AssociateEncryptionConfig do for a caller who may.
func (k *keyService) give(t testing.TB, s *store.Store, c *record.Cluster, key string) {
	t.Helper()
	caller := wire.Caller{Account: account, ARN: "arn:aws:iam::" + account + ":root", UserID: account,
		PrincipalARN: "arn:aws:iam::" + account + ":root"}
	ctx := wire.WithAuthorizer(wire.WithRegion(wire.WithCaller(t.Context(), caller), region), k.who)
	grant, ops, err := k.service.GrantForSecrets(ctx, key,
		"arn:aws:iam::"+account+":role/aws-service-role/eks.amazonaws.com/"+eksRoleName, *c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Txn(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
	c.EncryptionKeyARN, c.EncryptionGrantID = record.KMSKeyARN(account, region, grant.KeyID), grant.ID
}

// TestSecretsAreEncryptedWithAKMSKey creates a cluster, gives it a key, and takes the use of the key away and back.
func TestSecretsAreEncryptedWithAKMSKey(t *testing.T) {
	needBundle(t, "1.35")
	dir, owner := newDataDirectory(t)
	var keys *keyService
	d := start(t, dir, owner, func(o *Options) {
		keys = newKeyService(t, o.Store, filepath.Join(dir, "kms"))
		o.Secrets = keys.plugins
	})
	ctx := t.Context()
	key := awstest.Must[*kms.CreateKeyOutput](t)(keys.root.CreateKey(ctx, &kms.CreateKeyInput{})).KeyMetadata

	c := d.create(newCluster("ironman", "1.35"))
	d.until("ready", func() bool { return d.plane(c).Ready })
	admin, host := d.client(c, "admin", "system:masters")
	secrets := host + "/api/v1/namespaces/default/secrets"
	post(t, admin, secrets, `{"metadata":{"name":"old"},"stringData":{"password":"correct horse"}}`)
	stored := func(name string) string {
		t.Helper()
		resp, err := d.etcd.Client.Get(ctx, etcdPrefix(c.ID)+"/secrets/default/"+name)
		if err != nil || len(resp.Kvs) != 1 {
			t.Fatalf("%v, %d keys", err, len(resp.Kvs))
		}
		return string(resp.Kvs[0].Value)
	}
	if v := stored("old"); !strings.HasPrefix(v, "k8s:enc:secretbox:v1:") {
		t.Errorf("before: stored as %.40q", v)
	}

	// AssociateEncryptionConfig: what there is, is encrypted again before the update ends.
	given := c
	keys.give(t, d.store, &given, *key.Arn)
	id := d.update(c, record.Update{Type: ekstypes.UpdateTypeAssociateEncryptionConfig}, func(c *record.Cluster) {
		c.EncryptionKeyARN, c.EncryptionGrantID = given.EncryptionKeyARN, given.EncryptionGrantID
	})
	d.until("the update", func() bool { return d.updated(c, id).Status == ekstypes.UpdateStatusSuccessful })
	c = given
	post(t, admin, secrets, `{"metadata":{"name":"new"},"stringData":{"password":"correct horse"}}`)
	for _, name := range []string{"old", "new"} {
		if v := stored(name); !strings.HasPrefix(v, "k8s:enc:kms:v2:"+kmsProvider+":") ||
			strings.Contains(v, "correct horse") {
			t.Errorf("%s is stored as %.60q", name, v)
		}
	}
	readable := func() bool {
		for _, name := range []string{"old", "new"} {
			body, err := getHealth(ctx, admin, secrets+"/"+name)
			if err != nil || !strings.Contains(string(body), "Y29ycmVjdCBob3JzZQ==") {
				return false
			}
		}
		return true
	}
	if !readable() {
		t.Fatal("the Secrets cannot be read")
	}

	// Without the key, an API server that starts reads no Secrets. The plugin's health becomes an issue of the cluster.
	awstest.Must[*kms.DisableKeyOutput](t)(keys.root.DisableKey(ctx, &kms.DisableKeyInput{KeyId: key.KeyId}))
	killAPIServer(d, c)
	d.until("the API server to answer", func() bool {
		_, err := getHealth(ctx, admin, host+"/version")
		return err == nil
	})
	d.until("the health issue", func() bool {
		for _, issue := range d.plane(c).Health {
			if issue.Code == ekstypes.ClusterIssueCodeKmsKeyDisabled {
				return true
			}
		}
		return false
	})
	for _, path := range []string{"", "/old", "/new"} {
		if body, err := getHealth(ctx, admin, secrets+path); err == nil {
			t.Errorf("with a disabled key, secrets%s answers %s", path, body)
		}
	}
	if _, err := getHealth(ctx, admin, host+"/api/v1/namespaces/default/configmaps"); err != nil {
		t.Errorf("what is no Secret: %v", err)
	}

	awstest.Must[*kms.EnableKeyOutput](t)(keys.root.EnableKey(ctx, &kms.EnableKeyInput{KeyId: key.KeyId}))
	d.until("the Secrets to be readable", readable)
	d.until("the health issue to go", func() bool { return len(d.plane(c).Health) == 0 })

	// Deletion gives the grant back.
	if _, err := record.Clusters(d.store).Modify(ctx, c.Key(),
		func(c *record.Cluster) error { c.Deleting = true; return nil }); err != nil {
		t.Fatal(err)
	}
	d.until("the row to go", func() bool {
		_, err := record.Clusters(d.store).Get(ctx, c.Key())
		return err != nil
	})
	if n := record.KMSGrants(d.store).Count(""); n != 0 {
		t.Errorf("%d grants are left", n)
	}
}

// killAPIServer kills the API server of a cluster, which is started again.
func killAPIServer(d *daemon, c record.Cluster) {
	d.Helper()
	before := d.processes.List(apiServers(c.ID))
	if len(before) != 1 {
		d.Fatalf("%d API servers run", len(before))
	}
	if err := syscall.Kill(before[0].PID, syscall.SIGKILL); err != nil {
		d.Fatal(err)
	}
	d.until("another API server", func() bool {
		now := d.processes.List(apiServers(c.ID))
		return len(now) == 1 && now[0].Running && now[0].PID != before[0].PID
	})
}

var _ SecretsPlugins = (*kmsplugin.Plugins)(nil)
