package authenticator

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/freeport"
	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
	"github.com/coracle-eks/coracle/internal/testenv"
	kubernetesversions "github.com/coracle-eks/coracle/kubernetes"
)

// kubeBinary returns the path of the kube binary that make builds; without it there is no API server to test with.
func kubeBinary() string {
	bundles := os.Getenv("CORACLE_BUNDLES")
	if bundles == "" {
		bundles = "../../../bin/bundles"
	}
	return filepath.Join(bundles, "v"+kubernetesversions.Default, "kube")
}

// apiServer is a real kube-apiserver that asks the fixture's webhooks.
type apiServer struct {
	t    *testing.T
	host string
	f    *fixture
}

func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	binary, err := filepath.Abs(kubeBinary())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("%v: run \"make build\"", err)
	}
	p, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	s := &apiServer{t: t, host: fmt.Sprintf("https://127.0.0.1:%d", p)}
	s.f = newFixtureFor(t, both, s.as("authenticator"))
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	sa := file("sa.key", pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
		Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	serving, servingKey, err := s.f.authority.Ensure(dir, "serving", ServerLeaf(net.IPv4(127, 0, 0, 1)))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, append([]string{
		"kube-apiserver",
		"--etcd-servers=" + storetest.Client(t).Endpoints()[0],
		"--etcd-prefix=" + storetest.Prefix(t) + "registry",
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", p),
		"--tls-cert-file=" + serving, "--tls-private-key-file=" + servingKey,
		"--service-account-issuer=https://test", "--service-account-signing-key-file=" + sa,
		"--service-account-key-file=" + sa,
		"--service-cluster-ip-range=10.100.0.0/16",
		"--token-auth-file=" + file("tokens.csv",
			[]byte("admin,admin,1,\"system:masters\"\nauthenticator,eks:authenticator,2\n")),
	}, apiServerFlags(t, s.f)...)...)
	cmd.Dir = dir
	cmd.SysProcAttr = apiservertest.EndWithParent()
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		_ = cmd.Wait()
		if t.Failed() {
			text := output.Bytes()
			t.Logf("kube-apiserver: ...%s", text[max(0, len(text)-4000):])
		}
	})
	admin := s.client("admin")
	eventually.Nil(t, "the API server is ready", func() error {
		_, err := admin.RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context())
		return err
	})
	// As EKS creates them.
	meta := metav1.ObjectMeta{Namespace: "kube-system", Name: "eks:authenticator"}
	if _, err := admin.RbacV1().Roles("kube-system").Create(t.Context(), &rbacv1.Role{ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"aws-auth"},
			Verbs: []string{"get", "list", "watch"},
		}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().RoleBindings("kube-system").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "eks:authenticator"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// as returns the configuration of a client with that bearer token.
func (s *apiServer) as(token string) *rest.Config {
	return &rest.Config{Host: s.host, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		QPS: -1}
}

