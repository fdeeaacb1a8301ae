package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// failure returns the JSON of a Status whose texts have that many bytes, with that many causes.
func failure(t *testing.T, longest, causes int) string {
	t.Helper()
	long := strings.Repeat("é", longest/2)
	status := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Message: "no: " + long, Reason: metav1.StatusReasonConflict, Code: http.StatusConflict,
		ListMeta: metav1.ListMeta{Continue: long},
		Details: &metav1.StatusDetails{Name: long, Group: long, Kind: long, UID: types.UID(long),
			RetryAfterSeconds: 3600}}
	for range causes {
		status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{
			Type: metav1.CauseTypeFieldManagerConflict, Message: long, Field: long})
	}
	raw, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestErrorsOfTenantsAreCut runs against API servers that explain at length why a request fails.
func TestErrorsOfTenantsAreCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", maxFailure/2)
	for name, test := range map[string]struct {
		contentType, body, want string
		causes                  int
	}{
		"a long message":      {"application/json", failure(t, maxFailure/16, 0), "no: éé", 0},
		"many causes":         {"application/json", failure(t, 32, maxCauses+1000), "no: éé", maxCauses},
		"long causes":         {"application/json", failure(t, maxFailure/16, 2), "no: éé", 2},
		"more than is read":   {"application/json", failure(t, 3*maxFailure, 0), "", 0},
		"endless values":      {"application/json", "[" + strings.Repeat("[],", maxFailure/4), "", 0},
		"no status":           {"application/json", `{"kind":"` + long + `","message":"` + long + `"}`, "", 0},
		"no JSON":             {"application/json", `{"message":"` + long, "", 0},
		"text":                {"text/plain", long, "", 0},
		"without a type":      {"", failure(t, maxFailure/16, 0), "no: éé", 0},
		"what is in order":    {"application/json", failure(t, 16, 3), "no: éééééééé", 3},
		"no more than a code": {"application/json", "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests := requestsOf(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = []string{test.contentType}
				w.WriteHeader(http.StatusConflict)
				_, _ = io.WriteString(w, test.body)
			}))
			_, getting := requests.Get(t.Context(), "x", metav1.GetOptions{})
			_, watching := requests.Watch(t.Context(), metav1.ListOptions{})
			for _, err := range []error{getting, watching} {
				if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%.200v, want a conflict with %q", err, test.want)
				}
				if n := len(err.Error()); n > MaxText+1024 {
					t.Errorf("the text of the error has %d bytes", n)
				}
				var status *apierrors.StatusError
				if !errors.As(err, &status) || status.ErrStatus.Details == nil {
					continue
				}
				raw, err := json.Marshal(status.ErrStatus)
				if most := 2*MaxText + (test.causes+4)*(2*maxCause+maxWord+64); err != nil || len(raw) > most {
					t.Errorf("the error has %d bytes, more than %d, %v", len(raw), most, err)
				}
				causes := 0
				for _, c := range status.ErrStatus.Details.Causes {
					if c.Type == metav1.CauseTypeFieldManagerConflict {
						causes++
					}
				}
				if causes != test.causes {
					t.Errorf("the error has %d causes, want %d", causes, test.causes)
				}
			}
		})
	}
}

func TestErrorsOfWatchesAreCut(t *testing.T) {
	t.Parallel()
	event := `{"type":"ERROR","object":` + failure(t, maxFailure/4, 1) + "}\n"
	watch, err := requestsOf(t, tenant{"application/json", "", event, ""}).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	for _, object := range []runtime.Object{
		(<-watch.ResultChan()).Object,
		&certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("a", maxFailure)}},
	} {
		if err := EventError(object); len(err.Error()) > MaxText+16 {
			t.Errorf("the text of the error has %d bytes", len(err.Error()))
		}
	}
}

// page returns the JSON of a page of a list, of which there are more.
func page(items string) string {
	return `{"kind":"CertificateSigningRequestList","apiVersion":"certificates.k8s.io/v1","metadata":{"continue":"on"},` +
		`"items":[` + items + `]}`
}

