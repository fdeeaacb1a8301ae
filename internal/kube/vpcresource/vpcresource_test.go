package vpcresource

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
)

// policies are those of the namespace "shop": one by the labels of pods, one by those of service accounts.
const policies = `{"kind":"SecurityGroupPolicyList","apiVersion":"vpcresources.k8s.aws/v1beta1","metadata":{},"items":[
	{"kind":"SecurityGroupPolicy","apiVersion":"vpcresources.k8s.aws/v1beta1","metadata":{"name":"a","namespace":"shop"},
	 "spec":{"podSelector":{"matchLabels":{"app":"web"}},"securityGroups":{"groupIds":["sg-1","sg-2"]}}},
	{"kind":"SecurityGroupPolicy","apiVersion":"vpcresources.k8s.aws/v1beta1","metadata":{"name":"b","namespace":"shop"},
	 "spec":{"serviceAccountSelector":{"matchLabels":{"team":"shop"}},"securityGroups":{"groupIds":["sg-2","sg-3"]}}}]}`

func newWebhook(t *testing.T) *Webhook {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/namespaces/slow/securitygrouppolicies"):
			<-r.Context().Done()
		case strings.HasSuffix(r.URL.Path, "/namespaces/shop/securitygrouppolicies"):
			fmt.Fprint(w, policies)
		case strings.HasSuffix(r.URL.Path, "/securitygrouppolicies"):
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		case strings.HasSuffix(r.URL.Path, "/serviceaccounts/seller"):
			fmt.Fprint(w, `{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"name":"seller","labels":{"team":"shop"}}}`)
		case strings.HasSuffix(r.URL.Path, "/serviceaccounts/default"):
			fmt.Fprint(w, `{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"name":"default"}}`)
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(server.Close)
	w := New(func(context.Context, record.Cluster) (*rest.Config, error) {
		return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, nil
	}, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { w.Forget("C") })
	return w
}

// ask has a review answered, and returns the response; nil for an HTTP error.
func ask(t *testing.T, answerTo func(http.ResponseWriter, *http.Request, record.Cluster), resource, operation, user,
	object, old string) *admissionv1.AdmissionResponse {
	t.Helper()
	if old == "" {
		old = "null"
	}
	return askWithin(t, t.Context(), answerTo, resource, operation, user, object, old)
}

