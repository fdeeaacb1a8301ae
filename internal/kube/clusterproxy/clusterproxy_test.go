package clusterproxy

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

const clusterID = "0123456789ABCDEF0123456789ABCDEF"

// TestClientsBehindTheProxy does with a real API server what kubectl does: with a token, with and without HTTP/2.
func TestClientsBehindTheProxy(t *testing.T) {
	t.Parallel()
	s, server := storetest.New(t), apiservertest.Start(t, apiservertest.Options{})
	cluster := record.Cluster{Account: "111122223333", Region: "eu-west-1", Name: "c", ID: clusterID,
		EndpointPublicAccess: true}
	create(t, record.Clusters(s), cluster.Key(), cluster)
	create(t, record.ControlPlanes(s), cluster.Key(), record.ControlPlane{ClusterID: clusterID, Ready: true,
		Endpoint: server.Host, CertificateAuthority: server.CA})
	create(t, record.Issuers(s), store.Key(clusterID),
		record.Issuer{Account: cluster.Account, Region: cluster.Region, Cluster: cluster.Name})

	proxy := New(s, slog.New(slog.DiscardHandler))
	endpoint := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 { // the deadline of other answers is over
			if err := http.NewResponseController(w).SetWriteDeadline(time.Now()); err != nil {
				t.Error(err)
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	endpoint.EnableHTTP2 = true
	endpoint.StartTLS()
	t.Cleanup(endpoint.Close)
	token := serviceAccountToken(t, server)
	client := func(t *testing.T, id string, protocols ...string) *kubernetes.Clientset {
		t.Helper()
		c, err := kubernetes.NewForConfig(&rest.Config{Host: endpoint.URL + Prefix + id, BearerToken: token,
			TLSClientConfig: rest.TLSClientConfig{Insecure: true, NextProtos: protocols}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}

	for _, protocol := range []string{"h2", "http/1.1"} {
		t.Run(protocol, func(t *testing.T) {
			c := client(t, clusterID, protocol)
			review, err := c.AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
				&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := review.Status.UserInfo.Username; got != "system:serviceaccount:default:visitor" {
				t.Errorf("the API server sees %s", got)
			}
			events, err := c.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer events.Stop()
			name := strings.ReplaceAll("seen-"+protocol, "/", "-")
			if _, err := server.Admin().CoreV1().ConfigMaps("default").Create(t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			for event := range events.ResultChan() {
				if object, ok := event.Object.(*corev1.ConfigMap); event.Type == watch.Added && ok && object.Name == name {
					return
				}
			}
			t.Error("the watch ended before it saw the ConfigMap")
		})
	}

	t.Run("refusals", func(t *testing.T) {
		_, err := client(t, "00000000000000000000000000000000").Discovery().ServerVersion()
		if !apierrors.IsNotFound(err) {
			t.Errorf("of a cluster that is not there: %v", err)
		}
		if _, err := record.Clusters(s).Modify(t.Context(), cluster.Key(), func(c *record.Cluster) error {
			c.EndpointPublicAccess = false
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		_, err = client(t, clusterID).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "endpointPublicAccess") {
			t.Errorf("of a cluster without public access: %v", err)
		}
	})
	t.Run("of an earlier cluster of the name", func(t *testing.T) {
		const earlier = "FEDCBA9876543210FEDCBA9876543210"
		create(t, record.Issuers(s), store.Key(earlier),
			record.Issuer{Account: cluster.Account, Region: cluster.Region, Cluster: cluster.Name})
		if _, err := client(t, earlier).Discovery().ServerVersion(); !apierrors.IsNotFound(err) {
			t.Errorf("it leads to another cluster: %v", err)
		}
	})
	if resp, err := endpoint.Client().Get(endpoint.URL + Prefix); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("without an ID: %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
}

// serviceAccountToken returns a token of a service account that may do everything.
func serviceAccountToken(t *testing.T, server *apiservertest.Server) string {
	t.Helper()
	admin := server.Admin()
	accounts := admin.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "visitor"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "visitor"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "visitor"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the service account may watch", func() bool { // the authorizer watches the bindings
		asked := authorizationv1.SubjectAccessReviewSpec{User: "system:serviceaccount:default:visitor",
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "default", Verb: "watch", Version: "v1",
				Resource: "configmaps"}}
		review, err := admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(),
			&authorizationv1.SubjectAccessReview{Spec: asked}, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed
	})
	token, err := accounts.CreateToken(t.Context(), "visitor", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

func create[T any](t *testing.T, rows store.Table[T], key string, v T) {
	t.Helper()
	if _, err := rows.Create(t.Context(), key, v); err != nil {
		t.Fatal(err)
	}
}
