package corednsautoscaler

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// TestCoreDNSFollowsTheSizeOfTheCluster runs against a real API server, with the permissions that EKS has.
func TestCoreDNSFollowsTheSizeOfTheCluster(t *testing.T) {
	t.Parallel()
	server := apiservertest.Start(t, apiservertest.Options{})
	kube := server.Admin()
	grant(t, server)
	labels := map[string]string{"k8s-app": "kube-dns"}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "coredns"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "coredns", Image: "coredns"}}}},
	}}
	eventually.Nil(t, "the namespace is there", func() error {
		_, err := kube.AppsV1().Deployments("kube-system").Create(t.Context(), deployment, metav1.CreateOptions{})
		return err
	})
	s := storetest.New(t)
	cluster := record.Cluster{Account: "111122223333", Region: "eu-west-1", Name: "demo", ID: "0123"}
	addon := record.Addon{Account: cluster.Account, Region: cluster.Region, Cluster: cluster.Name, ClusterID: cluster.ID,
		Name: "coredns", ID: "a", Wanted: record.AddonConfig{Configuration: `{"autoScaling":{"enabled":true}}`}}
	if err := s.Txn(t.Context(), record.Clusters(s).CreateOp(cluster.Key(), cluster),
		record.ControlPlanes(s).CreateOp(cluster.Key(), record.ControlPlane{ClusterID: cluster.ID, Endpoint: server.Host,
			Ready: true}), record.Addons(s).CreateOp(addon.Key(), addon)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- reconcile.Run(ctx, slog.New(slog.DiscardHandler), New(Options{Store: s,
			Config: server.ConfigFor}).Controllers()...)
	}()
	defer func() { cancel(); <-ended }()

	replicas := func(want int32) {
		t.Helper()
		eventually.Nil(t, fmt.Sprintf("there are %d replicas", want), func() error {
			d, err := kube.AppsV1().Deployments("kube-system").Get(t.Context(), "coredns", metav1.GetOptions{})
			if err == nil && *d.Spec.Replicas != want {
				err = fmt.Errorf("got %d", *d.Spec.Replicas)
			}
			return err
		})
	}
	replicas(2)
	for n := range 33 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n-", n)}, Status: corev1.NodeStatus{
			Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}}
		if _, err := kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	replicas(3)
	modify := func(configuration string) {
		t.Helper()
		if _, err := record.Addons(s).Modify(t.Context(), addon.Key(), func(a *record.Addon) error {
			a.Wanted.Configuration = configuration
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	modify(`{"autoScaling":{"enabled":true,"minReplicas":5}}`)
	replicas(5)
	modify(`{"autoScaling":{"enabled":true,"maxReplicas":2}}`)
	replicas(2)
	d, err := kube.AppsV1().Deployments("kube-system").Get(t.Context(), "coredns", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range d.ManagedFields {
		if f.Manager == fieldManager && f.Subresource == "scale" {
			return
		}
	}
	t.Errorf("the replicas are managed by %+v", d.ManagedFields)
}

// grant gives the user the permissions of EKS's roles.
func grant(t *testing.T, server *apiservertest.Server) {
	t.Helper()
	rbac := server.Admin().RbacV1()
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}
	meta := metav1.ObjectMeta{Name: user}
	ref := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: user}
	}
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	eventually.Nil(t, "the namespace is there", func() error {
		_, err := rbac.Roles("kube-system").Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			rule("apps", "deployments", "get", "list", "watch"),
			rule("apps", "deployments/scale", "get", "update", "patch")}}, metav1.CreateOptions{})
		return err
	})
	_, err := rbac.RoleBindings("kube-system").Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef: ref("Role"), Subjects: subjects}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		rule("", "nodes", "get", "list", "watch")}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
		RoleRef: ref("ClusterRole"), Subjects: subjects}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