func (s *apiServer) client(token string) *kubernetes.Clientset {
	s.t.Helper()
	c, err := kubernetes.NewForConfig(s.as(token))
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func TestRealAPIServer(t *testing.T) {
	t.Parallel()
	testenv.NeedsSetup(t)
	s := startAPIServer(t)
	f, ctx, admin := s.f, t.Context(), s.client("admin")
	const arn = "arn:aws:iam::111122223333:role/teams/Ops"
	associate := func(policies ...record.AccessPolicyAssociation) {
		f.entry(record.AccessEntry{PrincipalARN: arn, CreatedAt: time.Now(), Policies: policies})
	}
	ops := s.client(f.role("/teams/", "Ops", "alice"))
	pods := func(namespace string) error {
		_, err := ops.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		return err
	}
	becomes := func(what string, good func(error) bool, try func() error) {
		t.Helper()
		eventually.Nil(t, what, func() error {
			if err := try(); !good(err) {
				return fmt.Errorf("the answer is %v", err)
			}
			return nil
		})
	}
	allowed := func(err error) bool { return err == nil }

	if err := pods("default"); !apierrors.IsUnauthorized(err) {
		t.Errorf("without an entry: %v", err)
	}
	associate()
	becomes("with an entry", apierrors.IsForbidden, func() error { return pods("default") })

	who, err := ops.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := authenticationv1.UserInfo{
		Username: "arn:aws:sts::111122223333:assumed-role/Ops/alice",
		UID:      "aws-iam-authenticator:111122223333:AROAOPS",
		Groups:   []string{"system:authenticated"},
		Extra: map[string]authenticationv1.ExtraValue{
			"accessKeyId":  {"ASIAOPS"},
			"arn":          {"arn:aws:sts::111122223333:assumed-role/Ops/alice"},
			"canonicalArn": {"arn:aws:iam::111122223333:role/Ops"},
			"principalId":  {"AROAOPS"},
			"sessionName":  {"alice"},
			"sigs.k8s.io/aws-iam-authenticator/principalId": {"AROAOPS"},
		},
	}
	if diff := cmp.Diff(want, who.Status.UserInfo); diff != "" {
		t.Errorf("whoami (-want +got):\n%s", diff)
	}

	associate(within("AmazonEKSViewPolicy", "def*"))
	becomes("viewer in his namespace", allowed, func() error { return pods("default") })
	if err := pods("kube-system"); !apierrors.IsForbidden(err) {
		t.Errorf("viewer in another namespace: %v", err)
	}
	if err := pods(""); !apierrors.IsForbidden(err) {
		t.Errorf("viewer in all namespaces: %v", err)
	}

	associate(everywhere("AmazonEKSClusterAdminPolicy"))
	// More than any RBAC rule gives him: the API server asks for escalate and bind.
	_, err = ops.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "everything"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}},
	}, metav1.CreateOptions{})
	becomes("administrator makes a cluster role", func(err error) bool {
		return err == nil ||
			apierrors.IsAlreadyExists(err)
	}, func() error {
		_, err = ops.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "everything"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}},
		}, metav1.CreateOptions{})
		return err
	})
	if _, err = ops.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "operators"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "everything"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "operators"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Errorf("administrator binds it: %v", err)
	}
	associate()
	becomes("administrator no more", apierrors.IsForbidden, func() error { return pods("default") })

	// aws-auth, for another role.
	f.role("/", "Dev", "bob")
	dev := s.client(f.role("/", "Dev", "bob"))
	nodes := func() error {
		_, err := dev.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err
	}
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "aws-auth"},
		Data: map[string]string{
			"mapRoles": "- rolearn: arn:aws:iam::111122223333:role/Dev\n  username: dev:{{SessionName}}\n  groups: " +
				"[operators]\n",
		}}
	if configMap, err = admin.CoreV1().ConfigMaps("kube-system").Create(ctx, configMap,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	becomes("in aws-auth", allowed, nodes)
	configMap.Data["mapRoles"] = "- rolearn: arn:aws:iam::111122223333:role/Dev\n  username: dev:{{SessionName}}\n"
	if configMap, err = admin.CoreV1().ConfigMaps("kube-system").Update(ctx, configMap,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	becomes("without the group", apierrors.IsForbidden, nodes)
	f.entry(record.AccessEntry{PrincipalARN: "arn:aws:iam::111122223333:role/Dev", CreatedAt: time.Now(),
		Groups: []string{"operators"}})
	becomes("with the group of an entry", allowed, nodes)
	f.removeEntry("arn:aws:iam::111122223333:role/Dev")
	becomes("without the entry", apierrors.IsForbidden, nodes)
	if err = admin.CoreV1().ConfigMaps("kube-system").Delete(ctx, configMap.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	becomes("without aws-auth", apierrors.IsUnauthorized, nodes)

	// Closed while the webhooks are down, for IAM identities alone.
	associate(everywhere("AmazonEKSClusterAdminPolicy"))
	becomes("administrator again", allowed, func() error { return pods("default") })
	f.server.CloseClientConnections()
	f.server.Listener.Close()
	becomes("while the webhooks are down", func(err error) bool {
		return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsInternalError(err)
	}, func() error { return pods("default") })
	if _, err := admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("another administrator while the webhooks are down: %v", err)
	}
}
