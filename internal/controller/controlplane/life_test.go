package controlplane

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/endpoint"
	"github.com/coracle-eks/coracle/internal/pki"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// The whole life of one cluster, in the order in which a user would live it.
func TestClusterLife(t *testing.T) {
	needBundle(t, "1.35")
	dir, owner := newDataDirectory(t)
	whole := t // what daemons belong to, whichever part of the test starts them
	d := start(whole, dir, owner, nil)

	c := d.create(newCluster("ironman", "1.35"))
	t.Logf("ready after %v", d.until("ready", func() bool { return d.plane(c).Ready }))
	seen := d.plane(c)
	if seen.Version != "1.35" || !strings.HasPrefix(seen.FullVersion, "v1.35.") || len(seen.CertificateAuthority) == 0 {
		t.Errorf("observed %+v", seen)
	}
	admin, host := d.client(c, "admin", "system:masters")

	t.Run("what EKS creates is there", func(t *testing.T) {
		roles := list(t, admin, host+"/apis/rbac.authorization.k8s.io/v1/clusterroles")
		for _, name := range []string{"eks:addon-manager", "eks:node-manager", "eks:node-bootstrapper",
			"eks:fargate-manager", "eks:service-operations"} {
			if !slices.Contains(roles, name) {
				t.Errorf("no ClusterRole %s", name)
			}
		}
		for _, path := range []string{
			"/api/v1/namespaces/default/serviceaccounts/default",
			"/apis/storage.k8s.io/v1/storageclasses/gp2",
			"/apis/scheduling.k8s.io/v1/priorityclasses/system-cluster-critical",
			"/apis/storage.k8s.io/v1/csidrivers/efs.csi.aws.com",
		} {
			if _, err := getHealth(t.Context(), admin, host+path); err != nil {
				t.Error(err)
			}
		}
		for _, path := range []string{"v1alpha1/cninodes", "v1beta1/securitygrouppolicies"} {
			d.until(path+" are served", func() bool {
				_, err := getHealth(t.Context(), admin, host+"/apis/vpcresources.k8s.aws/"+path)
				return err == nil
			})
		}
		endpoints, err := getHealth(t.Context(), admin, host+"/api/v1/namespaces/default/endpoints/kubernetes")
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range d.ec2.state().Interfaces {
			if !strings.Contains(string(endpoints), *i.PrivateIpAddress) {
				t.Errorf("interface %s is not an endpoint of kubernetes: %s", *i.PrivateIpAddress, endpoints)
			}
		}
	})

	t.Run("the audit log tells who created it, and how", func(t *testing.T) {
		var found bool
		d.until("the audit log", func() bool {
			for _, e := range auditEvents(t, d, c) {
				if e.User.Username == "eks:cluster-bootstrap" && e.Verb == "create" && e.ObjectRef.Name == "gp2" {
					found = strings.HasPrefix(e.UserAgent, "kubectl/v1.35")
					return true
				}
			}
			return false
		})
		if !found {
			t.Error("the storage class gp2 was not created by kubectl")
		}
	})

	t.Run("the network is the cluster's", func(t *testing.T) {
		s := d.ec2.state()
		if len(s.Groups) != 1 || !strings.HasPrefix(*s.Groups[0].GroupName, "eks-cluster-sg-ironman-") ||
			seen.ClusterSecurityGroupID != *s.Groups[0].GroupId {
			t.Errorf("security groups %+v", s.Groups)
		}
		if len(s.Interfaces) != 2 || len(seen.NetworkInterfaceIDs) != 2 {
			t.Errorf("%d interfaces, %d recorded", len(s.Interfaces), len(seen.NetworkInterfaceIDs))
		}
	})

	t.Run("secrets are encrypted in etcd, below the cluster's prefix", func(t *testing.T) {
		post(t, admin, host+"/api/v1/namespaces/default/secrets",
			`{"metadata":{"name":"s"},"stringData":{"password":"correct horse"}}`)
		resp, err := d.etcd.Client.Get(t.Context(), etcdPrefix(c.ID)+"/secrets/default/s")
		if err != nil || len(resp.Kvs) != 1 {
			t.Fatalf("%v, %d keys", err, len(resp.Kvs))
		}
		if v := string(resp.Kvs[0].Value); !strings.HasPrefix(v, "k8s:enc:secretbox:v1:key1:") ||
			strings.Contains(v, "correct horse") {
			t.Errorf("stored as %.40q", v)
		}
	})

	t.Run("its etcd certificate opens nothing but its own prefix", func(t *testing.T) {
		pki := func(name string) string { return filepath.Join(dir, "clusters", c.ID, "pki", name) }
		own, err := transport.TLSInfo{
			CertFile: pki("apiserver-etcd-client.crt"), KeyFile: pki("apiserver-etcd-client.key"),
			TrustedCAFile: d.etcd.CAFile,
		}.ClientConfig()
		if err != nil {
			t.Fatal(err)
		}
		client, err := clientv3.New(clientv3.Config{Endpoints: d.etcd.Endpoints, TLS: own,
			DialTimeout: eventually.Limit})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if r, err := client.Get(t.Context(), etcdPrefix(c.ID)+"/namespaces/default"); err != nil || len(r.Kvs) != 1 {
			t.Errorf("its own key: %v", err)
		}
		for _, key := range []string{"/clusters/", "/clusters/OTHER/secrets/default/s", etcdPrefix(c.ID) + "0",
			"/coracle/t/controlplanesecrets/" + c.Key()} {
			if _, err := client.Get(t.Context(), key); !errors.Is(err, rpctypes.ErrPermissionDenied) {
				t.Errorf("get %s: %v", key, err)
			}
			if _, err := client.Put(t.Context(), key, "x"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
				t.Errorf("put %s: %v", key, err)
			}
		}
		_, err = client.Get(t.Context(), "/clusters/", clientv3.WithPrefix())
		if !errors.Is(err, rpctypes.ErrPermissionDenied) {
			t.Errorf("list: %v", err)
		}
		if _, err := client.UserAdd(t.Context(), "intruder", "x"); err == nil {
			t.Error("it may add users")
		}
	})

	t.Run("service-account tokens verify against the published key set", func(t *testing.T) {
		body := post(t, admin, host+"/api/v1/namespaces/default/serviceaccounts/default/token",
			`{"spec":{"audiences":["sts.amazonaws.com"]}}`)
		var request struct{ Status struct{ Token string } }
		if err := json.Unmarshal(body, &request); err != nil {
			t.Fatal(err)
		}
		issuer, err := record.Issuers(d.store).Get(t.Context(), store.Key(c.ID))
		if err != nil {
			t.Fatal(err)
		}
		var set jose.JSONWebKeySet
		if err := json.Unmarshal(issuer.Value.JWKS, &set); err != nil {
			t.Fatal(err)
		}
		token, err := jwt.ParseSigned(request.Status.Token, []jose.SignatureAlgorithm{jose.RS256})
		if err != nil {
			t.Fatal(err)
		}
		keys := set.Key(token.Headers[0].KeyID)
		if len(keys) != 1 {
			t.Fatalf("key %s is not in the set %s", token.Headers[0].KeyID, issuer.Value.JWKS)
		}
		var claims jwt.Claims
		if err := token.Claims(keys[0].Key, &claims); err != nil {
			t.Fatal(err)
		}
		if err := claims.Validate(jwt.Expected{Issuer: c.Issuer(), AnyAudience: jwt.Audience{"sts.amazonaws.com"},
			Subject: "system:serviceaccount:default:default"}); err != nil {
			t.Errorf("%+v: %v", claims, err)
		}
	})

	t.Run("strangers get health checks only", func(t *testing.T) {
		anonymous := anonymousClient(t, seen)
		if _, err := getHealth(t.Context(), anonymous, host+"/readyz"); err != nil {
			t.Error(err)
		}
		if _, err := getHealth(t.Context(), anonymous, host+"/version"); err == nil || !strings.Contains(err.Error(),
			"401") {
			t.Errorf("/version: %v", err)
		}
	})

	t.Run("a daemon that starts again finds everything running", func(t *testing.T) {
		before := d.processes.List("")
		d.stop()
		calls := len(d.ec2.state().Calls)
		d = start(whole, dir, owner, nil)
		d.until("adoption", func() bool { return len(d.processes.List("")) == len(before) })
		id := d.update(c, record.Update{Type: ekstypes.UpdateTypeDeletionProtectionUpdate}, func(c *record.Cluster) {
			c.DeletionProtection = true
			c.LoggingTypes = []ekstypes.LogType{ekstypes.LogTypeAudit}
		})
		d.until("an update", func() bool { return d.updated(c, id).Status == ekstypes.UpdateStatusSuccessful })
		for i, s := range d.processes.List("") {
			if s.PID != before[i].PID {
				t.Errorf("%s was restarted", s.Name)
			}
		}
		if now := len(d.ec2.state().Calls); now != calls {
			t.Errorf("EC2 was changed: %v", d.ec2.state().Calls[calls:])
		}
	})

	t.Run("a certificate that is issued again is served without a restart", func(t *testing.T) {
		before := d.processes.List(apiServers(c.ID))
		file := filepath.Join(dir, "clusters", c.ID, "pki", "kube-apiserver.crt")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		id := d.update(c, record.Update{Type: ekstypes.UpdateTypeConfigUpdate}, func(*record.Cluster) {})
		d.until("the update", func() bool { return d.updated(c, id).Status == ekstypes.UpdateStatusSuccessful })
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		renewed, err := pki.ParseCertificate(b)
		if err != nil {
			t.Fatal(err)
		}
		d.until("the new certificate to be served", func() bool {
			conn, err := tls.Dial("tcp", strings.TrimPrefix(host, "https://"), &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			return conn.ConnectionState().PeerCertificates[0].SerialNumber.Cmp(renewed.SerialNumber) == 0
		})
		if after := d.processes.List(apiServers(c.ID)); len(after) != 1 || after[0].PID != before[0].PID {
			t.Errorf("the API server was restarted: %+v", after)
		}
	})

	t.Run("components that are killed come back", func(t *testing.T) {
		for _, s := range d.processes.List(c.ID + "/") {
			if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			d.until(s.Name+" again", func() bool {
				now := d.processes.List(s.Name)
				return len(now) == 1 && now[0].Running && now[0].PID != s.PID
			})
		}
		d.until("the API server", func() bool {
			_, err := getHealth(t.Context(), admin,
				host+"/readyz")
			return err == nil
		})
	})

	t.Run("another VPC configuration moves the interfaces", func(t *testing.T) {
		id := d.update(c, record.Update{Type: ekstypes.UpdateTypeVpcConfigUpdate}, func(c *record.Cluster) {
			c.SubnetIDs = []string{"subnet-b", "subnet-c"}
			c.SecurityGroupIDs = []string{"sg-extra"}
		})
		d.until("the update", func() bool { return d.updated(c, id).Status == ekstypes.UpdateStatusSuccessful })
		var subnets []string
		for _, i := range d.ec2.state().Interfaces {
			subnets = append(subnets, *i.SubnetId)
			if len(i.Groups) != 2 {
				t.Errorf("interface in %s has groups %v", *i.SubnetId, i.Groups)
			}
		}
		slices.Sort(subnets)
		if !slices.Equal(subnets, []string{"subnet-b", "subnet-c"}) {
			t.Errorf("interfaces in %v", subnets)
		}
		if got := d.plane(c).Endpoint; got != seen.Endpoint {
			t.Errorf("the endpoint has changed from %s to %s", seen.Endpoint, got)
		}
	})

	t.Run("deletion leaves nothing", func(t *testing.T) {
		if _, err := record.Clusters(d.store).Modify(t.Context(), c.Key(),
			func(c *record.Cluster) error { c.Deleting = true; return nil }); err != nil {
			t.Fatal(err)
		}
		t.Logf("gone after %v", d.until("the row to go", func() bool {
			_, err := record.Clusters(d.store).Get(t.Context(), c.Key())
			return err != nil
		}))
		assertNothingLeft(t, d, c)
	})
}

// assertNothingLeft checks every place that a cluster leaves traces in.
func assertNothingLeft(t *testing.T, d *daemon, c record.Cluster) {
	t.Helper()
	found, err := process.Claims(d.owner)
	if err != nil {
		t.Error(err)
	}
	for _, p := range found {
		if p.Name != endpoint.ProcessName { // is there for all clusters
			t.Errorf("process %+v", p)
		}
	}
	if _, err := os.Stat(filepath.Join(d.dir, "clusters", c.ID)); !os.IsNotExist(err) {
		t.Errorf("directory: %v", err)
	}
	if r, err := d.etcd.Client.Get(t.Context(), "/clusters/", clientv3.WithPrefix(),
		clientv3.WithKeysOnly()); err != nil || len(r.Kvs) != 0 {
		t.Errorf("etcd keys: %v %v", r, err)
	}
	if _, err := d.etcd.Client.UserGet(t.Context(), etcdUser(c.ID)); err == nil {
		t.Error("the etcd user is left")
	}
	if _, err := d.etcd.Client.RoleGet(t.Context(), etcdUser(c.ID)); err == nil {
		t.Error("the etcd role is left")
	}
	if s := d.ec2.state(); len(s.Groups)+len(s.Interfaces) != 0 {
		t.Errorf("EC2: %+v", s)
	}
	rows, err := d.etcd.Client.Get(t.Context(), "/coracle/t/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range rows.Kvs {
		if strings.Contains(string(kv.Key), c.Name) || strings.Contains(string(kv.Key), c.ID) {
			t.Errorf("row %s", kv.Key)
		}
	}
}

func TestDeletionDuringCreation(t *testing.T) {
	needBundle(t, "1.35")
	dir, owner := newDataDirectory(t)
	d := start(t, dir, owner, nil)
	c := d.create(newCluster("short-lived", "1.35"))
	d.until("a process", func() bool { return len(d.processes.List(c.ID)) > 0 })
	if _, err := record.Clusters(d.store).Modify(t.Context(), c.Key(),
		func(c *record.Cluster) error { c.Deleting = true; return nil }); err != nil {
		t.Fatal(err)
	}
	d.until("the row to go", func() bool {
		_, err := record.Clusters(d.store).Get(t.Context(), c.Key())
		return err != nil
	})
	assertNothingLeft(t, d, c)
}

func list(t *testing.T, client *http.Client, url string) (names []string) {
	t.Helper()
	body, err := getHealth(t.Context(), client, url)
	if err != nil {
		t.Fatal(err)
	}
	var l struct {
		Items []struct {
			Metadata struct{ Name string }
		}
	}
	if err := json.Unmarshal(body, &l); err != nil {
		t.Fatal(err)
	}
	for _, i := range l.Items {
		names = append(names, i.Metadata.Name)
	}
	return names
}

func post(t *testing.T, client *http.Client, url, body string) []byte {
	t.Helper()
	response, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusCreated {
		t.Fatalf("%s: %s (%v)", response.Status, b, err)
	}
	return b
}

type auditEvent struct {
	Verb, UserAgent string
	User            struct{ Username string }
	ObjectRef       struct{ Resource, Name string }
}

func auditEvents(t *testing.T, d *daemon, c record.Cluster) (all []auditEvent) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(d.dir, "clusters", c.ID, "log", "kube-apiserver-audit-*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no audit logs: %v", err)
	}
	for _, log := range logs {
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(string(b), "\n") {
			var e auditEvent
			if json.Unmarshal([]byte(line), &e) == nil {
				all = append(all, e)
			}
		}
	}
	return all
}
