package client

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// TestDiscoveriesAreBounded runs against API servers with more API groups than there can be, and more kinds.
func TestDiscoveriesAreBounded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		groups, size, kinds int // groups, and how many kinds of what size each has
		found               int // groups with kinds, at most
	}{
		"what is in order": {100, 8, 20, 100},
		"many groups":      {6000, 8, 1, MaxValues / requestValues},
		"large kinds":      {40, MaxAnswer / 8, 1, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind := `{"name":"` + strings.Repeat("a", test.size) + `","kind":"A","verbs":["get"]}`
			kinds := kind + strings.Repeat(","+kind, test.kinds-1)
			var groups []string
			for i := range test.groups {
				groups = append(groups, fmt.Sprintf(
					`{"name":"g%d","versions":[{"groupVersion":"g%d/v1","version":"v1"}]}`, i, i))
			}
			var requests, open, most atomic.Int32
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				w.Header().Set("Content-Type", "application/json")
				switch path := strings.Split(r.URL.Path, "/"); len(path) {
				case 2:
					if path[1] == "api" {
						http.NotFound(w, r)
						return
					}
					_, _ = io.WriteString(w, `{"kind":"APIGroupList","groups":[`+strings.Join(groups, ",")+`]}`)
				default:
					_, _ = io.WriteString(w, `{"kind":"APIResourceList","groupVersion":"`+path[2]+`/v1","resources":[`+kinds+`]}`)
				}
			}))
			server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				switch state {
				case http.StateNew:
					n := open.Add(1)
					for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
					}
				case http.StateClosed:
					open.Add(-1)
				}
			}
			server.Start()
			defer server.Close()
			config := &rest.Config{Host: server.URL, QPS: -1}
			connections, err := HTTP(config, "blue")
			if err != nil {
				t.Fatal(err)
			}
			d, err := NewDiscovery(config, connections)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second has as much again
				requests.Store(0)
				_, found, err := d.ServerGroupsAndResources()
				inOrder := test.found == test.groups
				if inOrder && (err != nil || len(found) != test.found) || !inOrder && err == nil || len(found) > test.found {
					t.Errorf("the kinds of %d groups, at most %d, %.200v", len(found), test.found, err)
				}
				if !inOrder && !discovery.IsGroupDiscoveryFailedError(err) && !strings.Contains(err.Error(), "too") {
					t.Errorf("%.200v", err)
				}
				if n := int(requests.Load()); n > 2*MaxValues/requestValues { // client-go tries twice
					t.Errorf("%d requests", n)
				}
			}
			if n := most.Load(); n > 2*maxConnections { // the server sees late that one has ended
				t.Errorf("%d connections at once", n)
			}
		})
	}
}

func TestServerVersionIsBounded(t *testing.T) {
	t.Parallel()
	for version, inOrder := range map[string]bool{
		"v1.35.4-eks-0123456": true, strings.Repeat("a", maxVersion+1): false,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, `{"gitVersion":%q,"path":%q}`, version, r.URL.Path)
		}))
		clients, err := New(&rest.Config{Host: server.URL}, "blue", "")
		if err != nil {
			t.Fatal(err)
		}
		got, err := clients.ServerVersion(t.Context())
		if (err == nil) != inOrder || inOrder && got.GitVersion != version {
			t.Errorf("%+v, %v", got, err)
		}
		server.Close()
	}
}
