package awsauth

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/coracle-eks/coracle/internal/document"
	"github.com/coracle-eks/coracle/internal/kube/client"
)

// TestAWSAuthOfATenantIsBounded shows that nobody gets, parses or keeps an aws-auth that no API server can have: a
// megabyte of "a,a,a" takes a hundred as YAML.
func TestAWSAuthOfATenantIsBounded(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("a", maxSize+1)
	for name, m := range map[string]corev1.ConfigMap{
		"roles":         {Data: map[string]string{MapRoles: large}},
		"users":         {Data: map[string]string{"mapUsers": large}},
		"all together":  {Data: map[string]string{MapRoles: large[:maxSize/2], "mapUsers": large[:maxSize/2+1]}},
		"a key":         {Data: map[string]string{large: ""}},
		"what is bytes": {BinaryData: map[string][]byte{"a": []byte(large)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m.ObjectMeta = metav1.ObjectMeta{Namespace: Namespace, Name: Name}
			core := fake.NewClientset(&m).CoreV1()
			if _, err := Read(t.Context(), core); !errors.Is(err, client.ErrTooLarge) {
				t.Errorf("Read: %v", err)
			}
			err := Edit(t.Context(), core, "test", func(text string) (string, error) {
				t.Error("it is edited")
				return text, nil
			})
			if !errors.Is(err, client.ErrTooLarge) {
				t.Errorf("Edit: %v", err)
			}
			err = Follow(t.Context(), core, func(map[string]string) { t.Error("it is followed") })
			if !errors.Is(err, client.ErrTooLarge) {
				t.Errorf("Follow: %v", err)
			}
		})
	}
	if _, err := Has(large, ours); !errors.Is(err, client.ErrTooLarge) {
		t.Errorf("it is parsed: %v", err)
	}
}

// TestValuesOfATenantAreBounded shows that no text is parsed of which YAML makes more values than there may be, and
// that a text of that size is.
func TestValuesOfATenantAreBounded(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"a,", ",", "[", "{", "- ", "-\n", "- -\t", "a: b\n", "? a\n", "? ", "#\n", "#\r", "a:\n",
		"{a: b},", "{a},", "[],", "a:b,", "::,", ": ", `"":"",`, "*a,", "- a\n", "-\u0085", "-\r", "'':"} {
		for _, list := range []string{"", "["} {
			text := list + strings.Repeat(part, maxSize/len(part)-1)
			if _, err := Has(text, ours); !errors.Is(err, client.ErrTooLarge) {
				t.Errorf("%q is parsed: %v", text[:10], err)
			}
			// As much of it as is parsed has no more than a few values for each character that is counted.
			text = list + strings.Repeat(part, 1000)
			if root, err := document.ParseYAML([]byte(text)); err == nil && count(root) > 4*countNodes(text)+4 {
				t.Errorf("%q: %d values, and %d are counted", text[:10], count(root), countNodes(text))
			}
		}
	}
	if n := countNodes(entry); n != 11 {
		t.Errorf("an entry of EKS is counted as %d values", n)
	}
	var text string
	for i := range 1000 {
		text += strings.ReplaceAll(entry, "role/", fmt.Sprintf("role/a-role-%d-", i))
	}
	if _, err := Has(text, ours); err != nil {
		t.Errorf("a thousand entries of EKS: %v", err)
	}
}

// count returns the number of nodes of a document.
func count(n *yaml.Node) int {
	total := 1
	for _, child := range n.Content {
		total += count(child)
	}
	return total
}

// TestFollow shows that the content is told as it is, and whenever it changes.
func TestFollow(t *testing.T) {
	t.Parallel()
	set := fake.NewClientset(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "other"}, Data: map[string]string{MapRoles: "other"},
	})
	watching := make(chan struct{})
	set.PrependWatchReactor("configmaps", func(clienttesting.Action) (bool, kubewatch.Interface, error) {
		w, err := set.Tracker().Watch(corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace)
		close(watching)
		return true, w, err
	})
	core := set.CoreV1()
	told := make(chan map[string]string)
	go func() {
		_ = Follow(t.Context(), core, func(data map[string]string) { // it ends with the test
			select {
			case told <- data:
			case <-t.Context().Done():
			}
		})
	}()
	expect := func(what string, want string) {
		t.Helper()
		if got := (<-told)[MapRoles]; got != want {
			t.Errorf("%s: %q", what, got)
		}
	}
	expect("without one", "")
	<-watching // the tracker keeps no events for those who come later
	for _, text := range []string{"one", "two"} {
		err := Edit(t.Context(), core, "test", func(string) (string, error) { return text, nil })
		if err != nil {
			t.Fatal(err)
		}
		expect("changed", text)
	}
	if err := core.ConfigMaps(Namespace).Delete(t.Context(), Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("deleted", "")
}
