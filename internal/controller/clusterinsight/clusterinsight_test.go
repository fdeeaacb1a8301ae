package clusterinsight_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktest "k8s.io/utils/clock/testing"

	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/controller/clusterinsight"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
	"github.com/coracle-eks/coracle/internal/kube/authenticator"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

const (
	passing = ekstypes.InsightStatusValuePassing
	warning = ekstypes.InsightStatusValueWarning
	failing = ekstypes.InsightStatusValueError
	unknown = ekstypes.InsightStatusValueUnknown
)

var today = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// fixture is a cluster in the store whose insights a controller makes.
type fixture struct {
	*testing.T
	*clusterinsight.Controller
	store   *store.Store
	clock   *clocktest.FakeClock
	dir     string
	cluster record.Cluster
}

func newFixture(t *testing.T, config func(context.Context, record.Cluster, string, ...string) (*rest.Config, error),
) *fixture {
	t.Helper()
	f := &fixture{T: t, store: storetest.New(t), clock: clocktest.NewFakeClock(today), dir: t.TempDir(),
		cluster: record.Cluster{Account: "111122223333", Region: "eu-west-1", Name: "c", ID: "0123", Version: "1.35"}}
	if err := os.MkdirAll(filepath.Join(f.dir, f.cluster.ID, "log"), 0o700); err != nil {
		t.Fatal(err)
	}
	f.Controller = clusterinsight.New(clusterinsight.Options{
		Store: f.store, Catalog: mustCatalog(t), Config: config, Dir: f.dir, Clock: f.clock,
	})
	if _, err := record.Clusters(f.store).Create(t.Context(), f.cluster.Key(), f.cluster); err != nil {
		t.Fatal(err)
	}
	f.observe(record.ControlPlane{})
	return f
}

func (f *fixture) observe(p record.ControlPlane) {
	f.Helper()
	p.ClusterID, p.Ready = f.cluster.ID, true
	if p.Version == "" {
		p.Version = "1.35"
	}
	if _, err := record.ControlPlanes(f.store).Put(f.Context(), f.cluster.Key(), p); err != nil {
		f.Fatal(err)
	}
}

// checks makes a pass, and returns the checks by their names.
func (f *fixture) checks() map[string]record.InsightCheck {
	f.Helper()
	if _, err := f.Reconcile(f.Context(), f.cluster.Key()); err != nil {
		f.Fatal(err)
	}
	return f.recorded()
}

func (f *fixture) recorded() map[string]record.InsightCheck {
	f.Helper()
	row, err := record.InsightsOf(f.store).Get(f.Context(), f.cluster.Key())
	if err != nil {
		f.Fatal(err)
	}
	all := map[string]record.InsightCheck{}
	for _, c := range row.Value.Checks {
		all[c.Name] = c
	}
	return all
}

// nobody is an API server that cannot be reached.
func nobody(context.Context, record.Cluster, string, ...string) (*rest.Config, error) {
	return nil, fmt.Errorf("the API server is down\nfor a reason")
}

// TestInsightsOfACluster shows what a real API server makes of nodes, kube-proxy and clients of deprecated APIs.
func TestInsightsOfACluster(t *testing.T) {
	t.Parallel()
	policy := filepath.Join(t.TempDir(), "audit.yaml")
	if err := os.WriteFile(policy,
		[]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var server *apiservertest.Server
	f := newFixture(t, func(ctx context.Context, c record.Cluster, user string, groups ...string) (*rest.Config, error) {
		return server.ConfigFor(ctx, c, user, groups...)
	})
	server = apiservertest.Start(t, apiservertest.Options{Flags: []string{
		"--runtime-config=networking.k8s.io/v1beta1=true", // Kubernetes 1.37 removes it
		"--audit-log-path=" + filepath.Join(f.dir, f.cluster.ID, "log", "kube-apiserver-audit-01234567.log"),
		"--audit-policy-file=" + policy,
	}})
	admin := server.Admin()
	addNode(t, server, "old", "v1.33.1")
	addNode(t, server, "new", "v1.35.4-eks-1234567")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "insights"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"", "apps"}, Resources: []string{"nodes", "daemonsets"}, Verbs: []string{"list"}}}}
	if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: role.Name}, Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName,
			Name: authenticator.ManagedUser}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"k8s-app": "kube-proxy"}
	if _, err := admin.AppsV1().DaemonSets("kube-system").Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-proxy", Labels: labels},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "kube-proxy",
					Image: "602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/kube-proxy:v1.32.0-minimal-eksbuild.2"}}}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := admin.NetworkingV1beta1().ServiceCIDRs().List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually.True(t, "the audit log has the requests", func() bool {
		f.clock.Step(time.Minute)
		_, found := f.checks()["Deprecated APIs removed in Kubernetes v1.37"]
		return found && *requestsOf(f.recorded()["Deprecated APIs removed in Kubernetes v1.37"]) >= 3
	})
	checks := f.recorded()
	for name, status := range map[string]ekstypes.InsightStatusValue{
		"Kubelet version skew": warning, "kube-proxy version skew": failing, "Cluster health issues": passing,
		"EKS add-on version compatibility": passing, "Deprecated APIs removed in Kubernetes v1.36": passing,
		"Deprecated APIs removed in Kubernetes v1.37": warning,
	} {
		if checks[name].Status != status {
			t.Errorf("%s: %+v", name, checks[name])
		}
	}
	if r := checks["Kubelet version skew"].Resources; len(r) != 1 || *r[0].KubernetesResourceUri != "/api/v1/nodes/old" {
		t.Errorf("nodes that are too old: %+v", r)
	}
	api := checks["Deprecated APIs removed in Kubernetes v1.37"].APIs[0]
	if *api.Usage != "/apis/networking.k8s.io/v1beta1/servicecidrs" ||
		*api.ReplacedWith != "/apis/networking.k8s.io/v1/servicecidrs" || *api.StopServingVersion != "1.37" ||
		*api.StartServingReplacementVersion != "1.33" || len(api.ClientStats) != 1 ||
		!strings.Contains(*api.ClientStats[0].UserAgent, "clusterinsight.test") {
		t.Errorf("the deprecated API: %s", cmp.Diff(api, ekstypes.DeprecationDetail{}))
	}
	since := checks["Kubelet version skew"].ChangedAt
	if err := admin.CoreV1().Nodes().Delete(t.Context(), "old", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if c := f.checks()["Kubelet version skew"]; c.Status != warning {
		t.Errorf("before nodes are read again: %+v", c)
	}
	f.ask()
	if c := f.checks()["Kubelet version skew"]; c.Status != passing || !c.ChangedAt.After(since) || len(c.Resources) > 0 {
		t.Errorf("without old nodes: %+v", c)
	}
	if failure := f.refreshed(); failure != "" {
		t.Errorf("the refresh failed: %s", failure)
	}
}

