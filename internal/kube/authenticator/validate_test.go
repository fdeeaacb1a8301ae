package authenticator

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
)

// admit has the webhook answer a review of a ConfigMap that an edit has changed.
func (f *fixture) admit(t *testing.T, data map[string]string, edit func(*admissionv1.AdmissionRequest)) (
	int, *admissionv1.AdmissionResponse) {
	t.Helper()
	return f.admitFor(t, clusterID, data, edit)
}

// admitFor is admit for the cluster with that ID.
func (f *fixture) admitFor(t *testing.T, id string, data map[string]string, edit func(*admissionv1.AdmissionRequest)) (
	int, *admissionv1.AdmissionResponse) {
	t.Helper()
	object, err := json.Marshal(corev1.ConfigMap{Data: data})
	if err != nil {
		t.Fatal(err)
	}
	request := &admissionv1.AdmissionRequest{UID: "u-1", Operation: admissionv1.Update, Name: "aws-auth",
		Namespace: metav1.NamespaceSystem, Object: runtime.RawExtension{Raw: object},
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "configmaps"}}
	if edit != nil {
		edit(request)
	}
	review := admissionv1.AdmissionReview{Request: request}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	body, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	f.auth.validate(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/",
		bytes.NewReader(body)), record.Cluster{Account: account, ID: id})
	var answer admissionv1.AdmissionReview
	if recorder.Code != http.StatusOK {
		return recorder.Code, nil
	}
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil || answer.Response == nil ||
		answer.Response.UID != "u-1" || answer.Request != nil {
		t.Fatalf("answer %s, %v", recorder.Body, err)
	}
	return recorder.Code, answer.Response
}

func TestChangesOfAWSAuthAreValidated(t *testing.T) {
	t.Parallel()
	f := newFixture(t, ekstypes.AuthenticationModeConfigMap)
	const malformed = "error parsing config map: [mapRoles: "
	for text, want := range map[string]string{
		"": "", "[]": "",
		"- rolearn: arn:aws:iam::111122223333:role/node\n  username: node\n  groups: [a]\n": "",
		"- rolear: arn:aws:iam::111122223333:role/node\n  username: node\n": "error parsing config map: " +
			"[mapRoles[0]: value for rolearn must be supplied]",
		"rolearn: arn:aws:iam::111122223333:role/node": malformed,
		"- rolearn: [a": malformed,
	} {
		_, answer := f.admit(t, map[string]string{"mapRoles": text}, nil)
		switch {
		case answer.Allowed != (want == ""):
			t.Errorf("%q: allowed %v", text, answer.Allowed)
		case want != "" && (!strings.HasPrefix(answer.Result.Message, want) || answer.Result.Code != 403):
			t.Errorf("%q: %d %q, want %q", text, answer.Result.Code, answer.Result.Message, want)
		}
	}
	if _, answer := f.admit(t, map[string]string{"mapRoles": "- {}\n" + strings.Repeat("- {}\n", 5000)},
		nil); answer.Allowed || len(answer.Result.Message) > 1000 {
		t.Errorf("with many mistakes: %d bytes", len(answer.Result.Message))
	}

	// What is not the change of aws-auth is no business of the webhook's, whatever is in it.
	wrong := map[string]string{"mapRoles": "- {}"}
	for what, edit := range map[string]func(*admissionv1.AdmissionRequest){
		"another ConfigMap": func(r *admissionv1.AdmissionRequest) { r.Name = "mine" },
		"another namespace": func(r *admissionv1.AdmissionRequest) { r.Namespace = "default" },
		"another resource":  func(r *admissionv1.AdmissionRequest) { r.Resource.Resource = "secrets" },
		"a deletion": func(r *admissionv1.AdmissionRequest) {
			r.Operation, r.Object.Raw = admissionv1.Delete, nil
		},
	} {
		if _, answer := f.admit(t, wrong, edit); answer == nil || !answer.Allowed {
			t.Errorf("%s: %+v", what, answer)
		}
	}
	if code, _ := f.admit(t, nil, func(r *admissionv1.AdmissionRequest) {
		r.Object.Raw = []byte(`{"data":{"mapRoles":1}}`)
	}); code != http.StatusBadRequest {
		t.Errorf("what is no ConfigMap: %d", code)
	}
}