func askWithin(t *testing.T, ctx context.Context, answerTo func(http.ResponseWriter, *http.Request, record.Cluster),
	resource, operation, user, object, old string) *admissionv1.AdmissionResponse {
	t.Helper()
	body := fmt.Sprintf(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"7",
		"resource":{"version":"v1","resource":%q},"operation":%q,"namespace":"shop","userInfo":{"username":%q},
		"object":%s,"oldObject":%s}}`, resource, operation, user, object, old)
	answer := httptest.NewRecorder()
	answerTo(answer, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(body)),
		record.Cluster{ID: "C"})
	if answer.Code != http.StatusOK {
		return nil
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(answer.Body.Bytes(), &review); err != nil {
		t.Fatalf("%s: %v", answer.Body, err)
	}
	return review.Response
}

func TestPodsRequestInterfaces(t *testing.T) {
	t.Parallel()
	w := newWebhook(t)
	const eni = `[{"op":"add","path":"/spec/containers/0/resources","value":{"limits":{"vpc.amazonaws.com/pod-eni":"1"},` +
		`"requests":{"vpc.amazonaws.com/pod-eni":"1"}}}]`
	for name, test := range map[string]struct{ object, patch string }{
		"a pod of a policy": {`{"metadata":{"labels":{"app":"web"}},` +
			`"spec":{"serviceAccountName":"default","containers":[{}]}}`,
			eni},
		"a pod of a service account": {`{"metadata":{},"spec":{"serviceAccountName":"seller","containers":[{},{}]}}`, eni},
		"other resources stay": {`{"metadata":{"labels":{"app":"web"}},"spec":{"serviceAccountName":"default",` +
			`"containers":[` +
			`{"resources":{"limits":{"cpu":2},"claims":[{"name":"c"}]}}]}}`,
			`[{"op":"add","path":"/spec/containers/0/resources","value":{"claims":[{"name":"c"}],"limits":{"cpu":2,` +
				`"vpc.amazonaws.com/pod-eni":"1"},"requests":{"vpc.amazonaws.com/pod-eni":"1"}}}]`},
		"a pod of no policy":  {`{"metadata":{},"spec":{"serviceAccountName":"default","containers":[{}]}}`, ""},
		"a namespace without": {`{"metadata":{"namespace":"other","labels":{"app":"web"}},"spec":{"containers":[{}]}}`, ""},
		"the node's network":  {`{"metadata":{"labels":{"app":"web"}},"spec":{"hostNetwork":true,"containers":[{}]}}`, ""},
		"Windows": {`{"metadata":{"labels":{"app":"web"}},"spec":{"nodeSelector":{"kubernetes.io/os":"windows"},` +
			`"containers":[{}]}}`, ""},
		"Fargate": {`{"metadata":{"labels":{"app":"web","eks.amazonaws.com/fargate-profile":"p"}},` +
			`"spec":{"serviceAccountName":"seller","containers":[{}]}}`,
			`[{"op":"add","path":"/metadata/annotations","value":{"fargate.amazonaws.com/pod-sg":"sg-1,sg-2,sg-3"}}]`},
		"what a pod of Fargate claims": {`{"metadata":{"annotations":{"a":"b","fargate.amazonaws.com/pod-sg":"sg-9"},` +
			`"labels":{"eks.amazonaws.com/fargate-profile":"p"}},"spec":{"serviceAccountName":"default","containers":[{}]}}`,
			`[{"op":"add","path":"/metadata/annotations","value":{"a":"b"}}]`},
	} {
		got := ask(t, w.MutatePod, "pods", "CREATE", "u", test.object, "")
		if got == nil || !got.Allowed || string(got.Patch) != test.patch {
			t.Errorf("%s: got %+v", name, got)
			if got != nil {
				t.Errorf("%s", got.Patch)
			}
		}
	}
	got := ask(t, w.MutatePod, "pods", "CREATE", "u",
		`{"metadata":{},"spec":{"serviceAccountName":"gone","containers":[{}]}}`, "")
	const failed = "Failed to get Matching SGP for Pods, rejecting event, error "
	if got == nil || got.Allowed || !strings.HasPrefix(got.Result.Message, failed) {
		t.Errorf("without its service account, a pod gets %+v", got)
	}
	if got := ask(t, w.MutatePod, "configmaps", "CREATE", "u", `{}`, ""); got != nil {
		t.Errorf("a ConfigMap gets %+v", got)
	}
}

func TestWhoChangesPodsAndNodes(t *testing.T) {
	t.Parallel()
	w := newWebhook(t)
	annotated := func(name string) string { return `{"metadata":{"annotations":{"` + name + `":"x"}}}` }
	const plain, aws = `{"metadata":{}}`, "system:serviceaccount:kube-system:aws-node"
	for name, test := range map[string]struct{ resource, operation, user, object, old, denied string }{
		"a new pod": {"pods", "CREATE", "u", plain, "", ""},
		"a new pod with an interface": {"pods", "CREATE", User, annotated(PodENI), "",
			"pod cannot be created with vpc.amazonaws.com/pod-eni annotation"},
		"the controller": {"pods", "UPDATE", User, annotated(PodENI), plain, ""},
		"a user": {"pods", "UPDATE", "admin", annotated(PodENI), plain,
			"annotation is not set by vpc-resource-controller"},
		"a user who removes it": {"pods", "UPDATE", "admin", plain, annotated(PodENI),
			"annotation is not set by vpc-resource-controller"},
		"groups on Fargate": {"pods", "UPDATE", User, annotated(fargateGroups), plain,
			"annotation is not set by mutating webhook"},
		"the plugin's label": {"nodes", "UPDATE", aws, `{"metadata":{"labels":{` +
			`"vpc.amazonaws.com/has-trunk-attached":"true"},"managedFields":[{}]}}`, plain, ""},
		"more by the plugin": {"nodes", "UPDATE", aws, `{"metadata":{},"spec":{"unschedulable":true}}`, plain,
			"aws-node can only update limited fields on the Node Object"},
		"more by others": {"nodes", "UPDATE", "admin", `{"metadata":{},"spec":{"unschedulable":true}}`, plain, ""},
	} {
		answerTo := w.ValidatePod
		if test.resource == "nodes" {
			answerTo = w.ValidateNode
		}
		got := ask(t, answerTo, test.resource, test.operation, test.user, test.object, test.old)
		if got == nil || got.Allowed != (test.denied == "") || test.denied != "" && got.Result.Message != test.denied {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// TestLargeObjectsAreReviewed has objects of megabytes of which nothing is needed: what is needed of them is read.
func TestLargeObjectsAreReviewed(t *testing.T) {
	t.Parallel()
	w := newWebhook(t)
	args := `"args":["` + strings.Repeat(`\u003c`, 2<<20) + `"]`
	large := func(metadata string) string {
		return `{"metadata":{` + metadata + `},"spec":{"serviceAccountName":"default","containers":[{` + args + `}]}}`
	}
	got := ask(t, w.ValidatePod, "pods", "CREATE", "u", large(`"annotations":{"`+PodENI+`":"[]"}`), "")
	if got == nil || got.Allowed || got.UID != "7" {
		t.Errorf("a large pod that claims an interface gets %+v", got)
	}
	got = ask(t, w.ValidatePod, "pods", "UPDATE", "u", large(`"annotations":{"`+PodENI+`":"[]"}`), large(``))
	if got == nil || got.Allowed {
		t.Errorf("a large pod that comes to claim an interface gets %+v", got)
	}
	got = ask(t, w.MutatePod, "pods", "CREATE", "u", large(`"labels":{"app":"web"}`), "")
	if got == nil || !got.Allowed || !strings.Contains(string(got.Patch), PodENI) {
		t.Errorf("a large pod of a policy gets %+v", got)
	}
	got = ask(t, w.MutatePod, "pods", "CREATE", "u", large(`"labels":{"app":"web","l":"`+
		strings.Repeat("l", maxReview)+`"}`), "")
	if got == nil || got.Allowed || got.UID != "7" {
		t.Errorf("a pod with large labels gets %+v", got)
	}
	noted := `"managedFields":[` + args[len(`"args":[`):]
	node := func(metadata, unschedulable string) string {
		return `{"metadata":{"name":"n",` + metadata + `},"spec":{"unschedulable":` + unschedulable + `}}`
	}
	for changed, allowed := range map[string]bool{"false": true, "true": false} {
		got = ask(t, w.ValidateNode, "nodes", "UPDATE", awsNode, node(noted, changed), node(`"managedFields":[]`, "false"))
		if got == nil || got.Allowed != allowed {
			t.Errorf("a node with large managed fields, unschedulable: %s, gets %+v", changed, got)
		}
	}
	notes := `"annotations":{"a":"` + strings.Repeat("a", maxReview) + `"}`
	for user, allowed := range map[string]bool{awsNode: false, "system:node:n": true} {
		got = ask(t, w.ValidateNode, "nodes", "UPDATE", user, node(notes, "false"), node(notes, "false"))
		if got == nil || got.Allowed != allowed {
			t.Errorf("%s, who changes a large node, gets %+v", user, got)
		}
	}
}

