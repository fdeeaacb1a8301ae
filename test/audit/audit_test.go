// Package audit tests `coracle audit` as its user meets it: a real cluster, the unmodified kubectl,
// a webhook, and the log group that EKS ships the audit log into.
package audit

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
)

const poll = 50 * time.Millisecond

// fixture is a cluster with two people in it.
type fixture struct {
	*harness.Daemon
	t     *testing.T
	admin string // kubeconfig of the root user
	jane  string // of session jane of role platform-admin, who may do everything
	sam   string // of session sam of role developer, who may do little
}

func newFixture(t *testing.T) *fixture {
	// Its webhooks are on this host, which an API server reaches only where machines have no network and the operator
	// allows it.
	d := harness.Start(t, "CORACLE_MACHINES=simulated", "CORACLE_EGRESS_CIDRS=127.0.0.1/32")
	role, subnets := d.ClusterRole(), d.Subnets()
	// Without EKS's own aws-node, to begin its timeline here.
	_, err := eks.NewFromConfig(d.Config()).CreateCluster(t.Context(), &eks.CreateClusterInput{
		Name: aws.String("dev"), Version: aws.String("1.35"), RoleArn: &role,
		BootstrapSelfManagedAddons: aws.Bool(false),
		ResourcesVpcConfig:         &ekstypes.VpcConfigRequest{SubnetIds: subnets},
		AccessConfig: &ekstypes.CreateAccessConfigRequest{
			AuthenticationMode: ekstypes.AuthenticationModeApiAndConfigMap},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.AwaitStatus("dev", ekstypes.ClusterStatusActive)
	w := &fixture{Daemon: d, t: t, admin: d.Login("dev")}

	_, errs, err := d.Try("", "coracle", "audit", "ds/aws-node")
	const enable = `aws eks update-cluster-config --name dev --logging '{"clusterLogging":[{"types":["audit"],"enabled":true}]}'`
	if err == nil || !strings.Contains(errs, "the audit log of cluster dev is off") || !strings.Contains(errs, enable) {
		t.Fatalf("before the audit log is on: %v %s", err, errs)
	}
	// What it says works.
	d.Run("", "sh", "-c", enable)
	d.AwaitStatus("dev", ekstypes.ClusterStatusActive)

	w.jane, w.sam = w.enter("platform-admin", "jane"), w.enter("developer", "sam")
	client := eks.NewFromConfig(d.Config())
	_, err = client.AssociateAccessPolicy(t.Context(), &eks.AssociateAccessPolicyInput{ClusterName: aws.String("dev"),
		PrincipalArn: aws.String("arn:aws:iam::111122223333:role/platform-admin"),
		PolicyArn:    aws.String("arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"),
		AccessScope:  &ekstypes.AccessScope{Type: ekstypes.AccessScopeTypeCluster}})
	if err != nil {
		t.Fatal(err)
	}
	// Access comes into force in a moment.
	if err := eventually.Try(poll, func() error {
		out, errs, err := d.Try(w.jane, "kubectl", "get", "ns")
		if err != nil {
			return fmt.Errorf("%w: %s%s", err, out, errs)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return w
}

// enter lets a role into the cluster and gives a session of it a kubeconfig.
func (w *fixture) enter(role, session string) string {
	arn := "arn:aws:iam::111122223333:role/" + role
	w.AWS(nil, "iam", "create-role", "--role-name", role, "--assume-role-policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::111122223333:root"},"Action":"sts:AssumeRole"}]}`)
	w.AWS(nil, "eks", "create-access-entry", "--cluster-name", "dev", "--principal-arn", arn, "--kubernetes-groups",
		role+"s")
	var assumed struct {
		Credentials struct{ AccessKeyId, SecretAccessKey, SessionToken string }
	}
	w.AWS(&assumed, "sts", "assume-role", "--role-arn", arn, "--role-session-name", session)
	config := filepath.Join(filepath.Dir(w.admin), "kubeconfig-"+session)
	w.Run("", "aws", "eks", "update-kubeconfig", "--name", "dev", "--kubeconfig", config)
	w.Run(config, "kubectl", "config", "set-credentials", "arn:aws:eks:"+harness.Region+":111122223333:cluster/dev",
		"--exec-env", "AWS_ACCESS_KEY_ID="+assumed.Credentials.AccessKeyId,
		"--exec-env", "AWS_SECRET_ACCESS_KEY="+assumed.Credentials.SecretAccessKey, "--exec-env", "AWS_SESSION_TOKEN="+
			assumed.Credentials.SessionToken)
	w.KeepToken(config)
	return config
}

// apply gives kubectl a file. It may fail.
func (w *fixture) apply(config, manifest string, args ...string) (string, error) {
	file := filepath.Join(w.t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		w.t.Fatal(err)
	}
	out, errs, err := w.Try(config, "kubectl", append([]string{"apply", "-f", file}, args...)...)
	return out + errs, err
}

func (w *fixture) must(out string, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
}

// timeline returns the output of coracle audit once it has everything that is wanted.
func (w *fixture) timeline(want []string, args ...string) string {
	w.t.Helper()
	var out string
	if err := eventually.Try(poll, func() error {
		var errs string
		var err error
		out, errs, err = w.Try("", "coracle", append([]string{"audit"}, args...)...)
		if err != nil {
			return fmt.Errorf("%w: %s", err, errs)
		}
		for _, text := range want {
			if !strings.Contains(out, text) {
				return fmt.Errorf("the timeline lacks\n%s", text)
			}
		}
		return nil
	}); err != nil {
		w.t.Errorf("coracle audit %s: %v\nit says:\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func daemonSet(version, delegation string) string {
	return `{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "aws-node", "namespace": "kube-system"}, "spec": {
  "selector": {"matchLabels": {"k8s-app": "aws-node"}},
  "template": {"metadata": {"labels": {"k8s-app": "aws-node"}}, "spec": {"containers": [{
    "name": "aws-node", "image": "602401143452.dkr.ecr.us-east-1.amazonaws.com/amazon-k8s-cni:` + version + `",
    "env": [{"name": "ENABLE_PREFIX_DELEGATION", "value": "` + delegation + `"}]}]}}}}`
}

// TestStories does what gets audited, and reads about it.
func TestStories(t *testing.T) {
	t.Parallel()
	w := newFixture(t)

	// A DaemonSet that two managers want.
	w.must(w.apply(w.admin, daemonSet("v1.20.4", "false"), "--server-side", "--field-manager=eks"))
	w.Run(w.jane, "kubectl", "-n", "kube-system", "set", "env", "ds/aws-node", "ENABLE_PREFIX_DELEGATION=true")
	if out, err := w.apply(w.admin, daemonSet("v1.21.1", "false"), "--server-side",
		"--field-manager=eks"); err == nil || !strings.Contains(out, "conflict") {
		t.Fatalf("an apply of a field of kubectl-set: %v %s", err, out)
	}
	w.must(w.apply(w.admin, daemonSet("v1.21.1", "false"), "--server-side", "--field-manager=eks", "--force-conflicts"))
	if _, _, err := w.Try(w.sam, "kubectl", "-n", "kube-system", "delete", "ds", "aws-node"); err == nil {
		t.Fatal("sam may delete daemon sets")
	}
	w.Run(w.jane, "kubectl", "-n", "kube-system", "label", "ds", "aws-node", "owner=platform", "--dry-run=server")
	w.Run(w.jane, "kubectl", "-n", "kube-system", "delete", "ds", "aws-node", "--as=boss", "--as-group=system:masters")

	out := w.timeline([]string{
		"201 apply  arn:aws:iam::111122223333:root\n",
		"+ container aws-node:\n            602401143452.dkr.ecr.us-east-1.amazonaws.com/amazon-k8s-cni:v1.20.4\n",
		"200 patch  arn:aws:sts::111122223333:assumed-role/platform-admin/jane\n",
		"          ~ .spec.template.spec.containers[name=aws-node]\n            " +
			".env[name=ENABLE_PREFIX_DELEGATION].value:\n            \"false\" -> \"true\"\n            owned by " +
			"kubectl-set, no longer by eks\n",
		"409 apply  arn:aws:iam::111122223333:root\n",
		"          ! conflict with kubectl-set (jane, patch at ",
		"            is \"true\", wanted \"false\"\n            nothing was applied: --force-conflicts would take it " +
			"for eks;",
		"manager eks, by force\n",
		"            v1.20.4 -> v1.21.1\n            owned by eks\n",
		"            owned by eks, no longer by kubectl-set\n",
		"403 delete arn:aws:sts::111122223333:assumed-role/developer/sam\n          (in developers)\n",
		"! may not delete resource \"daemonsets\" in API group \"apps\" in the\n            namespace \"kube-system\"\n",
		"dry run\n",
		"          (in platform-admins) as boss (in system:masters)\n",
	}, "daemonset/aws-node", "-n", "kube-system")
	for line := range strings.Lines(out) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("colors in a pipe")
	}

	// The same as JSON, only what sam did, as a user of the data directory's own key.
	js := w.timeline(nil, "ds", "aws-node", "-n", "kube-system", "--user", "sam", "-o", "json", "--data-dir", w.Dir)
	var step struct {
		Action  string
		Code    int
		Who     struct{ Arn, CanonicalArn, SessionName string }
		Refusal struct{ Kind string }
	}
	if err := json.Unmarshal([]byte(js), &step); err != nil || step.Action != "delete" || step.Code != 403 ||
		step.Who.SessionName != "sam" ||
		step.Who.CanonicalArn != "arn:aws:iam::111122223333:role/developer" || step.Refusal.Kind != "forbidden" {
		t.Errorf("%v: %+v\n%s", err, step, js)
	}
	if _, errs, err := w.Try("", "coracle", "audit", "ds/aws-node"); err == nil || !strings.Contains(errs,
		"there is something in namespace kube-system: try -n kube-system") {
		t.Errorf("in the wrong namespace: %v %s", err, errs)
	}

	w.webhooks()

	// Secrets: who and when, never what.
	w.Run(w.jane, "kubectl", "-n", "default", "create", "secret", "generic", "password",
		"--from-literal=password=hunter2")
	out = w.timeline([]string{"201 create\n              arn:aws:sts::111122223333:assumed-role/platform-admin/jane\n",
		"The audit policy keeps secrets at level Metadata"}, "secret/password", "-o", "wide")
	if strings.Contains(out, "hunter2") || strings.Contains(out, base64.StdEncoding.EncodeToString([]byte("hunter2"))) {
		t.Errorf("the timeline of a secret tells it:\n%s", out)
	}
}

// webhooks runs a server of webhooks that patch a pod and deny a StatefulSet.
func (w *fixture) webhooks() {
	w.t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var review struct{ Request struct{ UID string } }
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		answer := map[string]any{"uid": review.Request.UID, "allowed": true}
		if r.URL.Path == "/deny" {
			answer["allowed"], answer["status"] = false, map[string]any{"message": "images must come from our registry",
				"code": 403}
		} else {
			answer["patchType"] = "JSONPatch"
			answer["patch"] = []byte(
				`[{"op":"add","path":"/spec/containers/0/env","value":[{"name":"AWS_ROLE_ARN","value":"arn:aws:iam::111122223333:role/web"}]}]`)
		}
		// the API server tells, if it fails
		_ = json.NewEncoder(rw).Encode(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
			"response": answer})
	}))
	w.t.Cleanup(server.Close)
	ca := base64.StdEncoding.EncodeToString(pemOf(server.Certificate()))
	hook := func(kind, configuration, name, path, group, resource, policy string) string {
		url := server.URL
		if path == "" {
			url, path = "https://127.0.0.1:1", "/"
		}
		return fmt.Sprintf(`{"apiVersion": "admissionregistration.k8s.io/v1", "kind": %q, "metadata": {"name": %q}, "webhooks": [{"name": %q,
  "clientConfig": {"url": %q, "caBundle": %q}, "rules": [{"apiGroups": [%q], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [%q]}],
  "failurePolicy": %q, "sideEffects": "None", "admissionReviewVersions": ["v1"]}]}`, kind, configuration, name, url+
			path, ca, group, resource, policy)
	}
	for _, manifest := range []string{
		hook("MutatingWebhookConfiguration", "pod-identity-webhook", "pod-identity-webhook.amazonaws.com", "/inject",
			"", "pods", "Fail"),
		hook("MutatingWebhookConfiguration", "sidecar", "sidecar.broken.example", "", "", "pods", "Ignore"),
		hook("ValidatingWebhookConfiguration", "image-policy", "images.policy.example", "/deny", "apps", "statefulsets",
			"Fail"),
	} {
		w.must(w.apply(w.admin, manifest))
	}
	const db = `{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "default"}, "spec": {"serviceName": "db",
  "selector": {"matchLabels": {"app": "db"}}, "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "db", "image": "postgres"}]}}}}`
	// The API server takes new webhooks up in a moment; a dry run tells when.
	if err := eventually.Try(poll, func() error {
		out, err := w.apply(w.jane, db, "--dry-run=server")
		if err == nil || !strings.Contains(out, "denied the request") {
			return fmt.Errorf("no denial: %v %s", err, out)
		}
		out, errs, err := w.Try(w.jane, "kubectl", "run", "try", "--image=busybox", "--dry-run=server", "-o", "yaml")
		if err != nil || !strings.Contains(out, "AWS_ROLE_ARN") {
			return fmt.Errorf("no injection: %v %s%s", err, out, errs)
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	if out, err := w.apply(w.jane, db); err == nil {
		w.t.Fatalf("the webhook denies nothing: %s", out)
	}
	w.Run(w.jane, "kubectl", "run", "probe", "--image=busybox")
	if _, _, err := w.Try(w.jane, "kubectl", "exec", "probe", "--", "id"); err == nil {
		w.t.Fatal("a command ran in a pod without a node")
	}
	w.timeline([]string{
		"+ container probe: busybox\n",
		"          webhook pod-identity-webhook/pod-identity-webhook.amazonaws.com\n            patched\n            " +
			"+ .spec.containers[0].env:\n",
		"webhook sidecar/sidecar.broken.example failed and was ignored\n            (failurePolicy: Ignore)\n",
		"400 exec   arn:aws:sts::111122223333:assumed-role/platform-admin/jane\n", "· command: id\n",
	}, "pod/probe")
	w.timeline([]string{"403 create arn:aws:sts::111122223333:assumed-role/platform-admin/jane\n",
		"! denied by images.policy.example: images must come from our registry\n"}, "sts/db")
}

func pemOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// TestFollow watches an object through a restart of the daemon: each step comes once.
func TestFollow(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Run(w.jane, "kubectl", "create", "deployment", "web", "--image=nginx")
	w.timeline([]string{"201 create"}, "deploy/web")

	cmd := w.Command(context.Background(), "", "coracle", "audit", "deploy/web", "--follow", "-o", "json", "--verb",
		"patch")
	var out, notes buffer
	cmd.Stdout, cmd.Stderr = &out, &notes
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // if it didn't end

	until := func(n int) {
		t.Helper()
		if err := eventually.Try(poll, func() error {
			if got := strings.Count(out.String(), "\n"); got < n {
				return fmt.Errorf("%d steps of %d", got, n)
			}
			return nil
		}); err != nil {
			t.Fatalf("%v\n%s%s", err, out.String(), notes.String())
		}
	}
	for i := range 3 {
		w.Run(w.jane, "kubectl", "annotate", "deploy", "web", "--overwrite", fmt.Sprintf("step=%d", i))
		until(i + 1)
	}
	w.Restart()
	for i := 3; i < 6; i++ {
		w.Run(w.jane, "kubectl", "annotate", "deploy", "web", "--overwrite", fmt.Sprintf("step=%d", i))
	}
	until(6)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("interrupted, it ends with %v: %s", err, notes.String())
	}
	var got []string
	d := json.NewDecoder(strings.NewReader(out.String()))
	for d.More() {
		var step struct{ Changes []struct{ Path, To string } }
		if err := d.Decode(&step); err != nil {
			t.Fatal(err)
		}
		for _, c := range step.Changes {
			got = append(got, c.Path+"="+c.To)
		}
	}
	var want []string
	for i := range 6 {
		want = append(want, fmt.Sprintf(".metadata.annotations.step=%d", i))
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("followed: %v, want %v", got, want)
	}
}

// buffer is a bytes.Buffer that is written and read at once.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
