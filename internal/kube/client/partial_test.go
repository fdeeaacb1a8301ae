package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// podsOf returns the pods of an API server that has these, in pages of the size that is asked for. It sends each as an
// event, too, and goes on with the last one.
func podsOf(t *testing.T, all ...string) corev1client.PodInterface {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.FormValue("watch") != "" {
			for _, pod := range all {
				_, _ = fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`+"\n", pod)
			}
			return
		}
		var limit, from int
		_, _ = fmt.Sscan(r.FormValue("limit"), &limit)
		_, _ = fmt.Sscan(r.FormValue("continue"), &from)
		next, to := "", min(from+limit, len(all))
		if to < len(all) {
			next = fmt.Sprint(to)
		}
		_, _ = fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":%q},`+
			`"items": [`, next)
		_, _ = io.WriteString(w, strings.Join(all[from:to], ", ")+"]}\n")
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
	return core.Pods("a")
}

// podWith returns the JSON of a pod with more members in its metadata and spec.
func podWith(name, metadata, spec string) string {
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":"a","resourceVersion":"5",`+
		`"labels":{"app":"w\"eb"},"finalizers":["f"]%s},"spec":{"nodeName":"n","hostNetwork":true,"containers":[`+
		`{"name":"c"%s}]},"status":{"podIP":"10.0.0.1","phase":"Running"}}`, name, metadata, spec)
}

func many(value string, n int) string {
	return strings.TrimSuffix(strings.Repeat(value+",", n), ",")
}

// TestObjectsThatAreTooLargeAreReadInPart has pods that are too large in each way: the list and the watch go on, and
// have of them what there is room for.
func TestObjectsThatAreTooLargeAreReadInPart(t *testing.T) {
	t.Parallel()
	var labels []string
	for i := range maxPartialValues + 1 {
		labels = append(labels, fmt.Sprintf(`"l%d":"x"`, i))
	}
	filler := many(`""`, MaxEventValues)
	withMany := func(name, value string, n int) string {
		return podWith(name, `,"`+name+`":[`+many(value, n)+`]`, `,"args":[`+filler+`]`)
	}
	bare := []string{"labels", "finalizers", "ownerReferences", "managedFields"}
	all := []string{
		podWith("first", "", ""),
		podWith("values", "", `,"args":[`+many(`""`, 300_000)+`]`),
		podWith("bytes", "", `,"args":["`+strings.Repeat(`\u003c`, MaxEvent/6+1)+`"]`),
		podWith("quantity", "", `,"resources":{"limits":{"cpu":"1e-1000000000"}}`),
		podWith("deep", `,"x":`+strings.Repeat("[", MaxDepth)+strings.Repeat("]", MaxDepth), ""),
		podWith("annotations", `,"annotations":{"a":"`+strings.Repeat("}", MaxEvent)+`"}`, ""),
		podWith("labels", `,"labels":{`+strings.Join(labels, ",")+`}`, `,"args":[`+filler+`]`),
		withMany("finalizers", `"f"`, 10_000),
		withMany("finalizers", `"`+strings.Repeat("f", 300)+`"`, 10_000),
		withMany("ownerReferences", `{"name":"a"}`, 10_000),
		withMany("managedFields", `{"fieldsV1":{"f:a":{}}}`, 10_000),
		podWith("last", "", ""),
	}
	read := map[string]func(context.Context) ([]corev1.Pod, error){
		"a list": func(ctx context.Context) (out []corev1.Pod, err error) {
			_, err = EachPage(ctx, metav1.ListOptions{}, podsOf(t, all...).List, func(page *corev1.PodList) {
				out = append(out, page.Items...)
			})
			return out, err
		},
		"a watch": func(ctx context.Context) (out []corev1.Pod, err error) {
			gone := 0
			err = Watch(ctx, "pods", "4", podsOf(t, all...).Watch, metav1.ListOptions{},
				func(what kubewatch.EventType, p *corev1.Pod) error {
					if what == kubewatch.Deleted {
						gone++
					} else {
						out = append(out, *p)
					}
					if len(out)+gone == len(all) {
						return context.Canceled
					}
					return nil
				})
			if errors.Is(err, context.Canceled) {
				err = nil
			}
			return out, err
		},
	}
	for what, read := range read {
		pods, err := read(t.Context())
		if err != nil || len(pods) != 2 || pods[0].Name != "first" || pods[1].Name != "last" {
			t.Errorf("%s: %d pods: %v", what, len(pods), err)
		}
		pods, err = read(WithPartial(t.Context()))
		if err != nil || len(pods) != len(all) {
			t.Fatalf("%s: %d pods in part: %v", what, len(pods), err)
		}
		for i := range pods {
			p := &pods[i]
			isWhole, isBare := p.Name == "first" || p.Name == "last", slices.Contains(bare, p.Name)
			if IsPartial(p) == isWhole || HasLabels(p) == isBare || p.Namespace != "a" || p.ResourceVersion != "5" ||
				!strings.HasPrefix(p.Finalizers[0], "f") || p.Name == "finalizers" && len(p.Finalizers) != MaxFinalizers {
				t.Errorf("%s: %s is %+v", what, p.Name, p.ObjectMeta)
			}
			if !isBare && p.Labels["app"] != `w"eb` || p.Spec.NodeName != "n" || !p.Spec.HostNetwork ||
				p.Status.PodIP != "10.0.0.1" || p.Status.Phase != corev1.PodRunning {
				t.Errorf("%s: %s is %+v", what, p.Name, p)
			}
			if !isWhole && len(p.Annotations)+len(p.Spec.Containers) > 1 {
				t.Errorf("%s: %s has too much", what, p.Name)
			}
		}
	}
}

