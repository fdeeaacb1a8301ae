package client

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// tenant is a server that a cluster's administrator runs in the place of an API. It answers with a body, which may be
// endless.
type tenant struct {
	contentType, encoding string
	start                 string
	repeat                string // without end
}

func (s tenant) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", s.contentType)
	if s.encoding != "" {
		w.Header().Set("Content-Encoding", s.encoding)
	}
	_, _ = io.WriteString(w, s.start)
	if s.repeat == "" {
		return
	}
	block := bytes.Repeat([]byte(s.repeat), max(1, 64<<10/len(s.repeat)))
	for {
		if _, err := w.Write(block); err != nil { // the client has hung up
			return
		}
	}
}

// bomb returns a list that has little to send and much to unpack.
func bomb(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(
		w,
		`{"kind":"CertificateSigningRequestList","apiVersion":"certificates.k8s.io/v1","metadata":{"resourceVersion":"`,
	)
	for range 8 { // more than MaxAnswer
		_, _ = w.Write(bytes.Repeat([]byte("1"), MaxAnswer/4))
	}
	_, _ = io.WriteString(w, `"},"items":[]}`)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func requestsOf(
	t *testing.T, handler http.Handler, edits ...func(*rest.Config),
) certificatesclient.CertificateSigningRequestInterface {
	t.Helper()
	return clientOf(t, handler, edits...).CertificateSigningRequests()
}

func clientOf(t *testing.T, handler http.Handler,
	edits ...func(*rest.Config)) *certificatesclient.CertificatesV1Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, QPS: -1}
	for _, edit := range edits {
		edit(config)
	}
	connections, err := HTTP(config, "blue")
	if err != nil {
		t.Fatal(err)
	}
	client, err := certificatesclient.NewForConfigAndClient(config, connections)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestAnswersOfTenantsAreBounded(t *testing.T) {
	t.Parallel()
	const list = `{"kind":"CertificateSigningRequestList","apiVersion":"certificates.k8s.io/v1","items":[`
	for name, test := range map[string]struct {
		server tenant
		want   string
	}{
		"a gzip bomb":              {tenant{"application/json", "gzip", bomb(t), ""}, `encoded as "gzip"`},
		"an endless string":        {tenant{"application/json", "", list + `{"kind":"`, "a"}, "larger than 32 MiB"},
		"endless spaces":           {tenant{"application/json", "", list, " "}, "larger than 32 MiB"},
		"endless empty objects":    {tenant{"application/json", "", list + "{}", ",{}"}, "more than 262144 values"},
		"endless nulls":            {tenant{"application/json", "", list + "null", ",null"}, "more than 262144 values"},
		"no content type":          {tenant{"", "", list + "null", ",null"}, "more than 262144 values"},
		"YAML":                     {tenant{"application/yaml", "", "a: b", ""}, "application/yaml"},
		"protobuf":                 {tenant{protobuf, "", "k8s\x00", "\x12\x00"}, "not asked for"},
		"a malformed content type": {tenant{"application/json; =", "", "{}", ""}, "content type"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := requestsOf(t, test.server).List(t.Context(), metav1.ListOptions{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("%v, want %q", err, test.want)
			}
			if at := "cluster blue: /apis/certificates.k8s.io/v1/certificatesigningrequests"; !strings.Contains(
				err.Error(),
				at,
			) {
				t.Errorf("%v does not name %q", err, at)
			}
		})
	}
}

// An answer without a content type is counted as JSON, and so it must not be decoded as what the client prefers.
func TestAnAnswerWithoutAContentTypeIsJSON(t *testing.T) {
	t.Parallel()
	var list bytes.Buffer
	err := serializer.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(&certificatesv1.CertificateSigningRequestList{
		TypeMeta: metav1.TypeMeta{Kind: "CertificateSigningRequestList", APIVersion: "certificates.k8s.io/v1"},
		Items:    make([]certificatesv1.CertificateSigningRequest, 3),
	}, &list)
	if err != nil {
		t.Fatal(err)
	}
	requests := requestsOf(t, tenant{"", "", list.String(), ""}, func(c *rest.Config) { c.ContentType = protobuf })
	if got, err := requests.List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Errorf("it was decoded as protobuf: %d items", len(got.Items))
	}
}

// Nothing is asked for that unpacks.
func TestCompressionIsNotAskedFor(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	requests := requestsOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Accept-Encoding")
		http.NotFound(w, r)
	}))
	if _, err := requests.List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if got := <-asked; got != "" {
		t.Errorf("Accept-Encoding: %s", got)
	}
}