// ask asks for a refresh.
func (f *fixture) ask() {
	f.Helper()
	f.clock.Step(time.Second)
	if _, err := record.InsightsRefreshes(f.store).Put(f.Context(), f.cluster.Key(), record.InsightsRefresh{
		ClusterID: f.cluster.ID, StartedAt: f.clock.Now()}); err != nil {
		f.Fatal(err)
	}
}

// refreshed returns the failure of the newest refresh, which must have ended.
func (f *fixture) refreshed() string {
	f.Helper()
	row, err := record.InsightsRefreshes(f.store).Get(f.Context(), f.cluster.Key())
	if err != nil || row.Value.EndedAt.Before(row.Value.StartedAt) {
		f.Fatalf("the refresh is %+v, %v", row.Value, err)
	}
	return row.Value.Failure
}

func requestsOf(c record.InsightCheck) *int32 {
	return &c.APIs[0].ClientStats[0].NumberOfRequestsLast30Days
}

func addNode(t *testing.T, s *apiservertest.Server, name, kubelet string) {
	t.Helper()
	nodes := s.Admin().CoreV1().Nodes()
	n, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.Status.NodeInfo.KubeletVersion = kubelet
	if _, err := nodes.UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestInsightsWithoutAnAPIServer shows that what needs no API server is known without one, and the rest says why it is
// not.
func TestInsightsWithoutAnAPIServer(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nobody)
	addon := record.Addon{Account: f.cluster.Account, Region: f.cluster.Region, Cluster: "c", ClusterID: f.cluster.ID,
		Name: "kube-proxy", ID: "a", Wanted: record.AddonConfig{Version: "v1.35.4-eksbuild.1"}}
	other := addon
	other.Name, other.Wanted.Version = "coredns", notServing(t, "coredns", "1.36")
	for _, a := range []record.Addon{addon, other} {
		if _, err := record.Addons(f.store).Create(t.Context(), a.Key(), a); err != nil {
			t.Fatal(err)
		}
	}
	f.observe(record.ControlPlane{Health: []ekstypes.ClusterIssue{{Code: ekstypes.ClusterIssueCodeEc2SubnetNotFound,
		Message: aws.String("subnet-a is gone")}}})
	if _, err := f.Reconcile(t.Context(), f.cluster.Key()); err == nil || !strings.Contains(err.Error(), "down") {
		t.Errorf("the pass: %v", err)
	}
	checks := f.recorded()
	for name, want := range map[string]struct {
		status ekstypes.InsightStatusValue
		reason string
	}{
		"Kubelet version skew": {unknown, "The node kubelet versions could not be read: the API server is down"},
		"Cluster health issues": {failing,
			"Cluster health issues detected: Ec2SubnetNotFound: subnet-a is gone"},
		"Deprecated APIs removed in Kubernetes v1.36": {passing,
			"No deprecated API usage detected within the last 30 days."},
	} {
		if c := checks[name]; c.Status != want.status || c.Reason != want.reason || !c.ChangedAt.Equal(today) {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if other.Wanted.Version != "" {
		c := checks["EKS add-on version compatibility"]
		if c.Status != failing || len(c.Resources) != 1 || *c.Resources[0].Arn != other.ARN() || len(c.Addons) != 1 {
			t.Errorf("an add-on that does not fit: %+v", c)
		}
	}
	f.ask()
	if _, err := f.Reconcile(t.Context(), f.cluster.Key()); err == nil || !strings.Contains(f.refreshed(), "down") {
		t.Errorf("a refresh: %v, %q", err, f.refreshed())
	}
	f.observe(record.ControlPlane{Version: "1.36"}) // the newest
	if _, err := f.Reconcile(t.Context(), f.cluster.Key()); err == nil {
		t.Error("the pass has no error")
	}
	if got := f.recorded(); len(got) != 0 {
		t.Errorf("of the newest version: %+v", got)
	}
	row, err := record.Clusters(f.store).Get(t.Context(), f.cluster.Key())
	if err == nil {
		err = record.Clusters(f.store).Delete(t.Context(), row)
	}
	if err != nil {
		t.Fatal(err)
	}
	if r, err := f.Reconcile(t.Context(), f.cluster.Key()); err != nil || !r.Gone {
		t.Errorf("a cluster that is gone: %+v, %v", r, err)
	}
	if n := record.InsightsOf(f.store).Count(""); n != 0 {
		t.Errorf("%d insights of no cluster", n)
	}
}

// notServing returns a version of an add-on that does not serve a Kubernetes version; empty without one.
func notServing(t *testing.T, name, minor string) string {
	t.Helper()
	a, _ := mustCatalog(t).Addon(name)
	for _, v := range a.Versions {
		if !v.Serves(minor) {
			return v.Version
		}
	}
	return ""
}

// TestAuditLogIsCountedOnce shows that requests are counted once over rotations and restarts, for 30 days, and that
// what tenants write into the log cannot grow without end.
func TestAuditLogIsCountedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nobody)
	log := filepath.Join(f.dir, f.cluster.ID, "log", "kube-apiserver-audit-01234567.log")
	n := 0
	write := func(edit ...func(map[string]any)) {
		n++
		e := map[string]any{
			"kind": "Event", "auditID": fmt.Sprint(n), "verb": strings.Repeat("v", 256), "stage": "ResponseComplete",
			"user": map[string]any{"username": "alice"}, "userAgent": "helm/3",
			"objectRef": map[string]any{"resource": "flowschemas", "apiGroup": "flowcontrol.apiserver.k8s.io",
				"apiVersion": "v1beta3"},
			"requestReceivedTimestamp": f.clock.Now().Format("2006-01-02T15:04:05.000000Z"),
			"annotations": map[string]any{
				"k8s.io/deprecated": "true", "k8s.io/removed-release": "1.36"},
		}
		for _, change := range edit {
			change(e)
		}
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		w, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = w.Write(append(line, '\n')); err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	usage := func() record.InsightCheck {
		f.clock.Step(time.Minute)                        // once in which requests are written
		_, _ = f.Reconcile(t.Context(), f.cluster.Key()) // nobody answers
		return f.recorded()["Deprecated APIs removed in Kubernetes v1.36"]
	}
	expect := func(when string, want int32) {
		t.Helper()
		c := usage()
		switch {
		case want == 0 && c.Status != passing,
			want > 0 && (c.Status != failing || *requestsOf(c) != want):
			t.Errorf("%s: %+v", when, c)
		}
	}
	expect("before the first request", 0)
	write()
	write(func(e map[string]any) { e["stage"] = "ResponseStarted" })
	write(func(e map[string]any) { e["user"] = map[string]any{"username": "system:kube-controller-manager"} })
	write(func(e map[string]any) { e["annotations"] = map[string]any{"k8s.io/deprecated": "true"} })
	write(func(e map[string]any) {
		e["annotations"] = map[string]any{"k8s.io/deprecated": "true", "k8s.io/removed-release": "2; drop"}
	})
	expect("after the first", 1)
	if api := usage().APIs[0]; *api.Usage != "/apis/flowcontrol.apiserver.k8s.io/v1beta3/flowschemas" ||
		*api.ReplacedWith != "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas" ||
		*api.StartServingReplacementVersion != "1.29" {
		t.Errorf("what replaces it: %+v", api)
	}
	expect("again", 1)
	write()
	f.Controller = clusterinsight.New(clusterinsight.Options{Store: f.store, Catalog: mustCatalog(t), Config: nobody,
		Dir: f.dir, Clock: f.clock})
	expect("by a daemon that was started again", 2)
	write()
	if err := os.Rename(log, strings.TrimSuffix(log, ".log")+"-2026-11-30T12-00-00.000.log"); err != nil {
		t.Fatal(err)
	}
	write()
	expect("in a file that was put aside, and the next", 4)
	for i := range 100 {
		write(func(e map[string]any) { e["userAgent"] = fmt.Sprint(strings.Repeat("x", 1000), i) })
		write(func(e map[string]any) { e["userAgent"] = fmt.Sprint(i) })
	}
	c := usage()
	if got := c.APIs[0]; len(got.ClientStats) != 20 || len(*got.ClientStats[0].UserAgent) > 256 {
		t.Errorf("%d clients", len(got.ClientStats))
	}
	f.clock.Step(31 * 24 * time.Hour)
	expect("after 31 days", 0)
}

func mustCatalog(t *testing.T) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Open(catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
