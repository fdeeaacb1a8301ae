package fargate

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/coracle-eks/coracle/internal/fargate"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

var cluster = record.Cluster{Account: "111122223333", Region: "eu-west-1", Name: "ironman-2022",
	ID: "0123456789ABCDEF0123456789ABCDEF"}

// profile is a profile of the cluster; its ID is made of its name.
func profile(name string, selectors ...record.FargateSelector) record.FargateProfile {
	return record.FargateProfile{Account: cluster.Account, Region: cluster.Region, Cluster: cluster.Name,
		ClusterID: cluster.ID, Name: name, ID: "id-" + name, CreatedAt: time.Now(), Selectors: selectors}
}

func namespaced(namespace string) record.FargateSelector {
	return record.FargateSelector{Namespace: namespace}
}

// put stores a profile with what was observed of it.
func put(t *testing.T, s *store.Store, p record.FargateProfile, state record.FargateProfileState) {
	t.Helper()
	err := s.Txn(t.Context(), record.FargateProfiles(s).CreateOp(p.Key(), p),
		record.FargateProfileStates(s).CreateOp(p.Key(), state))
	if err != nil {
		t.Fatal(err)
	}
}

func putActive(t *testing.T, s *store.Store, profiles ...record.FargateProfile) {
	t.Helper()
	for _, p := range profiles {
		put(t, s, p, record.FargateProfileState{ProfileID: p.ID, Created: true})
	}
}

