package fargate

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
	"github.com/coracle-eks/coracle/internal/kube/authenticator"
	"github.com/coracle-eks/coracle/internal/pki"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// fixture is a real API server that asks the webhooks, behind their listener, with the configuration of EKS.
type fixture struct {
	*testing.T
	store *store.Store
	kube  *kubernetes.Clientset
	audit string // the API server's audit log
}

const auditPolicy = `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[` +
	`{"level":"RequestResponse","verbs":["create"],"resources":[{"group":"","resources":["pods","configmaps"]}]}]}`

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, store: storetest.New(t)}
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		f.must(os.WriteFile(path, content, 0o600))
		return path
	}
	f.must(f.store.Txn(t.Context(),
		record.Clusters(f.store).CreateOp(cluster.Key(), cluster),
		record.Issuers(f.store).CreateOp(store.Key(cluster.ID), record.Issuer{Account: cluster.Account,
			Region: cluster.Region, Cluster: cluster.Name})))
	authority, err := pki.OpenAuthority(dir, "ca", "test")
	f.must(err)
	pair, err := authority.Issue(authenticator.ServerLeaf(net.IPv4(127, 0, 0, 1)))
	f.must(err)
	listener := httptest.NewUnstartedServer(authenticator.New(authenticator.Options{Store: f.store,
		Fargate: New(f.store)}))
	listener.TLS, err = authenticator.TLSConfig(authority, pair)
	f.must(err)
	listener.StartTLS()
	t.Cleanup(listener.Close)

	certificate, key, err := authority.Ensure(dir, "client", authenticator.ClientLeaf(cluster.ID))
	f.must(err)
	endpoint := authenticator.Endpoint{ClusterID: cluster.ID, URL: listener.URL, CA: authority.PEM,
		CertificateFile: certificate, KeyFile: key}
	kubeconfig, err := endpoint.AdmissionKubeconfig()
	f.must(err)
	f.audit = filepath.Join(dir, "audit.log")
	server := apiservertest.Start(t, apiservertest.Options{Flags: []string{
		"--admission-control-config-file=" + file("admission.yaml", fmt.Appendf(nil, `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: MutatingAdmissionWebhook
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: %q
`, file("admission.kubeconfig", kubeconfig))),
		"--audit-policy-file=" + file("policy.json", []byte(auditPolicy)), "--audit-log-path=" + f.audit,
		"--disable-admission-plugins=ServiceAccount",
	}})
	f.kube = server.Admin()
	objects, err := dynamic.NewForConfig(server.Config("admin", "system:masters"))
	f.must(err)
	_, err = objects.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1",
		Resource: "mutatingwebhookconfigurations"}).Create(t.Context(),
		Configuration(endpoint.FargateURL(), endpoint.CA), metav1.CreateOptions{})
	f.must(err)
	return f
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) namespace(name string, labels map[string]string) {
	f.Helper()
	_, err := f.kube.CoreV1().Namespaces().Create(f.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	f.must(err)
}

// create creates a pod with labels in a namespace.
func (f *fixture) create(namespace, name string, labels map[string]string, edit func(*corev1.PodSpec)) *corev1.Pod {
	f.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx"}}}}
	if edit != nil {
		edit(&pod.Spec)
	}
	made, err := f.kube.CoreV1().Pods(namespace).Create(f.Context(), pod, metav1.CreateOptions{})
	f.must(err)
	return made
}

// audited returns the line of the audit log about the creation of an object.
func (f *fixture) audited(name string) (line string) {
	f.Helper()
	eventually.True(f, "the creation of "+name+" is in the audit log", func() bool {
		content, err := os.ReadFile(f.audit)
		f.must(err)
		lines := bufio.NewScanner(bytes.NewReader(content))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if strings.Contains(lines.Text(), `"name":"`+name+`"`) {
				line = lines.Text()
			}
		}
		return line != ""
	})
	return line
}