// TestManyLargeObjectsAreReadInPart has so many large objects in a list that there is no room for all of them: the
// others are read all the same.
func TestManyLargeObjectsAreReadInPart(t *testing.T) {
	t.Parallel()
	const objects = 30
	large := podWith("large", "", `,"args":["`+strings.Repeat("a", MaxList/objects)+`"]`)
	var all []string
	for range objects {
		all = append(all, large)
	}
	for range 3 * pageSize {
		all = append(all, podWith("small", "", ""))
	}
	whole, partial, small := 0, 0, 0
	_, err := EachPage(WithPartial(t.Context()), metav1.ListOptions{}, podsOf(t, all...).List, func(page *corev1.PodList) {
		for i := range page.Items {
			switch p := &page.Items[i]; {
			case p.Name == "small":
				small++
			case IsPartial(p):
				partial++
			default:
				whole++
			}
		}
	})
	if err != nil || small != 3*pageSize || whole+partial != objects || whole < 10 || partial < 10 {
		t.Errorf("%d small objects, %d large ones and %d in part: %v", small, whole, partial, err)
	}
}

// Who reads lists that are small reads no large ones: neither a page nor all of them.
func TestListsInPart(t *testing.T) {
	t.Parallel()
	filler := func(bytes int) string { return `,"args":["` + strings.Repeat("a", bytes) + `"]` }
	for name, test := range map[string]struct {
		pods  []string
		part  int
		fails bool
	}{
		"a large object":         {[]string{podWith("a", "", filler(MaxAnswer/16))}, 16, true},
		"objects on pages each":  {slices.Repeat([]string{podWith("a", "", filler(MaxAnswer/32))}, 4), 16, false},
		"many objects":           {slices.Repeat([]string{podWith("a", "", filler(MaxAnswer/1024))}, 300), 64, true},
		"all of them, otherwise": {slices.Repeat([]string{podWith("a", "", filler(MaxAnswer/1024))}, 300), 1, false},
	} {
		n := 0
		_, err := EachPage(WithPart(t.Context(), test.part), metav1.ListOptions{}, podsOf(t, test.pods...).List,
			func(page *corev1.PodList) { n += len(page.Items) })
		if errors.Is(err, ErrTooLarge) != test.fails || !test.fails && (err != nil || n != len(test.pods)) {
			t.Errorf("%s: %d objects, %v", name, n, err)
		}
	}
}