// TestWhatIsWrongAlreadyIsInNobodysWay changes an aws-auth with an entry that cannot be read.
func TestWhatIsWrongAlreadyIsInNobodysWay(t *testing.T) {
	t.Parallel()
	f := newFixture(t, ekstypes.AuthenticationModeConfigMap)
	const good, bad = "- rolearn: arn:aws:iam::111122223333:role/node\n", "- rolear: x\n"
	for _, test := range []struct {
		old, text string
		allowed   bool
	}{
		{good, good + bad, false}, {"", bad, false}, {bad, good + bad, true}, {good + bad, bad, true},
		{bad, good, true},
	} {
		old, err := json.Marshal(corev1.ConfigMap{Data: map[string]string{"mapRoles": test.old}})
		if err != nil {
			t.Fatal(err)
		}
		_, answer := f.admit(t, map[string]string{"mapRoles": test.text}, func(r *admissionv1.AdmissionRequest) {
			r.OldObject.Raw = old
		})
		if answer == nil || answer.Allowed != test.allowed {
			t.Errorf("%q becomes %q: %+v", test.old, test.text, answer)
		}
	}
	if code, _ := f.admit(t, map[string]string{"mapRoles": bad}, func(r *admissionv1.AdmissionRequest) {
		r.OldObject.Raw = []byte(`{"data":{"mapRoles":1}}`)
	}); code != http.StatusBadRequest {
		t.Errorf("an old object that is no ConfigMap: %d", code)
	}
}

// TestReviewsAreDecodedInTurns has reviews of other objects, which users can send as often as they like, take all
// places of an account: others have theirs.
func TestReviewsAreDecodedInTurns(t *testing.T) {
	t.Parallel()
	f := newFixture(t, ekstypes.AuthenticationModeConfigMap)
	var release []func()
	for range decodersOfAccount {
		_, end, err := f.auth.decoding.Acquire(t.Context(), account)
		if err != nil {
			t.Fatal(err)
		}
		release = append(release, end)
	}
	if _, ok := f.auth.decoding.TryAcquire(account); ok {
		t.Fatal("an account has more places than it may")
	}
	answered := make(chan *admissionv1.AdmissionResponse, 1)
	go func() {
		_, answer := f.admit(t, nil, func(r *admissionv1.AdmissionRequest) { r.Name = "another" })
		answered <- answer
	}()
	eventually.True(t, "one more waits", func() bool { return f.auth.decoding.Waiting(account) == decodersOfAccount+1 })
	if end, ok := f.auth.decoding.TryAcquire("444455556666"); !ok {
		t.Error("another account has no place")
	} else {
		end()
	}
	for _, end := range release {
		end()
	}
	if answer := <-answered; answer == nil || !answer.Allowed {
		t.Errorf("the one that has waited: %+v", answer)
	}
}

// ended is a context that has ended, of which nobody is told who waits.
type ended struct{ context.Context }

func (ended) Err() error { return context.Canceled }

// TestNobodyIsToldWhoHasGivenUp has an API server that gives up while its review is answered.
func TestNobodyIsToldWhoHasGivenUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t, ekstypes.AuthenticationModeConfigMap)
	body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1","operation":"UPDATE",
		"name":"aws-auth","namespace":"kube-system","resource":{"version":"v1","resource":"configmaps"},
		"object":{"data":{}}}}`
	recorder := httptest.NewRecorder()
	f.auth.validate(recorder, httptest.NewRequestWithContext(ended{t.Context()}, http.MethodPost, "/",
		strings.NewReader(body)), record.Cluster{Account: account, ID: clusterID})
	if recorder.Body.Len() > 0 {
		t.Errorf("it is told %s", recorder.Body)
	}
}

// TestValidationsTakeTurns has the users of a cluster validate many large changes at once: few are parsed, the others
// are answered without it, and another cluster has its turn.
func TestValidationsTakeTurns(t *testing.T) {
	t.Parallel()
	f := newFixture(t, ekstypes.AuthenticationModeConfigMap)
	large := map[string]string{"mapRoles": strings.Repeat("- {}\n", 9_900)} // 19,800 values
	const reviews = 64
	codes := make(chan int, reviews)
	began := time.Now()
	for range reviews {
		go func() {
			code, _ := f.admit(t, large, nil)
			codes <- code
		}()
	}
	answered := map[int]int{}
	for range reviews {
		answered[<-codes]++
	}
	most := 9 + int(time.Since(began)/time.Second) // a MiB of each is parsed for a second, and 8 MiB at once
	if parsed := answered[http.StatusOK]; parsed == 0 || parsed > most ||
		parsed+answered[http.StatusTooManyRequests] != reviews {
		t.Errorf("%d of %d may be parsed: %v", most, reviews, answered)
	}
	if _, answer := f.admitFor(t, otherID, large, nil); answer == nil || answer.Allowed {
		t.Errorf("in another cluster: %+v", answer)
	}
}
