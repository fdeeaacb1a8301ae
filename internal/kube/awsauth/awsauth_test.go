package awsauth

import (
	"context"
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
		"keys":          {Data: map[string]string{strings.Repeat("a", maxKeys+1): ""}},
		"what is bytes": {BinaryData: map[string][]byte{"a": []byte(large)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m.ObjectMeta = metav1.ObjectMeta{Namespace: Namespace, Name: Name}
			c := NewClient(fake.NewClientset(&m).CoreV1(), "111122223333")
			if _, err := c.Maps(t.Context(), ours); !errors.Is(err, client.ErrTooLarge) {
				t.Errorf("Maps: %v", err)
			}
			err := c.Edit(t.Context(), "test", func(text string) (string, error) {
				t.Error("it is edited")
				return text, nil
			})
			if !errors.Is(err, client.ErrTooLarge) {
				t.Errorf("Edit: %v", err)
			}
			err = c.Follow(t.Context(), func(map[string]string) { t.Error("it is followed") })
			if !errors.Is(err, client.ErrTooLarge) {
				t.Errorf("Follow: %v", err)
			}
		})
	}
	if _, err := ParseRoles(large).Has(ours); !errors.Is(err, client.ErrTooLarge) {
		t.Errorf("it is parsed: %v", err)
	}
}

// TestWhatKubernetesStoresIsRead has as much in aws-auth as Kubernetes stores, beside many keys, which it does not
// count: whoever pads it keeps nobody mapped who is not.
func TestWhatKubernetesStoresIsRead(t *testing.T) {
	t.Parallel()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name}, Data: map[string]string{}}
	for i := range 2000 {
		m.Data[fmt.Sprintf("%0253d", i)] = "" // half a MiB
	}
	m.Data[MapRoles] = entry
	m.Data["mapUsers"] = strings.Repeat("#", maxSize-len(entry))
	c := NewClient(fake.NewClientset(m).CoreV1(), "111122223333")
	if has, err := c.Maps(t.Context(), ours); !has || err != nil {
		t.Errorf("the role is mapped: %t, %v", has, err)
	}
	ctx, end := context.WithCancel(t.Context())
	told := ""
	err := c.Follow(ctx, func(data map[string]string) { told = data[MapRoles]; end() })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if told != entry {
		t.Errorf("it is told of %q", told)
	}
}

// TestErrorsOfATenantAreShort has an alias that is as long as the text: the error is an issue of node groups.
func TestErrorsOfATenantAreShort(t *testing.T) {
	t.Parallel()
	text := "*" + strings.Repeat("a", maxSize-1)
	c := NewClient(fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name},
		Data: map[string]string{MapRoles: text}}).CoreV1(), "111122223333")
	_, parsed := ParseRoles(text).Has(ours)
	_, added := Nodes.Add(text, ours)
	edited := c.Edit(t.Context(), "test", func(text string) (string, error) { return Nodes.Remove(text, ours) })
	for what, err := range map[string]error{"parsed": parsed, "added to": added, "edited": edited} {
		if err == nil || !strings.Contains(err.Error(), "not valid YAML: unknown anchor") || len(err.Error()) > 1000 {
			t.Errorf("%s: %.200v", what, err)
		}
	}
	if !IsMalformed(edited) {
		t.Errorf("edited: %.200v", edited)
	}
}

// TestValuesOfATenantAreBounded shows that no text is parsed of which YAML makes more values than there may be, and
// that a text of that size is.
func TestValuesOfATenantAreBounded(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"a,", ",", "[", "{", "- ", "-\n", "- -\t", "a: b\n", "? a\n", "? ", "#\n", "#\r", "a:\n",
		"{a: b},", "{a},", "[],", "a:b,", "::,", ": ", `"":"",`, "*a,", "- a\n", "-\u0085", "-\r", "'':",
		"#\u0085", "#\u2028", "#\u2029", "\ufeff#\n", "#\u0085\ufeff", "#\t#\n"} {
		for _, list := range []string{"", "["} {
			text := list + strings.Repeat(part, maxSize/len(part)-1)
			if _, err := ParseRoles(text).Has(ours); !errors.Is(err, client.ErrTooLarge) {
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
	if has, err := ParseRoles(text + "#" + strings.Repeat("-=#", 1000) + "\n" + entry).Has(ours); !has || err != nil {
		t.Errorf("a thousand entries of EKS, and one behind a banner: %t, %v", has, err)
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
	c := NewClient(core, "111122223333")
	told := make(chan map[string]string)
	go func() {
		_ = c.Follow(t.Context(), func(data map[string]string) { // it ends with the test
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
		err := c.Edit(t.Context(), "test", func(string) (string, error) { return text, nil })
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