// reviewOf is a review of a new pod as API servers send it.
func reviewOf(version, namespace, pod string) string {
	return fmt.Sprintf(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/%s","request":{
		"uid":"705ab4f5-6393-11e8-b7cc-42010a800002","kind":{"group":"","version":"v1","kind":"Pod"},
		"resource":{"group":"","version":"v1","resource":"pods"},"requestKind":{"group":"","version":"v1","kind":"Pod"},
		"requestResource":{"group":"","version":"v1","resource":"pods"},"name":"nginx","namespace":%q,"operation":"CREATE",
		"userInfo":{"username":"kubernetes-admin","groups":["system:masters","system:authenticated"]},
		"object":%s,"oldObject":null,"dryRun":false,
		"options":{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1","fieldManager":"kubectl-run"}}}`,
		version, namespace, pod)
}

const nginx = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"nginx","namespace":"fargate-demo",
	"creationTimestamp":null,"labels":{"run":"nginx"},"managedFields":[{"manager":"kubectl-run","operation":"Update",
	"apiVersion":"v1","time":"2023-09-05T10:11:33Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{}}}]},
	"spec":{"containers":[{"name":"nginx","image":"nginx","resources":{},"imagePullPolicy":"Always"}],
	"schedulerName":"default-scheduler","priority":0,"preemptionPolicy":"PreemptLowerPriority"},"status":{}}`

// review has the webhook answer a review.
func review(t *testing.T, w *Webhook, body string) (code int, answer string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	w.Review(recorder, httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(body)), cluster)
	return recorder.Code, recorder.Body.String()
}

// patchOf returns the patch in an answer that allows a pod.
func patchOf(t *testing.T, code int, answer string) string {
	t.Helper()
	var r admissionv1.AdmissionReview
	if err := json.Unmarshal([]byte(answer), &r); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s", code, answer)
	}
	if r.Request != nil || r.Response == nil || !r.Response.Allowed ||
		r.Response.UID != "705ab4f5-6393-11e8-b7cc-42010a800002" {
		t.Errorf("the answer is %s", answer)
	}
	if typed := r.Response.PatchType != nil && *r.Response.PatchType == "JSONPatch"; typed != (r.Response.Patch != nil) {
		t.Errorf("patch and its type do not go together: %s", answer)
	}
	return string(r.Response.Patch)
}

// TestPodsArePatchedAsOnEKS compares the patch with the one in an audit log of EKS.
func TestPodsArePatchedAsOnEKS(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	putActive(t, s, profile("demo-profile", namespaced("fargate-demo")))
	w := New(s)
	const want = `[{"op":"add","path":"/spec/schedulerName","value":"fargate-scheduler"},` +
		`{"op":"add","path":"/spec/priorityClassName","value":"system-node-critical"},` +
		`{"op":"add","path":"/spec/priority","value":2000001000},` +
		`{"op":"add","path":"/metadata/labels","value":{"eks.amazonaws.com/fargate-profile":"demo-profile","run":"nginx"}}]`
	for _, version := range []string{"v1beta1", "v1"} {
		code, answer := review(t, w, reviewOf(version, "fargate-demo", nginx))
		if got := patchOf(t, code, answer); got != want {
			t.Errorf("%s: the patch is %s", version, got)
		}
		if !strings.Contains(answer, `"apiVersion":"admission.k8s.io/`+version+`"`) {
			t.Errorf("the answer to a review of %s is %s", version, answer)
		}
	}
}

// TestWhichPodsArePatched checks which profile a pod gets, and which pods stay as they are.
func TestWhichPodsArePatched(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	putActive(t, s,
		profile("web", namespaced("shop"), namespaced("blog")),
		profile("all", record.FargateSelector{Namespace: "shop", Labels: map[string]string{"app": "*"}}),
		profile("wild", record.FargateSelector{Namespace: "team-*", Labels: map[string]string{"tier?": "front-*"}}),
	)
	created := func(p record.FargateProfile) record.FargateProfileState {
		return record.FargateProfileState{ProfileID: p.ID, Created: true}
	}
	other := profile("other", namespaced("other"))
	other.ClusterID = "FEDCBA9876543210FEDCBA9876543210"
	put(t, s, other, created(other))
	deleting := profile("deleting", namespaced("deleting"))
	deleting.Deleting = true
	put(t, s, deleting, created(deleting))
	failed := profile("failed", namespaced("failed"))
	put(t, s, failed, record.FargateProfileState{ProfileID: failed.ID, Failed: true})
	again := profile("again", namespaced("again"))
	put(t, s, again, record.FargateProfileState{ProfileID: "of an earlier one", Created: true})
	creating := profile("creating", namespaced("creating"))
	if err := s.Txn(t.Context(), record.FargateProfiles(s).CreateOp(creating.Key(), creating)); err != nil {
		t.Fatal(err)
	}
	w := New(s)
	tooMany := make(map[string]string)
	for i := range fargate.MaxLabels + 1 {
		tooMany[fmt.Sprint("l", i)] = ""
	}
	many, err := json.Marshal(tooMany)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, namespace, pod string
		want                 string // the profile; empty when the pod stays as it is
	}{
		{"one profile", "blog", `{"metadata":{},"spec":{}}`, "web"},
		{"no profile", "default", `{"metadata":{},"spec":{}}`, ""},
		{"the first of two", "shop", `{"metadata":{"labels":{"app":"cart"}},"spec":{}}`, "all"},
		{"the second of two, by its label", "shop",
			`{"metadata":{"labels":{"app":"cart","eks.amazonaws.com/fargate-profile":"web"}},"spec":{}}`, "web"},
		{"a label that names one which does not match", "blog",
			`{"metadata":{"labels":{"app":"cart","eks.amazonaws.com/fargate-profile":"all"}},"spec":{}}`, "web"},
		{"a label in a namespace without profiles", "default",
			`{"metadata":{"labels":{"eks.amazonaws.com/fargate-profile":"web"}},"spec":{}}`, ""},
		{"wildcards", "team-a", `{"metadata":{"labels":{"tier1":"front-end"}},"spec":{}}`, "wild"},
		{"wildcards that do not match", "team-a", `{"metadata":{"labels":{"tier12":"front-end"}},"spec":{}}`, ""},
		// The request's namespace is the one that counts: the object's may be missing.
		{"another namespace in the object", "default", `{"metadata":{"namespace":"blog"},"spec":{}}`, ""},

		{"kept on EC2", "blog",
			`{"metadata":{"annotations":{"eks.amazonaws.com/compute-type":"ec2"}},"spec":{}}`, ""},
		{"of a DaemonSet", "blog",
			`{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"DaemonSet","controller":true}]},"spec":{}}`, ""},
		{"of a ReplicaSet", "blog",
			`{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet"}]},"spec":{}}`, "web"},
		{"on a node already", "blog", `{"metadata":{},"spec":{"nodeName":"ip-10-0-0-1"}}`, ""},
		{"another scheduler", "blog", `{"metadata":{},"spec":{"schedulerName":"mine"}}`, "web"},
		{"too many labels", "blog", `{"metadata":{"labels":` + string(many) + `},"spec":{}}`, ""},
		{"a label that is too long", "blog", `{"metadata":{"labels":{"a":"` + strings.Repeat("a", 64) + `"}},"spec":{}}`, ""},

		{"a profile of an earlier cluster", "other", `{"metadata":{},"spec":{}}`, ""},
		{"a profile that is being deleted", "deleting", `{"metadata":{},"spec":{}}`, ""},
		{"a profile that failed", "failed", `{"metadata":{},"spec":{}}`, ""},
		{"a profile that is new under its name", "again", `{"metadata":{},"spec":{}}`, ""},
		{"a profile that is being created", "creating", `{"metadata":{},"spec":{}}`, ""},
	} {
		code, answer := review(t, w, reviewOf("v1beta1", test.namespace, test.pod))
		got := patchOf(t, code, answer)
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s: the patch is %s, want profile %q", test.name, got, test.want)
		}
	}
}

