package client

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/document"
)

// TestQuantitiesOfTenantsAreBounded shows that no quantity is decoded that takes hours. Without the check this test
// does not end: nothing interrupts a decoder.
func TestQuantitiesOfTenantsAreBounded(t *testing.T) {
	t.Parallel()
	const pod = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","labels":{"commit":"12e34567","target":"1e100"}},` +
		`"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"QUANTITY"}}}]}}`
	bodies := map[string]string{
		"/api/v1/namespaces/a/pods/a": pod,
		"/api/v1/namespaces/a/pods":   `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[` + pod + `]}`,
	}
	for quantity, refused := range map[string]bool{"1": false, "1e-1000000000": true, "1e1000000000": true} {
		t.Run(quantity, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body := bodies[r.URL.Path]
				if r.FormValue("watch") != "" {
					body = `{"type":"ADDED","object":` + pod + "}\n"
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, strings.ReplaceAll(body, "QUANTITY", quantity))
			}))
			t.Cleanup(server.Close)
			config := &rest.Config{Host: server.URL, QPS: -1}
			connections, err := HTTP(config, "blue")
			if err != nil {
				t.Fatal(err)
			}
			core, err := corev1client.NewForConfigAndClient(config, connections)
			if err != nil {
				t.Fatal(err)
			}
			pods := core.Pods("a")
			judge := func(what string, err error) {
				t.Helper()
				if refused != errors.Is(err, ErrTooLarge) || !refused && err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			_, err = pods.Get(t.Context(), "a", metav1.GetOptions{})
			judge("one", err)
			_, err = pods.List(t.Context(), metav1.ListOptions{})
			judge("a list", err)
			read := 0
			_, err = EachPage(t.Context(), metav1.ListOptions{}, pods.List, func(page *corev1.PodList) {
				read = len(page.Items)
			})
			if err != nil || (read == 0) != refused {
				t.Errorf("%d objects of pages: %v", read, err)
			}
			watch, err := pods.Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer watch.Stop()
			e := <-watch.ResultChan()
			if p, ok := e.Object.(*corev1.Pod); !ok || IsPartial(p) != refused || p.Labels["commit"] != "12e34567" {
				t.Errorf("a watch: %s, %+v", e.Type, e.Object)
			}
		})
	}
}

// TestFieldsOfQuantitiesAreKnown shows that the quantities of all types of Kubernetes are found by the names of their
// fields, that none is below a field that is passed over, and that all maps of texts are passed over: their users
// choose the keys.
func TestFieldsOfQuantitiesAreKnown(t *testing.T) {
	t.Parallel()
	// below says where a value is: nowhere in particular, below a field of quantities, or where nothing is judged.
	type below int
	const (
		nothing below = iota
		quantityField
		freeField
	)
	type visit struct {
		of    reflect.Type
		below below
	}
	isRefused := func(text string) bool { return document.CheckQuantities([]byte(text)) != nil }
	seen := map[visit]bool{}
	quantities, free := 0, 0
	var walk func(of reflect.Type, path string, where below)
	walk = func(of reflect.Type, path string, where below) {
		if of == reflect.TypeFor[resource.Quantity]() {
			quantities++
			if where != quantityField {
				t.Errorf("%s is a quantity that is not looked at", path)
			}
			return
		}
		if of == reflect.TypeFor[map[string]string]() && where == nothing {
			t.Errorf("%s is of its users, and looked at", path)
		}
		if v := (visit{of, where}); seen[v] {
			return
		} else {
			seen[v] = true
		}
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			walk(of.Elem(), path, where)
		case reflect.Map:
			if where == nothing { // a key may be the name of a field that is passed over
				where = freeField
			}
			walk(of.Elem(), path, where)
		case reflect.Struct:
			for i := range of.NumField() {
				field := of.Field(i)
				name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
				switch {
				case !field.IsExported():
				case name == "" && (field.Anonymous || strings.Contains(options, "inline")):
					walk(field.Type, path, where)
				default:
					where := where
					switch {
					case where != nothing:
					case isRefused(`{"` + name + `":"1e1000"}`):
						where = quantityField
					case !isRefused(`{"` + name + `":{"requests":"1e1000"}}`):
						free++
						where = freeField
					}
					if !isRefused(`{"requests":{"` + name + `":{"a":"1e1000"}}}`) {
						t.Errorf("%s.%s is not looked at as the name of a resource", path, name)
					}
					walk(field.Type, path+"."+name, where)
				}
			}
		default:
		}
	}
	for kind, of := range scheme.Scheme.AllKnownTypes() {
		walk(of, kind.String(), nothing)
	}
	if quantities < 10 || free < 10 {
		t.Errorf("%d quantities and %d fields of users were found", quantities, free)
	}
}