// TestRealAPIServer checks that an API server sends pods and settings of the log router here by the configuration of
// EKS, and what becomes of them.
func TestRealAPIServer(t *testing.T) {
	t.Parallel()
	testenv.NeedsSetup(t)
	f := newFixture(t)
	f.namespace("shop", nil)
	f.namespace("other", nil)
	f.namespace("aws-observability", map[string]string{"aws-observability": "enabled"})
	putActive(t, f.store,
		profile("web", namespaced("shop")),
		profile("all", record.FargateSelector{Namespace: "sh?p", Labels: map[string]string{"app": "*"}}))

	// The API server reads a new configuration a moment later.
	tries := 0
	eventually.True(t, "the webhook is asked", func() bool {
		tries++
		return f.create("shop", fmt.Sprint("try-", tries), nil, nil).Spec.SchedulerName == "fargate-scheduler"
	})

	pod := f.create("shop", "nginx", map[string]string{"app": "cart"}, nil)
	if pod.Spec.SchedulerName != "fargate-scheduler" || pod.Spec.PriorityClassName != "system-node-critical" ||
		*pod.Spec.Priority != 2000001000 || *pod.Spec.PreemptionPolicy != corev1.PreemptLowerPriority {
		t.Errorf("the pod is %+v", pod.Spec)
	}
	if len(pod.Labels) != 2 || pod.Labels["eks.amazonaws.com/fargate-profile"] != "all" || pod.Labels["app"] != "cart" {
		t.Errorf("the labels are %q", pod.Labels)
	}
	line := f.audited("nginx")
	for _, want := range []string{
		`"mutation.webhook.admission.k8s.io/round_0_index_0":"{\"configuration\":\"` + Name + `\",\"webhook\":\"` + Name +
			`\",\"mutated\":true}"`,
		`"patch.webhook.admission.k8s.io/round_0_index_0":"{\"configuration\":\"` + Name + `\",\"webhook\":\"` + Name +
			`\",\"patch\":[{\"op\":\"add\",\"path\":\"/spec/schedulerName\",\"value\":\"fargate-scheduler\"},` +
			`{\"op\":\"add\",\"path\":\"/spec/priorityClassName\",\"value\":\"system-node-critical\"},` +
			`{\"op\":\"add\",\"path\":\"/spec/priority\",\"value\":2000001000},{\"op\":\"add\",\"path\":\"/metadata/labels\",` +
			`\"value\":{\"app\":\"cart\",\"eks.amazonaws.com/fargate-profile\":\"all\"}}],\"patchType\":\"JSONPatch\"}"`,
	} {
		if !strings.Contains(line, want) {
			t.Errorf("the audit log lacks %s: %s", want, line)
		}
	}

	chosen := f.create("shop", "chosen", map[string]string{"app": "cart", "eks.amazonaws.com/fargate-profile": "web"}, nil)
	if got := chosen.Labels["eks.amazonaws.com/fargate-profile"]; got != "web" {
		t.Errorf("the pod that names a profile has %q", got)
	}
	mistaken := f.create("shop", "mistaken", map[string]string{"eks.amazonaws.com/fargate-profile": "all"}, nil)
	if got := mistaken.Labels["eks.amazonaws.com/fargate-profile"]; got != "web" {
		t.Errorf("the pod that names a profile which does not match has %q", got)
	}
	if elsewhere := f.create("other", "elsewhere", nil, nil); elsewhere.Spec.SchedulerName != "default-scheduler" ||
		elsewhere.Spec.PriorityClassName != "" || len(elsewhere.Labels) > 0 {
		t.Errorf("the pod of another namespace is %+v", elsewhere)
	}

	never := corev1.PreemptNever
	_, err := f.kube.SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: "patient"}, Value: 7, PreemptionPolicy: &never}, metav1.CreateOptions{})
	f.must(err)
	tries = 0
	eventually.Nil(t, "a pod of a priority class that does not preempt is admitted", func() error {
		tries++
		patient := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("patient-", tries)},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx"}},
				PriorityClassName: "patient"}}
		made, err := f.kube.CoreV1().Pods("shop").Create(t.Context(), patient, metav1.CreateOptions{})
		if err == nil && (*made.Spec.Priority != 2000001000 || *made.Spec.PreemptionPolicy != corev1.PreemptLowerPriority) {
			t.Errorf("the pod is %+v", made.Spec)
		}
		return err // the API server learns of the class a moment later
	})

	logging := func(data string) error {
		_, err := f.kube.CoreV1().ConfigMaps("aws-observability").Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "aws-logging"}, Data: map[string]string{"output.conf": data},
		}, metav1.CreateOptions{})
		return err
	}
	err = logging("[OUTPUT]\n    Name amazon_data_firehose\n    Match kube.*\n")
	if want := `admission webhook "` + ConfigMapsName + `" denied the request: amazon_data_firehose is not a supported ` +
		`output plugin`; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("settings that are not valid: %v", err)
	}
	f.must(logging("[OUTPUT]\n    Name cloudwatch_logs\n    Match kube.*\n    region eu-west-1\n" +
		"    log_group_name shop\n    log_stream_prefix fluent-bit-\n"))
}

// TestOnlyTheClustersAPIServerIsAnswered checks that the webhook answers no API server of another cluster.
func TestOnlyTheClustersAPIServerIsAnswered(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	if err := s.Txn(t.Context(),
		record.Clusters(s).CreateOp(cluster.Key(), cluster),
		record.Issuers(s).CreateOp(store.Key(cluster.ID), record.Issuer{Account: cluster.Account, Region: cluster.Region,
			Cluster: cluster.Name})); err != nil {
		t.Fatal(err)
	}
	authority, err := pki.OpenAuthority(t.TempDir(), "ca", "test")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(authenticator.ServerLeaf(net.IPv4(127, 0, 0, 1)))
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewUnstartedServer(authenticator.New(authenticator.Options{Store: s, Fargate: New(s)}))
	if listener.TLS, err = authenticator.TLSConfig(authority, pair); err != nil {
		t.Fatal(err)
	}
	listener.StartTLS()
	t.Cleanup(listener.Close)
	endpoint := authenticator.Endpoint{ClusterID: cluster.ID, URL: listener.URL}
	for name, test := range map[string]struct {
		id   string // in the certificate
		code int
	}{
		"its own":         {cluster.ID, http.StatusOK},
		"another cluster": {"FEDCBA9876543210FEDCBA9876543210", http.StatusForbidden},
	} {
		leaf, err := authority.Issue(authenticator.ClientLeaf(test.id))
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := tls.X509KeyPair(leaf.Certificate, leaf.Key)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AddCert(authority.Certificate)
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots,
			Certificates: []tls.Certificate{certificate}}}
		t.Cleanup(transport.CloseIdleConnections)
		answer, err := (&http.Client{Transport: transport}).Post(endpoint.FargateURL(), "application/json",
			strings.NewReader(reviewOf("v1beta1", "n", nginx)))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != test.code {
			t.Errorf("%s: %s", name, answer.Status)
		}
	}
}
