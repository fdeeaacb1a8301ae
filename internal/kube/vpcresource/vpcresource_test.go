package vpcresource

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/client-go/rest"

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
	body := fmt.Sprintf(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"7",
		"resource":{"version":"v1","resource":%q},"operation":%q,"namespace":"shop","userInfo":{"username":%q},
		"object":%s,"oldObject":%s}}`, resource, operation, user, object, old)
	answer := httptest.NewRecorder()
	answerTo(answer, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)), record.Cluster{ID: "C"})
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