// TestListsOfTenantsAreBounded runs against API servers whose lists have many large pages.
func TestListsOfTenantsAreBounded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		page, want string
		pages      int
		undecoded  bool // that would take long
	}{
		"large pages": {page(`{"metadata":{"name":"a"},"spec":{"username":"` +
			strings.Repeat("a", largeObject-100) + `"}}` + strings.Repeat(`,{"metadata":{"name":"a"},"spec":{"username":"`+
			strings.Repeat("a", largeObject-100)+`"}}`, 99)),
			"larger than 256 MiB together", MaxList / (99 * largeObject), true},
		"pages of many values": {page(`{"metadata":{"name":"a"},"spec":{"groups":[""` +
			strings.Repeat(`,""`, largeValues-100) + `]}}` + strings.Repeat(`,{"metadata":{"name":"a"},"spec":{"groups":[""`+
			strings.Repeat(`,""`, largeValues-100)+`]}}`, 59)),
			"more than 16777216 values together", MaxListValues / (59 * (largeValues - 100)), true},
		"pages of many objects": {page(`{}` + strings.Repeat(",{}", 30_000)), "more than 100000 objects", 3, false},
		"a long token": {strings.Replace(page(""), `"on"`, `"`+strings.Repeat("a", maxContinue+1)+`"`, 1),
			"token of its next page", 0, false},
		"a deep list": {`{"metadata":` + strings.Repeat(`{"a":`, MaxDepth), "nests deeper than 512 levels", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pages := 0
			client := clientOf(t, tenant{"application/json", "", test.page, ""})
			requests := client.CertificateSigningRequests()
			_, err := EachPage(t.Context(), metav1.ListOptions{},
				func(ctx context.Context, o metav1.ListOptions) (*certificatesv1.CertificateSigningRequestList, error) {
					if !test.undecoded {
						return requests.List(ctx, o)
					}
					raw := client.RESTClient().Get().
						Resource("certificatesigningrequests")
					body, err := raw.Stream(ctx)
					if err != nil {
						return nil, err
					}
					defer body.Close()
					_, err = io.Copy(io.Discard, body)
					return &certificatesv1.CertificateSigningRequestList{ListMeta: metav1.ListMeta{Continue: "on"}}, err
				}, func(*certificatesv1.CertificateSigningRequestList) { pages++ })
			if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), test.want) || pages > test.pages {
				t.Errorf("%d pages, %.300v; want at most %d and %q", pages, err, test.pages, test.want)
			}
		})
	}
}

// TestImpossibleObjectsAreLeftOut runs against an API server that lists objects that no API server of Kubernetes can
// have.
func TestImpossibleObjectsAreLeftOut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 254)
	var items []string
	for _, metadata := range []string{
		`"name":"a"`, `"name":"` + long + `"`, `"name":"b","namespace":"` + long[:64] + `"`, `"name":"b/c"`,
		`"name":"b","uid":"` + long + `"`, `"name":"b","resourceVersion":"` + long + `"`, "",
		`"name":"` + long[:253] + `","namespace":"` + long[:63] + `"`,
	} {
		items = append(items, fmt.Sprintf(`{"metadata":{%s}}`, metadata))
	}
	list := strings.Replace(page(strings.Join(items, ",")), `"on"`, `""`, 1)
	var names []string
	_, err := EachPage(t.Context(), metav1.ListOptions{}, requestsOf(t, tenant{"application/json", "", list, ""}).List,
		func(page *certificatesv1.CertificateSigningRequestList) {
			for _, r := range page.Items {
				names = append(names, r.Name)
			}
		})
	if want := []string{"a", long[:253]}; err != nil || fmt.Sprint(names) != fmt.Sprint(want) {
		t.Errorf("%v, %v; want %v", names, err, want)
	}
}

// TestNoAPIServerIsWaitedFor runs against an API server that returns Retry-After, for which client-go would wait.
func TestNoAPIServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	_, err := requestsOf(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	})).Get(t.Context(), "x", metav1.GetOptions{})
	if !apierrors.IsTooManyRequests(err) || asked.Load() != 1 {
		t.Errorf("asked %d times, %v", asked.Load(), err)
	}
}
