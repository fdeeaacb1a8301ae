package addon

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
)

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.Copy(w, io.LimitReader(endless{}, 2*client.MaxAnswer)) // the client hangs up
	}))
	defer server.Close()
	r, err := newRequester(&rest.Config{Host: server.URL}, "one")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	things := schema.GroupVersion{Group: "example.com", Version: "v1"}
	r.defined.AddSpecific(things.WithKind("Thing"), things.WithResource("things"), things.WithResource("thing"),
		meta.RESTScopeRoot)
	_, err = r.getObject(t.Context(), record.AddonObject{APIVersion: "example.com/v1", Kind: "Thing", Name: "x"})
	if err == nil || !strings.Contains(err.Error(), "larger than 32 MiB") {
		t.Errorf("an answer without end: %v", err)
	}
}