// TestReviewsThatWaitInVain has as many reviews at once as there may be: the next is refused, and none goes unreviewed.
func TestReviewsThatWaitInVain(t *testing.T) {
	t.Parallel()
	w := newWebhook(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, release, err := w.mutations.cluster.AcquireN(t.Context(), "C", maxCluster)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	const plain = `{"metadata":{},"spec":{"serviceAccountName":"default","containers":[{}]}}`
	got := askWithin(t, ended, w.MutatePod, "pods", "CREATE", "u", plain, "")
	if got == nil || got.Allowed || got.UID != "7" {
		t.Errorf("a pod that has waited in vain gets %+v", got)
	}
	if got := ask(t, w.ValidatePod, "pods", "CREATE", "u", plain, ""); got == nil || !got.Allowed {
		t.Errorf("a validation meanwhile: %+v", got)
	}
	_, releaseMore, err := w.validations.cluster.AcquireN(t.Context(), "C", maxCluster)
	if err != nil {
		t.Fatal(err)
	}
	defer releaseMore()
	for user, allowed := range map[string]bool{awsNode: false, "system:node:n": true} {
		got := askWithin(t, ended, w.ValidateNode, "nodes", "UPDATE", user, `{"metadata":{}}`, `{"metadata":{}}`)
		if got == nil || got.Allowed != allowed {
			t.Errorf("%s, who has waited in vain, gets %+v", user, got)
		}
	}
}

// TestNamespacesLeaveRoom has a namespace whose policies are read for long: pods of another one wait for none of them.
func TestNamespacesLeaveRoom(t *testing.T) {
	t.Parallel()
	w := newWebhook(t)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	const pod = `{"metadata":{"namespace":%q,"labels":{"app":"web"}},` +
		`"spec":{"serviceAccountName":"default","containers":[{}]}}`
	for range maxClusterReads {
		group.Go(func() {
			got := askWithin(t, ctx, w.MutatePod, "pods", "CREATE", "u", fmt.Sprintf(pod, "slow"), "")
			if got == nil || got.Allowed {
				t.Errorf("a pod whose policies are not read gets %+v", got)
			}
		})
	}
	eventually.True(t, "the namespace has all its places", func() bool {
		return w.namespaceReads.Waiting("C/slow") == maxClusterReads &&
			w.clusterReads.Waiting("C") == min(maxNamespaceReads, maxClusterReads)
	})
	if got := ask(t, w.MutatePod, "pods", "CREATE", "u", fmt.Sprintf(pod, "shop"), ""); got == nil || !got.Allowed ||
		len(got.Patch) == 0 {
		t.Errorf("a pod of another namespace gets %+v", got)
	}
	cancel()
	group.Wait()
}

func TestPrunedReviews(t *testing.T) {
	t.Parallel()
	read := fields{"a": whole, "b": {"c": whole, "list": {"1": {"d": whole}}}, "rest": {"*": whole, "not": nil}}
	long := strings.Repeat("n", maxName)
	for name, test := range map[string]struct {
		text, want string
		max        int
		partial    bool
	}{
		"nothing": {`{"x":{"a":[1,{"a":"}]"}]},"y":-1.5e3,"z":null}`, `{}`, 10, false},
		"members": {` { "x":1, "a" : [1, {"b":2}] ,"b":{"x":"c","c":true}}`,
			`{"a":[1, {"b":2}],"b":{"c":true}}`, 100, false},
		"elements":           {`{"b":{"list":[{"d":1},{"d":2,"x":3},{"d":4}]}}`, `{"b":{"list":[{"d":2}]}}`, 100, false},
		"another type":       {`{"b":7,"rest":null}`, `{"b":7,"rest":null}`, 100, false},
		"all but one":        {`{"rest":{"x":1,"not":[2],"y":"\""}}`, `{"rest":{"x":1,"y":"\""}}`, 100, false},
		"names of escapes":   {`{"\u0061":1,"x\"":2}`, `{"\u0061":1}`, 100, false},
		"what does not fit":  {`{"b":{"c":"123456789"},"a":1}`, `{"b":{},"a":1}`, 15, true},
		"names without end":  {`{"rest":{"` + long + `":1,"x":1}}`, `{"rest":{"x":1}}`, 100, true},
		"names of no matter": {`{"` + long + `":1,"a":1}`, `{"a":1}`, 100, false},
	} {
		got, partial, err := prune(strings.NewReader(test.text), read, test.max)
		if err != nil || string(got) != test.want || partial != test.partial {
			t.Errorf("%s: got %s, %t, %v", name, got, partial, err)
		}
	}
	for _, text := range []string{``, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a" 1}`, `{a:1}`, `{"a":1 "b":2}`, `{"x":"`,
		`[1 2]`} {
		if got, _, err := prune(strings.NewReader(text), fields{"a": whole, "b": whole}, 100); err == nil {
			t.Errorf("%s: got %s", text, got)
		}
	}
}