// TestPodsThatPreemptNobody checks that pods of a priority class whose preemption policy is not that of
// system-node-critical get its policy, too: API servers refuse any other.
func TestPodsThatPreemptNobody(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	putActive(t, s, profile("p", namespaced("n")))
	code, answer := review(t, New(s), reviewOf("v1", "n", `{"metadata":{},"spec":{"preemptionPolicy":"Never"}}`))
	if got := patchOf(t, code, answer); !strings.Contains(got,
		`{"op":"add","path":"/spec/preemptionPolicy","value":"PreemptLowerPriority"}`) {
		t.Errorf("the patch is %s", got)
	}
}

// TestOtherReviews checks what the administrator of a cluster can have sent here.
func TestOtherReviews(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	putActive(t, s, profile("p", namespaced("n")))
	w := New(s)
	pod := reviewOf("v1", "n", `{"metadata":{},"spec":{}}`)
	replaced := func(old, now string) string {
		if !strings.Contains(pod, old) {
			t.Fatalf("the review lacks %s", old)
		}
		return strings.ReplaceAll(pod, old, now)
	}
	for _, test := range []struct {
		name, body string
		code       int
		want       string
	}{
		{"no JSON", `{"kind":`, 400, "not an AdmissionReview"},
		{"another kind", `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1"}`, 400, "not an AdmissionReview"},
		{"an answer", `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{}}`, 400,
			"not an AdmissionReview"},
		{"another version", replaced("admission.k8s.io/v1", "admission.k8s.io/v2"), 400, "neither"},
		{"no pod", reviewOf("v1", "n", `[]`), 400, "cannot be read"},
		{"labels of another form", reviewOf("v1", "n", `{"metadata":{"labels":{"a":1}}}`), 400, "cannot be read"},
		{"no object", reviewOf("v1", "n", `null`), 400, "cannot be read"},
		{"too large", replaced(`"object":{`, `"object":{"a":"`+strings.Repeat("a", maxReview)+`",`), 400,
			"not an AdmissionReview"},
		{"a resource of another group", replaced(`"resource":{"group":""`, `"resource":{"group":"example.com"`), 200,
			`"allowed":true}}`},
		{"another operation", replaced(`"CREATE"`, `"UPDATE"`), 200, `"allowed":true}}`},
		{"a subresource", replaced(`"name":"nginx"`, `"subResource":"binding"`), 200, `"allowed":true}}`},
	} {
		code, answer := review(t, w, test.body)
		if code != test.code || !strings.Contains(answer, test.want) {
			t.Errorf("%s: %d %.300s", test.name, code, answer)
		}
	}
}