func TestEventsOfTenantsAreBounded(t *testing.T) {
	t.Parallel()
	const event = `{"type":"ADDED","object":{"kind":"CertificateSigningRequest","apiVersion":"certificates.k8s.io/v1","metadata":{"name":"x"},"spec":{"usages":[`
	for name, test := range map[string]struct {
		server tenant
		want   string
	}{
		"an endless string":      {tenant{"application/json", "", event + `"`, "a"}, "larger than 32 MiB"},
		"endless lines":          {tenant{"application/json", "", event, "\n"}, "larger than 32 MiB"},
		"endless values":         {tenant{"application/json", "", event + "null", ",null"}, "larger than 32 MiB"},
		"braces within a string": {tenant{"application/json", "", event + `"`, `\"}]}}}`}, "larger than 32 MiB"},
		"nothing but line feeds": {tenant{"application/json", "", "", "\n"}, "larger than 32 MiB"},
		"no events":              {tenant{"application/json", "", "", "[]"}, "no event"},
		"YAML":                   {tenant{"application/yaml", "", "a: b", ""}, "application/yaml"},
		"protobuf":               {tenant{protobuf + ";stream=watch", "", "\x00\x00\x10\x01", "\x00"}, "not asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			watch, err := requestsOf(t, test.server).Watch(t.Context(), metav1.ListOptions{})
			if err == nil {
				defer watch.Stop()
				e := <-watch.ResultChan()
				if e.Type != kubewatch.Error {
					t.Fatalf("%+v", e)
				}
				err = apierrors.FromObject(e.Object)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// A watch goes on for ever; only its events are bounded.
func TestWatchesAreNotBoundedAsAWhole(t *testing.T) {
	t.Parallel()
	line := fmt.Sprintf(
		`{"type":"ADDED","object":{"kind":"CertificateSigningRequest","apiVersion":"certificates.k8s.io/v1","metadata":{"name":%q}}}`+"\n",
		strings.Repeat("}", MaxEvent/2),
	)
	watch, err := requestsOf(t, tenant{"application/json", "", line, line}).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	for range 4 {
		if e := <-watch.ResultChan(); e.Type != kubewatch.Added {
			t.Fatalf("%s: %v", e.Type, apierrors.FromObject(e.Object))
		}
	}
}

// Clients that are configured for protobuf get JSON all the same, lists and watches.
func TestProtobufIsNotAskedFor(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 2)
	requests := requestsOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Accept")
		http.NotFound(w, r)
	}), func(c *rest.Config) { c.ContentType, c.AcceptContentTypes = protobuf, protobuf })
	if _, err := requests.List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if _, err := requests.Watch(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	for _, what := range []string{"a list", "a watch"} {
		if got := <-asked; got != "application/json" {
			t.Errorf("%s: Accept: %s", what, got)
		}
	}
}

// A client of metadata asks for metadata, as it cannot decode whole objects in a watch.
func TestMetadataIsAskedFor(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("Accept"), "application/json;as=PartialObjectMetadata") {
			t.Errorf("Accept: %s", r.Header.Get("Accept"))
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	client, err := HTTP(config, "c")
	if err != nil {
		t.Fatal(err)
	}
	names, err := metadata.NewForConfigAndClient(metadata.ConfigFor(config), client)
	if err != nil {
		t.Fatal(err)
	}
	namespaces := names.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	if _, err := namespaces.List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if _, err := namespaces.Watch(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

// The largest thing that a value of three bytes, "{},", can become is a container of a pod.
func TestAnEventOfEmptyValuesDecodesToLittle(t *testing.T) {
	t.Parallel()
	var largest uintptr
	for _, kind := range []any{
		corev1.Container{}, corev1.EphemeralContainer{}, corev1.Volume{}, corev1.ContainerStatus{},
		discoveryv1.Endpoint{}, certificatesv1.CertificateSigningRequest{}, metav1.ManagedFieldsEntry{},
	} {
		largest = max(largest, reflect.TypeOf(kind).Size())
	}
	if most := largest * MaxEventValues; most > 64<<20 {
		t.Errorf("an event of %d values decodes to %d MiB", MaxEventValues, most>>20)
	}
}

func TestEachPage(t *testing.T) {
	t.Parallel()
	t.Run("a list without end", func(t *testing.T) {
		t.Parallel()
		requests := requestsOf(
			t,
			tenant{
				"application/json",
				"",
				`{"kind":"CertificateSigningRequestList","apiVersion":"certificates.k8s.io/v1","metadata":{"continue":"on"}}`,
				"",
			},
		)
		_, err := EachPage(
			t.Context(),
			metav1.ListOptions{},
			requests.List,
			func(*certificatesv1.CertificateSigningRequestList) {},
		)
		if !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
	})
	t.Run("objects too large for a page", func(t *testing.T) {
		t.Parallel()
		const objects = 40
		served := 0
		requests := requestsOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var limit, from int
			_, _ = fmt.Sscan(r.FormValue("limit"), &limit)
			_, _ = fmt.Sscan(r.FormValue("continue"), &from)
			to := min(from+limit, objects)
			if to > from && to-from > 8 { // as many as are too large
				tenant{"application/json", "", "", " "}.ServeHTTP(w, r)
				return
			}
			served += to - from
			next := ""
			if to < objects {
				next = fmt.Sprint(to)
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(
				w,
				`{"kind":"CertificateSigningRequestList","apiVersion":"certificates.k8s.io/v1","metadata":{"continue":%q,"resourceVersion":"7"}}`,
				next,
			)
		}))
		version, err := EachPage(
			t.Context(),
			metav1.ListOptions{},
			requests.List,
			func(*certificatesv1.CertificateSigningRequestList) {},
		)
		if err != nil || version != "7" || served != objects {
			t.Errorf("resource version %q, %d objects, %v", version, served, err)
		}
	})
}
