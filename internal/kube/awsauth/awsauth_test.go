package awsauth

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

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