func TestConfigMaps(t *testing.T) {
	t.Parallel()
	w := New(storetest.New(t))
	const good = `{"output.conf":"[OUTPUT]\n    Name cloudwatch_logs\n    Match kube.*\n    region eu-west-1\n` +
		`    log_group_name shop\n    log_stream_prefix fluent-bit-\n"}`
	const bad = `{"output.conf":"[OUTPUT]\n    Name amazon_data_firehose\n    Match kube.*\n"}`
	for _, test := range []struct {
		name, namespace, configMap, data string
		operation                        string
		want                             string // what is wrong
	}{
		{"valid", "aws-observability", "aws-logging", good, "CREATE", ""},
		{"not valid", "aws-observability", "aws-logging", bad, "CREATE",
			"amazon_data_firehose is not a supported output plugin"},
		{"changed, not valid", "aws-observability", "aws-logging", bad, "UPDATE",
			"amazon_data_firehose is not a supported output plugin"},
		{"too long", "aws-observability", "aws-logging", `{"output.conf":"` + strings.Repeat("a", 6000) + `"}`, "CREATE",
			"the limit of 5300"},
		{"deleted", "aws-observability", "aws-logging", bad, "DELETE", ""},
		{"another name", "aws-observability", "kube-root-ca.crt", bad, "CREATE", ""},
		{"another namespace", "default", "aws-logging", bad, "CREATE", ""},
	} {
		body := fmt.Sprintf(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"7",
			"resource":{"group":"","version":"v1","resource":"configmaps"},"name":%q,"namespace":%q,"operation":%q,
			"object":{"metadata":{"name":%q,"namespace":%q},"data":%s}}}`,
			test.configMap, test.namespace, test.operation, test.configMap, test.namespace, test.data)
		code, answer := review(t, w, body)
		var r admissionv1.AdmissionReview
		if err := json.Unmarshal([]byte(answer), &r); err != nil || code != http.StatusOK {
			t.Errorf("%s: %d %s", test.name, code, answer)
			continue
		}
		message := ""
		if r.Response.Result != nil {
			message = r.Response.Result.Message
		}
		if r.Response.Allowed != (test.want == "") || !strings.Contains(message, test.want) || r.Response.UID != "7" {
			t.Errorf("%s: %s", test.name, answer)
		}
	}
}

// TestClustersHaveAShareEach checks that the reviews of one cluster that are not read to their end leave room for those
// of another of the account.
func TestClustersHaveAShareEach(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	w := New(s)
	other := cluster
	other.ID = "FEDCBA9876543210FEDCBA9876543210"
	var ends []*io.PipeWriter
	answered := make(chan struct{}, 2*maxCluster/maxReview)
	for range 2 * maxCluster / maxReview {
		body, end := io.Pipe()
		ends = append(ends, end)
		go func() {
			w.Review(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "POST", "/", body), other)
			answered <- struct{}{}
		}()
	}
	code, answer := review(t, w, reviewOf("v1", "n", `{"metadata":{},"spec":{}}`))
	if got := patchOf(t, code, answer); got != "" {
		t.Errorf("the patch is %s", got)
	}
	for _, end := range ends {
		end.Close()
	}
	for range ends {
		<-answered
	}
}

func TestConfiguration(t *testing.T) {
	t.Parallel()
	const want = `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration",` +
		`"metadata":{"name":"0500-amazon-eks-fargate-mutation.amazonaws.com"},"webhooks":[` +
		`{"admissionReviewVersions":["v1beta1"],"clientConfig":{"caBundle":"Q0E=","url":"https://127.0.0.1:23445/mutate"},` +
		`"failurePolicy":"Ignore","name":"0500-amazon-eks-fargate-mutation.amazonaws.com","rules":[{"apiGroups":["*"],` +
		`"apiVersions":["*"],"operations":["CREATE"],"resources":["pods"]}],"sideEffects":"None","timeoutSeconds":5},` +
		`{"admissionReviewVersions":["v1beta1"],"clientConfig":{"caBundle":"Q0E=","url":"https://127.0.0.1:23445/mutate"},` +
		`"failurePolicy":"Ignore","name":"0500-amazon-eks-fargate-configmaps-admission.amazonaws.com",` +
		`"namespaceSelector":{"matchLabels":{"aws-observability":"enabled"}},"rules":[{"apiGroups":["*"],` +
		`"apiVersions":["*"],"operations":["CREATE","UPDATE"],"resources":["configmaps"]}],"sideEffects":"None",` +
		`"timeoutSeconds":5}]}`
	object := Configuration("https://127.0.0.1:23445/mutate", []byte("CA"))
	object.DeepCopy() // which panics on types that JSON does not have
	got, err := json.Marshal(object)
	if err != nil || string(got) != want {
		t.Errorf("the configuration is %s, want %s: %v", got, want, err)
	}
}
